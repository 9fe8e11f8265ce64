/* Turning counting off and on (counting.h).
 *
 * Code is translated with checks while counting is on and without while it is off, so that what is not counted runs
 * at DynamoRIO's own speed; a change flushes all translated code. Memory starts clean each time: who wrote a value
 * while nobody looked is not known. Code of the old kind may run on until its thread comes by DynamoRIO; while counting
 * is off what it does there is ignored (modes.h).
 */
#include "counting.h"
#include "modes.h"
#include "options.h"
#include "system.h"
#include "dr_api.h"
#include "drmgr.h"

static int on;
static int lock;

static bool
partly(void)
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
    if (on && partly())
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

bool
counting_region(bool begins)
{
    return options.region && change(begins) && dr_flush_region(NULL, ~(size_t)0);
}

void
counting_switch(bool to)
{
    if (change(to))
        dr_delay_flush_region(NULL, ~(size_t)0, 0, NULL);
}

static dr_signal_action_t
event_signal(void *drcontext, dr_siginfo_t *info)
{
    (void)drcontext;
    if ((uint32_t)info->sig != options.signal)
        return DR_SIGNAL_DELIVER;
    counting_switch(!counting_on());
    return DR_SIGNAL_SUPPRESS;
}

bool
counting_init(void)
{
    on = !options.region;
    modes_set(MODE_OFF, !on);
    begin_part();
    return options.signal == 0 || drmgr_register_signal_event(event_signal);
}
