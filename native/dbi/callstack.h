/* The calls under way in the program. */
#ifndef COHABIT_CALLSTACK_H
#define COHABIT_CALLSTACK_H

#include "allocations.h"
#include "unwind.h"

/* The frames from the innermost on, as far as the unwind tables of the modules lead (unwind.h). */
void callstack_walk(registers_t innermost, frames_t *frames);

#endif
