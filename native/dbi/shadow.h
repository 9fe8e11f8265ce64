/* Shadow memory: for each block of the program's memory, who wrote its value and who has read it since.
 *
 * One 64-bit word a block, in one range of address space, so that a word's address is a shift and an add. A zeroed word
 * (fresh memory) says: never written, never read.
 *
 *   bits 63..50  writer + 1; 0: none
 *   bits 49..48  layout of the payload: 01 one bit for each of the tasks 0..47; 10 a group of 32 later tasks;
 *                00 nobody has read, or, with the writer field all ones, a record (below)
 *   bits 47..0   payload
 *
 * Payload of a group: bits 47..32 say which group, each bit of its 8-bit number as two bits (01 for 0, 10 for 1), and
 * bits 31..0 are its readers. So "this task has read the value" is, for every task, one question without arithmetic:
 * are all bits of its mask set? Where readers of different groups meet, the word points to a record with a full set
 * of readers: that is the only thing whose memory grows with the number of tasks, and only for blocks that many
 * really share.
 *
 * Payload of a record: bit 47 locked, bits 46..28 generation, bits 27..0 index.
 */
#ifndef COHABIT_SHADOW_H
#define COHABIT_SHADOW_H

#include "part.h"

typedef enum {
    ACCESS_READ = 1,
    ACCESS_WRITE = 2,
    ACCESS_READ_WRITE = 3,
} access_kind_t;

/* log2 of the block size. */
extern uint32_t shadow_block_shift;
/* Address of the word of block 0. */
extern uint64_t shadow_base;
/* Address space that the words have. */
extern uint64_t shadow_space_bytes;

/* How many bytes of an access lie in one of its blocks. */
static inline uint32_t
shadow_bytes_within(uint64_t block, uint64_t address, uint64_t bytes)
{
    uint64_t start = block << shadow_block_shift;
    uint64_t end = start + (1ull << shadow_block_shift);
    return (uint32_t)((end < address + bytes ? end : address + bytes) - (start > address ? start : address));
}

/* Reserves the shadow of the whole user address space. False where the address space is limited. */
bool shadow_init(uint32_t block_bytes);

/* The task's mask and exact word. */
void shadow_init_task(task_t *task);

/* The task's last write was checked, but faulted: the block is again as it was before. Where the fault is answered and
 * the write tried again it is checked again. What a set of many readers held is not brought back. */
void shadow_undo_write(task_t *me, uint64_t address);
/* The same for its last read, where few tasks had read the block. */
void shadow_undo_read(task_t *me, uint64_t address);
/* What was read and written until now has happened. */
void shadow_settle_undo(task_t *me);

/* Every block starts clean again. */
void shadow_clear_all(void);

/* Blocks that lie in a range of addresses start clean. Blocks at its ends that it covers in part are kept. */
void shadow_clear(uint64_t start, uint64_t bytes);

/* Only communication through these ranges is counted from now on (cohabit_only). */
void shadow_only(uint64_t start, uint64_t bytes);

/* The slow path: one access of any size by a task. */
void shadow_access(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind);

/* Whether the block's state would be left as it is by this access; what the inline checks ask. */
bool shadow_settled(const task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind);

#endif
