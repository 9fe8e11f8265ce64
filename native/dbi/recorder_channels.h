/* Recording what tasks send one another through pipes and sockets (recorder.h).
 *
 * The kernel keeps what is on its way in memory of its own, which whoever sends writes and whoever receives reads. It is
 * recorded as such: each direction of a channel is some memory, used from its begin to its end and from its begin again.
 * Whoever receives waits until the sender has written there; that a sender waits for room is left out.
 * What is received comes in the order in which it was sent, so a channel is known by how many bytes went in, in which
 * pieces, and how many came out. All processes of the run know it together (common.h), by the pipe's inode, by the inodes
 * of two connected UNIX sockets, by two addresses of TCP, or by an eventfd's number.
 *
 * Not seen: datagrams that may be lost (UDP), sockets that are not connected, sendmmsg(2) and recvmmsg(2), message
 * queues, io_uring(7), and files that are written and read.
 */
#ifndef COHABIT_RECORDER_CHANNELS_H
#define COHABIT_RECORDER_CHANNELS_H

#include "part.h"

/* A system call with the arguments me->syscall_args begins, and has ended; its result is negative where it failed. */
void recorder_channels_before(task_t *me, int number);
void recorder_channels_after(task_t *me, int number, int64_t result);
/* A call that waits for several descriptors took so long. Where something is received from a task of the run before the
 * next such call, it was that which the task waited for, and no time has passed by itself. `timed_out`: none of them
 * was ready. */
void recorder_channels_polled(task_t *me, uint64_t ns, bool timed_out);
/* The task ends: what it waited for last was outside of the run. */
void recorder_channels_end(task_t *me);

#endif
