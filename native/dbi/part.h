/* The part file: what one program image leaves behind (abi.h), and the tasks that are counted in it. */
#ifndef COHABIT_PART_H
#define COHABIT_PART_H

#include "../abi.h"
#include <stdbool.h>
#include <stddef.h>

/* What the profiler keeps of a task beside the shared record: private to the task's own thread but for `shared`. */
typedef struct task {
    uint64_t read_mask;  /* bits of a shadow word that are all set once this task has read the block (shadow.h) */
    uint64_t *mask_slot; /* thread-local copies of these two, which inserted code reads (slots.h) */
    uint64_t *exact_slot;
    bool suspect; /* the copies are such that no check passes (vectors.h) */
    uint64_t exact_word; /* the shadow word right after a write by this task */
    uint32_t id;
    uint32_t until_sample; /* messages until the next one that is sampled (hot.c) */
    uint64_t pc;           /* of the access under way, where hot blocks are followed; 0 where it is not known */
    uint64_t random;       /* state of the generator that spaces the samples */
    uint32_t samples;      /* taken so far */
    uint32_t interval;     /* at which the next one is taken, on average */
    uint64_t object_start; /* the heap block that was met last (objects.c) */
    uint64_t object_bytes;
    uint64_t object_version;
    uint64_t object_record;
    cohabit_task_t *shared;
    uint64_t window_end; /* tick, or instruction, at which the window under way ends */
    cohabit_cell_t **rows[COHABIT_DIRECTORIES];
    uint32_t *touched; /* partners with counts in the window under way */
    uint32_t touched_count;
    uint32_t touched_capacity;
    void *scratch; /* of the planner */
    uint64_t stack_top; /* of the stack the slow path runs on */
    void *stack;
    uint64_t syscall_args[6];
    uint64_t syscall_pc; /* where hot blocks are followed */
    uint64_t clone_flags;
    uint64_t idle_since_ns; /* where what it does is recorded */
    uint64_t syscall_since_ns; /* interrupted.c */
    uint32_t flushes_seen;
    bool syscall_again;
    uint64_t last_write_block; /* of the last write that changed a word, and what the word was */
    uint64_t last_write_word;
    uint64_t last_read_block; /* of the last read that changed a word, what the word was, and what was counted */
    uint64_t last_read_word;
    uint32_t last_read_writer;
    uint32_t last_read_bytes;
    uint64_t *last_write_common; /* the words, where the blocks are of memory shared between processes, else NULL */
    uint64_t *last_read_common;
    bool in_mpi; /* between the markers of the library for MPI ranks: what it does there in common memory is not counted */
    uint64_t common_mask; /* as read_mask and exact_word, for such memory; 0 before the task touches any */
    uint64_t common_exact;
    uint32_t common; /* its number there */
    struct {         /* where such memory lies: found lately (mappings.c) */
        uint64_t version;
        uint64_t first; /* blocks */
        uint64_t end;
        uint64_t *words;
    } mapped[4];
    struct { /* of the memory that a system call under way maps again or gives up */
        uint64_t object;
        uint64_t offset;
        uint64_t end;
    } remapped;
    uint64_t string_from; /* registers before a string instruction that may stop early */
    uint64_t string_to;
    uint64_t string_count;
    uint64_t mappings_seen;    /* the version of the mappings by which it is recorded (mappings.c) */
    struct recorder *recorder; /* where what it does is recorded (recorder.h) */
    uint32_t order;            /* number of the access under way within its segment, or none */
    bool atomic;               /* that access is an atomic one */
    struct task *next_live;
    struct task *previous_live;
} task_t;

/* Creates the part file and maps it. False, with a message, where the directory cannot be written. */
bool part_open(const char *directory, uint64_t ticks_per_second, uint64_t window_ns, uint64_t window_instructions,
               uint32_t block_bytes, uint64_t series_bound);

/* After fork, in the child: a part of its own. */
bool part_reopen(void);

/* The head of the part. */
cohabit_part_t *part(void);

/* Address of an offset in the part. */
void *part_at(uint64_t offset);

/* Zeroed room in the part; its offset, or 0 when the file cannot grow (flagged in the head). */
uint64_t part_alloc(uint64_t bytes);

/* Registers the task with this thread id, once, whoever sees it first: its creator or itself. Its slot. */
uint32_t part_register(uint32_t tid, uint32_t parent);

/* The record of a task; NULL where there was no room for it. */
cohabit_task_t *part_task(uint32_t id);

/* The counter of blocks of this shape; 0 once the table is full. `spins`: their loads wait (spins.h). */
uint32_t part_shape(uint32_t loads, uint32_t stores, uint32_t bytes, bool spins);

/* The cell of `me` for a partner; NULL when the file cannot grow. */
cohabit_cell_t *part_cell(task_t *me, uint32_t partner);

/* Instructions of the task up to the end of the block it is in, where windows are of instructions. Counted on from
 * those of the task that made it. */
uint64_t *part_instructions(const task_t *me);
/* What the calling thread's task has accessed so far. */
uint64_t part_accessed_bytes(const task_t *me);

/* Counts a message from `writer` read by `me`, in total and in the window under way. */
void part_count_message(task_t *me, uint32_t writer, uint32_t bytes);
/* Takes one back that was counted last. */
void part_uncount_message(task_t *me, uint32_t writer, uint32_t bytes);

/* Ends the window under way: its counts become rows of the series. */
void part_flush_window(task_t *me);

#endif
