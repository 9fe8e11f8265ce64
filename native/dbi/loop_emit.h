/* Code inserted into unrolled loops (loops.h): the check ahead, and the counting of iterations. */
#ifndef COHABIT_LOOP_EMIT_H
#define COHABIT_LOOP_EMIT_H

#include "plan.h"

/* Inserts what belongs at a mark of the loop. */
void loop_emit(void *drcontext, instrlist_t *block, instr_t *mark, const plan_t *plan);

#endif
