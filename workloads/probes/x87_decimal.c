/* Packed decimals of x87: 10 bytes, stored and loaded. */
#include "probe.h"

static unsigned char *data;

static void body(unsigned thread)
{
    uint16_t status;
    if (thread == 0)
        __asm__ volatile("fld1\n\tfbstp (%0)" : : "r"(data) : "memory", "st");
    probe_barrier();
    if (thread == 1) {
        __asm__ volatile("fld1\n\tfbld (%1)\n\tfcompp\n\tfnstsw %0" : "=a"(status) : "r"(data) : "memory", "st");
        probe_check((status & 0x4500) == 0x4000, "fbld");
    }
}

int main(void)
{
    data = probe_data(1);
    probe_threads(2, body);
    probe_expect(0, 1, 1, 10, 0);
    return probe_finish("x87_decimal");
}
