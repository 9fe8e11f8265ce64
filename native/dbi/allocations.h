/* Memory the program has allocated right now, and the calls that asked for it: heap blocks and mappings. */
#ifndef COHABIT_ALLOCATIONS_H
#define COHABIT_ALLOCATIONS_H

#include "part.h"

/* Return addresses, innermost first; 0 behind the last. */
typedef struct {
    uint64_t frames[COHABIT_HOT_STACK];
} frames_t;

bool allocations_init(void);

/* Notes a new allocation. `kind` is COHABIT_ALLOCATION_HEAP or _MAPPING. */
void allocations_add(uint64_t start, uint64_t bytes, uint32_t kind, const frames_t *stack);

/* The heap block that starts there is gone; false where none is known. */
bool allocations_remove(uint64_t start);

/* All mappings that start within a range are gone: it was unmapped. */
void allocations_unmapped(uint64_t start, uint64_t bytes);

/* Fills in the allocation that `address`, in the block of a record, lies in; a heap block rather than the mapping
 * around it. */
void allocations_describe(cohabit_hot_t *hot, uint64_t address);

#endif
