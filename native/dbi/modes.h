/* What the slow path does beside counting communication, where an option asks for it. Without any, `modes` is 0 and
 * that is all the ordinary path ever looks at.
 */
#ifndef COHABIT_MODES_H
#define COHABIT_MODES_H

#include "shadow.h"

enum {
    MODE_OFF = 1,     /* counting is off (counting.h): accesses of code that has not been flushed yet do nothing */
    MODE_RECORD = 2,  /* the access stream is recorded (stream.h) */
    MODE_SHARING = 4, /* the sharing matrix is counted (sharing.h) */
    MODE_HOT = 8,     /* hot blocks are followed (hot.h) */
};

extern uint32_t modes;

/* Prepares what the options ask for. False, with a message, where that fails. */
bool modes_init(void);
/* After fork, in the child, whose part is a new one. */
bool modes_fork(void);

void modes_set(uint32_t mode, bool to);

/* One access within the user's address space, of 1 byte at least. */
void modes_access(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind);

/* Around the clearing of the words of blocks [first, end). */
void modes_clear_begin(uint64_t first, uint64_t end);
void modes_clear_end(void);

/* All words were cleared. */
void modes_clear_all(void);

/* Communication through another range of addresses is counted (cohabit_only). */
void modes_only(uint64_t start, uint64_t bytes);

#endif
