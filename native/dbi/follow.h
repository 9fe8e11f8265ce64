/* Followed blocks: blocks through which much is communicated, each access of which comes to the slow path for a while,
 * so that its sites are known, and whether readers read what writers wrote.
 *
 * The word of a followed block points here, and its state, an ordinary word, is kept here: counts stay what they are.
 */
#ifndef COHABIT_FOLLOW_H
#define COHABIT_FOLLOW_H

#include "part.h"

bool follow_init(void);

/* Follows a block from now on, with `hot` as its record. False where too many are followed already, or the block is. */
bool follow_begin(uint64_t block, cohabit_hot_t *hot);

/* A read or write of `bytes` bytes at `offset` in a block. False, with nothing done, where the block is not followed.
 * `counted` is set where the read was a message. */
bool follow_read(task_t *me, uint64_t block, uint32_t offset, uint32_t bytes, bool *counted);
bool follow_write(task_t *me, uint64_t block, uint32_t offset, uint32_t bytes);

/* The blocks of [first, end) start clean: those among them are followed no longer. */
void follow_clear(uint64_t first, uint64_t end);
void follow_clear_all(void);

#endif
