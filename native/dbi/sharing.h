/* The sharing matrix: blocks that two tasks both touched, reading or writing, within one window, summed over windows.
 *
 * A second shadow: for each block the window it was last touched in, and who touched it since that window began.
 *
 *   bits 63..50  window, 1 to WINDOWS; 0: never touched
 *   bits 49..48  layout of the payload, and
 *   bits 47..0   payload: as in shadow.h, but that a record (layout 00) is bit 47 locked, bits 46..0 its offset / 64
 *
 * The word before that of block 0 is "touched by everybody in the window under way", so that the check of
 * sharing_emit.c asks of a word with one exclusive or: is the window this one, and is my bit set?
 */
#ifndef COHABIT_SHARING_H
#define COHABIT_SHARING_H

#include "shadow.h"

#define SHARING_WINDOW_SHIFT 50

/* Address of the word of block 0. */
extern uint64_t sharing_base;

/* Reserves the second shadow; windows begin. False where there is no address space for it. */
bool sharing_init(void);
/* After fork, in the child: windows go on in it too. */
void sharing_fork(void);

/* What an inline check tests in (word ^ everybody): no bit is set where the task has touched the block. */
uint64_t sharing_mask(const task_t *task);

/* One access of any size. */
void sharing_access(task_t *me, uint64_t address, uint64_t bytes);

/* Blocks [first, end) start clean; all do. */
void sharing_clear(uint64_t first, uint64_t end);
void sharing_clear_all(void);

/* If the window is over by now, the next one begins. Called by the clock, and wherever somebody notices. */
void sharing_tick(void);
/* The process ends: nobody waits for anybody any more. */
void sharing_end(void);

#endif
