/* The clock thread (clock.h). Compiled without vector registers or anything else that needs a thread's own storage: it
 * is the kernel's thread and neither the C library's nor DynamoRIO's, of which it must not call anything.
 *
 * DynamoRIO has threads for clients, but ends them with the process on a stack that is gone at times. This one is told
 * to go and waited for before anything is taken down.
 */
#include "clock.h"
#include "options.h"
#include "sharing.h"
#include "system.h"

#define STACK_BYTES (64 * 1024)
/* Shorter windows are ended by the slow path. */
#define SHORTEST_NS 200000u

static int started, stop;
static int thread; /* its id; the kernel clears it when the thread is gone */
static char *stack;

static void
run(void)
{
    uint64_t sleep_ns = options.window_ns > SHORTEST_NS ? options.window_ns : SHORTEST_NS;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        system_wait(&stop, 0, sleep_ns);
        sharing_tick();
    }
}

void
clock_start(void)
{
    if (!options.sharing || started || __atomic_exchange_n(&started, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (stack == NULL)
        stack = system_map_private(STACK_BYTES);
    if (stack == NULL || !system_start_thread(run, stack + STACK_BYTES, &thread))
        part()->events_lost++; /* windows then end only where somebody comes to the slow path */
}

void
clock_fork(void)
{
    started = stop = thread = 0;
}

void
clock_stop(void)
{
    sharing_end();
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    system_wake(&stop);
    for (int tid; (tid = __atomic_load_n(&thread, __ATOMIC_ACQUIRE)) != 0;)
        system_wait(&thread, tid, 10000000);
}
