/* Through which data messages go: they are sampled, and blocks that come up often are followed (follow.h). */
#ifndef COHABIT_HOT_H
#define COHABIT_HOT_H

#include "part.h"

bool hot_init(void);
/* After fork: the part is another, and nothing is hot in it. */
void hot_fork(void);

/* A message that is looked at. */
void hot_take_sample(task_t *me, uint64_t block, uint64_t address, bool may_follow);

/* A message was counted through a block, by a read at `address`. Blocks of memory that processes share are not
 * followed. */
static inline void
hot_sample(task_t *me, uint64_t block, uint64_t address, bool may_follow)
{
    if (me->until_sample-- == 0)
        hot_take_sample(me, block, address, may_follow);
}

#endif
