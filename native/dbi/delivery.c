/* Signals that come while our code runs on behalf of a fragment (delivery.h). */
#include "delivery.h"
#include "system.h"
#include <cpuid.h>

/* DynamoRIO's, where it has our patch. */
extern const signed char *dr_signals_pending(void *drcontext) __attribute__((weak));
extern void dr_unlink_for_signals(void *drcontext, byte *cache_pc) __attribute__((weak));

#define XSAVE_LEAF 0xd
#define FXSAVE_BYTES 512
#define PAGE_BYTES 4096

const signed char *
delivery_pending(void *drcontext)
{
    static const signed char never = 0;
    return dr_signals_pending == NULL || dr_unlink_for_signals == NULL ? &never : dr_signals_pending(drcontext);
}

/* Bytes that hold all vector registers; 0 where the processor, or the system, has no xsave. */
static size_t
xsave_bytes(void)
{
    unsigned a, b = 0, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
        return 0;
    return __get_cpuid_count(XSAVE_LEAF, 0, &a, &b, &c, &d) ? b : 0;
}

void
delivery_unlink(byte *fragment)
{
    size_t bytes = xsave_bytes();
    size_t mapped = ((bytes > 0 ? bytes : FXSAVE_BYTES) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    void *area = system_map_private(mapped); /* zero, as xrstor wants its header */
    if (area == NULL)
        return;
    if (bytes > 0)
        __asm__ __volatile__("xsave64 (%0)" ::"r"(area), "a"(-1), "d"(-1) : "memory");
    else
        __asm__ __volatile__("fxsave64 (%0)" ::"r"(area) : "memory");
    dr_unlink_for_signals(dr_get_current_drcontext(), fragment);
    if (bytes > 0)
        __asm__ __volatile__("xrstor64 (%0)" ::"r"(area), "a"(-1), "d"(-1) : "memory");
    else
        __asm__ __volatile__("fxrstor64 (%0)" ::"r"(area) : "memory");
    system_unmap(area, mapped);
}

static void
call_site(delivery_site_t *code, void *about)
{
    code(about);
    if (__builtin_expect(*delivery_pending(dr_get_current_drcontext()) > 0, 0))
        delivery_unlink(__builtin_return_address(0));
}

void
delivery_insert_call(void *drcontext, instrlist_t *block, instr_t *where, delivery_site_t *code, void *about)
{
    dr_insert_clean_call_ex(drcontext, block, where, (void *)call_site, DR_CLEANCALL_READS_APP_CONTEXT, 2,
                            OPND_CREATE_INTPTR(code), OPND_CREATE_INTPTR(about));
}
