/* Thread-local slots that inserted code uses, and the routines it jumps to. */
#ifndef COHABIT_SLOTS_H
#define COHABIT_SLOTS_H

#include "part.h"
#include "dr_api.h"

typedef enum {
    SLOT_MASK,
    SLOT_EXACT,
    SLOT_BIAS, /* what turns an address into the place of its shadow word */
    SLOT_SHARING,
    SLOT_COUNTERS,
    SLOT_TASK,
    SLOT_ADDRESS,
    SLOT_GROUP,
    SLOT_RETURN,
    SLOT_BACK, /* where the program goes on after a failed check */
    SLOT_STACK_POINTER, /* the program's, during the slow path */
    SLOT_STACK,
    SLOT_PENDING, /* where it is seen that a signal waits (delivery.h) */
    SLOT_ITERATIONS, /* of a loop, before its check ahead is tried again (loops.h) */
    SLOT_RECORD,     /* the next free word of the buffer, and where it is full (recorder.h) */
    SLOT_RECORD_END,
    SLOT_SEGMENT,    /* the entry of the segment under way */
    SLOT_POSITION,   /* accesses made, those of that segment counted */
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

/* Points the calling thread's slots to a task. */
void slots_init_thread(task_t *me);
/* What the thread's checks ask for: its mask and exact word, or such that none passes where accesses are recorded. */
void slots_settle(task_t *me);
/* The task of the calling thread. */
task_t *slots_current_task(void);

/* Makes a routine that saves what C code may change, switches to the thread's own stack, calls `target` with
 * SLOT_TASK, SLOT_ADDRESS and SLOT_GROUP, and goes on at SLOT_RETURN. The slot `back` has where in a fragment that leads.
 * NULL where there is no memory for it. */
byte *routine_make(routine_target_t *target, slot_t back);
void routine_free(byte *routine);

#endif
