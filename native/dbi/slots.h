/* Thread-local slots that inserted code uses, and the routines it jumps to. */
#ifndef COHABIT_SLOTS_H
#define COHABIT_SLOTS_H

#include "part.h"
#include "dr_api.h"

typedef enum {
    SLOT_MASK,
    SLOT_EXACT,
    SLOT_SHARING,
    SLOT_COUNTERS,
    SLOT_TASK,
    SLOT_ADDRESS,
    SLOT_GROUP,
    SLOT_RETURN,
    SLOT_STACK_POINTER, /* the program's, during the slow path */
    SLOT_STACK,
    SLOT_SUSPECT, /* the vector registers may be dirty (vectors.h) */
    SLOTS
} slot_t;

/* Called with the program's vector registers live: compiled without them. */
typedef void routine_target_t(task_t *me, uint64_t address, uint64_t group);

bool slots_init(void);
void slots_exit(void);

/* The slot as an operand. */
opnd_t slot(void *drcontext, slot_t number);
/* The calling thread's slot. */
void **slot_address(slot_t number);

/* Makes a routine that saves what C code may change, switches to the thread's own stack, calls `target` with
 * SLOT_TASK, SLOT_ADDRESS and SLOT_GROUP, and goes on at SLOT_RETURN. NULL where there is no memory for it. */
byte *routine_make(routine_target_t *target);
void routine_free(byte *routine);

#endif
