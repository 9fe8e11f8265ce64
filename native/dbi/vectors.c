/* Dirty upper halves (vectors.h).
 *
 * Each time DynamoRIO enters its code cache it loads whole vector registers. From then on the processor takes their
 * upper halves for being in use, and legacy SSE instructions, which must keep them, depend on a register's old value:
 * up to five times slower, until somebody executes vzeroupper. We do, in the slow path, and only where the upper halves
 * are zero anyway, so that nothing is lost: it looks at the registers themselves, and so need not know what the program
 * did with them. Where they are not zero the program uses them, and would be as slow without us.
 *
 * Where our events see DynamoRIO at work (new code, system calls) the thread's mask and exact word are made such that
 * its next check fails, whatever it asks: so the slow path is reached soon, and code in the cache pays nothing for
 * this. Entries that nothing tells of are found now and then, when the slow path is there for its own reasons.
 *
 * Compiled without vector registers, all but the names of some in assembly.
 */
#include "vectors.h"
#include "slots.h"
#include "dr_api.h"

static bool has_avx;
static bool has_avx512;

static bool
ymm_is_zero(void)
{
    uint8_t high[16][16];
    uint64_t any_set = 0;
#define STORE(n) __asm__ __volatile__("vextractf128 $1, %%ymm" #n ", %0" : "=m"(high[n]))
    STORE(0); STORE(1); STORE(2); STORE(3); STORE(4); STORE(5); STORE(6); STORE(7);
    STORE(8); STORE(9); STORE(10); STORE(11); STORE(12); STORE(13); STORE(14); STORE(15);
#undef STORE
    for (int i = 0; i < 32; i++)
        any_set |= ((volatile uint64_t *)high)[i];
    return any_set == 0;
}

static bool
zmm_is_zero(void)
{
    uint8_t high[16][32];
    uint64_t any_set = 0;
#define STORE(n) __asm__ __volatile__("vextracti64x4 $1, %%zmm" #n ", %0" : "=m"(high[n]))
    STORE(0); STORE(1); STORE(2); STORE(3); STORE(4); STORE(5); STORE(6); STORE(7);
    STORE(8); STORE(9); STORE(10); STORE(11); STORE(12); STORE(13); STORE(14); STORE(15);
#undef STORE
    for (int i = 0; i < 64; i++)
        any_set |= ((volatile uint64_t *)high)[i];
    return any_set == 0;
}

void
vectors_init(void)
{
    has_avx = proc_has_feature(FEATURE_AVX) && proc_avx_enabled();
    has_avx512 = proc_has_feature(FEATURE_AVX512F) && proc_avx512_enabled();
}

void
vectors_suspect(task_t *me)
{
    if (!has_avx)
        return;
    me->suspect = true;
    *me->mask_slot = ~0ull;
    *me->exact_slot = ~0ull;
}

void
vectors_clean(task_t *me)
{
    if (me->suspect) {
        me->suspect = false;
        slots_settle(me);
    }
    if (has_avx && ymm_is_zero() && (!has_avx512 || zmm_is_zero()))
        __asm__ __volatile__("vzeroupper");
}
