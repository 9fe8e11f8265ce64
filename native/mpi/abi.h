/* The record an MPI rank leaves ("part"), shared with Rust.
 *
 * A part is a file that the library maps MAP_SHARED and fills while the rank runs, so that what was counted survives
 * whatever ends the rank; `used` bytes of it count. All offsets are bytes from the start of the part; 0 means none. All
 * integers are little-endian. crates/observe/src/mpi/abi.rs is generated from this header (`make abi`),
 * and a test compares the two.
 */
#ifndef COHABIT_MPI_ABI_H
#define COHABIT_MPI_ABI_H

#include <stdint.h>

#define COHABIT_MPI_PART_MAGIC 0x31545241504d4343ull /* "CCMPART1" */
#define COHABIT_MPI_VERSION 6u
/* Displacements of NOPs around each call of MPI (as in native/include/cohabit.h): to the exact profiler they say that
 * the memory shared between processes is MPI's there, and carries messages that are counted here. */
#define COHABIT_MPI_MARK_BEGIN 0x0c0ab175
#define COHABIT_MPI_MARK_END 0x0c0ab176
#define COHABIT_MPI_CHUNK_BYTES (256u << 10)

/* cohabit_mpi_part.end */
#define COHABIT_MPI_END_RUNNING 0u /* MPI_Finalize was not reached: killed, crashed, or still under way */
#define COHABIT_MPI_END_FINALIZED 1u
#define COHABIT_MPI_END_ABORTED 2u /* the rank called MPI_Abort */

/* cohabit_mpi_part.flags */
#define COHABIT_MPI_FLAG_NO_SPACE 1u      /* the file could not grow: counts were lost */
#define COHABIT_MPI_FLAG_SPAWNED 2u       /* the world was started by MPI_Comm_spawn */
#define COHABIT_MPI_FLAG_SITES 4u         /* call sites are kept peer by peer, and can be named */
#define COHABIT_MPI_FLAG_UNKNOWN_PEER 8u  /* messages to processes of a world that cannot be told (connect, join) */
#define COHABIT_MPI_FLAG_APPROXIMATE 16u  /* a collective was decomposed that has no known algorithm here */
#define COHABIT_MPI_FLAG_COLLECTIVES 32u  /* a collective was called */
#define COHABIT_MPI_FLAG_BEYOND_WORLD 64u /* more worlds or ranks than a key has room for */
#define COHABIT_MPI_FLAG_TRACE_ENDED 128u /* operations after those that are kept were not */

/* A key: what is counted together. Bits 0-6: size class; 7-9: kind; 10-23: world; 24-55: rank in that world. One more
 * than the key is stored, 0 being an empty cell. */
#define COHABIT_MPI_KEY_KIND_SHIFT 7u
#define COHABIT_MPI_KEY_WORLD_SHIFT 10u
#define COHABIT_MPI_KEY_RANK_SHIFT 24u
#define COHABIT_MPI_MAX_WORLDS (1u << 14)
/* Bits 56-63: which thread made the call, a place in the part's table of threads from 1 on; 0 where threads are not
 * told apart, or are more than the table has places for. */
#define COHABIT_MPI_KEY_THREAD_SHIFT 56u
#define COHABIT_MPI_MAX_CALLERS 250u

/* Size class: 0 for an empty message, else k + 1 for [2^k, 2^(k+1)) bytes. */

/* Kinds. */
#define COHABIT_MPI_KIND_SENT 0u       /* a message that the program sent */
#define COHABIT_MPI_KIND_COLLECTIVE 1u /* a message that a collective sends, by decomposition */
#define COHABIT_MPI_KIND_PUT 2u        /* one-sided, from this rank to the peer */
#define COHABIT_MPI_KIND_GOT 3u        /* one-sided, from the peer to this rank */

/* A bit of cohabit_mpi_cell.before: of a collective that goes step by step, in each of which every rank sends one
 * message and waits for one. */
#define COHABIT_MPI_STEPS (1u << 31)

typedef struct {
    uint64_t key; /* key + 1, 0: empty */
    uint64_t messages;
    uint64_t bytes;
    /* Of the window under way, not yet a row of the series; added to nothing (messages and bytes hold them too). */
    uint64_t window_messages;
    uint64_t window_bytes;
    uint32_t before; /* messages that the rank had sent in the round before the first of these; COHABIT_MPI_STEPS */
    uint32_t reserved;
} cohabit_mpi_cell_t;

/* A round: what a rank sends before it waits for others again. Rounds that have a call site, a peer and a size class in
 * common are one. Round 0 is that of all for which there was no more room. */
#define COHABIT_MPI_MAX_ROUNDS 1024u

/* What was exchanged from one place in the code with one peer, in messages of one size class. What collectives send is
 * kept for all peers together (peer 0 of this world), unless COHABIT_MPI_FLAG_SITES is set. */
typedef struct {
    uint64_t key;     /* plus 1; 0: empty */
    uint64_t address; /* that the call returns to */
    uint64_t place;   /* the same in all ranks of a program: made from the file's name and the address within it */
    uint32_t order;   /* in which they were first seen, from 0 */
    uint32_t round;
    uint64_t messages;
    uint64_t bytes;
} cohabit_mpi_site_t;
#define COHABIT_MPI_MAX_SITES (1u << 16)

/* A place in the code that calls MPI, in a form that is the same in every run of a program: of its file the name, and the
 * address that the call returns to, from where the file is loaded on. */
typedef struct {
    uint64_t offset;
    char module[56]; /* cut short where it is longer */
} cohabit_mpi_call_site_t;
#define COHABIT_MPI_MAX_CALL_SITES 256u

/* A time in which the rank calls from one place again and again: never `visit_gap_ticks` apart. */
typedef struct {
    uint64_t begin_ticks; /* of the first call */
    uint64_t end_ticks;   /* of the last one */
    uint32_t site;
    uint32_t calls; /* 2^32-1: that many or more */
} cohabit_mpi_visit_t;
/* Of a rank at most, of all ranks of a world, and of each at least: where a rank would have more, visits that are
 * nearer to each other are joined. */
#define COHABIT_MPI_MAX_VISITS 4096u
#define COHABIT_MPI_VISITS_OF_WORLD (1u << 20)
#define COHABIT_MPI_VISITS_LEAST 256u

/* A phase that the rank is moved in (`cohabit run` of a mapping that changes at call sites). */
typedef struct {
    uint64_t number;
    uint64_t times;    /* that it was moved for it */
    uint64_t cpus[16]; /* its affinity as it was read back the last time */
} cohabit_mpi_phase_t;

typedef struct {
    uint64_t bin; /* window number since zero_ns, in units of window_ticks << the page's window_shift */
    uint64_t key; /* of size class 0 */
    uint64_t messages;
    uint64_t bytes;
} cohabit_mpi_row_t;

/* Rows of the series of all ranks of a world, and at least of each. */
#define COHABIT_MPI_SERIES_OF_WORLD (1u << 26)
#define COHABIT_MPI_SERIES_LEAST (1u << 12)
#define COHABIT_MPI_ROWS_PER_PAGE 128u
typedef struct {
    uint64_t next;
    uint32_t count;
    uint32_t window_shift;
    cohabit_mpi_row_t rows[COHABIT_MPI_ROWS_PER_PAGE];
} cohabit_mpi_page_t;

/* What the rank did with messages, one after another. The key is of size class 0, with what was done in its place: a
 * message sent, one to be received, or a wait. Who sends or receives may wait for it at once. */
typedef struct {
    uint64_t key;
    uint64_t bytes; /* sent; of a wait: the number of the operation that is waited for */
    uint64_t tag;   /* the same, of sender and receiver, for messages of one communicator and tag, or of one collective call */
} cohabit_mpi_operation_t;
#define COHABIT_MPI_DOES_SEND 1u
#define COHABIT_MPI_DOES_POST 2u
#define COHABIT_MPI_DOES_WAIT 4u
#define COHABIT_MPI_DOES_FROM 8u /* of a wait alone: for all operations from that number on */
#define COHABIT_MPI_DOES_MASK 15u
/* The key of what was posted for any sender, and has not come. */
#define COHABIT_MPI_OPERATION_NO_PEER (0xffffffffull << COHABIT_MPI_KEY_RANK_SHIFT)
/* Of all ranks of a world, and of each at most. */
#define COHABIT_MPI_OPERATIONS_OF_WORLD (1u << 21)
#define COHABIT_MPI_OPERATIONS_PER_PAGE 256u
#define COHABIT_MPI_OPERATION_PAGES 256u
#define COHABIT_MPI_MAX_OPERATIONS (COHABIT_MPI_OPERATIONS_PER_PAGE * COHABIT_MPI_OPERATION_PAGES)

/* cohabit_mpi_world.kind */
#define COHABIT_MPI_WORLD_SPAWNED 1u /* by a communicator of this rank: its ranks in order */
#define COHABIT_MPI_WORLD_PARENT 2u  /* that spawned this one: ranks in the spawning communicator */
#define COHABIT_MPI_WORLD_OTHER 3u   /* by connect, accept or join */

/* Another world that this rank can talk to; worlds are numbered from 1 in the order of the list. */
typedef struct {
    uint64_t next;
    uint32_t kind;
    uint32_t size;
    uint64_t began_ns; /* CLOCK_REALTIME around the call that made it known */
    uint64_t ended_ns;
    uint64_t ranks; /* SPAWNED: world ranks of the spawning communicator, in its order: uint32_t[rank_count] */
    uint32_t rank_count;
    uint32_t reserved;
} cohabit_mpi_world_t;

/* A thread: where threads are placed, the n-th that the program made, 0 being the first; where they are told apart, the
 * n-th that a message is counted for, and only tid is set. */
typedef struct {
    uint32_t tid;      /* 0: not started */
    uint32_t pu;       /* that it was to be put on */
    uint64_t cpus[16]; /* its affinity as it was last read */
} cohabit_mpi_thread_t;

typedef struct {
    uint64_t magic;
    uint32_t version;
    uint32_t flags;
    uint64_t used; /* bytes of the part */
    uint32_t rank; /* in MPI_COMM_WORLD */
    uint32_t size;
    uint32_t pid;
    uint32_t end;
    uint64_t job;          /* tells the worlds of a run apart: 0 for the first */
    uint64_t zero_ns;      /* CLOCK_REALTIME, where bin 0 begins */
    uint64_t entered_ns;   /* CLOCK_REALTIME when MPI_Init was called */
    uint64_t init_ns;      /* CLOCK_REALTIME when MPI_Init returned */
    uint64_t last_ns;      /* CLOCK_REALTIME when MPI_Finalize or MPI_Abort was called, 0 if neither was */
    uint64_t init_ticks;   /* clock ticks at init_ns */
    uint64_t last_ticks;   /* clock ticks of the newest event */
    uint64_t ticks_per_second;
    uint64_t window_ticks; /* 0: no series */
    uint64_t window_ns;    /* what was asked for */
    uint32_t window_shift;
    uint32_t thread_level; /* what MPI provided */
    uint64_t window_bin;   /* of the cells' window_ counts */
    uint64_t mpi_ticks;    /* with at least one thread in an MPI call */
    uint64_t cells;        /* cohabit_mpi_cell_t[cell_capacity], open addressing */
    uint64_t cell_capacity;
    uint64_t cell_count;
    uint64_t sites; /* cohabit_mpi_site_t[site_capacity], open addressing */
    uint64_t site_capacity;
    uint64_t site_count;
    uint64_t rounds; /* uint32_t[COHABIT_MPI_MAX_ROUNDS]: the round that each is one with, itself or one before it */
    uint64_t round_count; /* with round 0 */
    uint64_t pages; /* cohabit_mpi_page_t, newest first */
    uint64_t series_rows;
    uint64_t worlds; /* cohabit_mpi_world_t, newest first */
    uint64_t events_lost;
    uint64_t unknown_peer_messages;
    uint64_t maps; /* text of /proc/self/maps, the lines of code, at MPI_Finalize, where sites are followed */
    uint64_t maps_bytes;
    uint64_t cpus[16]; /* affinity mask when MPI_Init returned, of the first 1,024 processors */
    char host[64];
    char program[512];
    char library[256]; /* what the MPI calls itself */
    uint64_t threads;  /* cohabit_mpi_thread_t[thread_count]; 0 where no threads are placed or told apart */
    uint32_t thread_count;
    uint32_t threads_made; /* of the program's own, the first included; where threads are placed */
    uint64_t operations;   /* uint64_t[COHABIT_MPI_OPERATION_PAGES]: pages of cohabit_mpi_operation_t */
    uint32_t operation_count;
    uint32_t call_site_count;
    uint64_t call_sites;      /* cohabit_mpi_call_site_t[call_site_count] */
    uint64_t visits;          /* cohabit_mpi_visit_t[visit_count], in the order in which they began */
    uint64_t visit_gap_ticks; /* 0: visits are not kept */
    uint32_t visit_count;
    uint32_t phase_count;
    uint64_t phases; /* cohabit_mpi_phase_t[phase_count] */
} cohabit_mpi_part_t;

#endif
