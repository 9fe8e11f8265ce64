/* Tasks that come and go without pause: eight lines of tasks, of which two and two share memory. Each task counts on
 * every page of its pair, starts its successor and ends; every fiftieth is a process, the others are threads. Prints
 * the number of tasks, and ends with status 0 if memory holds what they all counted.
 *
 * Usage: generations SECONDS [MICROSECONDS BETWEEN A TASK'S STEPS]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINES 8
#define PAGES 16
#define PAGE 4096
#define STEPS 4

static char *memory;
static long pause_us;
static time_t end;
static atomic_long tasks, failures;
static atomic_int running = LINES;

static void count(long line)
{
    char *shared = memory + line / 2 * PAGES * PAGE;
    for (int step = 0; step < STEPS; step++) {
        for (int page = 0; page < PAGES; page++)
            atomic_fetch_add((atomic_long *)(shared + page * PAGE), 1);
        if (pause_us > 0)
            usleep((useconds_t)pause_us);
    }
}

static void as_process(long line)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        count(line);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        failures++;
}

static void *task(void *argument)
{
    long line = (long)argument, number = atomic_fetch_add(&tasks, 1);
    if (number % 50 == 49)
        as_process(line);
    else
        count(line);
    pthread_t next;
    if (time(NULL) >= end) {
        running--;
    } else if (pthread_create(&next, NULL, task, argument) == 0) {
        pthread_detach(next);
    } else {
        failures++;
        running--;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: generations SECONDS [MICROSECONDS]\n", stderr);
        return 2;
    }
    pause_us = argc > 2 ? atol(argv[2]) : 0;
    memory = mmap(NULL, LINES / 2 * PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 3;
    end = time(NULL) + atol(argv[1]);
    for (long line = 0; line < LINES; line++) {
        pthread_t first;
        if (pthread_create(&first, NULL, task, (void *)line) != 0)
            return 3;
        pthread_detach(first);
    }
    while (atomic_load(&running) > 0)
        usleep(10000);
    long counted = 0;
    for (int page = 0; page < LINES / 2 * PAGES; page++)
        counted += atomic_load((atomic_long *)(memory + page * PAGE));
    printf("%ld tasks, %ld failures, counted %ld\n", atomic_load(&tasks), atomic_load(&failures), counted);
    return failures == 0 && counted == tasks * STEPS * PAGES ? 0 : 1;
}
