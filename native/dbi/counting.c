/* Turning counting off and on (counting.h).
 *
 * Code is translated with checks while counting is on and without while it is off, so that what is not counted runs
 * at DynamoRIO's own speed; a change flushes all translated code, by the way that stops all threads for it: after the
 * other one (dr_delay_flush_region), programs with signals crashed. Memory starts clean each time: who wrote a value
 * while nobody looked is not known. While counting is off, what code does that was not flushed yet is ignored
 * (modes.h).
 */
#include "counting.h"
#include "modes.h"
#include "options.h"
#include "system.h"
#include "ticks.h"
#include "vforks.h"
#include "dr_api.h"
#include "drmgr.h"

static int on;
static int lock;
static uint32_t flushes;
static uint32_t asked; /* by a signal: to turn counting on or off */
static uint64_t burst_due; /* tick at which counting is next turned on or off */

bool
counting_partly(void)
{
    return options.region || options.burst_on_ns != 0;
}

static bool
change(bool to)
{
    system_lock(&lock);
    bool changed = to != (on != 0);
    if (changed) {
        counting_account();
        part()->on_since_ns = to ? system_monotonic_ns() : 0;
        part()->flags &= ~COHABIT_FLAG_ROI_UNUSED;
        if (to)
            shadow_clear_all();
        modes_set(MODE_OFF, !to);
        __atomic_store_n(&on, to, __ATOMIC_RELEASE);
    }
    system_unlock(&lock);
    return changed;
}

void
counting_account(void)
{
    cohabit_part_t *head = part();
    if (head->on_since_ns == 0)
        return;
    uint64_t now = system_monotonic_ns();
    head->on_ns += now - head->on_since_ns;
    head->on_since_ns = now;
}

static void
begin_part(void)
{
    if (on && counting_partly())
        part()->on_since_ns = system_monotonic_ns();
    if (options.region && !on)
        part()->flags |= COHABIT_FLAG_ROI_UNUSED;
}

void
counting_fork(void)
{
    lock = 0;
    begin_part();
}

bool
counting_on(void)
{
    return __atomic_load_n(&on, __ATOMIC_ACQUIRE) != 0;
}

uint32_t
counting_flushes(void)
{
    return __atomic_load_n(&flushes, __ATOMIC_ACQUIRE);
}

/* All threads are out of the translated code when this returns. */
static bool
flush(void)
{
    __atomic_add_fetch(&flushes, 1, __ATOMIC_ACQ_REL);
    return vforks_flush(NULL, ~(size_t)0);
}

bool
counting_region(bool begins)
{
    return options.region && change(begins) && flush();
}

static uint64_t
ticks_of(uint64_t ns)
{
    return (uint64_t)((unsigned __int128)ns * options.ticks_per_second / 1000000000u);
}

static void
turn(void)
{
    if (change(!counting_on()))
        flush();
}

void
counting_poll(void)
{
    if (vforks_under_way())
        return; /* the next call does it */
    if (__atomic_load_n(&asked, __ATOMIC_RELAXED) != 0 && __atomic_exchange_n(&asked, 0, __ATOMIC_ACQ_REL) != 0)
        turn();
    uint64_t due = __atomic_load_n(&burst_due, __ATOMIC_RELAXED), now = ticks_now();
    if (options.burst_on_ns == 0 || now < due)
        return;
    uint64_t next = now + ticks_of(counting_on() ? options.burst_off_ns : options.burst_on_ns);
    if (__atomic_compare_exchange_n(&burst_due, &due, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        turn();
}

static dr_signal_action_t
event_signal(void *drcontext, dr_siginfo_t *info)
{
    (void)drcontext;
    if ((uint32_t)info->sig != options.signal)
        return DR_SIGNAL_DELIVER;
    __atomic_fetch_xor(&asked, 1, __ATOMIC_ACQ_REL);
    return DR_SIGNAL_SUPPRESS;
}

bool
counting_init(void)
{
    on = !options.region;
    modes_set(MODE_OFF, !on);
    burst_due = ticks_now() + ticks_of(options.burst_on_ns);
    begin_part();
    return options.signal == 0 || drmgr_register_signal_event(event_signal);
}
