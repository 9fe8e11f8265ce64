/* Code inserted into the program: the checks of a plan, and the routine they jump to when a check fails. */
#ifndef COHABIT_EMIT_H
#define COHABIT_EMIT_H

#include "plan.h"

/* Makes the shared routine. */
bool emit_init(void);
void emit_exit(void);

/* Points the calling thread's slots to a task. */
void emit_init_thread(task_t *task);
/* The task of the calling thread. */
task_t *emit_current_task(void);

/* Inserts the check of one span before `where`. */
void emit_check(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span);

/* Asks a question of the shadow: registers r hold the address of the span's first byte in r[0], and may all be changed.
 * It jumps to `fine` where all is well and to `slow`, which follows it, where not. */
typedef void question_t(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span, const reg_id_t r[3],
                        instr_t *slow, instr_t *fine);
/* Inserts a check that asks `ask` and takes `group` to the slow path. */
void emit_question(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span, uint32_t group,
                   question_t *ask);
/* Inserts the counting of one execution of the block before `where`. */
void emit_count(void *drcontext, instrlist_t *block, instr_t *where, const plan_t *plan);

#endif
