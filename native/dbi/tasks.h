/* The program's threads as tasks: made when they start, numbered in the order they were created. */
#ifndef COHABIT_TASKS_H
#define COHABIT_TASKS_H

#include "part.h"

/* Watches threads and forks. */
void tasks_init(void);

/* Before a system call that makes a thread or a process. */
void tasks_makes(const task_t *me, bool thread);
/* A thread, or a child that shares the memory, was made by a system call of the calling thread's. */
void tasks_made(void);

/* Before a thread ends: DynamoRIO ends the process with the last thread that it knows of, and one that was made just
 * now it does not know yet. Waits until all have begun. */
void tasks_wait_begun(void);

#endif
