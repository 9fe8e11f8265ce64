/* The inline check of the sharing matrix (sharing_emit.h).
 *
 * The words of the span's first and last byte are compared, by exclusive or, with "touched by everybody in this
 * window", which lies before the word of block 0. Where the task's bits and the window's are all zero then, in both,
 * there is nothing to do.
 */
#include "sharing_emit.h"
#include "emit.h"
#include "slots.h"
#include "sharing.h"
#include "slow.h"

#define PRE(instr) instrlist_meta_preinsert(block, where, instr)

static void
ask_touched(void *dc, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r, instr_t *fine,
            opnd_t cold)
{
    opnd_t first = opnd_create_reg(r[0]), last = opnd_create_reg(r[1]);
    opnd_t shift = OPND_CREATE_INT8((char)shadow_block_shift);
    opnd_t everybody = opnd_create_base_disp(r[2], DR_REG_NULL, 0, -(int)sizeof(uint64_t), OPSZ_8);
    PRE(INSTR_CREATE_lea(dc, last, opnd_create_base_disp(r[0], DR_REG_NULL, 0, (int)span->bytes - 1, OPSZ_lea)));
    PRE(INSTR_CREATE_shr(dc, first, shift));
    PRE(INSTR_CREATE_shr(dc, last, shift));
    PRE(INSTR_CREATE_mov_imm(dc, opnd_create_reg(r[2]), OPND_CREATE_INTPTR(sharing_base)));
    PRE(INSTR_CREATE_mov_ld(dc, first, opnd_create_base_disp(r[2], r[0], 8, 0, OPSZ_8)));
    PRE(INSTR_CREATE_mov_ld(dc, last, opnd_create_base_disp(r[2], r[1], 8, 0, OPSZ_8)));
    PRE(INSTR_CREATE_xor(dc, first, everybody));
    PRE(INSTR_CREATE_xor(dc, last, everybody));
    PRE(INSTR_CREATE_or(dc, first, last));
    emit_return(dc, block, where, r[1], fine);
    PRE(INSTR_CREATE_test(dc, slot(dc, SLOT_SHARING), first));
    PRE(INSTR_CREATE_jcc(dc, OP_jne, cold));
}

void
sharing_emit(void *dc, instrlist_t *block, instr_t *where, const span_t *span)
{
    emit_question(dc, block, where, span, span->group | SLOW_SHARING, ask_touched, 3, false);
}
