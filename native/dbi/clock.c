/* The clock thread (clock.h). It sleeps a millisecond at least: shorter windows are ended by the slow path.
 *
 * DynamoRIO stops it where it sleeps, when the process ends: it then holds no lock, and touches nothing any more.
 */
#include "clock.h"
#include "counting.h"
#include "options.h"
#include "part.h"
#include "sharing.h"
#include "system.h"
#include "dr_api.h"

#define MS 1000000u
/* The longest sleep: what a process that ends may have to wait for. */
#define LONGEST_MS 10u

static uint64_t next_burst_ns; /* when bursts are next turned on or off */
static enum { STOPPED, RUNNING, STOPPING } state;

static void
turn_burst(uint64_t now)
{
    bool to = !counting_on();
    counting_switch(to);
    next_burst_ns = now + (to ? options.burst_on_ns : options.burst_off_ns);
}

static uint64_t
until(uint64_t now, uint64_t then)
{
    return then > now ? then - now : 0;
}

static void
run(void *unused)
{
    (void)unused;
    next_burst_ns = system_monotonic_ns() + options.burst_on_ns;
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == RUNNING) {
        uint64_t now = system_monotonic_ns();
        uint64_t sleep_ns = (uint64_t)LONGEST_MS * MS;
        if (options.sharing) {
            sharing_tick();
            sleep_ns = options.window_ns < sleep_ns ? options.window_ns : sleep_ns;
        }
        if (options.burst_on_ns != 0) {
            if (now >= next_burst_ns)
                turn_burst(now);
            uint64_t left = until(now, next_burst_ns);
            sleep_ns = left < sleep_ns ? left : sleep_ns;
        }
        dr_sleep(sleep_ns < MS ? 1 : (int)(sleep_ns / MS));
    }
    __atomic_store_n(&state, STOPPED, __ATOMIC_RELEASE);
}

bool
clock_start(void)
{
    state = STOPPED;
    if (!options.sharing && options.burst_on_ns == 0)
        return true;
    state = RUNNING;
    return dr_create_client_thread(run, NULL);
}

void
clock_stop(void)
{
    if (state == STOPPED)
        return;
    __atomic_store_n(&state, STOPPING, __ATOMIC_RELEASE);
    for (uint32_t tries = 0; tries < 1000 && __atomic_load_n(&state, __ATOMIC_ACQUIRE) != STOPPED; tries++)
        dr_sleep(1);
}
