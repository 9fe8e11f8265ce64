/* Keeps DynamoRIO from slowing down programs made of legacy SSE instructions. */
#ifndef COHABIT_VECTORS_H
#define COHABIT_VECTORS_H

#include "part.h"

void vectors_init(void);

/* DynamoRIO has run on this thread: its next check shall fail, so that the slow path looks at the registers. */
void vectors_suspect(task_t *me);

/* In the slow path, with the program's vector registers live. */
void vectors_clean(task_t *me);

#endif
