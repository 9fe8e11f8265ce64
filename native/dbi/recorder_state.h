/* What the recorder's parts have in common (recorder.h). */
#ifndef COHABIT_RECORDER_STATE_H
#define COHABIT_RECORDER_STATE_H

#include "recorder_code.h"

/* Where a task was when it wrote: its number << POSITION_BITS | position. */
#define POSITION_BITS 47
/* Of a block that tasks wait at, in the table of the process. */
#define WAITED_AT (1ull << (POSITION_BITS - 1))
#define POSITION_MASK (((1ull << POSITION_BITS) - 1) & ~WAITED_AT)

struct recorder {
    uint64_t **next;    /* thread-local slots that inserted code uses */
    uint64_t **segment; /* the entry of the segment under way */
    uint64_t *position; /* behind that segment */
    uint64_t *buffer;
    bool ending; /* what is done is the last */
    /* Where an atomic instruction is under way: the position of the block's last writer, whether its number is that in
     * the run, and the access's number in the segment. */
    uint64_t *atomic_write;
    bool atomic_shared;
    bool at_futex; /* what is accessed is the word of a futex */
    uint32_t atomic_order;
    uint64_t *in_run; /* where the task is, for other processes (recorder_shared.c); NULL: nowhere */
    struct channel *sending; /* by the system call under way (recorder_channels.c), else NULL */
    uint64_t sending_first; /* numbers of the pieces: the first, and behind the last */
    uint64_t sending_last;
    uint64_t sending_units; /* 0: bytes */
    uint64_t polled_ns; /* how long it has waited for descriptors last, where it is not known yet for whom */
    coder_t coder;
};

/* The image uses the channel of that number in the run, + 1. */
void recorder_uses_channel(uint64_t number);
void recorder_add_event(task_t *me, uint32_t event, uint64_t first, const uint64_t *others, uint32_t count);
/* Waits for the write: COHABIT_EVENT_WAIT or COHABIT_EVENT_WAIT_IN_RUN. */
void recorder_add_wait(task_t *me, uint32_t event, uint64_t write);
/* The same for what a system call waited for. */
void recorder_add_wait_of_call(task_t *me, uint32_t event, uint64_t write);
/* The position behind the access under way. */
uint64_t recorder_position(const task_t *me);
/* 0, or the number of the access under way within its segment, + 1. */
uint64_t recorder_order(const task_t *me);

#endif
