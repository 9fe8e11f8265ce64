/* Which blocks are hot: messages are sampled, and blocks that come up often are followed (follow.h). */
#ifndef COHABIT_HOT_H
#define COHABIT_HOT_H

#include "part.h"

bool hot_init(void);
/* After fork: the part is another, and nothing is hot in it. */
void hot_fork(void);

/* The sampled one of HOT_PERIOD messages. */
void hot_take_sample(task_t *me, uint64_t block);

/* A message was counted through a block that is not followed. */
static inline void
hot_sample(task_t *me, uint64_t block)
{
    if (me->until_sample-- == 0)
        hot_take_sample(me, block);
}

#endif
