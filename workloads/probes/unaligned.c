/* Accesses across two lines, and across two pages: each line is touched, each with the bytes that lie in it. */
#include "probe.h"

typedef uint16_t __attribute__((aligned(1), may_alias)) any16;
typedef uint32_t __attribute__((aligned(1), may_alias)) any32;
typedef uint64_t __attribute__((aligned(1), may_alias)) any64;

static unsigned char *data;

static void store(unsigned char *at, unsigned bytes)
{
    switch (bytes) {
    case 2: *(volatile any16 *)at = 0x0202; break;
    case 4: *(volatile any32 *)at = 0x04040404; break;
    case 8: *(volatile any64 *)at = 0x0808080808080808; break;
    default: __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tmovups %%xmm0, (%0)" : : "r"(at) : "xmm0", "memory");
    }
}

static uint64_t load(const unsigned char *at, unsigned bytes)
{
    uint64_t low;
    switch (bytes) {
    case 2: return *(const volatile any16 *)at;
    case 4: return *(const volatile any32 *)at;
    case 8: return *(const volatile any64 *)at;
    default: __asm__ volatile("movups (%1), %%xmm0\n\tmovq %%xmm0, %0" : "=r"(low) : "r"(at) : "xmm0", "memory");
    }
    return low;
}

static const struct {
    size_t offset;
    unsigned bytes, lines;
    uint64_t value;
} cases[] = {
    {63, 2, 2, 0x0202},
    {3 * 64 - 2, 4, 2, 0x04040404},
    {5 * 64 - 1, 8, 2, 0x0808080808080808},
    {7 * 64 - 8, 16, 2, UINT64_MAX},
    {8 * 64 + 56, 8, 1, 0x0808080808080808}, /* the last that fits */
    {4096 - 4, 8, 2, 0x0808080808080808},
    {4096 + 192 - 15, 16, 2, UINT64_MAX},
};
#define CASES (sizeof cases / sizeof *cases)

static void body(unsigned thread)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; thread == 0 && i < CASES; i++)
            store(data + cases[i].offset, cases[i].bytes);
        probe_barrier();
        for (size_t i = 0; thread == 1 && i < CASES; i++)
            probe_check(load(data + cases[i].offset, cases[i].bytes) == cases[i].value, "value across lines");
        probe_barrier();
    }
}

int main(void)
{
    data = probe_data(128);
    probe_threads(2, body);
    for (size_t i = 0; i < CASES; i++)
        probe_expect(0, 1, 2 * cases[i].lines, 2 * cases[i].bytes, cases[i].lines);
    return probe_finish("unaligned");
}
