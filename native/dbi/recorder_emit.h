/* Inserted code that records (recorder.h). */
#ifndef COHABIT_RECORDER_EMIT_H
#define COHABIT_RECORDER_EMIT_H

#include "recorder_plan.h"

/* False where there is no room for its routine. */
bool recorder_emit_init(void);
/* Before the instruction behind an atomic one. */
void recorder_emit_behind_atomic(void *drcontext, instrlist_t *block, instr_t *where);
/* What the plan wants before this instruction of the program. */
void recorder_emit(void *drcontext, instrlist_t *block, instr_t *where, const recorder_plan_t *plan);

#endif
