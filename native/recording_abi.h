/* What the DynamoRIO client leaves of one program image that is recorded (cohabit record), shared with Rust: a file of
 * chunks beside the image's part, with its name, ending in .recording. All integers are little-endian.
 * crates/observe/src/recording/abi.rs is generated from this header (`make abi`), and a test compares the two.
 *
 * The file begins with a head of COHABIT_RECORDING_HEAD_BYTES: cohabit_recording_t, a cohabit_recorded_task_t for each
 * task of the part, at COHABIT_RECORDING_FORKS_AT a cohabit_recorded_fork_t for each process it forked, and at
 * COHABIT_RECORDING_ENVIRONMENT_AT what the image's environment says of ranks, NAME=VALUE and a NUL each. Chunks of
 * COHABIT_RECORDING_CHUNK_BYTES follow, each beginning with a cohabit_chunk_t.
 *
 * A *segment* is a piece of a basic block: instructions that run one after another, with the accesses they make. Each
 * address is that of an *anchor*, the first access of several that are a constant distance apart, plus such a constant.
 * What a task does is a sequence of segments with the addresses of their anchors, coded as what differs from a
 * prediction (recorder_code.c, crates/access/src/coding.rs).
 */
#ifndef COHABIT_RECORDING_ABI_H
#define COHABIT_RECORDING_ABI_H

#include <stdint.h>

#define COHABIT_RECORDING_MAGIC 0x3143455247434f43ull /* "COCGREC1" */
#define COHABIT_RECORDING_VERSION 3u
#define COHABIT_RECORDING_HEAD_BYTES (8ull << 20)
#define COHABIT_RECORDING_FORKS_AT (6ull << 20)
#define COHABIT_RECORDING_MAX_FORKS 65536u
#define COHABIT_RECORDING_ENVIRONMENT_AT (7ull << 20)
#define COHABIT_RECORDING_ENVIRONMENT_BYTES (64u << 10)
#define COHABIT_RECORDING_CHUNK_BYTES (64u << 10)
/* Chunks of a task from one restart of its predictions to the next, at most. */
#define COHABIT_RECORDING_RESTART 8u
#define COHABIT_RECORDING_MAX_SEGMENTS (1u << 20)
#define COHABIT_RECORDING_ALIGN 8u

typedef struct {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;
    uint64_t chunks; /* in the file; the last may not have been begun */
    uint64_t lost;   /* events for which there was no room: whatever their tasks did from then on is missing */
    uint64_t segments;
    uint64_t forks; /* that were made; the table holds no more than COHABIT_RECORDING_MAX_FORKS */
    uint32_t image; /* its number in the run, + 1; 0: it has none, and memory that processes share is taken for its own */
    uint32_t reserved;
    uint64_t channels; /* at least so many has the run: the greatest number of one that the image used, + 1 */
} cohabit_recording_t;

/* One task. Positions count the accesses that a task has made. */
typedef struct {
    uint64_t accesses;        /* its position at its end; of one that has not ended, when its last chunk was written to */
    uint64_t parent_position; /* where its parent was when it started it */
    uint32_t parent;          /* its number + 1; 0: none that was seen */
    uint32_t ended;
    uint64_t reserved;
} cohabit_recorded_task_t;

typedef struct {
    uint32_t pid;
    uint32_t task; /* that forked it */
    uint64_t position;
} cohabit_recorded_fork_t;

#define COHABIT_CHUNK_DEFINITIONS 1u /* of segments, in the order of their numbers: cohabit_segment_t, its accesses, its code */
#define COHABIT_CHUNK_STEPS 2u       /* of one task */
#define COHABIT_CHUNK_MAPPINGS 3u    /* cohabit_mapping_t, in the order in which they were made */
typedef struct {
    uint32_t kind; /* 0: not begun */
    uint32_t task;
    uint32_t used;    /* bytes behind this head that are whole */
    uint32_t restart; /* 1: predictions begin anew here */
    uint64_t position; /* of the task where the chunk begins */
} cohabit_chunk_t;

typedef struct {
    uint64_t pc;            /* of its first instruction */
    uint32_t instructions;  /* all of them */
    uint32_t bytes;         /* from the first byte of its code to the last */
    uint32_t anchors;
    uint32_t accesses;
    uint32_t code;   /* bytes of its instructions, one behind the other, and zeros to a multiple of COHABIT_RECORDING_ALIGN:
                        behind the accesses. Of a very long one those at the end are missing */
    uint32_t behind; /* instructions behind the one that makes the last access, which that counts as its own */
} cohabit_segment_t;
/* From this version of the process's mappings on the addresses are bytes of an object that other processes may have
 * mapped too: the same number for the same object in the whole run. Object 0: memory of the process's own again. */
typedef struct {
    uint64_t version;
    uint64_t start;
    uint64_t end;
    uint64_t object;
    uint64_t offset; /* of the first of them in the object */
} cohabit_mapping_t;

/* An access of a segment, in program order. */
#define COHABIT_RECORDED_READ 1u
#define COHABIT_RECORDED_WRITE 2u
#define COHABIT_RECORDED_ATOMIC 4u
#define COHABIT_RECORDED_UNCONDITIONAL 8u /* atomic, and writes what follows from what is there: no exchange */
typedef struct {
    int32_t offset; /* from the anchor's address */
    uint32_t size;
    uint16_t anchor;
    uint16_t kind; /* COHABIT_RECORDED_... together */
    uint32_t instructions; /* since the access before, or the segment's begin, its own counted */
} cohabit_recorded_access_t;

/* Steps are coded as tokens, each a number of seven bits a byte, lowest first, the top bit set but in the last:
 * the low two bits say which, the others are its value. A number with a sign is coded zigzag: 0, -1, 1, -2. */
#define COHABIT_TOKEN_RUN 0u     /* so many segments as predicted, with all addresses as predicted */
#define COHABIT_TOKEN_SEGMENT 1u /* a segment; value 1: another one than predicted, its number follows. Then, for each
                                    COHABIT_TOKEN_MASK anchors, a mask of those that are not as predicted, and for each
                                    of these the difference to the prediction, signed */
#define COHABIT_TOKEN_EVENT 2u   /* COHABIT_EVENT_...; its numbers follow */
#define COHABIT_TOKEN_MASK 56u

#define COHABIT_EVENT_WAIT 1u  /* order, task, its position, COHABIT_WAIT_...: order 0: before what comes next; else within the
                                  last segment, before its access number order - 1 */
#define COHABIT_EVENT_ACCESS 2u /* kind (COHABIT_RECORDED_ATOMIC: the word of a futex), size, difference to the last such
                                   address (signed): by a string instruction, a masked one, or the kernel */
#define COHABIT_EVENT_UNMAP 3u /* address, bytes: the memory starts clean */
#define COHABIT_EVENT_IDLE 4u  /* nanoseconds asleep */
#define COHABIT_EVENT_PHASE 5u /* number: the program says that a phase begins */
#define COHABIT_EVENT_WAIT_IN_RUN 6u /* as WAIT, the task by its number in the run (cohabit_task_t.common - 1) and the
                                        position within that task's image */
#define COHABIT_EVENT_MAPPINGS 7u /* order, version: from here on the addresses are by this version of the mappings; order as
                                     of WAIT, but of all accesses of the segment */
#define COHABIT_EVENT_REMOTE 8u /* kind, number of an image, version of its mappings, bytes, address there: a copy from or to
                                   another process's memory */
#define COHABIT_EVENT_CLEAR 9u /* start, object, bytes: so much of the object starts clean */
#define COHABIT_EVENT_CHANNEL 10u /* kind, number of a channel in the run, first byte, bytes: of the memory in which what goes
                                     through a pipe or a socket lies meanwhile, COHABIT_CHANNEL_BYTES of it */
#define COHABIT_WAIT_DATA 0u   /* for what it wrote to a block that is accessed next */
#define COHABIT_WAIT_LOCK 1u   /* the access is by an atomic instruction */
#define COHABIT_WAIT_CALL 2u   /* for what a system call waited for: something received, a process's end */
#define COHABIT_CHANNEL_BYTES (128ull << 20)

#endif
