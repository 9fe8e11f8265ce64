/* A signal handler's accesses are its thread's: thread 0 writes a line and signals thread 1, whose handler reads it
 * while the thread itself computes. */
#include "probe.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sched.h>
#include <time.h>

#define SIGNALS 100
/* Seconds. */
#define PATIENCE 5

static unsigned char *data;
static pthread_t reader;
static atomic_uint handled;
static volatile double sum;

static void handler(int signal)
{
    (void)signal;
    unsigned line = handled;
    probe_check(load8(data + line * BLOCK) == line + 1, "the line read in the handler");
    handled = line + 1;
}

static void body(unsigned thread)
{
    if (thread == 1)
        reader = pthread_self();
    probe_barrier();
    for (unsigned line = 0; thread == 0 && line < SIGNALS; line++) {
        store8(data + line * BLOCK, line + 1);
        pthread_kill(reader, SIGUSR1);
        /* DynamoRIO may keep a signal back that comes while it runs code of a client, as long as a thread stays in one
         * loop (its issue 569): seldom, but for ever. Another signal, which nobody handles, makes it look. */
        for (time_t since = time(NULL); handled == line; sched_yield())
            if (time(NULL) - since > PATIENCE) {
                pthread_kill(reader, SIGWINCH);
                since = time(NULL);
            }
    }
    while (thread == 1 && handled < SIGNALS)
        for (int i = 0; i < 1000; i++)
            sum = sum * 0.5 + i;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    data = probe_data(SIGNALS);
    if (sigaction(SIGUSR1, &action, NULL))
        probe_die("sigaction");
    probe_threads(2, body);
    probe_expect(0, 1, SIGNALS, SIGNALS * 8, 0);
    return probe_finish("signals");
}
