/* What the files of the library share: its state, entering and leaving an MPI call, counting a message.
 *
 * A wrapper of MPI_X or PMPI_X is entered by the program; what MPI itself, its Fortran layer or another tool calls from
 * within is passed on uncounted. Each of the two names goes on to the next library's function of the same name, so
 * that other PMPI tools keep working, and Fortran is seen whichever of the two its wrappers call.
 */
#ifndef COHABIT_MPI_LIBRARY_H
#define COHABIT_MPI_LIBRARY_H

#include "part.h"
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(OPEN_MPI)
#define FAMILY "Open MPI"
#define LARGE_COUNT (OMPI_MAJOR_VERSION >= 6)
#define PERSISTENT_COLLECTIVES (OMPI_MAJOR_VERSION >= 5)
#define PARTITIONED (OMPI_MAJOR_VERSION >= 5)
#define ISENDRECV (OMPI_MAJOR_VERSION >= 5)
#else
#define FAMILY "MPICH"
#define LARGE_COUNT (MPI_VERSION >= 4)
#define PERSISTENT_COLLECTIVES (MPI_VERSION >= 4)
#define PARTITIONED (MPI_VERSION >= 4)
#define ISENDRECV (MPI_VERSION >= 4)
#endif

#define EXPORT __attribute__((visibility("default")))

/* MPI's own functions, found at MPI_Init. */
#define REALS(X)                                                                                                       \
    X(Cart_shift) X(Cartdim_get) X(Comm_compare) X(Comm_get_parent) X(Comm_group) X(Comm_rank) X(Comm_remote_group)    \
    X(Comm_remote_size) X(Comm_size) X(Comm_test_inter) X(Dist_graph_neighbors) X(Dist_graph_neighbors_count)          \
    X(Get_library_version) X(Graph_neighbors) X(Graph_neighbors_count) X(Group_free) X(Group_size)                     \
    X(Group_translate_ranks) X(Op_commutative) X(Query_thread) X(Topo_test) X(Type_size_x) X(Win_get_group)            \
    X(Group_rank)
#define DECLARE_REAL(NAME) __typeof__(&PMPI_##NAME) NAME;
extern struct reals {
    REALS(DECLARE_REAL)
    MPI_Comm world;
    MPI_Comm null_comm;
    MPI_Op no_op;
} real;

extern struct library {
    bool active;   /* between MPI_Init and MPI_Finalize of a rank that is observed */
    bool threaded; /* more than one thread may be in MPI at a time */
    bool rounds; /* what is sent between two waits is kept, by call site */
    bool sites;  /* so that call sites of pairs can be named */
    bool callers; /* which thread calls is kept */
    bool traces; /* what the rank does with messages is kept in its order */
    bool visits; /* from where the rank calls is kept, and when */
    bool waits;  /* the collective under way is over when its call returns */
    int rank;
    int size;
    uint32_t inside; /* threads in MPI, where threaded */
    uint64_t since;  /* ticks when the first of them came in */
    pthread_mutex_t lock;
} library;

extern __thread int depth __attribute__((tls_model("initial-exec")));
extern __thread uint64_t entered __attribute__((tls_model("initial-exec")));
/* Where the call returns to, and the frame of the function that was called. */
extern __thread void *caller __attribute__((tls_model("initial-exec")));
extern __thread void *frame __attribute__((tls_model("initial-exec")));
/* Whether calls of this thread may begin phases (phases.c). */
extern __thread bool follows __attribute__((tls_model("initial-exec")));
/* The round under way (abi.h); 0: none. */
extern __thread uint32_t current_round __attribute__((tls_model("initial-exec")));
/* Messages sent in it so far, and COHABIT_MPI_STEPS. */
extern __thread uint32_t sent_in_round __attribute__((tls_model("initial-exec")));

/* The function of that name in the libraries after this one. */
void *next_function(const char *name);

static inline uint64_t
ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static inline void
lock(void)
{
    if (library.threaded)
        pthread_mutex_lock(&library.lock);
}

static inline void
unlock(void)
{
    if (library.threaded)
        pthread_mutex_unlock(&library.lock);
}

/* One of the NOPs that abi.h names. */
#if defined(__x86_64__)
#define MARK_TEXT_(number) #number
#define MARK_TEXT(number) MARK_TEXT_(number)
#define MARK(NUMBER) __asm__ __volatile__("nopl " MARK_TEXT(NUMBER) "(%%rax)" : : : "memory")
#else
#define MARK(NUMBER) (void)0
#endif

/* visits.c: the rank calls from where it does now. Called with the lock held. */
void visits_begin(void);
void visit(void);

/* phases.c: the phases of a mapping that changes at call sites. */
void phases_begin(bool spawned); /* when the part is there */
void phases_call(void *return_address, void *own_frame);
void phases_end(void);

/* Whether the call is the program's own, to be counted; leave() has to follow then. */
static inline bool
enter(void *return_address, void *own_frame)
{
    if (!library.active || depth != 0) {
        if (__builtin_expect(follows, 0))
            phases_call(return_address, own_frame);
        return false;
    }
    depth = 1;
    caller = return_address;
    frame = own_frame;
    MARK(COHABIT_MPI_MARK_BEGIN);
    entered = ticks();
    if (library.threaded) {
        lock();
        if (library.inside++ == 0)
            library.since = entered;
        unlock();
    }
    if (library.visits) {
        lock();
        visit();
        unlock();
    }
    return true;
}

static inline void
leave(void)
{
    uint64_t now = ticks();
    MARK(COHABIT_MPI_MARK_END);
    depth = 0;
    if (!library.active)
        return;
    cohabit_mpi_part_t *head = part();
    if (library.threaded) {
        lock();
        if (--library.inside == 0)
            head->mpi_ticks += now - library.since;
        head->last_ticks = now;
        unlock();
    } else {
        head->mpi_ticks += now - entered;
        head->last_ticks = now;
    }
}

/* ranks.c: peers as keys. A group that messages go to. */
typedef struct peers {
    struct peers *next;
    uintptr_t handle;
    bool window;
    bool inter;
    bool identity; /* the ranks of the world, in order */
    MPI_Group group;
    int size; /* of the group that messages go to: the remote one of an intercommunicator */
    int local_size;
    int rank; /* of this process in its own group */
    uint32_t name; /* the same for all ranks of a communicator and all communicators of these ranks; of two groups mostly another */
    struct translation {
        int rank; /* -1: empty */
        uint64_t key;
    } *known; /* open addressing */
    int known_count;
    int known_capacity;
} peers_t;
#define NO_KEY UINT64_MAX
peers_t *peers_of_comm(MPI_Comm comm);
peers_t *peers_of_win(MPI_Win win);
/* The key of a peer, of size class 0 and kind 0, or NO_KEY. Called with the lock held. */
uint64_t peers_key(peers_t *peers, int rank);
void peers_forget_comm(MPI_Comm comm);
void peers_forget_win(MPI_Win win);
/* Makes another world known by an intercommunicator to it. */
void peers_new_world(MPI_Comm inter, uint32_t kind, MPI_Comm local, uint64_t began_ns);

/* count.c: all take the lock themselves. */
/* Returns the peer's key, or NO_KEY. */
uint64_t count_peer(peers_t *peers, int rank, unsigned kind, uint64_t bytes, uint64_t messages);
typedef struct {
    peers_t *peers;
    uint64_t key; /* NO_KEY: nothing is sent, or nobody knows to whom */
    uint64_t bytes;
} sent_t;
sent_t count_send(MPI_Comm comm, int rank, MPI_Count count, MPI_Datatype type);
uint64_t bytes_of(MPI_Count count, MPI_Datatype type);
uint64_t realtime_ns(void);
/* The rank waits for others: what it sends from now on is another round. */
static inline void
round_over(void)
{
    current_round = 0;
    sent_in_round = 0;
}
/* While a list is kept, messages go to it instead of being counted (persistent operations). */
void list_begin(void);
void list_store(MPI_Request request); /* ends the list; MPI_REQUEST_NULL-like failures: list_drop */
void list_drop(void);
void list_replay(MPI_Request request);                    /* MPI_Start */
void list_replay_part(MPI_Request request, uint64_t messages); /* MPI_Pready: so many of it */
void list_forget(MPI_Request request);

/* sites.c: the address in the program's own code that the call under way returns to; and the same where it is found
 * out anew, for one that was not seen before. */
uintptr_t site(void);
uintptr_t site_anew(void);
/* The file that code lies in, without its folders, and how far from where it is loaded; NULL where it is in none. */
const char *site_module(uintptr_t address, uint64_t *offset);
/* Counts for the place in the code that called, and the round under way. Called with the lock held. */
void count_site(uint64_t key, uint64_t bytes, uint64_t messages);

/* trace.c: operations are numbered from 1 on, 0 is none. All do nothing where `library.traces` is false. */
void trace_begin(void);
void trace_end(void); /* what is done now, or what follows, cannot be told */
uint32_t trace_send(sent_t sent, int tag, bool waits);
uint32_t trace_post(MPI_Comm comm, int source, int tag);
/* Whether it is known only from a status who has sent; then one has to be asked for. */
bool trace_any(int source, int tag);
void trace_received(MPI_Comm comm, int source, int tag, const MPI_Status *status);
void trace_exchanged(MPI_Comm comm, uint32_t posted, uint32_t sent, bool any, const MPI_Status *status);
/* The request stands for that operation. */
void trace_bind(MPI_Request request, uint32_t operation, bool any, MPI_Comm comm);
void trace_repeat_send(MPI_Request request, sent_t sent, int tag);
void trace_repeat_post(MPI_Request request, MPI_Comm comm, int source, int tag);
void trace_start(MPI_Request request);
void trace_forget_request(MPI_Request request);
void trace_forget(const peers_t *peers);
/* Before a call that waits or asks for requests: the statuses to give to it, or the one. Then those that are over. */
MPI_Status *trace_ask(int count, MPI_Request requests[], MPI_Status *statuses);
void trace_over(int number, const MPI_Status *status);
void trace_over_all(int count, const MPI_Status *statuses);
void trace_collective(const peers_t *peers); /* a call of one begins */
void trace_collective_send(peers_t *peers, uint64_t key, uint64_t bytes);
void trace_collective_post(peers_t *peers, int from);
void trace_collective_wait(uint32_t first); /* for all operations from number `first`, counted from 0, on */

/* deliver.c: the part to where it is read, in MPI_Finalize. */
void deliver(void);

/* threads.c: the threads of a rank, each on its PU (`cohabit run`). */
void threads_begin(bool spawned); /* when the part is there */
void threads_end(void);           /* reads them back, and no more */
/* The affinity of the rank as it was before its first thread was put on its PU; false where none was. */
bool threads_former(uint64_t cpus[16]);
/* The place of this thread in the part's table of threads, in the bits of a key. Called with the lock held. */
uint64_t caller_key(void);
/* The rank that the launcher has told the process in its environment; NULL where none has. */
const char *told_rank(void);
/* Tells worlds of a run apart by the launcher's name for them. */
uint64_t job(void);

#endif
