/* Inserted code (emit.h).
 *
 * A check reads the shadow words of the span's first and last byte, which are all it can touch, and asks one question
 * of both (shadow.h). It needs no atomic instruction: a check that passes changes nothing. One that fails leaves for
 * code elsewhere (cold.c), so that what always passes is a straight line without a taken branch. There the address, the
 * group of pieces and where to go on are left in thread-local slots for one shared routine, which saves what C code may
 * change, switches to a stack of its own (the program's may be tiny) and calls the slow path. Compiled without vector
 * registers, that leaves them alone, so nothing of the kind is saved: a full clean call costs 0.4 us, this some 10 ns.
 */
#include "emit.h"
#include "cold.h"
#include "options.h"
#include "slots.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"

#define PRE(instr) instrlist_meta_preinsert(block, where, instr)

void
emit_address(void *dc, instrlist_t *block, instr_t *where, const span_t *span, reg_id_t to, reg_id_t scratch)
{
    opnd_t operand = span->operand;
    int64_t displacement = opnd_is_near_base_disp(operand) ? (int64_t)opnd_get_disp(operand) + span->delta : 0;
    if (opnd_is_near_base_disp(operand) && displacement == (int32_t)displacement) {
        opnd_t from = opnd_create_base_disp(opnd_get_base(operand), opnd_get_index(operand), opnd_get_scale(operand),
                                            (int32_t)displacement, OPSZ_lea);
        PRE(INSTR_CREATE_lea(dc, opnd_create_reg(to), from));
    } else if (opnd_is_near_rel_addr(operand) || opnd_is_near_abs_addr(operand)) {
        ptr_int_t at = (ptr_int_t)opnd_get_addr(operand) + span->delta;
        PRE(INSTR_CREATE_mov_imm(dc, opnd_create_reg(to), OPND_CREATE_INTPTR(at)));
    } else {
        drutil_insert_get_mem_addr(dc, block, where, operand, to, scratch);
        if (span->delta != 0)
            PRE(INSTR_CREATE_lea(dc, opnd_create_reg(to), opnd_create_base_disp(to, DR_REG_NULL, 0, span->delta, OPSZ_lea)));
    }
}

void
emit_return(void *dc, instrlist_t *block, instr_t *where, reg_id_t to, instr_t *fine)
{
    if (fine != NULL)
        instrlist_insert_mov_instr_addr(dc, fine, NULL, opnd_create_reg(to), block, where, NULL, NULL);
}

/* The operand of a shadow word: `index` is (address + bias) >> shift, and the bias makes that an eighth of its
 * place. */
static opnd_t
word_at(reg_id_t index)
{
    return opnd_create_base_disp(DR_REG_NULL, index, 8, 0, OPSZ_8);
}

static void
test_mask(void *dc, instrlist_t *block, instr_t *where, opnd_t words)
{
    if (proc_has_feature(FEATURE_BMI1)) {
        PRE(INSTR_CREATE_andn(dc, words, words, slot(dc, SLOT_MASK)));
    } else {
        PRE(INSTR_CREATE_not(dc, words));
        PRE(INSTR_CREATE_test(dc, slot(dc, SLOT_MASK), words));
    }
}

void
emit_both_ends(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r, instr_t *fine,
               opnd_t cold)
{
    opnd_t first = opnd_create_reg(r[0]), last = opnd_create_reg(r[1]);
    opnd_t shift = OPND_CREATE_INT8((char)shadow_block_shift);
    PRE(INSTR_CREATE_add(dc, first, slot(dc, SLOT_BIAS)));
    PRE(INSTR_CREATE_lea(dc, last, opnd_create_base_disp(r[0], DR_REG_NULL, 0, (int)span->bytes - 1, OPSZ_lea)));
    PRE(INSTR_CREATE_shr(dc, first, shift));
    PRE(INSTR_CREATE_shr(dc, last, shift));
    PRE(INSTR_CREATE_mov_ld(dc, first, word_at(r[0])));
    if (span->writes) {
        PRE(INSTR_CREATE_cmp(dc, first, word_at(r[1])));
        emit_return(dc, block, where, r[1], fine);
        PRE(INSTR_CREATE_jcc(dc, OP_jne, cold));
        PRE(INSTR_CREATE_cmp(dc, first, slot(dc, SLOT_EXACT)));
    } else {
        PRE(INSTR_CREATE_and(dc, first, word_at(r[1])));
        emit_return(dc, block, where, r[1], fine);
        test_mask(dc, block, where, first);
    }
    PRE(INSTR_CREATE_jcc(dc, OP_jne, cold));
}

static void
jump_unless_aligned(void *dc, instrlist_t *block, instr_t *where, const span_t *span, reg_id_t address, opnd_t cold)
{
    if (span->bytes == 1)
        return;
    opnd_t low = opnd_create_reg(reg_resize_to_opsz(address, OPSZ_1));
    PRE(INSTR_CREATE_test(dc, low, OPND_CREATE_INT8((char)(span->bytes - 1))));
    PRE(INSTR_CREATE_jcc(dc, OP_jne, cold));
}

/* A single access of 1, 2, 4 or 8 bytes is nearly always aligned, and then in one block. */
static void
ask_aligned(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r, instr_t *fine,
            opnd_t cold)
{
    opnd_t word = opnd_create_reg(r[0]);
    emit_return(dc, block, where, r[1], fine);
    jump_unless_aligned(dc, block, where, span, r[0], cold);
    PRE(INSTR_CREATE_add(dc, word, slot(dc, SLOT_BIAS)));
    PRE(INSTR_CREATE_shr(dc, word, OPND_CREATE_INT8((char)shadow_block_shift)));
    PRE(INSTR_CREATE_mov_ld(dc, word, word_at(r[0])));
    if (span->writes) {
        PRE(INSTR_CREATE_cmp(dc, word, slot(dc, SLOT_EXACT)));
    } else {
        test_mask(dc, block, where, word);
    }
    PRE(INSTR_CREATE_jcc(dc, OP_jne, cold));
}

/* The words of both ends of a span, and-ed into r[0]; the first of a bundle puts them there. */
static void
gather_words(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r, bool first)
{
    opnd_t all = opnd_create_reg(r[0]), low = opnd_create_reg(r[1]), high = opnd_create_reg(r[2]);
    opnd_t shift = OPND_CREATE_INT8((char)shadow_block_shift);
    emit_address(dc, block, where, span, r[1], r[2]);
    PRE(INSTR_CREATE_add(dc, low, slot(dc, SLOT_BIAS)));
    PRE(INSTR_CREATE_lea(dc, high, opnd_create_base_disp(r[1], DR_REG_NULL, 0, (int)span->bytes - 1, OPSZ_lea)));
    PRE(INSTR_CREATE_shr(dc, low, shift));
    PRE(INSTR_CREATE_shr(dc, high, shift));
    if (first)
        PRE(INSTR_CREATE_mov_ld(dc, all, word_at(r[1])));
    else
        PRE(INSTR_CREATE_and(dc, all, word_at(r[1])));
    PRE(INSTR_CREATE_and(dc, all, word_at(r[2])));
}

/* A single access of 1, 2, 4 or 8 bytes. */
static bool
is_small(const span_t *span)
{
    return span->alone && span->bytes <= 8 && (span->bytes & (span->bytes - 1)) == 0;
}

/* The same for a small access: one word, once it is known to be aligned. r[1] holds where to go on. */
static void
gather_word(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r, bool first,
            opnd_t cold)
{
    emit_address(dc, block, where, span, r[2], r[2]);
    jump_unless_aligned(dc, block, where, span, r[2], cold);
    PRE(INSTR_CREATE_add(dc, opnd_create_reg(r[2]), slot(dc, SLOT_BIAS)));
    PRE(INSTR_CREATE_shr(dc, opnd_create_reg(r[2]), OPND_CREATE_INT8((char)shadow_block_shift)));
    if (first)
        PRE(INSTR_CREATE_mov_ld(dc, opnd_create_reg(r[0]), word_at(r[2])));
    else
        PRE(INSTR_CREATE_and(dc, opnd_create_reg(r[0]), word_at(r[2])));
}

/* The registers of a check: none that an operand uses, so that its address can be computed again. */
static bool
reserve(void *dc, instrlist_t *block, instr_t *where, const bundle_t *bundle, reg_id_t *registers, int count)
{
    drvector_t allowed;
    drreg_init_and_fill_vector(&allowed, true);
    for (uint32_t k = 0; k < bundle->count; k++) {
        opnd_t operand = bundle->spans[k]->operand;
        for (int i = 0; i < opnd_num_regs_used(operand); i++) {
            reg_id_t used = opnd_get_reg_used(operand, i);
            if (reg_is_gpr(used))
                drreg_set_vector_entry(&allowed, reg_to_pointer_sized(used), false);
        }
    }
    bool fine = drreg_reserve_aflags(dc, block, where) == DRREG_SUCCESS;
    for (int i = 0; i < count && fine; i++)
        fine = drreg_reserve_register(dc, block, where, &allowed, &registers[i]) == DRREG_SUCCESS;
    drvector_delete(&allowed);
    for (uint32_t k = 0; k < bundle->count && fine; k++)
        drreg_restore_app_values(dc, block, where, bundle->spans[k]->operand, NULL);
    return fine;
}

static void
unreserve(void *dc, instrlist_t *block, instr_t *where, const reg_id_t *registers, int count)
{
    for (int i = count - 1; i >= 0; i--)
        drreg_unreserve_register(dc, block, where, registers[i]);
    drreg_unreserve_aflags(dc, block, where);
}

void
emit_question(void *dc, instrlist_t *block, instr_t *where, const span_t *span, uint32_t group, question_t *ask,
              int registers, bool look_again)
{
    reg_id_t r[3];
    bundle_t alone = { { span }, { group }, 1 };
    byte *cold = NULL;
    if (reserve(dc, block, where, &alone, r, registers))
        cold = cold_code(dc, &alone, r[0], r[1], look_again);
    if (cold == NULL) {
        part()->events_lost++;
        return;
    }
    instr_t *fine = INSTR_CREATE_label(dc);
    emit_address(dc, block, where, span, r[0], r[1]);
    ask(dc, block, where, span, r, fine, opnd_create_pc(cold));
    PRE(fine);
    unreserve(dc, block, where, r, registers);
}

static void
emit_bundle(void *dc, instrlist_t *block, instr_t *where, const bundle_t *bundle)
{
    reg_id_t r[3];
    byte *cold = NULL;
    if (reserve(dc, block, where, bundle, r, 3))
        cold = cold_code(dc, bundle, r[0], r[1], true);
    if (cold == NULL) {
        part()->events_lost++;
        return;
    }
    instr_t *fine = INSTR_CREATE_label(dc);
    bool small = true;
    for (uint32_t k = 0; k < bundle->count; k++)
        small &= is_small(bundle->spans[k]) && !opnd_is_far_base_disp(bundle->spans[k]->operand);
    if (small)
        emit_return(dc, block, where, r[1], fine);
    for (uint32_t k = 0; k < bundle->count; k++) {
        if (small)
            gather_word(dc, block, where, bundle->spans[k], r, k == 0, opnd_create_pc(cold));
        else
            gather_words(dc, block, where, bundle->spans[k], r, k == 0);
    }
    if (!small)
        emit_return(dc, block, where, r[1], fine);
    test_mask(dc, block, where, opnd_create_reg(r[0]));
    PRE(INSTR_CREATE_jcc(dc, OP_jne, opnd_create_pc(cold)));
    PRE(fine);
    unreserve(dc, block, where, r, 3);
}

/* Where each access is of interest. */
static void
ask_nothing(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r, instr_t *fine,
            opnd_t cold)
{
    (void)span;
    emit_return(dc, block, where, r[1], fine);
    PRE(XINST_CREATE_jump(dc, cold));
}

void
emit_check(void *dc, instrlist_t *block, instr_t *where, const plan_t *plan, const span_t *span)
{
    if (span->follows)
        return;
    bundle_t bundle = { .count = 0 };
    for (const span_t *one = span; one != NULL; one = one->next < 0 ? NULL : &plan->spans[one->next]) {
        bundle.groups[bundle.count] = one->group;
        bundle.spans[bundle.count++] = one;
    }
    if (bundle.count > 1) {
        emit_bundle(dc, block, where, &bundle);
        return;
    }
    if (span->always) {
        emit_question(dc, block, where, span, span->group, ask_nothing, 2, false);
        return;
    }
    bool small = is_small(span);
    emit_question(dc, block, where, span, span->group, small ? ask_aligned : emit_both_ends, 2, small);
}

static opnd_t
counter(reg_id_t base, uint32_t number)
{
    return OPND_CREATE_MEM64(base, (int)(number * sizeof(uint64_t)));
}

void
emit_count(void *dc, instrlist_t *block, instr_t *where, const plan_t *plan)
{
    reg_id_t scratch;
    bool accesses = plan->loads + plan->stores > 0;
    if (!accesses && options.window_instructions == 0)
        return;
    if (drreg_reserve_aflags(dc, block, where) != DRREG_SUCCESS ||
        drreg_reserve_register(dc, block, where, NULL, &scratch) != DRREG_SUCCESS) {
        part()->events_lost++;
        return;
    }
    PRE(INSTR_CREATE_mov_ld(dc, opnd_create_reg(scratch), slot(dc, SLOT_COUNTERS)));
    if (options.window_instructions != 0)
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_INSTRUCTIONS), OPND_CREATE_INT32((int)plan->instructions)));
    uint32_t shape = accesses ? part_shape(plan->loads, plan->stores, plan->bytes, plan->spins) : 0;
    if (shape != 0) {
        PRE(INSTR_CREATE_inc(dc, counter(scratch, shape)));
    } else if (accesses) {
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_LOADS), OPND_CREATE_INT32((int)plan->loads)));
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_STORES), OPND_CREATE_INT32((int)plan->stores)));
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_BYTES), OPND_CREATE_INT32((int)plan->bytes)));
    }
    drreg_unreserve_register(dc, block, where, scratch);
    drreg_unreserve_aflags(dc, block, where);
}
