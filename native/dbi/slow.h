/* Where a failed check ends up. */
#ifndef COHABIT_SLOW_H
#define COHABIT_SLOW_H

#include "part.h"

/* Set in the number of a group by the checks of sharing_emit.c: only who touched its blocks is asked. */
#define SLOW_SHARING 0x40000000u

/* Takes the pieces of a group, in program order, to the detector. Called with the program's vector registers live. */
void slow_path(task_t *me, uint64_t address, uint64_t group);

#endif
