/* Memory that is lent to a child (vfork(2), CLONE_VFORK): the thread that made it stands still in the kernel until the
 * child has a program of its own. Code is flushed by stopping all threads, and that one cannot be stopped: a flush by the
 * child, or one that stops the child, would wait for ever. */
#ifndef COHABIT_VFORKS_H
#define COHABIT_VFORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before and after the call that lends, in the thread that makes it; not in the child. */
void vforks_begin(void *drcontext);
void vforks_end(void);

/* After fork: what the parent lends does not count. */
void vforks_fork(void);

/* Whether memory is lent right now. */
bool vforks_under_way(void);

/* Flushes translated code when no memory is lent any more: all threads are out of it then. Does nothing in a child that
 * has its memory lent, and where no code has run there: false. */
bool vforks_flush(void *start, size_t bytes);

#endif
