/* x87 loads and stores: 10 bytes, also across two lines; integers; FXSAVE's 512 bytes. */
#include "probe.h"

enum { PLAIN = 0, ACROSS = 2 * 64 - 6, INTEGER = 3 * 64, SAVED = 8 * 64 };
#define SAVED_LINES 7 /* the last line is the software's own: not written */

static unsigned char *data;

static void write_all(void)
{
    __asm__ volatile("fldpi\n\tfstpt (%0)" : : "r"(data + PLAIN) : "memory", "st");
    __asm__ volatile("fldpi\n\tfstpt (%0)" : : "r"(data + ACROSS) : "memory", "st");
    __asm__ volatile("fld1\n\tfistpll (%0)" : : "r"(data + INTEGER) : "memory", "st");
    __asm__ volatile("fxsave (%0)" : : "r"(data + SAVED) : "memory");
}

static void read_all(void)
{
    uint16_t status;
    __asm__ volatile("fldpi\n\tfldt (%1)\n\tfcompp\n\tfnstsw %0" : "=a"(status) : "r"(data + PLAIN) : "memory", "st");
    probe_check((status & 0x4500) == 0x4000, "fldt");
    __asm__ volatile("fldpi\n\tfldt (%1)\n\tfcompp\n\tfnstsw %0" : "=a"(status) : "r"(data + ACROSS) : "memory", "st");
    probe_check((status & 0x4500) == 0x4000, "fldt across lines");
    __asm__ volatile("fld1\n\tfildll (%1)\n\tfcompp\n\tfnstsw %0" : "=a"(status) : "r"(data + INTEGER) : "memory", "st");
    probe_check((status & 0x4500) == 0x4000, "fildll");
    for (unsigned line = 0; line < SAVED_LINES; line++)
        load8(data + SAVED + line * BLOCK);
}

static void body(unsigned thread)
{
    if (thread == 0)
        write_all();
    probe_barrier();
    if (thread == 1)
        read_all();
}

int main(void)
{
    data = probe_data(32);
    probe_threads(2, body);
    probe_expect(0, 1, 1, 10, 0);
    probe_expect(0, 1, 2, 10, 0);
    probe_expect(0, 1, 1, 8, 0);
    probe_expect(0, 1, SAVED_LINES, SAVED_LINES * 8, 0);
    return probe_finish("x87");
}
