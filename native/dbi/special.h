/* Instructions whose accesses only the run can tell: repeated string instructions, masked vectors, state
 * save areas. */
#ifndef COHABIT_SPECIAL_H
#define COHABIT_SPECIAL_H

#include "dr_api.h"

/* Inserts the counting of one such instruction (plan_is_special). */
void special_insert(void *drcontext, instrlist_t *block, instr_t *instr);

/* Whether it is a string instruction with a repeat prefix. */
bool special_is_string(int opcode);

/* The same for gathers and scatters; false for all other instructions. */
bool gather_insert(void *drcontext, instrlist_t *block, instr_t *instr);

/* The same for xsave and xrstor. */
void xstate_init(void);
bool xstate_is(int opcode);
bool xstate_insert(void *drcontext, instrlist_t *block, instr_t *instr);

#endif
