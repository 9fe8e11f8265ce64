/* Code of unrolled loops (loop_emit.h).
 *
 * The check ahead looks at every word of the shadow that the iterations can ask for, and gathers in one register what
 * is missing: the bits of the mask that are not set, or the difference from the exact word. The registers it borrows
 * are given back before it branches: each part of the loop finds the program's own.
 */
#include "loop_emit.h"
#include "emit.h"
#include "options.h"
#include "shadow.h"
#include "slots.h"
#include "drmgr.h"
#include "drreg.h"

#define PRE(instr) instrlist_meta_preinsert(block, where, instr)

typedef struct {
    reg_id_t missing;
    reg_id_t first; /* index of a word in the shadow (emit.c) */
    reg_id_t last;
    bool empty;     /* nothing was asked yet */
} check_t;

/* Adds to `missing` what the word at (index * 8 + displacement) lacks; `to` is changed. */
static void
ask_word(void *dc, instrlist_t *block, instr_t *where, check_t *check, reg_id_t index, int displacement, reg_id_t to,
         bool writes)
{
    opnd_t word = opnd_create_reg(check->empty ? check->missing : to);
    PRE(INSTR_CREATE_mov_ld(dc, word, opnd_create_base_disp(DR_REG_NULL, index, 8, displacement, OPSZ_8)));
    if (writes) {
        PRE(INSTR_CREATE_xor(dc, word, slot(dc, SLOT_EXACT)));
    } else if (proc_has_feature(FEATURE_BMI1)) {
        PRE(INSTR_CREATE_andn(dc, word, word, slot(dc, SLOT_MASK)));
    } else {
        PRE(INSTR_CREATE_not(dc, word));
        PRE(INSTR_CREATE_and(dc, word, slot(dc, SLOT_MASK)));
    }
    if (!check->empty)
        PRE(INSTR_CREATE_or(dc, opnd_create_reg(check->missing), word));
    check->empty = false;
}

static reg_id_t
register_of(int32_t root)
{
    return root == ROOT_NONE ? DR_REG_NULL : DR_REG_START_64 + (reg_id_t)root;
}

/* All words from that of the range's first byte to that of its last, of which the index is asked by itself: how the
 * range lies in its blocks only the run can tell. */
static void
ask_range(void *dc, instrlist_t *block, instr_t *where, check_t *check, const ahead_t *ahead, uint32_t iterations)
{
    int64_t way = ahead->stride * (int64_t)(iterations - 1);
    int64_t low = ahead->low + (way < 0 ? way : 0), high = ahead->high + (way > 0 ? way : 0);
    opnd_t first = opnd_create_reg(check->first), last = opnd_create_reg(check->last);
    opnd_t shift = OPND_CREATE_INT8((char)shadow_block_shift);
    reg_id_t base = register_of(ahead->address.base_root), index = register_of(ahead->address.index_root);
    if (base == DR_REG_NULL && index == DR_REG_NULL)
        PRE(INSTR_CREATE_mov_imm(dc, first, OPND_CREATE_INTPTR(low)));
    else
        PRE(INSTR_CREATE_lea(dc, first, opnd_create_base_disp(base, index, index == DR_REG_NULL ? 0 : ahead->address.scale,
                                                              (int)low, OPSZ_lea)));
    PRE(INSTR_CREATE_add(dc, first, slot(dc, SLOT_BIAS)));
    PRE(INSTR_CREATE_lea(dc, last, opnd_create_base_disp(check->first, DR_REG_NULL, 0, (int)(high - low - 1), OPSZ_lea)));
    PRE(INSTR_CREATE_shr(dc, last, shift));
    ask_word(dc, block, where, check, check->last, 0, check->last, ahead->writes);
    PRE(INSTR_CREATE_shr(dc, first, shift));
    uint64_t words = (uint64_t)(high - low - 1 + (1ll << shadow_block_shift) - 1) >> shadow_block_shift;
    for (uint64_t i = 0; i < words; i++)
        ask_word(dc, block, where, check, check->first, (int)(i * 8), check->last, ahead->writes);
}

/* The registers of a check ahead: none that an address uses. False where there are none. */
static bool
reserve(void *dc, instrlist_t *block, instr_t *where, const plan_t *plan, reg_id_t *registers, int count)
{
    drvector_t allowed;
    drreg_init_and_fill_vector(&allowed, true);
    for (uint32_t i = 0; i < plan->ahead_count; i++) {
        const int32_t roots[] = { plan->ahead[i].address.base_root, plan->ahead[i].address.index_root };
        for (int k = 0; k < 2; k++) {
            if (roots[k] != ROOT_NONE)
                drreg_set_vector_entry(&allowed, register_of(roots[k]), false);
        }
    }
    int got = 0;
    while (got < count && drreg_reserve_register(dc, block, where, &allowed, &registers[got]) == DRREG_SUCCESS)
        got++;
    drvector_delete(&allowed);
    if (got == count)
        return true;
    while (got > 0)
        drreg_unreserve_register(dc, block, where, registers[--got]);
    return false;
}

static void
give_back(void *dc, instrlist_t *block, instr_t *where, const reg_id_t *registers, int count)
{
    for (int i = count - 1; i >= 0; i--)
        drreg_unreserve_register(dc, block, where, registers[i]);
    drreg_restore_all(dc, block, where);
}

/* Adds to the counters of iterations, leaving the flags alone. */
static void
count_iterations(void *dc, instrlist_t *block, instr_t *where, const plan_t *plan, int iterations)
{
    reg_id_t r[2];
    bool accesses = plan->loads + plan->stores > 0;
    if ((!accesses && options.window_instructions == 0) || iterations == 0)
        return;
    if (drreg_reserve_register(dc, block, where, NULL, &r[0]) != DRREG_SUCCESS ||
        drreg_reserve_register(dc, block, where, NULL, &r[1]) != DRREG_SUCCESS) {
        part()->events_lost++;
        return;
    }
    uint32_t shape = accesses ? part_shape(plan->loads, plan->stores, plan->bytes, plan->spins) : 0;
    struct {
        uint32_t counter;
        uint32_t of_one; /* iteration */
    } sums[4];
    uint32_t count = 0;
    if (options.window_instructions != 0) {
        sums[count].counter = COHABIT_COUNTER_INSTRUCTIONS;
        sums[count++].of_one = plan->instructions;
    }
    if (shape != 0) {
        sums[count].counter = shape;
        sums[count++].of_one = 1;
    } else if (accesses) {
        sums[count].counter = COHABIT_COUNTER_LOADS;
        sums[count++].of_one = plan->loads;
        sums[count].counter = COHABIT_COUNTER_STORES;
        sums[count++].of_one = plan->stores;
        sums[count].counter = COHABIT_COUNTER_BYTES;
        sums[count++].of_one = plan->bytes;
    }
    PRE(INSTR_CREATE_mov_ld(dc, opnd_create_reg(r[0]), slot(dc, SLOT_COUNTERS)));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t counter = sums[i].counter;
        int add = iterations * (int)sums[i].of_one;
        opnd_t at = OPND_CREATE_MEM64(r[0], (int)(counter * sizeof(uint64_t)));
        PRE(INSTR_CREATE_mov_ld(dc, opnd_create_reg(r[1]), at));
        PRE(INSTR_CREATE_lea(dc, opnd_create_reg(r[1]), opnd_create_base_disp(r[1], DR_REG_NULL, 0, add, OPSZ_lea)));
        PRE(INSTR_CREATE_mov_st(dc, at, opnd_create_reg(r[1])));
    }
    give_back(dc, block, where, r, 2);
}

/* The flags are dead here: loops whose body reads them before it writes them are not unrolled. */
static void
check_ahead(void *dc, instrlist_t *block, instr_t *where, const plan_t *plan)
{
    reg_id_t r[3];
    opnd_t alone = opnd_create_instr(loops_alone(where));
    uint32_t iterations = loops_iterations(where);
    bool dead = false;
    if (drreg_are_aflags_dead(dc, where, &dead) != DRREG_SUCCESS || !dead || !reserve(dc, block, where, plan, r, 3)) {
        PRE(INSTR_CREATE_jmp(dc, alone));
        return;
    }
    check_t check = { r[0], r[1], r[2], true };
    for (uint32_t i = 0; i < plan->ahead_count; i++)
        ask_range(dc, block, where, &check, &plan->ahead[i], iterations);
    give_back(dc, block, where, r, 3);
    if (!check.empty)
        PRE(INSTR_CREATE_jcc(dc, OP_jne, alone));
    count_iterations(dc, block, where, plan, (int)iterations);
}

void
loop_emit(void *dc, instrlist_t *block, instr_t *mark, const plan_t *plan)
{
    switch (loops_mark(mark)) {
    case LOOP_TOP: check_ahead(dc, block, mark, plan); break;
    case LOOP_EXIT: count_iterations(dc, block, instr_get_next(mark), plan, -(int)loops_iterations(mark)); break;
    case LOOP_ALONE: count_iterations(dc, block, instr_get_next(mark), plan, 1); break;
    default: break;
    }
}
