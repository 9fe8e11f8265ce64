/* Repeated loads of which only the last one is kept: the others happen all the same. */
#include "probe.h"

#define LINES 4

static unsigned char *data;

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, LINES, 1);
    probe_barrier();
    if (thread == 1) {
        const unsigned char *from = data;
        size_t count = LINES * BLOCK / 8;
        uint64_t last;
        __asm__ volatile("rep lodsq" : "+S"(from), "+c"(count), "=a"(last) : : "memory");
        probe_check(from == data + LINES * BLOCK && last == 0, "rep lodsq");
    }
}

int main(void)
{
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, LINES, LINES * 8, 0);
    return probe_finish("rep_lods");
}
