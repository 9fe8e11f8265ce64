/* System calls that the profiler itself interrupted: the program must not notice. */
#ifndef COHABIT_INTERRUPTED_H
#define COHABIT_INTERRUPTED_H

#include "part.h"

/* Before and after each system call. The second is true where the call is made again, or its result was set. */
void interrupted_before(task_t *me);
bool interrupted_after(void *drcontext, task_t *me, int number, int64_t result);

#endif
