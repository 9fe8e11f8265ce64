/* Inserted code (emit.h).
 *
 * A check reads the shadow words of the span's first and last byte, which are all it can touch, and asks one question
 * of both (shadow.h). It needs no atomic instruction: a check that passes changes nothing. One that fails leaves the
 * address, the group of pieces and where to go on in thread-local slots and jumps to one shared routine, which saves
 * what C code may change, switches to a stack of its own (the program's may be tiny) and calls the slow path. Compiled
 * without vector registers, that leaves them alone, so nothing of the kind is saved: a full clean call costs 0.4 us,
 * this some 10 ns.
 */
#include "emit.h"
#include "options.h"
#include "slots.h"
#include "sharing.h"
#include "slow.h"
#include "system.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"
#include <stddef.h>

static byte *routine; /* to the slow path */

bool
emit_init(void)
{
    routine = routine_make(slow_path);
    return routine != NULL;
}

void
emit_exit(void)
{
    routine_free(routine);
}

void
emit_init_thread(task_t *task)
{
    /* No check passes where every access is recorded. */
    *slot_address(SLOT_MASK) = (void *)(options.record[0] != '\0' ? ~0ull : task->read_mask);
    *slot_address(SLOT_EXACT) = (void *)(options.record[0] != '\0' ? ~0ull : task->exact_word);
    *slot_address(SLOT_SHARING) = (void *)sharing_mask(task);
    *slot_address(SLOT_COUNTERS) = part_at(task->shared->counters);
    *slot_address(SLOT_STACK) = (void *)task->stack_top;
    *slot_address(SLOT_TASK) = task;
}

task_t *
emit_current_task(void)
{
    return *slot_address(SLOT_TASK);
}

#define PRE(instr) instrlist_meta_preinsert(block, where, instr)

/* The address of the span's first byte into `to`; the operand's own registers hold the program's values. */
static void
insert_address(void *dc, instrlist_t *block, instr_t *where, const span_t *span, reg_id_t to, reg_id_t scratch)
{
    opnd_t operand = span->operand;
    drreg_restore_app_values(dc, block, where, operand, NULL);
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

/* The registers of a check: none that the operand uses, so that its address can be computed again. */
static bool
reserve(void *dc, instrlist_t *block, instr_t *where, opnd_t operand, reg_id_t registers[3])
{
    drvector_t allowed;
    drreg_init_and_fill_vector(&allowed, true);
    for (int i = 0; i < opnd_num_regs_used(operand); i++) {
        reg_id_t used = opnd_get_reg_used(operand, i);
        if (reg_is_gpr(used))
            drreg_set_vector_entry(&allowed, reg_to_pointer_sized(used), false);
    }
    bool fine = drreg_reserve_aflags(dc, block, where) == DRREG_SUCCESS;
    for (int i = 0; i < 3 && fine; i++)
        fine = drreg_reserve_register(dc, block, where, &allowed, &registers[i]) == DRREG_SUCCESS;
    drvector_delete(&allowed);
    return fine;
}

static void
insert_question(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t r[3], instr_t *slow,
                instr_t *fine)
{
    opnd_t first = opnd_create_reg(r[0]), last = opnd_create_reg(r[1]);
    opnd_t shift = OPND_CREATE_INT8((char)shadow_block_shift);
    bool two = span->bytes > 1;
    if (two)
        PRE(INSTR_CREATE_lea(dc, last, opnd_create_base_disp(r[0], DR_REG_NULL, 0, (int)span->bytes - 1, OPSZ_lea)));
    PRE(INSTR_CREATE_shr(dc, first, shift));
    if (two)
        PRE(INSTR_CREATE_shr(dc, last, shift));
    PRE(INSTR_CREATE_mov_imm(dc, opnd_create_reg(r[2]), OPND_CREATE_INTPTR(shadow_base)));
    opnd_t first_word = opnd_create_base_disp(r[2], r[0], 8, 0, OPSZ_8);
    opnd_t last_word = opnd_create_base_disp(r[2], r[1], 8, 0, OPSZ_8);
    PRE(INSTR_CREATE_mov_ld(dc, first, first_word));
    if (span->writes) {
        if (two) {
            PRE(INSTR_CREATE_cmp(dc, first, last_word));
            PRE(INSTR_CREATE_jcc(dc, OP_jne, opnd_create_instr(slow)));
        }
        PRE(INSTR_CREATE_cmp(dc, first, slot(dc, SLOT_EXACT)));
    } else {
        if (two)
            PRE(INSTR_CREATE_and(dc, first, last_word));
        PRE(INSTR_CREATE_not(dc, first));
        PRE(INSTR_CREATE_test(dc, slot(dc, SLOT_MASK), first));
    }
    PRE(INSTR_CREATE_jcc(dc, OP_je, opnd_create_instr(fine)));
}

void
emit_question(void *dc, instrlist_t *block, instr_t *where, const span_t *span, uint32_t group, question_t *ask)
{
    reg_id_t r[3];
    if (!reserve(dc, block, where, span->operand, r)) {
        part()->events_lost++;
        return;
    }
    instr_t *slow = INSTR_CREATE_label(dc);
    instr_t *fine = INSTR_CREATE_label(dc);
    insert_address(dc, block, where, span, r[0], r[2]);
    ask(dc, block, where, span, r, slow, fine);
    PRE(slow);
    insert_address(dc, block, where, span, r[0], r[2]);
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_ADDRESS), opnd_create_reg(r[0])));
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_GROUP), OPND_CREATE_INT32((int)group)));
    instrlist_insert_mov_instr_addr(dc, fine, NULL, opnd_create_reg(r[1]), block, where, NULL, NULL);
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RETURN), opnd_create_reg(r[1])));
    PRE(XINST_CREATE_jump(dc, opnd_create_pc(routine)));
    PRE(fine);
    for (int i = 2; i >= 0; i--)
        drreg_unreserve_register(dc, block, where, r[i]);
    drreg_unreserve_aflags(dc, block, where);
}

void
emit_check(void *dc, instrlist_t *block, instr_t *where, const span_t *span)
{
    emit_question(dc, block, where, span, span->group, insert_question);
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
    if (plan->loads + plan->stores == 0)
        return;
    if (drreg_reserve_aflags(dc, block, where) != DRREG_SUCCESS ||
        drreg_reserve_register(dc, block, where, NULL, &scratch) != DRREG_SUCCESS) {
        part()->events_lost++;
        return;
    }
    uint32_t shape = part_shape(plan->loads, plan->stores, plan->bytes);
    PRE(INSTR_CREATE_mov_ld(dc, opnd_create_reg(scratch), slot(dc, SLOT_COUNTERS)));
    if (shape != 0) {
        PRE(INSTR_CREATE_inc(dc, counter(scratch, shape)));
    } else {
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_LOADS), OPND_CREATE_INT32((int)plan->loads)));
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_STORES), OPND_CREATE_INT32((int)plan->stores)));
        PRE(INSTR_CREATE_add(dc, counter(scratch, COHABIT_COUNTER_BYTES), OPND_CREATE_INT32((int)plan->bytes)));
    }
    drreg_unreserve_register(dc, block, where, scratch);
    drreg_unreserve_aflags(dc, block, where);
}
