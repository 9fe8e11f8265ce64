/* The record the DynamoRIO client leaves of one program image ("part"), shared with Rust.
 *
 * A part is a file that the client maps MAP_SHARED and fills while the program runs, so that what was counted
 * survives whatever ends the program: exit, exec, a signal, kill -9. All offsets are bytes from the start of the
 * file; 0 means none. All integers are little-endian. crates/observe/src/dbi/abi.rs is generated from this header
 * (`make abi`), and a test compares the two.
 *
 * Sizes: a part grows by COHABIT_CHUNK_BYTES at a time, reserved with fallocate before use, so that a full disk is an
 * error the client sees and not a SIGBUS in the program.
 */
#ifndef COHABIT_ABI_H
#define COHABIT_ABI_H

#include <stdint.h>

#define COHABIT_PART_MAGIC 0x31545241504f4343ull /* "CCOPART1" */
#define COHABIT_PART_VERSION 8u
#define COHABIT_CHUNK_BYTES (1u << 20)

/* Tasks of one image, at most; ids are local to the part, 0 is its main thread. */
#define COHABIT_MAX_TASKS (1u << 17)
#define COHABIT_TASKS_PER_PAGE 64u
#define COHABIT_TASK_PAGES (COHABIT_MAX_TASKS / COHABIT_TASKS_PER_PAGE)
/* Partners of a task are kept in rows of this many cells, allocated when first needed. */
#define COHABIT_CELLS_PER_ROW 64u
/* Partners from this number on are tasks of the whole run, by their number there (cohabit_task.common - 1). */
#define COHABIT_COMMON_TASKS COHABIT_MAX_TASKS
#define COHABIT_ROWS ((COHABIT_COMMON_TASKS + COHABIT_MAX_TASKS) / COHABIT_CELLS_PER_ROW)
#define COHABIT_ROWS_PER_DIRECTORY 128u
#define COHABIT_DIRECTORIES (COHABIT_ROWS / COHABIT_ROWS_PER_DIRECTORY)
#define COHABIT_NO_TASK 0xffffffffu
/* Parts that a transfer is counted in: those of up to 15 holders are whole. The same as in
 * crates/detect/src/transfers.rs. */
#define COHABIT_TRANSFER_PARTS 360360u

/* Size of the file "common" beside the parts: what the processes of a run know together of the memory that they share
 * (native/dbi/common.c). Whoever starts the run makes it, sparse and all zeroes; where it is missing each process is
 * counted by itself. */
#define COHABIT_COMMON_BYTES (1ull << 42)
/* What of that memory can be kept track of: so many pieces that were touched. */
#define COHABIT_COMMON_SEGMENTS (1u << 18)

/* cohabit_part.end */
#define COHABIT_END_RUNNING 0u /* no end was seen: killed, crashed, or the machine went down */
#define COHABIT_END_EXIT 1u
#define COHABIT_END_EXEC 2u /* the image called exec and may have been replaced */

/* cohabit_part.flags */
#define COHABIT_FLAG_SHARING 1u     /* the sharing column of the cells is filled */
#define COHABIT_FLAG_SERIES 2u      /* rows of the series are there */
#define COHABIT_FLAG_NO_SPACE 4u    /* the file could not grow: counts were lost */
#define COHABIT_FLAG_TASKS_LOST 8u  /* more than COHABIT_MAX_TASKS */
#define COHABIT_FLAG_ROI_UNUSED 16u /* a region of interest was asked for and never begun */
#define COHABIT_FLAG_HOT 32u        /* hot blocks were followed */
#define COHABIT_FLAG_ALONE 64u      /* memory shared with other processes was counted as if it were not */
#define COHABIT_FLAG_SEGMENTS 128u  /* more of such memory was touched than COHABIT_COMMON_SEGMENTS hold: that is not counted */
/* Code lies in memory that others may write to unseen, and was not compared with what it was translated from: what ran
 * may be old code. */
#define COHABIT_FLAG_STALE_CODE 256u
/* What tasks may exchange data through that is no memory: made, or opened, in this image. */
#define COHABIT_FLAG_SOCKETS 512u
#define COHABIT_FLAG_PIPES 1024u  /* pipes and message queues */
#define COHABIT_FLAG_FILES 2048u  /* a file was opened to be written */
/* Windows are of instructions: `window_ticks` is so many of a task, and a row is in the window of its reader's
 * count. */
#define COHABIT_FLAG_INSTRUCTIONS 4096u
#define COHABIT_FLAG_ONLY 8192u /* only memory that the program named was counted (cohabit_only) */

/* What one task exchanged with one partner. Rows belong to the counting task: `messages` and `bytes` to the reader
 * (partner = writer), `invalidations` to the writer (partner = holder of the copy that went stale), `sharing` to the
 * later of two tasks to touch a block in a window (partner = the earlier): the symmetric matrix is, at both [a][b] and
 * [b][a], the sum of a's cell for b and b's cell for a; `transfers` to the reader (partner = a task that held the value
 * when it was read, the writer or an earlier reader; in COHABIT_TRANSFER_PARTS, of a message as many for each of
 * them). */
typedef struct {
    uint64_t messages;
    uint64_t bytes;
    uint64_t invalidations;
    uint64_t sharing;
    uint64_t transfers;
    /* Of the window under way, not yet a row of the series; added to nothing (messages and bytes hold them too). */
    uint64_t window_messages;
    uint64_t window_bytes;
} cohabit_cell_t;

typedef struct {
    uint64_t rows[COHABIT_ROWS_PER_DIRECTORY]; /* offsets of COHABIT_CELLS_PER_ROW cells each */
} cohabit_directory_t;

/* One row of the series: what `writer` gave the owner of the list in one window. */
typedef struct {
    /* Window number, in units of window_ticks << window_shift: since the start of the image, or of the reader's
     * count. */
    uint64_t bin;
    uint64_t messages;
    uint64_t bytes;
    uint32_t writer;
    uint32_t reserved;
} cohabit_series_row_t;

#define COHABIT_SERIES_ROWS_PER_PAGE 127u
typedef struct {
    uint64_t next; /* offset of the next (older) page */
    uint32_t count;
    uint32_t window_shift; /* windows in this page are window_ticks << window_shift wide */
    cohabit_series_row_t rows[COHABIT_SERIES_ROWS_PER_PAGE];
} cohabit_series_page_t;

typedef struct {
    uint32_t tid;    /* 0: this slot is not used */
    uint32_t parent; /* task that created it, COHABIT_NO_TASK for the first and where the creator was not seen */
    char name[16];   /* comm, NUL-terminated */
    uint32_t ended;
    uint32_t window_shift; /* of `window`, below */
    /* Accesses outside instrumented blocks' counters: string instructions, system calls, masked vector accesses. */
    uint64_t loads;
    uint64_t stores;
    uint64_t accessed_bytes;
    uint64_t counters; /* offset of COHABIT_MAX_COUNTERS uint64: executions of each block shape (cohabit_shape_t) */
    uint64_t series;   /* offset of the newest cohabit_series_page_t */
    uint64_t window;   /* bin the cells' window_* counts belong to */
    uint64_t slow_calls;
    uint32_t common; /* its number among the tasks of the run that touched memory shared between processes, + 1 */
    uint32_t of_mpi; /* it was made within a call of MPI: a helper of MPI's own (where ranks are observed too) */
    uint64_t alone_bytes; /* of all that it accessed: before the image had a second thread */
    uint64_t directories[COHABIT_DIRECTORIES];
} cohabit_task_t;

/* What one execution of a basic block adds: blocks alike in this share one counter, so that the number of counters
 * stays small however much code is translated. The first counters of a task are sums themselves: loads, stores and
 * bytes of blocks that came when the table of shapes was full, and the instructions of all blocks, where windows are of
 * these. */
typedef struct {
    uint32_t loads;
    uint32_t stores;
    uint32_t bytes;
    uint32_t spins; /* 1: loads of a loop that waits for another task's write */
} cohabit_shape_t;
#define COHABIT_MAX_COUNTERS 2048u
#define COHABIT_COUNTER_LOADS 0u
#define COHABIT_COUNTER_STORES 1u
#define COHABIT_COUNTER_BYTES 2u
#define COHABIT_COUNTER_INSTRUCTIONS 3u
#define COHABIT_FIRST_SHAPE 4u

/* A file mapped for execution, newest first. */
typedef struct {
    uint64_t next;
    uint64_t start;
    uint64_t end;
    uint64_t preferred; /* the address it was linked for */
    uint64_t unloaded;  /* 1 once unmapped */
    char path[512];
} cohabit_module_t;

/* The access stream of one image (cohabit record): a head, then records in the order in which the detector took them.
 * It lies beside the part and has its name, ending in .stream. */
#define COHABIT_STREAM_MAGIC 0x315254534f434f43ull /* "COCOSTR1" */
#define COHABIT_STREAM_VERSION 1u
typedef struct {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;
    uint64_t start_ticks;
    uint64_t ticks_per_second;
    uint64_t block_bytes;
    uint64_t count; /* records that are whole */
    uint64_t lost;  /* records there was no room for, all after the last one that is there */
    uint64_t reserved;
} cohabit_stream_t;

/* Kinds; the first three are one access of `size` bytes by `task`. A clear says that the memory from
 * `address` on, `size` blocks, starts as if nobody had touched it; one of size 0 that all memory does. An only says
 * that from here on just the `size` bytes from `address` on are counted, beside the ranges named before. */
#define COHABIT_ACCESS_READ 1u
#define COHABIT_ACCESS_WRITE 2u
#define COHABIT_ACCESS_READ_WRITE 3u
#define COHABIT_ACCESS_CLEAR 4u
#define COHABIT_ACCESS_ONLY 5u
#define COHABIT_ACCESS_KIND_SHIFT 24u
/* Set in the address of memory that other processes can map too: what follows is the same for all of them. Times then
 * put the records of all streams of a run into one order. */
#define COHABIT_COMMON_ADDRESS (1ull << 62)
typedef struct {
    uint64_t ticks; /* time-stamp counter */
    uint64_t address;
    uint32_t size;
    uint32_t kind_and_task; /* kind << COHABIT_ACCESS_KIND_SHIFT | id of the task within the part */
} cohabit_access_t;

/* A phase of the program began (cohabit_phase); newest first. */
typedef struct {
    uint64_t next;
    uint64_t number;
    uint64_t ticks; /* time-stamp counter */
} cohabit_phase_t;
#define COHABIT_MAX_PHASES 65536u

/* Data that is communicated through (options: hot): all memory that one place in the program allocates, one symbol.
 *
 * Messages are sampled; each that was looked at is counted to one object. Newest first. */
#define COHABIT_HOT_STACK 12u
#define COHABIT_HOT_INTERVAL 32u /* one of so many messages is looked at, on average; of a task's first ones more */
#define COHABIT_OBJECT_UNKNOWN 0u /* memory of no file, and of no allocation that was seen */
#define COHABIT_OBJECT_HEAP 1u
#define COHABIT_OBJECT_MAPPING 2u /* mmap: also thread stacks, whose call stack shows pthread_create */
#define COHABIT_OBJECT_SYMBOL 3u
#define COHABIT_OBJECT_MODULE 4u /* data of a program or library that no symbol is known of */
#define COHABIT_OBJECT_STACK 5u  /* of the process's first thread */
typedef struct {
    uint64_t next;
    uint64_t address;  /* where the symbol, or the part of the file that is mapped, begins; 0 of others */
    uint64_t bytes;    /* of the symbol, or of the longest allocation that was met; 0 of others */
    uint64_t messages; /* those looked at, each times the interval at which it was taken */
    uint64_t looked_at;
    uint32_t kind;                     /* COHABIT_OBJECT_* */
    uint32_t blocks;                   /* with a record of their own (cohabit_hot_t) */
    uint64_t stack[COHABIT_HOT_STACK]; /* of HEAP and MAPPING: return addresses, innermost first; 0 behind the last */
} cohabit_object_t;

/* A block that came up often, or is one of some of an object that did. Newest first.
 *
 * It was followed for up to some thousand messages at a time, each access of it seen with its place in the program:
 * `true_reads` + `false_reads` messages were looked at so. */
#define COHABIT_HOT_SITES 16u
#define COHABIT_HOT_TASKS 32u
/* Parts of a block that are told apart: bytes, or more where it has more bytes than this. */
#define COHABIT_HOT_GRANULES 512u
typedef struct {
    uint64_t pc;     /* of the instruction (of the system call); 0 where it is not known */
    uint64_t events; /* messages read here, or of values written here; 0: one of the latter that nobody has read */
    uint32_t task_count;
    uint32_t tasks[COHABIT_HOT_TASKS]; /* the first tasks seen here */
    uint32_t reserved;
} cohabit_hot_site_t;
typedef struct {
    uint64_t next;
    uint64_t block;       /* address of its first byte */
    uint64_t object;      /* offset of its cohabit_object_t: what lies at `address` */
    uint64_t address;     /* that most of the reads looked at began at */
    uint64_t votes;       /* how many more of the latter began there than elsewhere (Boyer and Moore) */
    uint64_t messages;    /* as of an object */
    uint64_t true_reads;  /* counted reads that needed what other tasks had written since the reader last did */
    uint64_t false_reads; /* counted reads that did not: they met only bytes that nobody else had written */
    uint64_t allocation;  /* first address of the heap block or mapping that `address` lies in, 0 where it lies in none */
    uint64_t allocation_bytes;
    uint64_t used[COHABIT_HOT_GRANULES / 64]; /* bit n: granule n was read or written while the block was followed */
    cohabit_hot_site_t writers[COHABIT_HOT_SITES];
    cohabit_hot_site_t readers[COHABIT_HOT_SITES];
} cohabit_hot_t;

/* The head of a part. */
typedef struct {
    uint64_t magic;
    uint32_t version;
    uint32_t flags;
    uint64_t used; /* bytes of the file in use: nothing that matters lies beyond */
    uint32_t pid;
    uint32_t ppid;
    uint64_t start_ns; /* CLOCK_MONOTONIC when the image came under observation */
    uint64_t end_ns;
    uint64_t start_ticks; /* time-stamp counter at start_ns */
    uint64_t ticks_per_second;
    uint64_t window_ticks; /* or instructions (COHABIT_FLAG_INSTRUCTIONS) */
    uint32_t window_shift; /* windows were doubled this often to stay within the bound on rows */
    uint32_t block_bytes;
    uint32_t end;
    uint32_t exit_code;
    uint32_t tasks; /* tasks seen */
    uint32_t shapes;
    uint64_t shapes_at; /* offset of COHABIT_MAX_COUNTERS cohabit_shape_t */
    uint64_t events_lost;
    uint64_t series_rows;
    uint64_t on_ns; /* time spent counting where that is not all the time (bursts, region of interest), else 0 */
    uint64_t modules;
    uint64_t hot;
    uint64_t unknown_syscalls[8]; /* bit n: system call n (n < 512) was made and its memory effects are not modelled */
    uint64_t task_pages[COHABIT_TASK_PAGES]; /* offsets of COHABIT_TASKS_PER_PAGE cohabit_task_t each */
    char program[512];
    uint64_t phases; /* offset of the newest cohabit_phase_t */
    uint64_t phase_count;
    /* Since when counting is on beyond what on_ns holds (CLOCK_MONOTONIC); 0: it is off, or always on. */
    uint64_t on_since_ns;
    uint64_t stack_top; /* an address in the first frames of the stack that the kernel made for the image; 0: not known */
    /* When the process was started, in clock ticks since the machine's start (proc_pid_stat(5), starttime); 0: not
     * known. */
    uint64_t born;
    uint64_t objects;       /* offset of the newest cohabit_object_t */
    uint64_t hot_messages;  /* of all objects */
    uint64_t hot_looked_at; /* of all objects */
} cohabit_part_t;

#endif
