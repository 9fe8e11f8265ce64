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
#include "sharing.h"
#include "slow.h"
#include "system.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"
#include <stddef.h>

enum {
    SLOT_MASK,
    SLOT_EXACT,
    SLOT_SHARING,
    SLOT_COUNTERS,
    SLOT_TASK,
    SLOT_ADDRESS,
    SLOT_GROUP,
    SLOT_RETURN,
    SLOT_STACK_POINTER, /* the program's, during the slow path */
    SLOT_STACK,
    SLOTS
};

#define ROUTINE_BYTES 4096

static reg_id_t tls_segment;
static uint tls_offset;
static byte *routine;

static opnd_t
slot(void *drcontext, int number)
{
    return dr_raw_tls_opnd(drcontext, tls_segment, tls_offset + (uint)number * sizeof(void *));
}

#define APPEND(instr) instrlist_meta_append(list, instr)

static bool
make_routine(void)
{
    static const reg_id_t saved[] = { DR_REG_XAX, DR_REG_XCX, DR_REG_XDX, DR_REG_XSI, DR_REG_XDI,
                                      DR_REG_R8,  DR_REG_R9,  DR_REG_R10, DR_REG_R11 };
    const int count = sizeof(saved) / sizeof(saved[0]);
    void *dc = dr_get_current_drcontext();
    instrlist_t *list = instrlist_create(dc);
    opnd_t rsp = opnd_create_reg(DR_REG_XSP);
    APPEND(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_STACK_POINTER), rsp));
    APPEND(INSTR_CREATE_mov_ld(dc, rsp, slot(dc, SLOT_STACK)));
    for (int i = 0; i < count; i++)
        APPEND(INSTR_CREATE_push(dc, opnd_create_reg(saved[i])));
    APPEND(INSTR_CREATE_lahf(dc));
    APPEND(INSTR_CREATE_setcc(dc, OP_seto, opnd_create_reg(DR_REG_AL)));
    APPEND(INSTR_CREATE_push(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XDI), slot(dc, SLOT_TASK)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XSI), slot(dc, SLOT_ADDRESS)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XDX), slot(dc, SLOT_GROUP)));
    APPEND(INSTR_CREATE_mov_imm(dc, opnd_create_reg(DR_REG_XAX), OPND_CREATE_INTPTR(slow_path)));
    APPEND(INSTR_CREATE_call_ind(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(INSTR_CREATE_pop(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(INSTR_CREATE_add(dc, opnd_create_reg(DR_REG_AL), OPND_CREATE_INT8(0x7f))); /* gives overflow back */
    APPEND(INSTR_CREATE_sahf(dc));
    for (int i = count - 1; i >= 0; i--)
        APPEND(INSTR_CREATE_pop(dc, opnd_create_reg(saved[i])));
    APPEND(INSTR_CREATE_mov_ld(dc, rsp, slot(dc, SLOT_STACK_POINTER)));
    APPEND(INSTR_CREATE_jmp_ind(dc, slot(dc, SLOT_RETURN)));
    routine = dr_nonheap_alloc(ROUTINE_BYTES, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
    byte *end = instrlist_encode(dc, list, routine, false);
    instrlist_clear_and_destroy(dc, list);
    return end != NULL && end < routine + ROUTINE_BYTES &&
        dr_memory_protect(routine, ROUTINE_BYTES, DR_MEMPROT_READ | DR_MEMPROT_EXEC);
}

bool
emit_init(void)
{
    return dr_raw_tls_calloc(&tls_segment, &tls_offset, SLOTS, 0) && make_routine();
}

void
emit_exit(void)
{
    dr_nonheap_free(routine, ROUTINE_BYTES);
    dr_raw_tls_cfree(tls_offset, SLOTS);
}

static void **
slot_address(int number)
{
    return (void **)((byte *)dr_get_dr_segment_base(tls_segment) + tls_offset + (uint)number * sizeof(void *));
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

opnd_t
emit_sharing_slot(void *dc)
{
    return slot(dc, SLOT_SHARING);
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
