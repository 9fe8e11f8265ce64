/* Atomic read-modify-writes: each is a read and then a write. A compare-and-exchange that fails writes too: "the
 * processor never produces a locked read without also producing a locked write" (Intel SDM, CMPXCHG). */
#include "probe.h"

enum { XADD, CMPXCHG, CMPXCHG_FAILS, CMPXCHG16B, CMPXCHG8B, XCHG, INC, ADD, HELD, LINES };

static unsigned char *data;

static unsigned char *line(unsigned number)
{
    return data + number * BLOCK;
}

static void change_all(void)
{
    uint64_t old = 1, expected = 5, low = 5, high = 0;
    __asm__ volatile("lock xaddq %0, (%1)" : "+r"(old) : "r"(line(XADD)) : "memory", "cc");
    __asm__ volatile("lock cmpxchgl %k2, (%1)" : "+a"(expected) : "r"(line(CMPXCHG)), "r"(6) : "memory", "cc");
    expected = 4;
    __asm__ volatile("lock cmpxchgq %2, (%1)"
                     : "+a"(expected)
                     : "r"(line(CMPXCHG_FAILS)), "r"((uint64_t)6)
                     : "memory", "cc");
    probe_check(expected == 5, "cmpxchg that fails gives the old value");
    __asm__ volatile("lock cmpxchg16b (%2)"
                     : "+a"(low), "+d"(high)
                     : "r"(line(CMPXCHG16B)), "b"((uint64_t)6), "c"((uint64_t)0)
                     : "memory", "cc");
    low = 5, high = 0;
    __asm__ volatile("lock cmpxchg8b (%2)"
                     : "+a"(low), "+d"(high)
                     : "r"(line(CMPXCHG8B)), "b"((uint64_t)6), "c"((uint64_t)0)
                     : "memory", "cc");
    uint64_t six = 6;
    __asm__ volatile("xchgq %0, (%1)" : "+r"(six) : "r"(line(XCHG)) : "memory");
    __asm__ volatile("lock incb (%0)" : : "r"(line(INC)) : "memory", "cc");
    __asm__ volatile("lock addw $1, (%0)" : : "r"(line(ADD)) : "memory", "cc");
    __asm__ volatile("lock addq $1, (%0)" : : "r"(line(HELD)) : "memory", "cc");
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, LINES, 5);
    probe_barrier();
    if (thread == 2)
        probe_check(load8(line(HELD)) == 5, "the copy held");
    probe_barrier();
    if (thread == 1)
        change_all();
    probe_barrier();
    for (unsigned number = 0; thread == 0 && number < LINES; number++)
        probe_check(load8(line(number)) == (number == CMPXCHG_FAILS ? 5 : 6), "value after the atomic");
}

int main(void)
{
    data = probe_data(LINES);
    probe_threads(3, body);
    probe_expect(0, 1, LINES, 8 + 4 + 8 + 16 + 8 + 8 + 1 + 2 + 8, 0);
    probe_expect(1, 0, LINES, LINES * 8, 0);
    probe_expect(0, 2, 1, 8, 0);
    probe_expect(1, 2, 0, 0, 1); /* thread 2's copy goes stale */
    return probe_finish("atomics");
}
