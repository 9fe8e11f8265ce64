/* A thread that reads a value after every million of its own instructions: by turns of a loop that touches no memory
 * and of one that walks through it. The first thread has made five million before it starts the other. Here both are on
 * one clock, if a thread's count goes on from that of the thread that made it. */
#include "probe.h"

#define ROUNDS 20
#define STEP 1000000ul
#define BEFORE 5

static unsigned char *data;
static uint64_t own[STEP / 4];

/* Two instructions an iteration. */
static void compute(void)
{
    uint64_t left = STEP / 2;
    __asm__ volatile("1:\n\tdec %0\n\tjnz 1b" : "+r"(left) : : "cc");
}

/* Four. */
static void walk(void)
{
    uint64_t left = STEP / 4, value;
    const uint64_t *at = own;
    __asm__ volatile("1:\n\tmov (%1), %2\n\tadd $8, %1\n\tdec %0\n\tjnz 1b"
                     : "+r"(left), "+r"(at), "=&r"(value)
                     :
                     : "cc", "memory");
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, ROUNDS, 7);
    probe_barrier();
    for (size_t round = 0; thread == 1 && round < ROUNDS; round++) {
        if (round % 2 == 0)
            compute();
        else
            walk();
        probe_check(load8(data + round * BLOCK) == 7, "value");
    }
    probe_barrier();
}

int main(void)
{
    data = probe_data(ROUNDS);
    for (int i = 0; i < BEFORE; i++)
        compute();
    probe_threads(2, body);
    probe_expect(0, 1, ROUNDS, 8 * ROUNDS, 0);
    return probe_finish("instructions");
}
