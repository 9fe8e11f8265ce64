/* Memory that other processes can map too: MAP_SHARED of files (POSIX shared memory and memfd are files) and of
 * nothing, which children inherit, and System V segments. Told apart by what is mapped, so that it is the same memory
 * wherever processes have it mapped, and however often.
 *
 * The words of such blocks in the process's own shadow stay zero: then every check fails, and the slow path, where it
 * finds a zero, asks here. Other memory has a zero only before it is touched first, and so pays nothing.
 */
#ifndef COHABIT_MAPPINGS_H
#define COHABIT_MAPPINGS_H

#include "reader_sets.h"

bool mappings_init(void);
void mappings_fork(void);

extern bool mappings_some;
/* Whether the process ever mapped such memory. */
static inline bool
mappings_any(void)
{
    return __builtin_expect(__atomic_load_n(&mappings_some, __ATOMIC_RELAXED), 0);
}

/* Whether the address is of such memory. */
bool mappings_hold(uint64_t address);

/* The word of a block of such memory (common.h); NULL where the block is the process's own. */
word_t *mappings_word(task_t *me, uint64_t block);

/* A system call is about to be made, or was made and succeeded: what it maps, moves, unmaps or cuts off. The words of
 * addresses that are mapped again are zeroed by the caller. */
void mappings_before(task_t *me, int number, const uint64_t *argument);
void mappings_after(task_t *me, int number, const uint64_t *argument, uint64_t result);
/* The same, and it failed. */
void mappings_failed(task_t *me, int number, const uint64_t *argument);

#endif
