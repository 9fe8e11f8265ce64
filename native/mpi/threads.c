/* The threads of a rank, each on its PU before its first instruction, on whatever host the rank is (`cohabit run` of a
 * profile or mapping of ranks and their threads).
 *
 * COHABIT_MPI_THREADS names a file with a line for each rank: the PUs (OS indices) of its threads in the order in which
 * the program makes them, the first thread first. pthread_create is taken by the one who preloads this library: the
 * n-th thread is numbered by its creator and puts itself on its PU, then runs. The first thread keeps all PUs of the
 * rank until it is no longer alone, so that runtimes which count the processors they may use see those (as `cohabit
 * run` does with threads that it traces). Threads that MPI makes for itself are not counted; they and threads beyond
 * the file's get the affinity that the rank had. A thread whose creator has set an affinity for it (OMP_PLACES) keeps
 * that one.
 */
#include "library.h"
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOT_PLANNED UINT32_MAX

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    pid_t process; /* its children place nothing */
    bool placing;
    bool keeping; /* the part is there for what is seen */
    uint32_t count;
    uint32_t made;
    cohabit_mpi_thread_t *threads;
    bool settled; /* the first thread is on its PU */
    uint64_t former[16];
} plan = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

/* The line of this rank. */
static void
read_plan(void)
{
    const char *path = getenv("COHABIT_MPI_THREADS"), *rank = told_rank();
    if (path == NULL || rank == NULL)
        return;
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length = -1;
    for (long left = strtol(rank, NULL, 10); file != NULL && left >= 0; left--)
        if ((length = getline(&line, &room, file)) < 0)
            break;
    if (file == NULL)
        fprintf(stderr, "cohabit: %s: %s; the threads of rank %s are not placed\n", path, strerror(errno), rank);
    else
        fclose(file);
    uint32_t capacity = length < 0 ? 0 : (uint32_t)length;
    plan.threads = capacity == 0 ? NULL : calloc(capacity, sizeof(*plan.threads));
    char *at = line, *end;
    while (plan.threads != NULL && plan.count < capacity) {
        unsigned long pu = strtoul(at, &end, 10);
        if (end == at)
            break;
        plan.threads[plan.count++].pu = (uint32_t)pu;
        at = end;
    }
    free(line);
    plan.process = getpid();
    /* A rank of one thread is bound by its launcher. */
    plan.placing = plan.count > 1;
    plan.made = 1;
}

static bool
has(const uint64_t cpus[16], uint32_t pu)
{
    return pu < 1024 && (cpus[pu / 64] >> pu % 64 & 1) != 0;
}

/* What is known of a planned thread, into the part. The lock is held. */
static void
keep(uint32_t number)
{
    if (plan.keeping && part() != NULL && part()->threads != 0)
        ((cohabit_mpi_thread_t *)part_at(part()->threads))[number] = plan.threads[number];
}

static void
read_back(uint32_t number, pid_t tid)
{
    cohabit_mpi_thread_t *thread = &plan.threads[number];
    uint64_t cpus[16] = { 0 };
    if (sched_getaffinity(tid, sizeof(cpus), (cpu_set_t *)cpus) < 0)
        return;
    thread->tid = (uint32_t)tid;
    memcpy(thread->cpus, cpus, sizeof(cpus));
    keep(number);
}

static void
put(pid_t tid, uint32_t pu)
{
    uint64_t cpus[16] = { 0 };
    if (!has(plan.former, pu))
        return; /* not one of the rank's: what reads back will tell */
    cpus[pu / 64] = 1ull << pu % 64;
    sched_setaffinity(tid, sizeof(cpus), (const cpu_set_t *)cpus);
}

/* Whether code is that of MPI or of what it is made of. */
static bool
is_of_mpi(void *address)
{
    static const char *const known[] = { "libmpi",   "libopen-", "libpmix",    "libprrte", "libuc",
                                         "libevent", "libfabric", "libpsm",    "libhwloc", "mca_" };
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *name = strrchr(info.dli_fname, '/');
    name = name == NULL ? info.dli_fname : name + 1;
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

typedef struct {
    void *(*body)(void *);
    void *argument;
    uint32_t number;
    bool bound; /* by who made it */
} start_t;

static void *
start(void *given)
{
    start_t now = *(start_t *)given;
    free(given);
    pid_t self = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&plan.lock);
    if (now.number == NOT_PLANNED) {
        if (!now.bound)
            sched_setaffinity(self, sizeof(plan.former), (const cpu_set_t *)plan.former);
    } else {
        if (!now.bound && plan.placing)
            put(self, plan.threads[now.number].pu);
        read_back(now.number, self);
    }
    pthread_mutex_unlock(&plan.lock);
    return now.body(now.argument);
}

/* glibc gives a mask of ones where none was set. */
static bool
has_affinity(const pthread_attr_t *attributes)
{
    cpu_set_t mask;
    return attributes != NULL && pthread_attr_getaffinity_np(attributes, sizeof(mask), &mask) == 0 &&
        CPU_COUNT(&mask) != CPU_SETSIZE;
}

EXPORT int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (next == NULL)
        next = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_create");
    pthread_once(&plan.once, read_plan);
    if (!plan.placing || getpid() != plan.process)
        return next(thread, attributes, body, argument);
    bool own = depth == 0 && !is_of_mpi(__builtin_return_address(0));
    start_t *given = malloc(sizeof(*given));
    if (given == NULL)
        return EAGAIN;
    pthread_mutex_lock(&plan.lock);
    if (!own && !plan.settled) {
        pthread_mutex_unlock(&plan.lock);
        free(given);
        return next(thread, attributes, body, argument);
    }
    if (!plan.settled) {
        plan.settled = true;
        sched_getaffinity(plan.process, sizeof(plan.former), (cpu_set_t *)plan.former);
        put(plan.process, plan.threads[0].pu);
        read_back(0, plan.process);
    }
    uint32_t number = own ? plan.made++ : NOT_PLANNED;
    *given = (start_t) { body, argument, number < plan.count ? number : NOT_PLANNED, has_affinity(attributes) };
    if (part() != NULL && plan.keeping)
        part()->threads_made = plan.made;
    pthread_mutex_unlock(&plan.lock);
    int result = next(thread, attributes, start, given);
    if (result != 0) {
        free(given);
        pthread_mutex_lock(&plan.lock);
        if (own && plan.made == number + 1)
            plan.made--;
        pthread_mutex_unlock(&plan.lock);
    }
    return result;
}

/* Threads of a rank told apart, for a profile of ranks and their threads (COHABIT_MPI_CALLERS). */
uint64_t
caller_key(void)
{
    static __thread uint64_t place;
    if (place == 0 && part()->thread_count < COHABIT_MPI_MAX_CALLERS) {
        if (part()->threads == 0)
            part()->threads = part_allocate(COHABIT_MPI_MAX_CALLERS * sizeof(cohabit_mpi_thread_t));
        if (part()->threads == 0)
            return 0;
        cohabit_mpi_thread_t *threads = part_at(part()->threads);
        threads[part()->thread_count].tid = (uint32_t)syscall(SYS_gettid);
        place = ++part()->thread_count;
    }
    return place << COHABIT_MPI_KEY_THREAD_SHIFT;
}

bool
threads_former(uint64_t cpus[16])
{
    bool settled = false;
    pthread_once(&plan.once, read_plan);
    pthread_mutex_lock(&plan.lock);
    if (plan.settled) {
        memcpy(cpus, plan.former, sizeof(plan.former));
        settled = true;
    }
    pthread_mutex_unlock(&plan.lock);
    return settled;
}

void
threads_begin(bool spawned)
{
    pthread_once(&plan.once, read_plan);
    pthread_mutex_lock(&plan.lock);
    if (spawned && plan.placing) {
        /* The file is about the ranks of the first world. */
        plan.placing = false;
        if (plan.settled)
            sched_setaffinity(plan.process, sizeof(plan.former), (const cpu_set_t *)plan.former);
    }
    if (plan.placing && (part()->threads = part_allocate(plan.count * sizeof(cohabit_mpi_thread_t))) != 0) {
        part()->thread_count = plan.count;
        part()->threads_made = plan.made;
        plan.keeping = true;
        for (uint32_t number = 0; number < plan.count; number++)
            keep(number);
    }
    pthread_mutex_unlock(&plan.lock);
}

void
threads_end(void)
{
    pthread_mutex_lock(&plan.lock);
    for (uint32_t number = 0; plan.keeping && number < plan.count; number++) {
        char task[64];
        uint32_t tid = plan.threads[number].tid;
        snprintf(task, sizeof(task), "/proc/self/task/%u", tid);
        /* One that has ended is where it was when it began. */
        if (tid != 0 && access(task, F_OK) == 0)
            read_back(number, (pid_t)tid);
    }
    plan.keeping = false;
    pthread_mutex_unlock(&plan.lock);
}
