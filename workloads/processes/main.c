/* Processes that communicate through memory they share, each pair a known number of times.
 *
 *   processes ring|pairs|all [--memory KIND] [--processes N] [--threads T] [--rounds R] [--blocks B] [--block BYTES]
 *             [--exec] [--kill] [--everything] [--expect FILE]
 *
 * N workers of T threads each, started by one process that does nothing else. In each round every thread stores into
 * its own B blocks, all wait for all, and each loads the blocks of its partners: of the next thread in a ring, of the
 * other of its pair, of all others. KIND says what the memory is and how a process comes to it:
 *
 *   anonymous  mapped before the fork        moved  the same, and each worker moves it elsewhere (mremap)
 *   file       a file mapped by each worker  posix  shm_open           memfd  memfd_create
 *   sysv       shmget, each attaches it      twice  a file mapped two times by each worker: stores go through one
 *                                                   mapping, loads through the other
 *   copied     private memory, which workers copy from one another's by process_vm_readv
 *   covered    a file; private memory is mapped over each worker's first mapping of it, used alike by all, and then the
 *              file is mapped again elsewhere
 *   pipe       no memory: each thread sends its blocks, each by itself, to those whose partner it is
 *   socket     the same through connected UNIX sockets      message  each block a message (SOCK_SEQPACKET)
 *   unix       through UNIX sockets that were connected by name (socket: by socketpair)
 *   tcp        through TCP, by threads that wait for what comes in poll(2)
 *   event      through eventfd(2): of each block only that it is there
 *   cut        a file that is cut off and grown again before the last round: what was stored before is gone
 *
 * Workers map at other addresses, and from another offset on, than each other. With --exec they are programs of their
 * own by exec, but where there is no memory; with --kill the last worker is killed (SIGKILL) before the last round of loads. With --everything no
 * range of memory is named to cohabit. What is expected is written to FILE: process id and thread (0: its first) of
 * both ends, messages, bytes, invalidations; and before that where the data is: `shared` and its first byte in the file
 * or the segment, or `private` and its address, and how many bytes it has, or `channels 0 0`. */
#include <cohabit.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define MOST 4096u

/* At the start of the memory, and not counted. */
struct control {
    pthread_barrier_t barrier;
    int pids[MOST];
    int wrong;
};
#define CONTROL_BYTES ((sizeof(struct control) + PAGE - 1) / PAGE * PAGE)

static const char *pattern = "ring", *memory = "anonymous", *expect;
static unsigned processes = 4, threads = 1, rounds = 3, blocks = 4, block_bytes = 64, worker = MOST;
static bool by_exec, by_kill, everything;
static char **arguments;
static int id; /* of the file or the segment */
static struct control *control;
static unsigned char *stores, *loads, *covered;
static int (*ends)[2]; /* of the channel from a thread to another: where it is read, and where it is written */

static void die(const char *what)
{
    fprintf(stderr, "processes: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static bool is(const char *kind)
{
    return strcmp(memory, kind) == 0;
}

static bool by_channels(void)
{
    return is("pipe") || is("socket") || is("message") || is("unix") || is("tcp") || is("event");
}

static size_t area_bytes(void)
{
    return (size_t)blocks * block_bytes;
}

static size_t data_bytes(void)
{
    return (processes * threads * area_bytes() + PAGE - 1) / PAGE * PAGE;
}

static void make_memory(void)
{
    static char text[64];
    snprintf(text, sizeof(text), "/cohabit-workload-%d", getpid());
    if (is("copied") || by_channels()) {
        stores = mmap(NULL, data_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stores == MAP_FAILED)
            die("mmap");
    }
    if (is("anonymous") || is("moved") || is("copied") || by_channels()) {
        control = mmap(NULL, CONTROL_BYTES + data_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (control == MAP_FAILED)
            die("mmap");
        return;
    }
    if (is("sysv")) {
        id = shmget(IPC_PRIVATE, CONTROL_BYTES + data_bytes(), IPC_CREAT | 0600);
        control = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
        if (control == (void *)-1)
            die("shmat");
        return;
    }
    if (is("posix"))
        id = shm_open(text, O_RDWR | O_CREAT | O_EXCL, 0600);
    else if (is("memfd"))
        id = memfd_create("workload", 0);
    else
        id = fileno(tmpfile());
    if (is("posix"))
        shm_unlink(text);
    if (id < 0 || ftruncate(id, (off_t)(CONTROL_BYTES + data_bytes())) != 0 || fcntl(id, F_SETFD, 0) != 0)
        die("the memory's file");
    control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, id, 0);
    if (control == MAP_FAILED)
        die("mmap");
}

/* The data, with `before` pages of the object before it that are mapped too. */
static unsigned char *map_data(unsigned before)
{
    size_t offset = CONTROL_BYTES - before * PAGE;
    unsigned char *at =
        mmap(NULL, data_bytes() + before * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, id, (off_t)offset);
    if (at == MAP_FAILED)
        die("mmap");
    return at + before * PAGE;
}

/* Private pages in between, so that workers find other addresses. */
static void shift_addresses(void)
{
    for (unsigned i = 0; i < worker % 7; i++)
        if (mmap(NULL, PAGE * (1 + worker % 5), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            die("mmap");
}

static void come_to_memory(void)
{
    shift_addresses();
    if (is("anonymous")) {
        stores = loads = (unsigned char *)control + CONTROL_BYTES;
    } else if (is("copied") || by_channels()) {
        loads = stores; /* at the same address in all workers */
    } else if (is("moved")) {
        unsigned char *to = mmap(NULL, data_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stores = mremap((unsigned char *)control + CONTROL_BYTES, data_bytes(), data_bytes(),
                        MREMAP_MAYMOVE | MREMAP_FIXED, to);
        loads = stores;
        if (stores == MAP_FAILED)
            die("mremap");
    } else if (is("sysv")) {
        unsigned char *at = shmat(id, NULL, 0);
        if (at == (void *)-1)
            die("shmat");
        control = (void *)at;
        stores = loads = at + CONTROL_BYTES;
    } else {
        if (by_exec)
            control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, id, 0);
        stores = map_data(worker % 3);
        loads = is("twice") ? map_data((worker + 1) % 3) : stores;
    }
    if (is("covered")) {
        covered = stores;
        if (mmap(covered, data_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != covered)
            die("mmap");
        stores = loads = map_data(0);
        cohabit_only(covered, data_bytes());
    }
    if (!everything)
        cohabit_only(stores, data_bytes());
    if (!everything && loads != stores)
        cohabit_only(loads, data_bytes());
}

static bool is_partner(unsigned of, unsigned other)
{
    unsigned all = processes * threads;
    if (strcmp(pattern, "ring") == 0)
        return other == (of + 1) % all && other != of;
    if (strcmp(pattern, "pairs") == 0)
        return other == (of ^ 1);
    return other != of;
}

/* At whatever name the kernel gives: of TCP a port, of UNIX sockets an abstract one. */
static void connect_by_name(int made[2])
{
    union {
        struct sockaddr any;
        struct sockaddr_in tcp;
        struct sockaddr_un unix_socket;
    } name = { .tcp = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
    const int family = is("tcp") ? AF_INET : AF_UNIX;
    socklen_t bytes = is("tcp") ? sizeof(name.tcp) : sizeof(sa_family_t);
    name.any.sa_family = (sa_family_t)family;
    int listener = socket(family, SOCK_STREAM, 0);
    made[1] = socket(family, SOCK_STREAM, 0);
    if (listener < 0 || made[1] < 0 || bind(listener, &name.any, bytes) != 0 || listen(listener, 1) != 0)
        die("a connection");
    bytes = sizeof(name);
    if (getsockname(listener, &name.any, &bytes) != 0 || connect(made[1], &name.any, bytes) != 0)
        die("a connection");
    made[0] = accept(listener, NULL, NULL);
    close(listener);
}

static void make_channels(void)
{
    unsigned all = processes * threads;
    ends = calloc((size_t)all * all, sizeof(*ends));
    for (unsigned i = 0; i < all * all; i++) {
        if (!is_partner(i % all, i / all))
            continue;
        if (is("tcp") || is("unix"))
            connect_by_name(ends[i]);
        else if (is("event"))
            ends[i][0] = ends[i][1] = eventfd(0, 0);
        else if (is("pipe") ? pipe(ends[i]) : socketpair(AF_UNIX, is("socket") ? SOCK_STREAM : SOCK_SEQPACKET, 0, ends[i]))
            die("a channel");
        if (ends[i][0] < 0)
            die("a channel");
    }
}

static void wait_for_all(void)
{
    pthread_barrier_wait(&control->barrier);
}

static bool is_killed(unsigned task)
{
    return by_kill && task / threads == processes - 1;
}

static volatile uint64_t *word(unsigned char *base, unsigned task, unsigned block)
{
    return (volatile uint64_t *)(base + task * area_bytes() + (size_t)block * block_bytes);
}

/* What the block of another thread holds: the threads of a process have its memory. */
static uint64_t load(unsigned task, unsigned block)
{
    volatile uint64_t *at = word(loads, task, block);
    uint64_t value = 0;
    struct iovec to = { &value, sizeof(value) }, from = { (void *)at, sizeof(value) };
    if (!is("copied") || task / threads == worker)
        return *at;
    if (process_vm_readv(control->pids[task / threads], &to, 1, &from, 1, 0) != sizeof(value))
        die("process_vm_readv");
    return value;
}

/* Private memory, where shared memory was: whatever a process does there says nothing to others. */
static void use_covered(void)
{
    for (size_t at = 0; at < data_bytes(); at += 8)
        ++*(volatile uint64_t *)(covered + at);
}

/* An event that this thread has not taken yet, or the next. */
static void receive_event(int from, uint64_t *ready)
{
    if (*ready == 0 && read(from, ready, sizeof(*ready)) != sizeof(*ready))
        die("read");
    --*ready;
}

/* Whether a block is as it was sent. */
static bool receive(int from, uint64_t value)
{
    uint64_t got[block_bytes / sizeof(uint64_t)];
    for (size_t have = 0; have < sizeof(got);) {
        struct pollfd one = { from, POLLIN, 0 };
        if (is("tcp") && poll(&one, 1, -1) != 1)
            die("poll");
        ssize_t some = read(from, (char *)got + have, sizeof(got) - have);
        if (some <= 0)
            die("read");
        have += (size_t)some;
    }
    return got[0] == value;
}

static void *send_and_receive(unsigned me)
{
    unsigned all = processes * threads;
    uint64_t *ready = calloc(all, sizeof(*ready));
    for (unsigned round = 1; round <= rounds; round++) {
        for (unsigned block = 0; block < blocks; block++)
            *word(stores, me, block) = is("event") ? 1 : me * 1000 + round;
        for (unsigned other = 0; other < all; other++)
            for (unsigned block = 0; is_partner(other, me) && block < blocks; block++)
                if (write(ends[me * all + other][1], (void *)word(stores, me, block), block_bytes) != block_bytes)
                    die("write");
        for (unsigned other = 0; other < all; other++)
            for (unsigned block = 0; is_partner(me, other) && block < blocks; block++)
                if (is("event"))
                    receive_event(ends[other * all + me][0], &ready[other]);
                else if (!receive(ends[other * all + me][0], other * 1000 + round))
                    control->wrong = 1;
    }
    free(ready);
    return NULL;
}

static void *work(void *number)
{
    unsigned me = (unsigned)(uintptr_t)number;
    if (by_channels())
        return send_and_receive(me);
    for (unsigned round = 1; round <= rounds; round++) {
        for (unsigned block = 0; block < blocks; block++)
            *word(stores, me, block) = me * 1000 + round;
        if (covered != NULL)
            use_covered();
        wait_for_all();
        bool cut = is("cut") && round == rounds;
        if (cut && me == 0 &&
            (ftruncate(id, (off_t)CONTROL_BYTES) != 0 || ftruncate(id, (off_t)(CONTROL_BYTES + data_bytes())) != 0))
            die("ftruncate");
        wait_for_all();
        if (is_killed(me) && round == rounds) {
            if (me % threads == 0)
                kill(getpid(), SIGKILL);
            pause();
        }
        for (unsigned other = 0; other < processes * threads; other++)
            for (unsigned block = 0; is_partner(me, other) && block < blocks; block++)
                if (load(other, block) != (cut ? 0 : other * 1000 + round))
                    control->wrong = 1;
        if (!by_kill || round < rounds)
            wait_for_all();
    }
    return NULL;
}

static int run_worker(void)
{
    pthread_t made[MOST];
    control->pids[worker] = getpid();
    for (unsigned thread = 1; thread < threads; thread++)
        if ((errno = pthread_create(&made[thread], NULL, work, (void *)(uintptr_t)(worker * threads + thread))))
            die("pthread_create");
    work((void *)(uintptr_t)(worker * threads));
    for (unsigned thread = 1; thread < threads; thread++)
        pthread_join(made[thread], NULL);
    return 0;
}

static void start_worker(unsigned number)
{
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child != 0)
        return;
    worker = number;
    if (by_exec) {
        char text[2][16];
        char *more[64];
        int count = 0;
        snprintf(text[0], sizeof(text[0]), "%u", number);
        snprintf(text[1], sizeof(text[1]), "%d", id);
        for (; arguments[count] != NULL && count < 56; count++)
            more[count] = arguments[count];
        more[count++] = "--worker";
        more[count++] = text[0];
        more[count++] = "--id";
        more[count++] = text[1];
        more[count] = NULL;
        execv("/proc/self/exe", more);
        die("exec");
    }
    come_to_memory();
    exit(run_worker());
}

static void write_expected(void)
{
    FILE *file = fopen(expect, "w");
    if (file == NULL)
        die(expect);
    fprintf(file, "# cohabit truth of processes, format 1\n");
    if (is("copied"))
        fprintf(file, "# private %llu %zu\n", (unsigned long long)(uintptr_t)stores, data_bytes());
    else if (by_channels())
        fprintf(file, "# channels 0 0\n");
    else
        fprintf(file, "# shared %zu %zu\n", (size_t)CONTROL_BYTES, data_bytes());
    unsigned all = processes * threads, counted = is("cut") ? rounds - 1 : rounds;
    for (unsigned to = 0; to < all; to++)
        for (unsigned from = 0; from < all; from++) {
            unsigned read = counted - is_killed(to);
            if (!is_partner(to, from) || read == 0)
                continue;
            /* A round's copies are stale when the next is written. */
            unsigned stale = rounds - 1;
            fprintf(file, "%d,%u,%d,%u,%llu,%llu,%llu\n", control->pids[from / threads], from % threads,
                    control->pids[to / threads], to % threads, (unsigned long long)read * blocks,
                    (unsigned long long)read * blocks * 8, (unsigned long long)stale * blocks);
        }
    if (fclose(file) != 0)
        die(expect);
}

static void read_arguments(char **argv)
{
    const struct {
        const char *name;
        unsigned *value;
    } numbers[] = { { "--processes", &processes }, { "--threads", &threads }, { "--rounds", &rounds },
                    { "--blocks", &blocks },       { "--block", &block_bytes }, { "--worker", &worker },
                    { "--id", (unsigned *)&id } };
    arguments = argv;
    if (argv[1] != NULL)
        pattern = argv[1];
    for (char **at = argv + 1; *at != NULL && *++at != NULL;) {
        by_exec |= strcmp(*at, "--exec") == 0;
        by_kill |= strcmp(*at, "--kill") == 0;
        everything |= strcmp(*at, "--everything") == 0;
        if (strcmp(*at, "--exec") == 0 || strcmp(*at, "--kill") == 0 || strcmp(*at, "--everything") == 0)
            continue;
        char *value = at[1];
        if (value == NULL)
            break;
        if (strcmp(*at, "--memory") == 0)
            memory = value;
        if (strcmp(*at, "--expect") == 0)
            expect = value;
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
            if (strcmp(*at, numbers[i].name) == 0)
                *numbers[i].value = (unsigned)strtoul(value, NULL, 10);
        at++;
    }
    if (processes * threads > MOST || processes == 0 || threads == 0 || block_bytes < 8) {
        errno = EINVAL;
        die("numbers");
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    int status, failed = 0;
    read_arguments(argv);
    if (worker != MOST) {
        come_to_memory();
        return run_worker();
    }
    make_memory();
    if (by_channels())
        make_channels();
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&control->barrier, &shared, processes * threads);
    if (!everything)
        cohabit_only(control, sizeof(void *)); /* nothing of this process */
    for (unsigned i = 0; i < processes; i++)
        start_worker(i);
    while (wait(&status) > 0)
        failed |= !(status == 0 || (by_kill && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    if (control->wrong)
        fprintf(stderr, "processes: wrong values\n");
    if (expect != NULL)
        write_expected();
    if (is("sysv"))
        shmctl(id, IPC_RMID, NULL);
    return failed || control->wrong;
}
