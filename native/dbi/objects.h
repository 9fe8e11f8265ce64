/* Data objects that are communicated through: a symbol, all memory that one place in the program allocates, a stack. */
#ifndef COHABIT_OBJECTS_H
#define COHABIT_OBJECTS_H

#include "part.h"

/* What lies at an address: its record's offset in the part, 0 where the part is full, and the allocation, 0 for
 * none. */
typedef struct {
    uint64_t record;
    uint64_t allocation;
    uint64_t allocation_bytes;
} place_t;

bool objects_init(void);
/* After fork: the part is another, and no object has a record in it. */
void objects_fork(void);

place_t objects_find(task_t *me, uint64_t address);

#endif
