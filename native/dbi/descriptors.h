/* close_range(2), of which DynamoRIO looks at every number in the range, open or not: from 3 to the greatest number
 * there is that takes a minute, or for ever. */
#ifndef COHABIT_DESCRIPTORS_H
#define COHABIT_DESCRIPTORS_H

#include "part.h"

void descriptors_init(void);

/* close_range is about to be made: its range ends with the last open descriptor of the program's. */
void descriptors_before(void *drcontext, task_t *me);
/* It was made: the register is what it was, and a failure what the kernel says. */
void descriptors_after(void *drcontext, const task_t *me, int64_t result);

#endif
