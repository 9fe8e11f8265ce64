/* MPI_Init to MPI_Finalize, and the calls that make and end communicators and worlds.
 *
 * Until MPI_Init finds COHABIT_MPI_PARTS in the environment nothing is done but passing calls on: the library may be
 * preloaded into programs that use no MPI, and into shells. No symbol of MPI's is referred to by name for that reason.
 *
 * Environment, set by `cohabit profile`: COHABIT_MPI_PARTS, the directory for part files, made on each host;
 * COHABIT_MPI_SHARED, the folder for those of hosts on which there is no file COHABIT_MPI_HERE; COHABIT_MPI_ZERO_NS,
 * CLOCK_REALTIME where the series begins; COHABIT_MPI_WINDOW_NS (0: no series); COHABIT_MPI_SERIES_BOUND, rows a rank; COHABIT_MPI_ROUNDS;
 * COHABIT_MPI_SITES; COHABIT_MPI_CALLERS; COHABIT_MPI_TRACE; COHABIT_MPI_VISITS.
 * `cohabit run` without a profile sets COHABIT_MPI_PARTS alone, and reads the part again and again; with one it sets
 * COHABIT_MPI_PLACEMENT: where the rank is when MPI_Init returns and how it ends is kept, and nothing is counted; and
 * COHABIT_MPI_THREADS where ranks have threads to be placed (threads.c), COHABIT_MPI_PHASES where the mapping changes at
 * call sites (phases.c).
 */
#include "calls.h"
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct reals real;
struct library library = { .lock = PTHREAD_MUTEX_INITIALIZER };
__thread int depth;
__thread uint64_t entered;
__thread void *caller;
__thread void *frame;
__thread bool follows;
__thread uint32_t current_round;
__thread uint32_t sent_in_round;
/* Between MPI_Init and MPI_Finalize of a rank of which only the place is kept. */
static bool placement_only;

/* MPI where it was loaded by dlopen and for its loader alone (mpi4py): RTLD_NEXT does not see it. */
static int
open_mpi_library(struct dl_phdr_info *info, size_t size, void *handle)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    name = name == NULL ? info->dlpi_name : name + 1;
    if (strncmp(name, "libmpi.so", 9) != 0 && strncmp(name, "libmpich.so", 11) != 0)
        return 0;
    *(void **)handle = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    return *(void **)handle != NULL;
}

static void *
find_from(void *where, const char *name)
{
    static void *handle;
    void *found = dlsym(where, name);
    if (found == NULL && handle == NULL)
        dl_iterate_phdr(open_mpi_library, &handle);
    return found == NULL && handle != NULL ? dlsym(handle, name) : found;
}

static void *
find(const char *name)
{
    return find_from(RTLD_NEXT, name);
}

#if defined(OPEN_MPI)
/* Data may have been copied into the executable: then that copy is the one that MPI uses. */
static void *
find_data(const char *name)
{
    return find_from(RTLD_DEFAULT, name);
}
#endif

void *
next_function(const char *name)
{
    void *found = find(name);
    if (found == NULL) {
        fprintf(stderr, "cohabit: the program calls %s, and no MPI library that it loaded has it\n", name);
        abort();
    }
    return found;
}

static uint64_t
number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

const char *
told_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID" };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            return getenv(names[i]);
    return NULL;
}

/* Whether this is the rank that speaks where all have the same to say. */
static bool
speaks(void)
{
    const char *rank = told_rank();
    return rank == NULL || strcmp(rank, "0") == 0;
}

static void
say_another(const char *version)
{
    fprintf(stderr,
            "cohabit: the program's MPI is %.*s, and the library preloaded is for " FAMILY
            "; nothing is observed (build one with `cohabit mpi build --mpicc CC`)\n",
            (int)strcspn(version, ",\n\t"), version);
}

/* Handles of the other MPI have another size, and cannot pass through our functions: a program of the other MPI is
 * started again, without us, before it has done anything. */
__attribute__((constructor)) static void
leave_another_mpi(int argc, char **argv)
{
    (void)argc;
    int (*version)(char *, int *) = (int (*)(char *, int *))dlsym(RTLD_NEXT, "PMPI_Get_library_version");
    static char text[1 << 16];
    int length = 0;
    if (getenv("COHABIT_MPI_PARTS") == NULL || version == NULL || version(text, &length) != MPI_SUCCESS ||
        strstr(text, FAMILY) != NULL)
        return;
    if (speaks())
        say_another(text);
    const char *preload = getenv("LD_PRELOAD");
    Dl_info own;
    static char rest[1 << 16];
    if (preload == NULL || strlen(preload) >= sizeof(rest) || dladdr((void *)leave_another_mpi, &own) == 0)
        return;
    const char *name = strrchr(own.dli_fname, '/');
    name = name == NULL ? own.dli_fname : name + 1;
    char *copy = strdup(preload), *state = NULL;
    for (char *word = strtok_r(copy, ": ", &state); word != NULL; word = strtok_r(NULL, ": ", &state)) {
        const char *last = strrchr(word, '/');
        if (strcmp(last == NULL ? word : last + 1, name) == 0)
            continue;
        strcat(rest, rest[0] == '\0' ? "" : ":");
        strcat(rest, word);
    }
    setenv("LD_PRELOAD", rest, 1);
    execv("/proc/self/exe", argv);
}

/* Finds what the library calls itself; false, after a word, where this MPI is not the one it was built for. */
static bool
find_reals(char *version)
{
    bool whole = true;
#define FIND(NAME) whole &= (real.NAME = (__typeof__(real.NAME))find("PMPI_" #NAME)) != NULL;
    REALS(FIND)
    int length = 0;
    /* Another MPI's text may be longer than this one's limit. */
    static char text[1 << 16];
    if (real.Get_library_version != NULL)
        real.Get_library_version(text, &length);
    if (!whole || strstr(text, FAMILY) == NULL) {
        if (speaks())
            say_another(text);
        return false;
    }
    snprintf(version, 256, "%.255s", text);
#if defined(OPEN_MPI)
    real.world = find_data("ompi_mpi_comm_world");
    real.null_comm = find_data("ompi_mpi_comm_null");
    real.no_op = find_data("ompi_mpi_op_no_op");
#else
    real.world = MPI_COMM_WORLD;
    real.null_comm = MPI_COMM_NULL;
    real.no_op = MPI_NO_OP;
#endif
    return true;
}

typedef struct {
    uint64_t ticks;
    uint64_t ns;
} instant_t;

static instant_t
instant(void)
{
    return (instant_t) { ticks(), realtime_ns() };
}

static uint64_t
measure_ticks_per_second(instant_t from)
{
#if defined(__aarch64__)
    uint64_t frequency;
    (void)from;
    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency;
#else
    instant_t to = instant();
    while (to.ns < from.ns + 5000000)
        to = instant();
    return (uint64_t)((unsigned __int128)(to.ticks - from.ticks) * 1000000000u / (to.ns - from.ns));
#endif
}

/* Tells spawned worlds of a run apart; ranks of one world have the same. */
uint64_t
job(void)
{
    const char *name = getenv("PMIX_NAMESPACE");
    uint64_t hash = 0xcbf29ce484222325ull;
    if (name == NULL)
        return (uint64_t)getppid() | 1ull << 63;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint64_t)(unsigned char)*name) * 0x100000001b3ull;
    return hash | 1;
}

/* Rows of this rank's series before its windows are doubled: a world of many ranks keeps fewer in each, since all are
 * read by one. */
static uint64_t
series_bound(void)
{
    uint64_t asked = number("COHABIT_MPI_SERIES_BOUND", 1u << 20);
    uint64_t share = COHABIT_MPI_SERIES_OF_WORLD / (uint64_t)library.size;
    if (share < COHABIT_MPI_SERIES_LEAST)
        share = COHABIT_MPI_SERIES_LEAST;
    return asked < share ? asked : share;
}

static void
begin(instant_t before)
{
    const char *directory = getenv("COHABIT_MPI_PARTS");
    char version[256];
    if (directory == NULL || part() != NULL)
        return;
    if (!find_reals(version) || !part_create(directory))
        return;
    cohabit_mpi_part_t *head = part();
    MPI_Comm parent = real.null_comm;
    int level = MPI_THREAD_SINGLE;
    uint64_t began_ns = realtime_ns();
    real.Comm_rank(real.world, &library.rank);
    real.Comm_size(real.world, &library.size);
    real.Query_thread(&level);
    real.Comm_get_parent(&parent);
    library.threaded = level == MPI_THREAD_MULTIPLE;
    library.sites = number("COHABIT_MPI_SITES", 0) != 0;
    library.rounds = library.sites || number("COHABIT_MPI_ROUNDS", 0) != 0;
    library.callers = level >= MPI_THREAD_SERIALIZED && number("COHABIT_MPI_CALLERS", 0) != 0;
    head->rank = (uint32_t)library.rank;
    head->size = (uint32_t)library.size;
    head->thread_level = (uint32_t)level;
    head->flags |= library.sites ? COHABIT_MPI_FLAG_SITES : 0;
    memcpy(head->library, version, sizeof(version));
    head->library[strcspn(head->library, "\n")] = '\0';
    head->window_ns = number("COHABIT_MPI_WINDOW_NS", 0);
    placement_only = number("COHABIT_MPI_PLACEMENT", 0) != 0;
    if (!placement_only && head->window_ns != 0)
        head->ticks_per_second = measure_ticks_per_second(before);
    if (!threads_former(head->cpus))
        sched_getaffinity(0, sizeof(head->cpus), (cpu_set_t *)head->cpus);
    threads_begin(parent != real.null_comm);
    phases_begin(parent != real.null_comm);
    instant_t now = instant();
    head->entered_ns = before.ns;
    head->init_ns = now.ns;
    head->init_ticks = head->last_ticks = now.ticks;
    head->zero_ns = number("COHABIT_MPI_ZERO_NS", now.ns);
    if (head->zero_ns > now.ns)
        head->zero_ns = now.ns;
    double per_ns = (double)head->ticks_per_second / 1e9;
    part_start_series(now.ticks - (uint64_t)((double)(now.ns - head->zero_ns) * per_ns),
                      (uint64_t)((double)head->window_ns * per_ns),
                      series_bound());
    if (parent != real.null_comm) {
        head->flags |= COHABIT_MPI_FLAG_SPAWNED;
        head->job = job();
        peers_new_world(parent, COHABIT_MPI_WORLD_PARENT, real.null_comm, began_ns);
    }
    /* Last, so that a reader never takes half a head for a whole one. */
    __atomic_store_n(&head->magic, COHABIT_MPI_PART_MAGIC, __ATOMIC_RELEASE);
    if (!placement_only && number("COHABIT_MPI_TRACE", 0) != 0)
        trace_begin();
    if (!placement_only && number("COHABIT_MPI_VISITS", 0) != 0)
        visits_begin();
    library.active = !placement_only;
}

static void
close_part(uint32_t end)
{
    cohabit_mpi_part_t *head = part();
    lock();
    part_flush_window(ticks());
    if (library.sites)
        part_keep_maps();
    threads_end();
    phases_end();
    head->last_ns = realtime_ns();
    head->end = end;
    unlock();
}

static void
finish(void)
{
    if (!library.active && !placement_only)
        return;
    close_part(COHABIT_MPI_END_FINALIZED);
    library.active = placement_only = false;
    deliver();
}

#define INITIALIZES(PREFIX, NAME, PARAMETERS, ARGUMENTS)                                                               \
    EXPORT int PREFIX##NAME(LIST PARAMETERS)                                                                           \
    {                                                                                                                  \
        int (*next)(LIST PARAMETERS) = (int (*)(LIST PARAMETERS))next_function(#PREFIX #NAME);                         \
        bool outermost = depth++ == 0;                                                                                 \
        instant_t before = instant();                                                                                  \
        MARK(COHABIT_MPI_MARK_BEGIN);                                                                                  \
        int result = next(LIST ARGUMENTS);                                                                             \
        MARK(COHABIT_MPI_MARK_END);                                                                                    \
        depth--;                                                                                                       \
        if (outermost && result == MPI_SUCCESS)                                                                        \
            begin(before);                                                                                             \
        return result;                                                                                                 \
    }
INITIALIZES(MPI_, Init, (int *argc, char ***argv), (argc, argv))
INITIALIZES(PMPI_, Init, (int *argc, char ***argv), (argc, argv))
INITIALIZES(MPI_, Init_thread, (int *argc, char ***argv, int required, int *provided), (argc, argv, required, provided))
INITIALIZES(PMPI_, Init_thread, (int *argc, char ***argv, int required, int *provided), (argc, argv, required, provided))

#define FINALIZES(PREFIX)                                                                                              \
    EXPORT int PREFIX##Finalize(void)                                                                                  \
    {                                                                                                                  \
        int (*next)(void) = (int (*)(void))next_function(#PREFIX "Finalize");                                          \
        bool outermost = depth++ == 0;                                                                                 \
        MARK(COHABIT_MPI_MARK_BEGIN);                                                                                  \
        if (outermost)                                                                                                 \
            finish();                                                                                                  \
        int result = next();                                                                                           \
        MARK(COHABIT_MPI_MARK_END);                                                                                    \
        depth--;                                                                                                       \
        return result;                                                                                                 \
    }
FINALIZES(MPI_)
FINALIZES(PMPI_)

#define ABORTS(PREFIX)                                                                                                 \
    EXPORT int PREFIX##Abort(MPI_Comm comm, int code)                                                                  \
    {                                                                                                                  \
        int (*next)(MPI_Comm, int) = (int (*)(MPI_Comm, int))next_function(#PREFIX "Abort");                           \
        if (depth++ == 0 && (library.active || placement_only))                                                        \
            close_part(COHABIT_MPI_END_ABORTED);                                                                       \
        int result = next(comm, code);                                                                                 \
        depth--;                                                                                                       \
        return result;                                                                                                 \
    }
ABORTS(MPI_)
ABORTS(PMPI_)

CALL(Comm_free, (MPI_Comm * comm), (comm), peers_forget_comm(*comm), NOTHING)
CALL(Comm_disconnect, (MPI_Comm * comm), (comm), peers_forget_comm(*comm), NOTHING)
TIMED(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
TIMED(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
TIMED(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))

#define KNOWN(KIND, LOCAL)                                                                                             \
    if (result == MPI_SUCCESS && *intercomm != real.null_comm)                                                         \
    peers_new_world(*intercomm, (KIND), (LOCAL), began_ns)
CALL(Comm_spawn,
     (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
      int codes[]),
     (command, argv, maxprocs, info, root, comm, intercomm, codes), uint64_t began_ns = realtime_ns(),
     KNOWN(COHABIT_MPI_WORLD_SPAWNED, comm))
CALL(Comm_spawn_multiple,
     (int count, char *commands[], char **argvs[], const int maxprocs[], const MPI_Info infos[], int root,
      MPI_Comm comm, MPI_Comm *intercomm, int codes[]),
     (count, commands, argvs, maxprocs, infos, root, comm, intercomm, codes), uint64_t began_ns = realtime_ns(),
     KNOWN(COHABIT_MPI_WORLD_SPAWNED, comm))
CALL(Comm_accept, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm),
     (port, info, root, comm, intercomm), uint64_t began_ns = realtime_ns(), KNOWN(COHABIT_MPI_WORLD_OTHER, comm))
CALL(Comm_connect, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm),
     (port, info, root, comm, intercomm), uint64_t began_ns = realtime_ns(), KNOWN(COHABIT_MPI_WORLD_OTHER, comm))
CALL(Comm_join, (int fd, MPI_Comm *intercomm), (fd, intercomm), uint64_t began_ns = realtime_ns(),
     KNOWN(COHABIT_MPI_WORLD_OTHER, real.null_comm))
