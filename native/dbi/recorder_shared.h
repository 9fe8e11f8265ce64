/* Recording memory that processes share, and what one process copies from or to another's (recorder.h).
 *
 * Memory that processes share is recorded by the addresses that each process has it at. What lies there is told by
 * versions of the process's mappings (mappings.c): the file has all changes, and each task says from where on its
 * addresses are by which version. It says so at its first access of memory whose place changed: the words of such
 * memory are zero, and so the slow path looks them up. Whoever reads the recording gives the memory one address in all
 * processes.
 *
 * Beside the words of such blocks (common.c) lies for each of them where its writer was when it wrote.
 */
#ifndef COHABIT_RECORDER_SHARED_H
#define COHABIT_RECORDER_SHARED_H

#include "recorder.h"
#include "reader_sets.h"

/* An image begins to be recorded, in a process that may have been another image before. Its number in the run, + 1; 0:
 * none. */
uint32_t recorder_shared_image(void);
/* That number. */
uint32_t recorder_shared_number(void);
/* A task begins, or makes a system call: where it is. */
void recorder_shared_task(task_t *me);
void recorder_shared_position(task_t *me);
/* Waits while the task is ahead of those of other processes, by accesses, those that poll counted. Where tasks share
 * cores, whoever has one would else run ahead until its slice is over, and what waits for others would find what they
 * did at other times than on a machine with a core for each. */
void recorder_shared_keep_step(task_t *me);
/* The task may sleep in a system call, and nobody waits for it; or it is back. */
void recorder_shared_away(task_t *me, bool away);

/* The task, which is recorded, is the first time about to read what another wrote to the block whose word is `at`
 * (common.h). */
void recorder_reads_shared(task_t *me, const word_t *at);
/* The task is about to write to it. */
void recorder_writes_shared(task_t *me, const word_t *at);

/* The mappings have a new version, by this change. One change at a time, and before anybody sees the version. */
void recorder_mapping(const cohabit_mapping_t *change);
/* What the task, which is recorded, does from now on, the access under way counted, is by this version. */
void recorder_mappings(task_t *me, uint64_t version);
/* So much of an object starts clean. */
void recorder_cleared(task_t *me, uint64_t object, uint64_t start, uint64_t end);

/* process_vm_readv, or process_vm_writev where `writes`, of these arguments copied so many bytes: what it did to the
 * memory of the other process. False where that is this process itself, or one that is not recorded. */
bool recorder_copied(task_t *me, const uint64_t *argument, uint64_t bytes, bool writes);
/* The task waits for what the tasks of a process did before their last system calls. */
void recorder_wait_for_process(task_t *me, uint32_t pid);

#endif
