/* The inline check of the sharing matrix (sharing.h). */
#ifndef COHABIT_SHARING_EMIT_H
#define COHABIT_SHARING_EMIT_H

#include "plan.h"

/* Inserts, before `where`, the question whether the task has touched the span's blocks in the window under way. */
void sharing_emit(void *drcontext, instrlist_t *block, instr_t *where, const span_t *span);

#endif
