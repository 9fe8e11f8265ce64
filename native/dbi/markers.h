/* Markers in the program (cohabit.h): recognised when its code is translated. */
#ifndef COHABIT_MARKERS_H
#define COHABIT_MARKERS_H

#include "dr_api.h"
#include <stdint.h>

/* The magic number of a marker instruction; 0 for all other instructions. */
uint32_t marker_of(instr_t *instr);

/* Inserts what the marker asks for. */
void marker_insert(void *drcontext, instrlist_t *block, instr_t *instr);
/* Inserts the begin or end of a region before `instr`. The program goes on at `next`, which may be that instruction: a
 * region that has begun does not begin again. */
void marker_insert_region(void *drcontext, instrlist_t *block, instr_t *instr, app_pc next, bool begins);

#endif
