/* BT and its kin with a register take a bit number far outside the operand they name: the word they touch is
 * `base + 8 * (number >> 6)`, which an address computed from base and index alone misses. */
#include "probe.h"

enum { NAMED = 4, AFTER = 6, BEFORE = 2, SET = 8, LINES = 10 };

static unsigned char *data;

static unsigned char *line(unsigned number)
{
    return data + number * BLOCK;
}

static int64_t bits(int lines_away)
{
    return (int64_t)lines_away * BLOCK * 8;
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, LINES, 1);
    probe_barrier();
    if (thread == 1) {
        unsigned char after, before;
        __asm__ volatile("btq %2, (%1)\n\tsetc %0" : "=q"(after) : "r"(line(NAMED)), "r"(bits(AFTER - NAMED)) : "cc");
        __asm__ volatile("btq %2, (%1)\n\tsetc %0" : "=q"(before) : "r"(line(NAMED)), "r"(bits(BEFORE - NAMED)) : "cc");
        probe_check(after && before, "btq");
        __asm__ volatile("lock btsq %1, (%0)" : : "r"(line(NAMED)), "r"(bits(SET - NAMED) + 1) : "cc", "memory");
    }
    probe_barrier();
    if (thread == 0)
        probe_check(load8(line(SET)) == 3 && load8(line(NAMED)) == 1, "btsq");
}

int main(void)
{
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, 3, 3 * 8, 0); /* AFTER, BEFORE, SET; never NAMED */
    probe_expect(1, 0, 1, 8, 0);     /* SET */
    return probe_finish("bit_offsets");
}
