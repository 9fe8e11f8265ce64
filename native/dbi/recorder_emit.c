/* Inserted code that records (recorder_emit.h).
 *
 * At the begin of a segment the room for its entry is taken and its number left there; each anchor's address is left
 * where it is known. Where the buffer is full, the slow path's kind of call empties it.
 */
#include "recorder_emit.h"
#include "emit.h"
#include "options.h"
#include "recorder_code.h"
#include "slots.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"

#define PRE(instr) instrlist_meta_preinsert(block, where, instr)

static byte *routine, *behind;

bool
recorder_emit_init(void)
{
    if (options.recording[0] == '\0')
        return true;
    routine = routine_make(recorder_full, SLOT_RETURN);
    behind = routine_make(recorder_behind_atomic, SLOT_RETURN);
    return routine != NULL && behind != NULL;
}

static void
emit_begin(void *dc, instrlist_t *block, instr_t *where, const planned_segment_t *segment)
{
    reg_id_t r0, r1;
    if (drreg_reserve_aflags(dc, block, where) != DRREG_SUCCESS ||
        drreg_reserve_register(dc, block, where, NULL, &r0) != DRREG_SUCCESS ||
        drreg_reserve_register(dc, block, where, NULL, &r1) != DRREG_SUCCESS) {
        part()->events_lost++;
        return;
    }
    instr_t *again = INSTR_CREATE_label(dc), *fine = INSTR_CREATE_label(dc);
    opnd_t entry = opnd_create_reg(r0), other = opnd_create_reg(r1);
    int bytes = (int)((1 + segment->anchor_count) * sizeof(uint64_t));
    PRE(again);
    PRE(INSTR_CREATE_mov_ld(dc, entry, slot(dc, SLOT_RECORD)));
    PRE(INSTR_CREATE_lea(dc, other, opnd_create_base_disp(r0, DR_REG_NULL, 0, bytes, OPSZ_lea)));
    PRE(INSTR_CREATE_cmp(dc, other, slot(dc, SLOT_RECORD_END)));
    PRE(INSTR_CREATE_jcc(dc, OP_jbe, opnd_create_instr(fine)));
    emit_return(dc, block, where, r1, again);
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RETURN), other));
    PRE(XINST_CREATE_jump(dc, opnd_create_pc(routine)));
    PRE(fine);
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RECORD), other));
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_SEGMENT), entry));
    PRE(INSTR_CREATE_mov_st(dc, OPND_CREATE_MEM64(r0, 0), OPND_CREATE_INT32((int)(segment->number << ENTRY_BITS))));
    if (segment->accesses > 0) {
        PRE(INSTR_CREATE_mov_ld(dc, other, slot(dc, SLOT_POSITION)));
        PRE(INSTR_CREATE_lea(dc, other, opnd_create_base_disp(r1, DR_REG_NULL, 0, (int)segment->accesses, OPSZ_lea)));
        PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_POSITION), other));
    }
    drreg_unreserve_register(dc, block, where, r1);
    drreg_unreserve_register(dc, block, where, r0);
    drreg_unreserve_aflags(dc, block, where);
}

static void
emit_anchor(void *dc, instrlist_t *block, instr_t *where, const anchor_t *anchor)
{
    reg_id_t to, scratch;
    drvector_t allowed;
    drreg_init_and_fill_vector(&allowed, true);
    for (int i = 0; i < opnd_num_regs_used(anchor->operand); i++) {
        reg_id_t used = opnd_get_reg_used(anchor->operand, i);
        if (reg_is_gpr(used))
            drreg_set_vector_entry(&allowed, reg_to_pointer_sized(used), false);
    }
    bool fine = drreg_reserve_register(dc, block, where, &allowed, &to) == DRREG_SUCCESS &&
        drreg_reserve_register(dc, block, where, &allowed, &scratch) == DRREG_SUCCESS;
    drvector_delete(&allowed);
    if (!fine) {
        part()->events_lost++;
        return;
    }
    drreg_restore_app_values(dc, block, where, anchor->operand, NULL);
    span_t span = { .where = where, .operand = anchor->operand };
    emit_address(dc, block, where, &span, to, scratch);
    PRE(INSTR_CREATE_mov_ld(dc, opnd_create_reg(scratch), slot(dc, SLOT_SEGMENT)));
    PRE(INSTR_CREATE_mov_st(dc, OPND_CREATE_MEM64(scratch, (int)((1 + anchor->number) * sizeof(uint64_t))),
                            opnd_create_reg(to)));
    drreg_unreserve_register(dc, block, where, scratch);
    drreg_unreserve_register(dc, block, where, to);
}

void
recorder_emit_behind_atomic(void *dc, instrlist_t *block, instr_t *where)
{
    reg_id_t back;
    if (drreg_reserve_register(dc, block, where, NULL, &back) != DRREG_SUCCESS) {
        part()->events_lost++;
        return;
    }
    instr_t *fine = INSTR_CREATE_label(dc);
    emit_return(dc, block, where, back, fine);
    PRE(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RETURN), opnd_create_reg(back)));
    PRE(XINST_CREATE_jump(dc, opnd_create_pc(behind)));
    PRE(fine);
    drreg_unreserve_register(dc, block, where, back);
}

void
recorder_emit(void *dc, instrlist_t *block, instr_t *where, const recorder_plan_t *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const planned_segment_t *segment = &plan->segments[i];
        if (segment->first == where)
            emit_begin(dc, block, where, segment);
        for (uint32_t k = 0; k < segment->anchor_count; k++) {
            if (segment->anchors[k].where == where)
                emit_anchor(dc, block, where, &segment->anchors[k]);
        }
    }
}
