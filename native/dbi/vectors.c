/* Dirty upper halves (vectors.h).
 *
 * Each time DynamoRIO enters its code cache it loads whole vector registers. From then on the processor takes their
 * upper halves for being in use, and legacy SSE instructions, which must keep them, depend on a register's old value:
 * up to five times slower, until somebody executes vzeroupper. We do, once, in front of the next block that has legacy
 * SSE instructions, and only where the upper halves are zero anyway, so that nothing is lost: a routine looks at the
 * registers themselves, and so need not know what the program did with them. Where they are not zero the program uses
 * them, and would be as slow without us.
 *
 * DynamoRIO's entries are suspected where our events see them (new code, system calls) and, for those that nothing
 * tells of, now and then in the slow path. Compiled without vector registers.
 */
#include "vectors.h"
#include "slots.h"
#include "drmgr.h"
#include "drreg.h"

static bool has_avx;
static bool has_avx512;
static byte *routine;

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

static void
clean(task_t *me, uint64_t address, uint64_t group)
{
    (void)me, (void)address, (void)group;
    *slot_address(SLOT_SUSPECT) = NULL;
    if (ymm_is_zero() && (!has_avx512 || zmm_is_zero()))
        __asm__ __volatile__("vzeroupper");
}

bool
vectors_init(void)
{
    has_avx = proc_has_feature(FEATURE_AVX) && proc_avx_enabled();
    has_avx512 = proc_has_feature(FEATURE_AVX512F) && proc_avx512_enabled();
    routine = routine_make(clean);
    return routine != NULL;
}

void
vectors_exit(void)
{
    routine_free(routine);
}

void
vectors_suspect(void)
{
    *slot_address(SLOT_SUSPECT) = (void *)1;
}

/* Legacy SSE instructions that write a vector register: those of AVX have names that begin with v. */
static bool
is_legacy_sse(instr_t *instr)
{
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t to = instr_get_dst(instr, i);
        if (opnd_is_reg(to) && reg_is_strictly_xmm(opnd_get_reg(to)))
            return decode_opcode_name(instr_get_opcode(instr))[0] != 'v';
    }
    return false;
}

static bool
has_legacy_sse(instr_t *first)
{
    for (instr_t *instr = first; instr != NULL; instr = instr_get_next_app(instr)) {
        if (instr_is_app(instr) && is_legacy_sse(instr))
            return true;
    }
    return false;
}

#define PRE(instr) instrlist_meta_preinsert(block, where, instr)

void
vectors_insert(void *dc, instrlist_t *block, instr_t *where)
{
    bool dead = false;
    /* Where the arithmetic flags are live this block leaves it to the next one. */
    if (!has_avx || !has_legacy_sse(where) || drreg_are_aflags_dead(dc, where, &dead) != DRREG_SUCCESS || !dead)
        return;
    reg_id_t scratch;
    if (drreg_reserve_register(dc, block, where, NULL, &scratch) != DRREG_SUCCESS)
        return;
    instr_t *done = INSTR_CREATE_label(dc);
    PRE(INSTR_CREATE_cmp(dc, slot(dc, SLOT_SUSPECT), OPND_CREATE_INT8(0)));
    PRE(INSTR_CREATE_jcc(dc, OP_je, opnd_create_instr(done)));
    instrlist_insert_mov_instr_addr(dc, done, NULL, opnd_create_reg(scratch), block, where, NULL, NULL);
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RETURN), opnd_create_reg(scratch)));
    PRE(XINST_CREATE_jump(dc, opnd_create_pc(routine)));
    PRE(done);
    drreg_unreserve_register(dc, block, where, scratch);
}
