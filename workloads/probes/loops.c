/* Tight loops over memory: forwards and backwards, in steps from 4 bytes to a block, of 1 to 41 iterations, left in the
 * middle by what they find, reading, writing and both, over one array and over two. What lies behind the last element,
 * written by a third thread, is never read. And a loop that waits while it works reads what ends its wait. */
#include "probe.h"

#include <sys/mman.h>

#define ELEMENTS 41
#define REGION 64 /* blocks for each case: 32 before its start, 32 behind */

typedef uint64_t loop_t(unsigned char *at, unsigned char *other, size_t count);

/* One instruction an access, the pointer moved by a constant, one block of code. */
#define WALK(name, access, step)                                                                                       \
    static uint64_t name(unsigned char *at, unsigned char *other, size_t count)                                        \
    {                                                                                                                  \
        uint64_t value = 7;                                                                                            \
        __asm__ volatile("1:\n\t" access "\n\tadd $" #step ", %0\n\tadd $" #step ", %1\n\tdec %2\n\tjnz 1b"            \
                         : "+r"(at), "+r"(other), "+r"(count), "+a"(value)                                             \
                         :                                                                                             \
                         : "memory", "cc", "xmm0");                                                                    \
        return value;                                                                                                  \
    }
WALK(store_4, "movl %%eax, (%0)", 4)
WALK(store_8, "movq %%rax, (%0)", 8)
WALK(store_16, "movups %%xmm0, (%0)", 16)
WALK(store_24, "movq %%rax, (%0)", 24)
WALK(store_64, "movq %%rax, (%0)", 64)
WALK(store_back, "movq %%rax, (%0)", -8)
WALK(load_4, "movl (%0), %%eax", 4)
WALK(load_8, "movq (%0), %%rax", 8)
WALK(load_16, "movups (%0), %%xmm0", 16)
WALK(load_24, "movq (%0), %%rax", 24)
WALK(load_64, "movq (%0), %%rax", 64)
WALK(load_back, "movq (%0), %%rax", -8)
WALK(change_8, "addq $1, (%0)", 8)
WALK(copy_8, "movq (%0), %%rax\n\tmovq %%rax, (%1)", 8)

/* The flags that end the loop are live across the access, and so is every register. */
static uint64_t store_between(unsigned char *at, unsigned char *other, size_t count)
{
    uint64_t held = 7; /* in rax, where instrumentation keeps flags, and which the loop does not touch */
    (void)other;
    __asm__ volatile("1:\n\tsub $1, %1\n\tmovq %1, (%0)\n\tlea 8(%0), %0\n\tjnz 1b"
                     : "+r"(at), "+r"(count), "+a"(held)
                     :
                     : "memory", "cc");
    probe_check(held == 7, "a register across a loop");
    return held;
}

/* The index moves, by a register of its own; the sum of the elements. */
static uint64_t load_indexed(unsigned char *at, unsigned char *other, size_t count)
{
    uint64_t sum = 0, index = 0;
    (void)other;
    __asm__ volatile("1:\n\taddq (%2,%1,8), %0\n\tinc %1\n\tcmp %3, %1\n\tjb 1b"
                     : "+r"(sum), "+r"(index)
                     : "r"(at), "r"(count)
                     : "memory", "cc");
    return sum;
}

/* Looks for the last element; the loop does not know how far it is. */
static uint64_t load_until(unsigned char *at, unsigned char *other, size_t count)
{
    (void)other;
    store8(at + 8 * (count - 1), 99);
    __asm__ volatile("1:\n\tcmpq $99, (%0)\n\tlea 8(%0), %0\n\tjne 1b" : "+r"(at) : : "memory", "cc");
    return 0;
}

static const struct {
    loop_t *write, *read;
    int step;
    unsigned bytes;
    bool reader_writes; /* every element, having read it */
    bool reader_marks;  /* the last element, before it reads */
} cases[] = {
    {.write = store_4, .read = load_4, .step = 4, .bytes = 4},
    {.write = store_8, .read = load_8, .step = 8, .bytes = 8},
    {.write = store_16, .read = load_16, .step = 16, .bytes = 16},
    {.write = store_24, .read = load_24, .step = 24, .bytes = 8},
    {.write = store_64, .read = load_64, .step = 64, .bytes = 8},
    {.write = store_back, .read = load_back, .step = -8, .bytes = 8},
    {.write = store_between, .read = load_8, .step = 8, .bytes = 8},
    {.write = store_8, .read = load_indexed, .step = 8, .bytes = 8},
    {.write = store_8, .read = copy_8, .step = 8, .bytes = 8},
    {.write = store_8, .read = change_8, .step = 8, .bytes = 8, .reader_writes = true},
    {.write = store_8, .read = load_until, .step = 8, .bytes = 8, .reader_marks = true},
};
#define CASES (sizeof cases / sizeof *cases)
static const size_t counts[] = {1, 2, 3, 5, 8, 9, 16, 23, ELEMENTS};
#define COUNTS (sizeof counts / sizeof *counts)
#define ROUNDS 2

static unsigned char *data, *copies;

static unsigned char *start_of(size_t i, size_t k)
{
    /* At another place in its block each time, aligned to the access. */
    return data + ((i * COUNTS + k) * REGION + REGION / 2) * BLOCK + (k * cases[i].bytes) % BLOCK / cases[i].bytes * cases[i].bytes;
}

static unsigned char *last_of(size_t i, size_t k)
{
    return start_of(i, k) + (int64_t)cases[i].step * (int64_t)(counts[k] - 1);
}

/* The block behind the last element's, in the direction of the walk. */
static unsigned char *behind(size_t i, size_t k)
{
    uintptr_t block = (uintptr_t)last_of(i, k) / BLOCK + (cases[i].step > 0 ? 1 : -1);
    return (unsigned char *)(block * BLOCK);
}

static void run_all(bool write)
{
    for (size_t i = 0; i < CASES; i++)
        for (size_t k = 0; k < COUNTS; k++)
            (write ? cases[i].write : cases[i].read)(start_of(i, k), copies + i * BLOCK * 16, counts[k]);
}

static void body(unsigned thread)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; thread == 2 && i < CASES; i++)
            for (size_t k = 0; k < COUNTS; k++)
                store8(behind(i, k), 3);
        probe_barrier();
        if (thread == 0)
            run_all(true);
        probe_barrier();
        if (thread == 1)
            run_all(false);
        probe_barrier();
    }
}

/* What one round of one case makes, by walking it again, an element at a time. */
static void expect(size_t i, size_t k)
{
    uintptr_t seen = 0;
    unsigned marked = cases[i].reader_marks;
    for (size_t n = 0; n < counts[k]; n++) {
        uintptr_t block = (uintptr_t)(start_of(i, k) + (int64_t)cases[i].step * (int64_t)n) / BLOCK;
        bool last = block == (uintptr_t)last_of(i, k) / BLOCK;
        if (block == seen)
            continue;
        seen = block;
        /* A block that the reader has marked is its own by then: the writer takes it back in the next round. */
        if (!(marked && last))
            probe_expect(0, 1, ROUNDS, (uint64_t)ROUNDS * cases[i].bytes, 0);
        /* The writer of the next round invalidates the reader's copy; but a value the reader wrote has no holders but
         * its writer. A reader that writes invalidates nobody: the writer is none of its own value's holders. */
        if (!cases[i].reader_writes && !(marked && last)) {
            probe_expect(0, 1, 0, 0, ROUNDS - 1);
            probe_expect(3, 1, 0, 0, 1); /* walk_alone */
        }
    }
}

#define WIDE_BYTES ((size_t)64 << 20)
#define WAITS 32
static void *volatile wide;
static unsigned char *stops; /* a block for each wait */

/* Adds up a walk of 4 bytes a step, with one branch, until `stop` is set or the memory ends; over again where it
 * does. */
static void walk_until(const unsigned char *stop)
{
    unsigned char *at, *end;
    uint64_t sum = 0;
    do {
        at = wide;
        end = at + WIDE_BYTES;
        __asm__ volatile("1:\n\tmovslq (%0), %%rcx\n\tadd %%rcx, %1\n\tadd $4, %0\n\tcmpq $0, (%3)\n\tsete %%cl\n\t"
                         "cmp %2, %0\n\tsetb %%ch\n\ttest %%ch, %%cl\n\tjnz 1b"
                         : "+r"(at), "+r"(sum)
                         : "r"(end), "r"(stop)
                         : "rcx", "memory", "cc");
    } while (at == end);
    probe_check(sum == 0, "a sum of nothing");
}

/* Thread 1 waits as it walks, for thread 0. A thread that loses its processor between a check and its access may see a
 * value that the check did not: so it reads the block once more, one byte of it, which tells in the bytes. */
static void wait_and_walk(unsigned thread)
{
    for (unsigned i = 0; i < WAITS; i++) {
        unsigned char *stop = stops + i * BLOCK;
        probe_barrier();
        if (thread == 0) {
            for (volatile unsigned work = 0; work < 100000; work++) /* the other is to be on its way */
                ;
            store8(stop, 1);
        }
        if (thread == 1) {
            walk_until(stop);
            probe_check(*(volatile unsigned char *)stop == 1, "what ended the wait");
        }
    }
}

/* With an argument: the waits alone, of which only the messages are known (crates/observe/tests/exact.rs). */
static int run_waits(void)
{
    stops = probe_data(WAITS);
    wide = mmap(NULL, WIDE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED)
        probe_die("mmap");
    probe_threads(2, wait_and_walk);
    return probe_failed();
}

/* Task 3 does nothing but walk: what it loads and stores is the same however its loops are translated. */
static void walk_alone(unsigned thread)
{
    if (thread == 1) {
        run_all(true);
        run_all(false);
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return run_waits();
    data = probe_data(CASES * COUNTS * REGION);
    copies = probe_data(CASES * 16);
    probe_threads(3, body);
    for (size_t i = 0; i < CASES; i++)
        for (size_t k = 0; k < COUNTS; k++)
            expect(i, k);
    probe_threads(2, walk_alone);
    return probe_finish("loops");
}
