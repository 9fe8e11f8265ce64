/* The program's threads as tasks: made when they start, numbered in the order they were created. */
#ifndef COHABIT_TASKS_H
#define COHABIT_TASKS_H

#include "part.h"

/* Watches threads and forks. */
void tasks_init(void);

#endif
