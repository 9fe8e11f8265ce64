/* Four threads that communicate in pairs (0 and 2, 1 and 3) and report their progress (cohabit_progress.h): as long as
 * they may run on several PUs they come along; a thread that is held on one PU sleeps between its steps. So a move that
 * looks like a gain hurts. Every second each goes to where its partner is not and is free again at once: where the
 * scheduler has the pairs together by chance, there is nothing to gain. Ends when it was moved and let go again, with
 * status 0; after SECONDS (60) with status 1.
 *
 * Usage: reluctant [SECONDS]
 */
#include <cohabit_progress.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define THREADS 4
#define PAGES 256
#define PAGE 4096

static char memory[2][PAGES * PAGE] __attribute__((aligned(PAGE)));
static atomic_int held, was_held, over;

static int is_held(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

/* To the first PU or to the second, and free again. */
static void leave(int second)
{
    cpu_set_t all, one;
    int pu = -1;
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) == 1)
        return;
    for (int skip = second; skip >= 0; skip--)
        while (!CPU_ISSET(++pu, &all)) {
        }
    CPU_ZERO(&one);
    CPU_SET(pu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    sched_setaffinity(0, sizeof(all), &all);
}

static void *work(void *argument)
{
    int me = (int)(long)argument, mine = 0;
    char *shared = memory[me % 2];
    time_t left = 0;
    while (!atomic_load(&over)) {
        if (time(NULL) != left) {
            leave(me / 2);
            left = time(NULL);
        }
        for (int page = 0; page < PAGES; page++)
            atomic_fetch_add((atomic_int *)(shared + page * PAGE), 1);
        int now = is_held();
        atomic_fetch_add(&held, now - mine);
        mine = now;
        if (mine)
            usleep(2000);
        cohabit_progress(1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long seconds = argc > 1 ? atol(argv[1]) : 60;
    pthread_t threads[THREADS];
    if (is_held()) {
        puts("one PU");
        return 0;
    }
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    int status = 1;
    for (long tenths = 0; status && tenths < 10 * seconds; tenths++) {
        usleep(100000);
        int now = atomic_load(&held);
        was_held |= now > 0;
        if (was_held && now == 0)
            status = 0;
    }
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts(status ? "never moved, or never let go" : "let go");
    return status;
}
