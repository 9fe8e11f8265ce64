/* The calls under way in the program, from what lies on its stack. */
#ifndef COHABIT_CALLSTACK_H
#define COHABIT_CALLSTACK_H

#include "allocations.h"

/* `innermost` is known exactly; the frames beyond it are looked for from `stack` on (callstack.c says how). */
void callstack_walk(uint64_t innermost, uint64_t stack, frames_t *frames);

#endif
