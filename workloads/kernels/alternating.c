/* Threads in pairs that exchange lines of memory, with one partner for a time, then with another, and so on by turns:
 * phases that come again. The memory is the same in all of them, and nothing announces them.
 *
 * Usage: alternating [THREADS [SECONDS [TIMES [turns|same|any [LINES]]]]]
 *
 * In each of TIMES phases of SECONDS each thread writes LINES lines of its own, all meet at a barrier, each reads those of
 * its partner, and all meet again. By turns the partner is the neighbour and the thread half of all away; `same` has the
 * neighbour in all phases, and `any` another one in every round. When each phase begins is printed, in seconds since
 * the start. Every value that is read is checked: a wrong one is exit status 1.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 64

static int threads = 4, times = 4, lines = 4096;
static double seconds = 4;
static enum { TURNS, SAME, ANY } kind;
static pthread_barrier_t barrier;
static atomic_long *memory; /* of each thread, lines after one another */
static int phase;           /* that of the next round; written between barriers by the first thread */
static atomic_int wrong;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static int partner(int self, int of_phase, long round)
{
    if (kind == ANY)
        return (self + 1 + (int)(((unsigned long)round * 2654435761u >> 7) % (unsigned)(threads - 1))) % threads;
    if (kind == TURNS && of_phase % 2)
        return (self + threads / 2) % threads;
    return self ^ 1;
}

static atomic_long *line(int thread, int at)
{
    return memory + ((size_t)thread * lines + at) * (LINE / sizeof *memory);
}

static void *work(void *own)
{
    int self = (int)(long)own;
    double start = now();
    int seen = -1;
    for (long round = 1; phase < times; round++) {
        int present = phase;
        if (self == 0 && present != seen) {
            printf("phase %d %.3f\n", present, now() - start);
            fflush(stdout);
            seen = present;
        }
        for (int at = 0; at < lines; at++)
            atomic_store_explicit(line(self, at), round, memory_order_relaxed);
        pthread_barrier_wait(&barrier);
        int other = partner(self, present, round);
        for (int at = 0; at < lines; at++)
            if (atomic_load_explicit(line(other, at), memory_order_relaxed) != round)
                wrong = 1;
        if (self == 0)
            phase = (int)((now() - start) / seconds);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argc > 1 ? atoi(argv[1]) : threads;
    seconds = argc > 2 ? atof(argv[2]) : seconds;
    times = argc > 3 ? atoi(argv[3]) : times;
    const char *how = argc > 4 ? argv[4] : "turns";
    kind = strcmp(how, "same") == 0 ? SAME : strcmp(how, "any") == 0 ? ANY : TURNS;
    lines = argc > 5 ? atoi(argv[5]) : lines;
    if (threads < 4 || threads % 2 || times < 1 || lines < 1 || !(seconds > 0)) {
        fprintf(stderr, "usage: alternating [THREADS [SECONDS [TIMES [turns|same|any [LINES]]]]]\n");
        return 2;
    }
    memory = aligned_alloc(4096, ((size_t)threads * lines * LINE + 4095) / 4096 * 4096);
    pthread_t *thread = calloc(threads, sizeof *thread);
    if (!memory || !thread) {
        fprintf(stderr, "alternating: out of memory\n");
        return 1;
    }
    pthread_barrier_init(&barrier, NULL, threads);
    for (long other = 1; other < threads; other++)
        if (pthread_create(&thread[other], NULL, work, (void *)other)) {
            fprintf(stderr, "alternating: no thread\n");
            return 1;
        }
    work(NULL);
    for (int other = 1; other < threads; other++)
        pthread_join(thread[other], NULL);
    puts(wrong ? "wrong" : "right");
    return wrong;
}
