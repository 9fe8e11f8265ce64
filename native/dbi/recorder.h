/* Recording what each task does, for the simulator and for detectors (recording_abi.h).
 *
 * Inserted code leaves the number of each segment that runs, and the addresses of its anchors, in a buffer of the task:
 * no lock, no call (recorder_emit.c). What it does else, waits and system calls among it, is put between these by the
 * slow path. A full buffer is coded into the task's chunk of the file (recorder_code.c).
 *
 * The order among tasks: where the slow path sees a task read for the first time what another wrote, the reader waits
 * for the position that the writer had then (shadow.h knows the writer, a table beside it the position). Both are in
 * the past of the read, so waits never form a circle. A task that is preempted between a check and its load may read
 * what was written meanwhile, and not be seen to wait: it is when it reads the block next.
 */
#ifndef COHABIT_RECORDER_H
#define COHABIT_RECORDER_H

#include "part.h"
#include "shadow.h"
#include "../recording_abi.h"

/* No access of a segment: what is done lies between segments. */
#define RECORDER_NO_ORDER 0xffffffffu
/* Beside the number of an access within its segment: it is atomic. */
#define RECORDER_ATOMIC 0x80000000u

/* Opens the file where recording is asked for. False, with a message, where that fails. */
bool recorder_init(void);
/* In the child of a fork. */
bool recorder_fork(void);

void recorder_begin_task(task_t *me);
/* By the task itself or, when the process ends, by the one that ends it. */
void recorder_end_task(task_t *me, bool itself);
/* A thread of the parent's, in the child of a fork: nothing is written down. */
void recorder_forget_task(task_t *me);
/* The calling task started another, or forked a process. */
void recorder_started(task_t *me, uint32_t task);
void recorder_forked(task_t *me, uint32_t pid);

/* The task is the first time about to read what `writer` wrote to the block. */
void recorder_reads(task_t *me, uint32_t writer, uint64_t block);
/* The task is about to write to the block, which it did not own, or to one that tasks wait at. */
void recorder_writes(task_t *me, uint64_t block);
/* Whether tasks wait for one another at the block: it was accessed by an atomic instruction. Each write to such a block
 * is of interest, plain stores that give a lock back among them: its word never says that it is exactly one task's. */
bool recorder_waited_at(const task_t *me, uint64_t block);
/* An access that no segment has: by an instruction of which only the run can tell, or by the kernel. */
void recorder_access(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind);
/* What is accessed until it is over is the word of a futex: tasks wait there. */
void recorder_at_futex(task_t *me, bool at);
void recorder_unmapped(uint64_t start, uint64_t bytes);
/* Something that a task did is not recorded. */
void recorder_lost(void);
void recorder_idle(task_t *me, uint64_t ns);
void recorder_phase(task_t *me, uint64_t number);

/* Behind an atomic instruction, what inserted code calls (slots.h). The check came before the instruction, and so in
 * another order than the instructions of several tasks may have had: whoever said before now that he is at the block
 * comes first. */
void recorder_behind_atomic(task_t *me, uint64_t address, uint64_t group);

/* A segment's number, the same for equal ones; COHABIT_RECORDING_MAX_SEGMENTS where there is no room. */
uint32_t recorder_intern(const cohabit_segment_t *segment, const cohabit_recorded_access_t *accesses, const uint8_t *code);

/* What inserted code jumps to when the buffer is full (slots.h). */
void recorder_full(task_t *me, uint64_t address, uint64_t group);

#endif
