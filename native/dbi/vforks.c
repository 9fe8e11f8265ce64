/* Memory that is lent to a child (vforks.h). */
#include "vforks.h"
#include "system.h"
#include "tasks.h"
#include "dr_api.h"

static int lent;     /* calls that lend, under way */
static int flushing; /* whether one is under way, or about to be: where two are, DynamoRIO may wait for ever */

/* Whoever waits may be stopped meanwhile. */
static void
wait_for_none(void *drcontext, const int *count)
{
    if (!dr_mark_safe_to_suspend(drcontext, true))
        return;
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) != 0)
        system_yield();
    dr_mark_safe_to_suspend(drcontext, false);
}

void
vforks_begin(void *drcontext)
{
    for (;;) {
        __atomic_add_fetch(&lent, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&flushing, __ATOMIC_SEQ_CST) == 0)
            return;
        __atomic_sub_fetch(&lent, 1, __ATOMIC_SEQ_CST);
        wait_for_none(drcontext, &flushing);
    }
}

void
vforks_end(void)
{
    __atomic_sub_fetch(&lent, 1, __ATOMIC_SEQ_CST);
}

void
vforks_fork(void)
{
    lent = 0, flushing = 0;
}

bool
vforks_under_way(void)
{
    return __atomic_load_n(&lent, __ATOMIC_SEQ_CST) != 0;
}

/* Without a function to call DynamoRIO calls none at address 0, where no code has run in the region. */
static void
flushed(void *unused)
{
    (void)unused;
}

bool
vforks_flush(void *start, size_t bytes)
{
    for (;;) {
        int none = 0;
        const int *until = &flushing;
        if (__atomic_compare_exchange_n(&flushing, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            bool lends = vforks_under_way();
            bool done = !lends && dr_flush_region_ex(start, bytes, flushed, NULL);
            __atomic_store_n(&flushing, 0, __ATOMIC_SEQ_CST);
            if (!lends)
                return done;
            if (system_pid() != part()->pid)
                return false;
            until = &lent;
        }
        wait_for_none(dr_get_current_drcontext(), until);
    }
}
