/* What the processes of a run know together of the memory that they share: one file, mapped by all of them.
 *
 * Memory is known by what is mapped (mappings.h), not by address: each object is cut into segments, and each segment
 * has room in the file for a word a block. The words are those of shadow.h, with tasks numbered over the whole run;
 * where readers of different groups meet the word points to a record in the file. Tasks get such a number when they
 * first touch memory of this kind, so that programs without it know nothing of this.
 *
 * A process may be killed at any instruction, and the others go on: there are no locks here. Whatever changes, changes
 * by one compare-and-swap, and a record is never changed while a word points to it: a reader is added by a copy of the
 * record that has it. What a killed process leaves behind is a record that nobody uses.
 */
#ifndef COHABIT_COMMON_H
#define COHABIT_COMMON_H

#include "reader_sets.h"

/* Bytes of a segment of the program's memory. */
#define COMMON_SEGMENT_BYTES (1ull << 24)

/* Maps the file in `directory`, and says so in the part where there is none. False where there is no memory. */
bool common_open(const char *directory);
/* In the part of a forked child too. */
void common_fork(void);
/* Whether there is such a file. */
bool common_there(void);

/* Gives the task its number in the run, where it has none yet. False where there are none left. */
bool common_number(task_t *me);
/* How many there are. */
uint32_t common_tasks(void);
/* A number that no other object of the run has. */
uint64_t common_new_object(void);
/* The words of a segment of an object, made where `make`; NULL where there are none. */
word_t *common_segment(uint64_t object, uint64_t number, bool make);
/* Blocks of an object from `start` to `end`, bytes of the object, start clean: nobody has them mapped, or they are
 * gone. */
void common_clear(uint64_t object, uint64_t start, uint64_t end);

/* A read of `bytes` bytes, or a write, in the block whose word is `at`; counted where `counts`. */
void common_read(task_t *me, word_t *at, uint64_t block, uint32_t bytes, bool counts);
void common_write(task_t *me, word_t *at, uint64_t block, bool counts);
/* The task's last write, or read, of the word has not happened after all. */
void common_undo_write(task_t *me, bool counts);
void common_undo_read(task_t *me);

/* A number of the block that is the same in all processes. */
uint64_t common_block(const word_t *at);
/* What lies in the file for processes that are recorded (recorder_shared.c): from here to the segments, and to the
 * records. */
#define COMMON_IMAGES_AT (1ull << 16)
#define COMMON_IMAGES_BYTES (1ull << 19)
#define COMMON_TASKS_AT (1ull << 24)
#define COMMON_CHANNELS_AT (1ull << 26)
/* The place in the file, made to exist; NULL where there is no space for it. Not for more than lies in 32 KiB. */
void *common_room(uint64_t at);
/* For a block's word another one: where its writer was when it wrote (recorder.h). NULL where there is no space for
 * it. */
uint64_t *common_position(const word_t *at);

/* Makes one order of the streams of all processes (stream.c); a lock that a killed process does not give back. */
int *common_stream_lock(void);
/* A time later than all before it; the lock is held. */
uint64_t common_stream_ticks(uint64_t now);

#endif
