/* Code inserted into the program: the checks of a plan and the counting of blocks. */
#ifndef COHABIT_EMIT_H
#define COHABIT_EMIT_H

#include "plan.h"

/* Inserts the check of one span before `where`, with those that are checked together with it; nothing for those. */
void emit_check(void *drcontext, instrlist_t *block, instr_t *where, const plan_t *plan, const span_t *span);

/* Asks a question of the shadow. r[0] holds the address of the span's first byte; the registers r may be changed. Where
 * the answer is no it jumps to `cold`, having put the address of `fine` into r[1] (emit_return). */
typedef void question_t(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t *r,
                        instr_t *fine, opnd_t cold);
/* Inserts a check that asks `ask`, with so many registers (2 or 3), and takes `group` to the slow path. */
void emit_question(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span, uint32_t group,
                   question_t *ask, int registers, bool look_again);
/* Puts the address of `fine` into a register; nothing where `fine` is NULL. Leaves the flags alone. */
void emit_return(void *drcontext, instrlist_t *block, instr_t *where, reg_id_t to, instr_t *fine);

/* The address of the span's first byte into `to`. The operand's registers must hold the program's values. */
void emit_address(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span, reg_id_t to,
                  reg_id_t scratch);
/* The detector's question, of the words of the span's first and last byte: all it can touch. */
question_t emit_both_ends;

/* Inserts the counting of one execution of the block before `where`. */
void emit_count(void *drcontext, instrlist_t *block, instr_t *where, const plan_t *plan);

#endif
