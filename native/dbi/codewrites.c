/* Code that changes (codewrites.h).
 *
 * DynamoRIO makes writable pages that it took code from read-only, and when the program writes there it flushes that
 * code and goes on behind the fault with the registers as they are: registers that instrumentation has borrowed are
 * then lost (its own restore events are not asked on that path). So where such a fault is possible, nothing may be
 * borrowed across a store. That costs time, and most programs never have a page that is both writable and executable:
 * it begins when the first such page does.
 */
#include "codewrites.h"
#include "drmgr.h"
#include "drreg.h"
#include "vforks.h"
#include <sys/mman.h>

static int possible;

static bool
first_time(void)
{
    return __atomic_exchange_n(&possible, 1, __ATOMIC_ACQ_REL) == 0;
}

void
codewrites_mapped(uint64_t protection)
{
    if ((protection & PROT_WRITE) != 0 && (protection & PROT_EXEC) != 0 && first_time())
        vforks_flush(NULL, ~(size_t)0);
}

bool
codewrites_possible(void)
{
    return __atomic_load_n(&possible, __ATOMIC_ACQUIRE) != 0;
}

/* Asking for a page's protection means reading /proc/self/maps: once a page, but for collisions. */
static bool
seen_before(void *tag)
{
    static ptr_uint_t seen[4096];
    ptr_uint_t page = (ptr_uint_t)tag >> 12;
    ptr_uint_t *entry = &seen[page % (sizeof(seen) / sizeof(seen[0]))];
    if (__atomic_load_n(entry, __ATOMIC_RELAXED) == page)
        return true;
    __atomic_store_n(entry, page, __ATOMIC_RELAXED);
    return false;
}

void
codewrites_block(void *tag)
{
    uint protection;
    if (!codewrites_possible() && !seen_before(tag) &&
        dr_query_memory(tag, NULL, NULL, &protection) && (protection & DR_MEMPROT_WRITE) != 0 && first_time())
        dr_delay_flush_region(NULL, ~(size_t)0, 0, NULL);
}

void
codewrites_insert(void *dc, instrlist_t *block, instr_t *instr)
{
    if (codewrites_possible() && instr_is_app(instr) && instr_writes_memory(instr))
        drreg_restore_all(dc, block, instr);
}
