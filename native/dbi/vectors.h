/* Keeps DynamoRIO from slowing down programs made of legacy SSE instructions. */
#ifndef COHABIT_VECTORS_H
#define COHABIT_VECTORS_H

#include "dr_api.h"
#include <stdbool.h>

bool vectors_init(void);
void vectors_exit(void);

/* Before the first instruction of a block. */
void vectors_insert(void *drcontext, instrlist_t *block, instr_t *first);

/* DynamoRIO has run on this thread, or may have: look at the registers when it next matters. */
void vectors_suspect(void);

#endif
