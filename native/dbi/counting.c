/* Turning counting off and on (counting.h).
 *
 * Code is translated with checks while counting is on and without while it is off, so that what is not counted runs
 * at DynamoRIO's own speed; a change flushes all translated code. Memory starts clean each time: who wrote a value
 * while nobody looked is not known.
 */
#include "counting.h"
#include "options.h"
#include "shadow.h"
#include "system.h"
#include "dr_api.h"

static int on;
static int lock;
static uint64_t since_ns;

static bool
change(bool to)
{
    system_lock(&lock);
    bool changed = to != (on != 0);
    if (changed) {
        uint64_t now = system_monotonic_ns();
        if (!to)
            part()->on_ns += now - since_ns;
        since_ns = now;
        part()->flags &= ~COHABIT_FLAG_ROI_UNUSED;
        __atomic_store_n(&on, to, __ATOMIC_RELEASE);
    }
    system_unlock(&lock);
    return changed;
}

void
counting_init(void)
{
    on = !options.region;
    since_ns = system_monotonic_ns();
    if (options.region)
        part()->flags |= COHABIT_FLAG_ROI_UNUSED;
}

bool
counting_on(void)
{
    return __atomic_load_n(&on, __ATOMIC_ACQUIRE) != 0;
}

bool
counting_region(bool begins)
{
    if (!options.region || !change(begins))
        return false;
    if (begins)
        shadow_clear_all();
    return dr_flush_region(NULL, ~(size_t)0);
}
