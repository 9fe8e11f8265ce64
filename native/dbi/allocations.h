/* Memory the program has allocated right now, and the calls that asked for it: heap blocks and mappings. */
#ifndef COHABIT_ALLOCATIONS_H
#define COHABIT_ALLOCATIONS_H

#include "part.h"

/* Return addresses, innermost first; 0 behind the last. */
typedef struct {
    uint64_t frames[COHABIT_HOT_STACK];
} frames_t;

bool allocations_init(void);
/* After fork, in the child: memory is what it was, but no other thread is there. */
void allocations_fork(void);

/* Notes a new allocation. `kind` is COHABIT_OBJECT_HEAP or _MAPPING. */
void allocations_add(uint64_t start, uint64_t bytes, uint32_t kind, const frames_t *stack);

/* The heap block that starts there is gone; false where none is known. */
bool allocations_remove(uint64_t start);

/* A range was unmapped: mappings in it are gone, or what of them lies outside it is left. */
void allocations_unmapped(uint64_t start, uint64_t bytes);

/* An allocation, and the number of the call stack that asked for it: less than ALLOCATION_STACKS. */
#define ALLOCATION_STACKS (1u << 16)
typedef struct {
    uint64_t start;
    uint64_t bytes;
    uint32_t kind;
    uint32_t stack;
} allocation_t;

/* The allocation that an address lies in; a heap block rather than the mapping around it. False where it lies in
 * none. */
bool allocations_find(uint64_t address, allocation_t *found);
const frames_t *allocations_stack(uint32_t number);

/* Another number once anything was allocated or freed. */
uint64_t allocations_version(void);

#endif
