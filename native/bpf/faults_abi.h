/* Records that the eBPF programs of faults.bpf.c share with Rust. crates/online/src/faults/abi.rs is generated from
 * this header (`make abi`), and a test compares the two. Included by C for BPF and by bindgen alike: fixed-width types,
 * explicit padding, no pointers.
 *
 * SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 */
#ifndef COHABIT_FAULTS_ABI_H
#define COHABIT_FAULTS_ABI_H

typedef unsigned char cohabit_u8;
typedef unsigned short cohabit_u16;
typedef unsigned int cohabit_u32;
typedef unsigned long long cohabit_u64;

/* The last tasks of a block, as in CDSM (Table 1: 4 recent tasks of 16 bits each), packed in one word: the most recent
 * in the low bits; 0 is nobody, so what is packed is a slot plus 1. */
#define COHABIT_RECENT_TASKS 4u
#define COHABIT_RECENT_BITS 16u
/* Slots of tasks that live, or whose counts have not been collected yet. A slot is used again after all others. */
#define COHABIT_MAX_SLOTS 65535u

/* Where in a page a task of a block's recent ones has faulted: the first and the last of the page's blocks, 8 bits
 * each, in the order of the tasks. Blocks have 16 bytes and more, so that a page has 256 at most. */
#define COHABIT_SPAN_BITS 8u

/* Blocks that share one line of the table. */
#define COHABIT_WAYS 4u

/* Ranges of shared mappings kept a process; the rest counts as ranges_lost in user space. */
#define COHABIT_MAX_RANGES 256u
#define COHABIT_RANGES_LOG2 8u

/* What became of a page fault: indices of the per-CPU counters. */
#define COHABIT_COUNT_FAULTS 0u       /* of followed tasks, all that follow included */
#define COHABIT_COUNT_CODE 1u         /* instruction fetches: not counted further */
#define COHABIT_COUNT_PRIVATE 2u      /* memory that cannot be shared: a process with one thread, not a shared mapping */
#define COHABIT_COUNT_EVENTS 3u       /* communication events: pairs credited */
#define COHABIT_COUNT_NEW_BLOCKS 4u   /* blocks seen for the first time, or again after eviction */
#define COHABIT_COUNT_EVICTIONS 5u    /* blocks pushed out of the table */
#define COHABIT_COUNT_PAIRS_LOST 6u   /* events of pairs that found no room in the matrix */
#define COHABIT_COUNT_RACES 7u        /* faults given up after losing the same block again and again */
#define COHABIT_COUNT_TASKS_LOST 8u   /* tasks not followed: no slot or no room for the event */
#define COHABIT_COUNT_ENDS_LOST 9u    /* ends of tasks that nobody was told of */
#define COHABIT_COUNT_SAMPLES_LOST 10u /* samples that found no room in their ring */
#define COHABIT_COUNT_COPIED 11u       /* bytes that processes copied from or to others */
#define COHABIT_COUNTERS 12u

/* cohabit_task_event.kind */
#define COHABIT_TASK_STARTED 1u
#define COHABIT_TASK_ENDED 2u
#define COHABIT_TASK_EXEC 3u /* the task's process runs another program now: other name, other mappings */

/* What user space is told of a task, in the order in which it happened. */
struct cohabit_task_event {
    cohabit_u32 kind;
    cohabit_u32 slot;
    cohabit_u32 tid;
    cohabit_u32 process;     /* thread group id */
    cohabit_u32 parent_slot; /* of the task that created it; its own where user space named it */
    cohabit_u32 former_tid;  /* exec by another thread than the main one: the id it had before */
    cohabit_u64 time_ns;     /* CLOCK_MONOTONIC */
};

/* A line of the block table. */
struct cohabit_block_line {
    cohabit_u64 key[COHABIT_WAYS]; /* 0: empty */
    cohabit_u64 recent[COHABIT_WAYS];
    cohabit_u64 spans[COHABIT_WAYS];
};

/* What a fault says: who used memory next, or who wrote to it next. */
#define COHABIT_USED 0u
#define COHABIT_WRITTEN 1u
/* And what one task copied from or to the other's process, in bytes. */
#define COHABIT_COPIED 2u
#define COHABIT_KINDS 4u /* a power of two */

/* What was seen of a pair of tasks, by how: events of faults, and bytes. */
struct cohabit_events {
    cohabit_u64 of_kind[COHABIT_KINDS];
};

/* A shared mapping in one process. Two processes that map the same object get the same keys for the same bytes. */
struct cohabit_range {
    cohabit_u64 start;
    cohabit_u64 end;
    cohabit_u64 object; /* hash of device and inode; a block's key is made of it and the offset in the object */
    cohabit_u64 offset; /* of `start` in the object */
};

struct cohabit_ranges {
    cohabit_u32 count;
    cohabit_u32 padding;
    struct cohabit_range range[COHABIT_MAX_RANGES]; /* ascending, disjoint */
};

/* Bytes of code that come with a sample: half of them before the instruction that the task runs next, where a loop may
 * have begun. Only a few from there on where that much reaches into a page that is not there. */
#define COHABIT_CODE_BYTES 256u
#define COHABIT_CODE_BYTES_AT_LEAST 16u
#define COHABIT_REGISTERS 16u

/* Delays after a switch to a task, at which it can be sampled: 1024 << n ns and at most as much again. */
#define COHABIT_DELAYS 10u
#define COHABIT_BY_TICK 255u
/* The delays that are drawn from. */
#define COHABIT_DELAYS_DRAWN 16u

/* A task's registers where a timer has interrupted its own code (not the kernel's), and what it runs next. */
struct cohabit_sample {
    cohabit_u64 time_ns; /* CLOCK_MONOTONIC */
    cohabit_u32 slot;
    cohabit_u32 process;
    cohabit_u64 instruction;                 /* its address */
    cohabit_u64 registers[COHABIT_REGISTERS]; /* by the numbers that instructions have for them: ax, cx, dx, bx, sp, bp, si, di, r8 to r15 */
    cohabit_u64 code_start;                  /* the address of the first byte of the code */
    cohabit_u32 code_bytes;                  /* how many there are */
    cohabit_u32 delay;                       /* COHABIT_BY_TICK, or which of the delays after a switch to the task */
    cohabit_u8 code[COHABIT_CODE_BYTES];
};

/* Set by user space before the programs are loaded. */
struct cohabit_fault_settings {
    cohabit_u64 line_mask; /* lines of the block table, a power of two, less 1 */
    cohabit_u64 sample_every_ns; /* so long from one sample on a PU to the next, give or take up to a half */
    cohabit_u64 switch_every_ns; /* the same for samples after switches */
    cohabit_u32 block_shift;
    cohabit_u32 most_slots; /* at most COHABIT_MAX_SLOTS */
};

/* A power of two that holds all slots. */
#define COHABIT_FREE_SLOTS 65536u

/* Set by user space while the programs run. */
struct cohabit_fault_state {
    cohabit_u32 any_shared;  /* whether a process has ranges */
    cohabit_u32 slots_given; /* slots that have been put into the ring of free ones; wraps */
    cohabit_u8 delays[COHABIT_DELAYS_DRAWN]; /* less than COHABIT_DELAYS each: how long after a switch samples are taken */
};

/* A task to follow from now on, or no longer, handed to the programs `follow` and `unfollow`. */
struct cohabit_follow {
    cohabit_u32 tid;
    cohabit_u32 process;
};

/* What `follow` answers. */
#define COHABIT_FOLLOWED 0u
#define COHABIT_FOLLOWED_BEFORE 1u
#define COHABIT_NOT_FOLLOWED 2u /* no slot, or no room for the event */

/* A PU of which the timer is to be made ready, handed to the `ready_timer` program, and what that answers. */
struct cohabit_timer {
    cohabit_u32 pu;
};
#define COHABIT_READY 0u
#define COHABIT_NOT_READY 1u

/* A fault handed to the detector by a test, through the `replay` program. */
struct cohabit_replay {
    cohabit_u64 memory; /* what the key is made of (detect.h, key_of) */
    cohabit_u64 byte;
    cohabit_u32 shift;
    cohabit_u32 slot;
    cohabit_u32 block; /* in its page, where the key is a page's; else 0 */
    cohabit_u32 kind;  /* COHABIT_USED or COHABIT_WRITTEN */
};

#endif
