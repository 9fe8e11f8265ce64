/* From a function to its caller, by the unwind tables of its module (.eh_frame). */
#ifndef COHABIT_UNWIND_H
#define COHABIT_UNWIND_H

#include "dr_api.h"
#include <stdint.h>

/* Where a function stands: a return address, or the address of an instruction, and what the registers were there. */
typedef struct {
    uint64_t pc;
    uint64_t sp;
    uint64_t bp;
} registers_t;

/* Where its caller will go on. False where the tables do not say it, or the stack cannot be read. */
bool unwind_step(registers_t *at);

/* A module was loaded: what was known of the addresses it lies at is void. */
void unwind_loaded(const module_data_t *module);
/* After fork, in the child: no other thread is there that looks something up. */
void unwind_fork(void);

#endif
