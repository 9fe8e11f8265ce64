/* Threads on one PU, in pairs, each of which works by turns on memory of its own, some 40 us at a time, and waits in a
 * loop for its partner: nearly all of the time, as the partner does not run then. Whoever interrupts a thread finds it
 * waiting.
 *
 * Usage: turns [PAIRS [SECONDS]]
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORDS 65536

struct pair {
    _Alignas(64) atomic_long turn;
    _Alignas(64) long words[WORDS];
};
static struct pair *pairs;
static atomic_int over;

static void *run(void *number)
{
    struct pair *pair = pairs + (long)number / 2;
    for (;;) {
        while ((atomic_load_explicit(&pair->turn, memory_order_acquire) & 1) != ((long)number & 1))
            if (atomic_load_explicit(&over, memory_order_relaxed))
                return NULL;
        for (volatile long *word = pair->words; word < pair->words + WORDS; word++)
            *word += 1;
        atomic_fetch_add_explicit(&pair->turn, 1, memory_order_release);
    }
}

int main(int argc, char **argv)
{
    long threads = 2 * (argc > 1 ? atol(argv[1]) : 2);
    unsigned seconds = argc > 2 ? atoi(argv[2]) : 5;
    pthread_t thread[threads];
    cpu_set_t usable, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof usable, &usable))
        return perror("sched_getaffinity"), 2;
    for (int pu = 0; CPU_COUNT(&one) == 0; pu++)
        if (CPU_ISSET(pu, &usable))
            CPU_SET(pu, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        return perror("sched_setaffinity"), 2;
    pairs = aligned_alloc(64, threads / 2 * sizeof *pairs);
    if (!pairs)
        return perror("aligned_alloc"), 2;
    for (long pair = 0; pair < threads / 2; pair++)
        pairs[pair] = (struct pair){0};
    for (long number = 0; number < threads; number++)
        if (pthread_create(thread + number, NULL, run, (void *)number))
            return fputs("pthread_create failed\n", stderr), 2;
    sleep(seconds);
    over = 1;
    int failed = 0;
    for (long number = 0; number < threads; number++)
        pthread_join(thread[number], NULL);
    for (long pair = 0; pair < threads / 2; pair++)
        for (long word = 0; word < WORDS; word++)
            failed |= pairs[pair].words[word] != pairs[pair].turn;
    puts(failed ? "wrong" : "right");
    return failed;
}
