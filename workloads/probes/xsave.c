/* xsave writes the components that it is asked for, and xrstor reads those that were saved: not the whole area. */
#include "probe.h"

#define AREA_BLOCKS 48
/* x87 and SSE: the first 416 bytes, and the header at 512 (Intel SDM 1, 13.4). */
#define ASKED 3
static const unsigned touched[] = {0, 1, 2, 3, 4, 5, 6, 8};
#define TOUCHED (sizeof touched / sizeof *touched)

static unsigned char *area;

static bool has_xsave(void)
{
    unsigned a = 1, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (c >> 27 & 1) != 0;
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(area, AREA_BLOCKS, 0);
    probe_barrier();
    if (thread == 1)
        __asm__ volatile("fld1\n\tpcmpeqd %%xmm0, %%xmm0\n\txsave64 (%0)\n\tfstp %%st(0)"
                         :
                         : "r"(area), "a"(ASKED), "d"(0)
                         : "memory", "xmm0");
    probe_barrier();
    if (thread == 2)
        __asm__ volatile("xrstor64 (%0)\n\tfstp %%st(0)" : : "r"(area), "a"(ASKED), "d"(0) : "memory", "xmm0");
    probe_barrier();
    for (size_t block = 0; thread == 3 && block < AREA_BLOCKS; block++)
        (void)load8(area + block * BLOCK);
}

int main(void)
{
    if (!has_xsave())
        probe_skip("this processor has no xsave");
    area = probe_data(AREA_BLOCKS);
    probe_threads(4, body);
    probe_expect(1, 3, TOUCHED, 8 * TOUCHED, 0);
    probe_expect(0, 3, AREA_BLOCKS - TOUCHED, 8 * (AREA_BLOCKS - TOUCHED), 0);
    /* The header as a whole, the x87's two parts [0, 24) and [32, 160), SSE's [160, 416): what is first in each
     * block. */
    probe_expect(1, 2, TOUCHED, 64 + 24 + 64 + 32 + 3 * 64 + 32, 0);
    return probe_finish("xsave");
}
