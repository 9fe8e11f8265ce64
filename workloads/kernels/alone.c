/* Threads that each read memory of their own, the same amount of it, and meet at a barrier after each of several
 * phases: with a core for each they take as long as one of them alone.
 *
 * Usage: alone [THREADS [PHASES [pthread|flag|condition|counter]]]
 *
 * With `counter` they meet at a barrier, too, and the memory of all is read in pieces that are handed out by a counter.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (512 << 10)
#define LINE 64
#define PIECE (16 << 10)

static int threads = 4, phases = 10;
static enum { BARRIER, FLAG, CONDITION, COUNTER } by;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;
static int arrived, last_phase;
static char *memory;
static atomic_int *handed_out; /* pieces, of each phase */
static struct { /* in one line of memory */
    _Alignas(LINE) atomic_int arrived;
    atomic_int phase;
} flag;

static void meet_by_flag(int phase)
{
    if (atomic_fetch_add(&flag.arrived, 1) == threads - 1) {
        flag.arrived = 0;
        flag.phase = phase;
    } else {
        while (flag.phase != phase)
            ;
    }
}

static void meet_by_condition(int phase)
{
    pthread_mutex_lock(&mutex);
    if (++arrived == threads) {
        arrived = 0;
        last_phase = phase;
        pthread_cond_broadcast(&next);
    }
    while (last_phase != phase)
        pthread_cond_wait(&next, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void meet(int phase)
{
    if (by == BARRIER || by == COUNTER)
        pthread_barrier_wait(&barrier);
    else if (by == FLAG)
        meet_by_flag(phase);
    else
        meet_by_condition(phase);
}

static void read_lines(const volatile char *from, size_t bytes)
{
    for (const volatile char *at = from; at < from + bytes; at += LINE)
        (void)*at;
}

static void *run(void *own)
{
    for (int phase = 1; phase <= phases; phase++) {
        if (by == COUNTER) {
            for (int piece; (piece = atomic_fetch_add(&handed_out[phase], 1)) < threads * (BYTES / PIECE);)
                read_lines(memory + (size_t)piece * PIECE, PIECE);
        } else {
            read_lines(own, BYTES);
        }
        meet(phase);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argc > 1 ? atoi(argv[1]) : threads;
    phases = argc > 2 ? atoi(argv[2]) : phases;
    if (argc > 3)
        by = strcmp(argv[3], "flag") == 0        ? FLAG
            : strcmp(argv[3], "condition") == 0 ? CONDITION
            : strcmp(argv[3], "counter") == 0   ? COUNTER
                                                : BARRIER;
    pthread_t thread[threads];
    memory = aligned_alloc(LINE, (size_t)threads * BYTES);
    handed_out = calloc((size_t)phases + 1, sizeof(*handed_out));
    if (!memory || !handed_out || pthread_barrier_init(&barrier, NULL, threads))
        return fputs("no memory\n", stderr), 2;
    for (int number = 1; number < threads; number++)
        if (pthread_create(thread + number, NULL, run, memory + (size_t)number * BYTES))
            return fputs("pthread_create failed\n", stderr), 2;
    run(memory);
    for (int number = 1; number < threads; number++)
        pthread_join(thread[number], NULL);
    free(memory);
    return 0;
}
