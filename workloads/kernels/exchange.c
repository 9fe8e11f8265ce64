/* Tasks that exchange lines of memory in a pattern and work by themselves between that, for
 * benches/online-generated.py: a program for every point of a space of patterns, sizes, ways to wait and kinds of work.
 * Who communicates with whom is printed before it begins.
 *
 * Usage: exchange PATTERN [--tasks N] [--share PERCENT] [--lines L] [--wait HOW] [--work WHERE] [--kind KIND] [--seed
 * S]
 *                         [--seconds T] [--expect FILE]
 *
 * PATTERN   ring, pairs, blocks (all to all among four), all-to-one, stencil (the four neighbours on a grid, both
 * ways), none --share   of a task's CPU time, how much the exchange takes: private work is made as long as that needs
 * --lines   cache lines that a task passes on in a round, in equal parts for each that it passes them to; each part is
 * memory of
 *           its own, that nobody else reads
 * --wait    barrier (of all), flag (spins and yields), futex, queue (of two slots, with mutex and condition variable)
 * --work    registers, count (up to a bound in memory, another one each round), clock (reads the time until enough has
 * passed),
 *           cache (16 KiB of its own), memory (8 MiB of its own)
 * --kind    threads (the main one is task 0) or processes (children, of which the first is task 1: the parent only
 * waits) --seed    deals the roles to the tasks, and the parts to places in memory
 *
 * On standard output, or in FILE, for every pair that communicates: source,destination,lines a round. At the end, on
 * standard error, rounds and what share of the CPU time the exchange was.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define MOST_TASKS 256
#define CACHED (16 << 10)
#define STREAMED (8 << 20)
#define SLOTS 2

enum waits { BARRIER, FLAG, FUTEX, QUEUE };
enum works { REGISTERS, COUNT, CLOCK, CACHE, MEMORY };

/* A task that passes lines to another. */
struct edge {
    int source, destination;
    long lines;
    char *slots[SLOTS];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Slots that were filled, and emptied, so far. */
    _Alignas(LINE) _Atomic uint32_t filled;
    _Alignas(LINE) _Atomic uint32_t emptied;
};

/* What all tasks see. */
struct shared {
    pthread_barrier_t barrier;
    _Atomic int over;
    _Atomic long rounds;
    _Atomic uint64_t exchanging_ns, running_ns, sum;
};

static const char *const PATTERNS[] = {"ring", "pairs", "blocks", "all-to-one", "stencil", "none", NULL};
static const char *const WAITS[] = {"barrier", "flag", "futex", "queue", NULL};
static const char *const WORKS[] = {"registers", "count", "clock", "cache", "memory", NULL};
static const char *const KINDS[] = {"threads", "processes", NULL};

static int pattern, tasks = 8, waits = BARRIER, work = REGISTERS, processes;
static long lines = 4096, units;
static double share = 20, seconds = 10;
static unsigned long seed = 1;
static struct edge *edges;
static int edge_count;
static struct shared *shared;

static void fail(const char *what)
{
    fprintf(stderr, "exchange: %s\n", what);
    exit(2);
}

static int named(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return i;
    fprintf(stderr, "exchange: there is no %s\n", name);
    exit(2);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* splitmix64 */
static uint64_t drawn(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void *memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, (processes ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("not enough memory");
    return at;
}

static void __attribute__((noinline)) fill(char *at, long count, uint64_t value)
{
    for (long line = 0; line < count; line++)
        *(volatile uint64_t *)(at + line * LINE) = value;
}

static uint64_t __attribute__((noinline)) drain(const char *at, long count)
{
    uint64_t sum = 0;
    for (long line = 0; line < count; line++)
        sum += *(const volatile uint64_t *)(at + line * LINE);
    return sum;
}

static uint64_t __attribute__((noinline)) compute(long count, uint64_t value)
{
    for (long i = 0; i < count; i++) {
        value = value * 6364136223846793005ull + 1442695040888963407ull;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

/* Private work: some 0.1 us a unit, whatever it is. */
static uint64_t do_work(long count, char *own, uint64_t value)
{
    if (work == REGISTERS)
        return compute(count * 64, value);
    if (work == COUNT) {
        volatile long *bound = (volatile long *)own;
        *bound = count * 128 + value % 1024;
        for (long i = 0; i < *bound; i++)
            __asm__ volatile("");
        return value * 6364136223846793005ull + 1442695040888963407ull;
    }
    if (work == CLOCK) {
        struct timespec start, now;
        clock_gettime(CLOCK_MONOTONIC, &start);
        do {
            clock_gettime(CLOCK_MONOTONIC, &now);
            value = compute(8, value);
        } while ((now.tv_sec - start.tv_sec) * 1000000000ll + now.tv_nsec - start.tv_nsec < count * 100);
        return value;
    }
    size_t bytes = work == CACHE ? CACHED : STREAMED, at = value % (bytes / LINE) * LINE;
    for (long i = 0; i < count * (work == CACHE ? 64 : 16); i++) {
        value += *(volatile uint64_t *)(own + at);
        *(volatile uint64_t *)(own + at) = value;
        at = (at + LINE) & (bytes - 1);
    }
    return value;
}

static void wait_for(_Atomic uint32_t *word, uint32_t than, struct edge *edge)
{
    /* Until the word, which only grows, is `than` or more. */
    for (int spins = 0;; spins++) {
        uint32_t now = atomic_load_explicit(word, memory_order_acquire);
        if ((int32_t)(now - than) >= 0 || atomic_load_explicit(&shared->over, memory_order_relaxed))
            return;
        if (waits == FLAG) {
            if (spins % 256 == 255)
                sched_yield();
            else
                __builtin_ia32_pause();
        } else if (waits == FUTEX) {
            struct timespec a_while = {0, 50000000};
            syscall(SYS_futex, word, FUTEX_WAIT, now, &a_while, NULL, 0);
        } else {
            struct timespec a_while;
            clock_gettime(CLOCK_REALTIME, &a_while);
            a_while.tv_nsec += 50000000;
            a_while.tv_sec += a_while.tv_nsec / 1000000000;
            a_while.tv_nsec %= 1000000000;
            pthread_mutex_lock(&edge->mutex);
            if ((int32_t)(atomic_load(word) - than) < 0 && !shared->over)
                pthread_cond_timedwait(&edge->changed, &edge->mutex, &a_while);
            pthread_mutex_unlock(&edge->mutex);
        }
    }
}

static void advance(_Atomic uint32_t *word, struct edge *edge)
{
    if (waits == QUEUE)
        pthread_mutex_lock(&edge->mutex);
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    if (waits == QUEUE) {
        pthread_cond_broadcast(&edge->changed);
        pthread_mutex_unlock(&edge->mutex);
    } else if (waits == FUTEX) {
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

/* Slots that each edge has: they lie side by side, and so do the edges. */
static uint32_t slots(void)
{
    return waits == QUEUE ? SLOTS : 1;
}

static void meet(void)
{
    if (waits == BARRIER)
        pthread_barrier_wait(&shared->barrier);
}

static void run(int task)
{
    uint64_t began = cpu_ns(), in_exchange = 0, value = task + 1;
    char *own = memory(work == MEMORY ? STREAMED : CACHED);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t round = 0; !atomic_load(&shared->over); round++) {
        value = do_work(units, own, value);
        uint64_t before = cpu_ns();
        for (struct edge *edge = edges; edge < edges + edge_count; edge++) {
            if (edge->source != task)
                continue;
            if (waits != BARRIER)
                wait_for(&edge->emptied, round - slots() + 1, edge);
            fill(edge->slots[round % slots()], edge->lines, value);
            if (waits != BARRIER)
                advance(&edge->filled, edge);
        }
        in_exchange += cpu_ns() - before;
        meet();
        before = cpu_ns();
        for (struct edge *edge = edges; edge < edges + edge_count; edge++) {
            if (edge->destination != task)
                continue;
            if (waits != BARRIER)
                wait_for(&edge->filled, round + 1, edge);
            value += drain(edge->slots[round % slots()], edge->lines);
            if (waits != BARRIER)
                advance(&edge->emptied, edge);
        }
        in_exchange += cpu_ns() - before;
        if (task == 0) {
            shared->rounds = round + 1;
            clock_gettime(CLOCK_MONOTONIC, &now);
            /* Where all meet, all see it in the same round: between the two meetings nobody looks. */
            if (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 >= seconds)
                shared->over = 1;
        }
        meet();
    }
    shared->exchanging_ns += in_exchange;
    shared->running_ns += cpu_ns() - began;
    shared->sum += value;
    /* Nobody is left waiting for this one. */
    for (struct edge *edge = edges; waits != BARRIER && edge < edges + edge_count; edge++)
        if (edge->source == task || edge->destination == task)
            advance(&edge->filled, edge), advance(&edge->emptied, edge);
}

static void *run_thread(void *task)
{
    run((long)task);
    return NULL;
}

static void add_edge(const int *role, int source, int destination)
{
    for (int i = 0; i < edge_count; i++)
        if (edges[i].source == role[source] && edges[i].destination == role[destination])
            return;
    if (source != destination)
        edges[edge_count++] = (struct edge){.source = role[source], .destination = role[destination]};
}

static void make_edges(const int *role)
{
    int columns = 1;
    for (int i = 1; i * i <= tasks; i++)
        if (tasks % i == 0)
            columns = tasks / i;
    int rows = tasks / columns;
    for (int i = 0; i < tasks; i++) {
        int row = i / columns, column = i % columns;
        switch (pattern) {
        case 0:
            add_edge(role, i, (i + 1) % tasks);
            break;
        case 1:
            if ((i ^ 1) < tasks)
                add_edge(role, i, i ^ 1);
            break;
        case 2:
            for (int j = i / 4 * 4; j < i / 4 * 4 + 4 && j < tasks; j++)
                add_edge(role, i, j);
            break;
        case 3:
            add_edge(role, i, 0);
            break;
        case 4:
            if (row > 0)
                add_edge(role, i, i - columns);
            if (row + 1 < rows)
                add_edge(role, i, i + columns);
            if (column > 0)
                add_edge(role, i, i - 1);
            if (column + 1 < columns)
                add_edge(role, i, i + 1);
            break;
        }
    }
}

static void shuffle(int *numbers, int count, uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        int j = drawn(state) % (i + 1), kept = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = kept;
    }
}

/* Parts of each task's lines, at places in memory in an order that the seed draws. */
static void place_edges(uint64_t *state)
{
    int order[MOST_TASKS * 4 + MOST_TASKS], passes[MOST_TASKS] = {0};
    size_t bytes = 0;
    for (int i = 0; i < edge_count; i++)
        passes[edges[i].source]++, order[i] = i;
    for (int i = 0; i < edge_count; i++) {
        edges[i].lines = lines / passes[edges[i].source];
        if (edges[i].lines < 1)
            edges[i].lines = 1;
        bytes += edges[i].lines * LINE * slots();
    }
    shuffle(order, edge_count, state);
    char *at = bytes ? memory(bytes) : NULL;
    for (int i = 0; i < edge_count; i++)
        for (uint32_t slot = 0; slot < slots(); slot++, at += edges[order[i]].lines * LINE)
            edges[order[i]].slots[slot] = at;
}

/* How many units of private work make the exchange take its share; both are timed here, on memory that is used and then
 * given back. */
static void calibrate(void)
{
    size_t bytes = (size_t)lines * LINE;
    char *scratch = memory(bytes), *own = memory(STREAMED);
    uint64_t value = 1, before, line_ns, unit_ns;
    fill(scratch, lines, 1);
    before = cpu_ns();
    for (int i = 0; i < 4; i++)
        fill(scratch, lines, i), value += drain(scratch, lines);
    line_ns = (cpu_ns() - before) / 4;
    do_work(20000, own, 1);
    before = cpu_ns();
    shared->sum += do_work(20000, own, value);
    unit_ns = cpu_ns() - before;
    units = line_ns * (100 - share) / share / (unit_ns / 20000.0);
    munmap(scratch, bytes);
    munmap(own, STREAMED);
}

int main(int argc, char **argv)
{
    const char *expect = NULL;
    if (argc < 2)
        fail("exchange PATTERN [--tasks N] [--share PERCENT] [--lines L] [--wait HOW] [--work WHERE] [--kind KIND] [--seed S] "
             "[--seconds T] [--expect FILE]");
    pattern = named(PATTERNS, argv[1]);
    for (int i = 2; i < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1];
        if (!value)
            fail("an option without a value");
        if (!strcmp(option, "--tasks"))
            tasks = atoi(value);
        else if (!strcmp(option, "--share"))
            share = atof(value);
        else if (!strcmp(option, "--lines"))
            lines = atol(value);
        else if (!strcmp(option, "--wait"))
            waits = named(WAITS, value);
        else if (!strcmp(option, "--work"))
            work = named(WORKS, value);
        else if (!strcmp(option, "--kind"))
            processes = named(KINDS, value);
        else if (!strcmp(option, "--seed"))
            seed = strtoul(value, NULL, 10);
        else if (!strcmp(option, "--seconds"))
            seconds = atof(value);
        else if (!strcmp(option, "--expect"))
            expect = value;
        else
            fail("an option that there is not");
    }
    if (tasks < 1 || tasks > MOST_TASKS || share <= 0 || share > 100 || lines < 1 || seconds <= 0)
        fail("tasks from 1 to 256, a share above 0 and up to 100, a line and a second at least");
    uint64_t state = seed;
    int role[MOST_TASKS];
    for (int i = 0; i < tasks; i++)
        role[i] = i;
    if (seed)
        shuffle(role, tasks, &state);
    int threads = !processes;
    processes = 1;
    shared = memory(sizeof *shared);
    edges = memory(sizeof *edges * tasks * 5);
    processes = !threads;
    make_edges(role);
    place_edges(&state);
    pthread_barrierattr_t barrier;
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_barrierattr_init(&barrier);
    pthread_mutexattr_init(&mutex);
    pthread_condattr_init(&condition);
    if (processes) {
        pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
        pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    }
    pthread_barrier_init(&shared->barrier, &barrier, tasks);
    for (struct edge *edge = edges; edge < edges + edge_count; edge++) {
        pthread_mutex_init(&edge->mutex, &mutex);
        pthread_cond_init(&edge->changed, &condition);
    }
    FILE *out = expect ? fopen(expect, "w") : stdout;
    if (!out)
        return perror(expect), 2;
    fprintf(out, "source,destination,lines\n");
    for (struct edge *edge = edges; edge < edges + edge_count; edge++)
        fprintf(out, "%d,%d,%ld\n", edge->source + processes, edge->destination + processes, edge->lines);
    if (fflush(out))
        return perror("writing"), 2;
    calibrate();
    if (processes) {
        for (int task = 0; task < tasks; task++) {
            pid_t child = fork();
            if (child < 0)
                return perror("fork"), 2;
            if (child == 0) {
                run(task);
                _exit(0);
            }
        }
        for (int status, failed = 0;;) {
            pid_t child = wait(&status);
            if (child < 0 && failed)
                return 1;
            if (child < 0)
                break;
            failed |= status != 0;
        }
    } else {
        pthread_t thread[MOST_TASKS];
        for (long task = 1; task < tasks; task++)
            if (pthread_create(thread + task, NULL, run_thread, (void *)task))
                fail("pthread_create failed");
        run(0);
        for (int task = 1; task < tasks; task++)
            pthread_join(thread[task], NULL);
    }
    fprintf(stderr, "rounds %ld, exchange %.1f %% of the CPU time\n", shared->rounds,
            100.0 * shared->exchanging_ns / (shared->running_ns ? shared->running_ns : 1));
    return 0;
}
