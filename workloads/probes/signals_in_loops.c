/* Loops that end when a handler has run: a look at a flag, copies by one instruction, and memory that the other thread writes
 * meanwhile. Nothing in them leaves the code that is translated, and most of their time may be the profiler's own code, in
 * which the signal then comes. */
#include "probe.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define ROUNDS 8
#define KINDS 3
#define COPIED 4096

static unsigned char *data;
static pthread_t spins;
static volatile sig_atomic_t handled;
static volatile unsigned contended;
static unsigned char from[COPIED], to[COPIED];

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void until_handled(unsigned kind, int before)
{
    switch (kind) {
    case 0:
        while (handled == before)
            ;
        break;
    case 1:
        while (handled == before) {
            void *target = to, *source = from;
            size_t bytes = COPIED;
            __asm__ __volatile__("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes)::"memory");
        }
        break;
    default:
        while (handled == before)
            contended++;
    }
}

static void body(unsigned thread)
{
    if (thread == 1)
        spins = pthread_self();
    probe_barrier();
    for (unsigned round = 0; round < ROUNDS * KINDS; round++) {
        int before = handled;
        probe_barrier();
        if (thread == 0) {
            store8(data + round * BLOCK, round + 1);
            for (unsigned i = 0; i < 1000; i++)
                contended++;
            nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
            pthread_kill(spins, SIGUSR1);
        } else {
            until_handled(round % KINDS, before);
            probe_check(load8(data + round * BLOCK) == round + 1, "the line read after the loop");
        }
        probe_barrier();
    }
}

int main(void)
{
    if (sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler}, NULL))
        probe_die("signals");
    data = probe_data(ROUNDS * KINDS);
    probe_threads(2, body);
    probe_check(memcmp(from, to, COPIED) == 0 && handled == ROUNDS * KINDS, "what was copied, and each signal handled once");
    probe_expect(0, 1, ROUNDS * KINDS, ROUNDS * KINDS * 8, 0);
    return probe_finish("signals_in_loops");
}
