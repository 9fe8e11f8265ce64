/* The heap end given back and taken again: what was there before is nobody's value. */
#include "probe.h"

#include <unistd.h>

#define BYTES 16384
#define LINES 8

static unsigned char *data;

/* Moves the heap end; through the C library, which must go on knowing where it is. */
static void move_end(intptr_t bytes)
{
    if (sbrk(bytes) == (void *)-1)
        probe_die("sbrk");
}

static void take_heap(void)
{
    move_end((intptr_t)(-(uintptr_t)sbrk(0) % 4096));
    data = sbrk(0);
    move_end(BYTES);
    probe_only(data, BYTES);
}

static void body(unsigned thread)
{
    /* Only now: starting threads allocates, and nothing may lie beyond the lines. */
    if (thread == 0) {
        take_heap();
        store_blocks(data, LINES, 1);
        move_end(-BYTES);
        move_end(BYTES);
    }
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data, LINES / 2, 0), "the heap end taken again");
    probe_barrier();
    if (thread == 0)
        store_blocks(data, LINES, 2);
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data, LINES, 2), "what was written after");
    probe_barrier();
}

int main(void)
{
    /* Before a first range everything is counted, the start of the thread too: name one that nobody touches. */
    probe_data(1);
    probe_threads(2, body);
    probe_expect(0, 1, LINES, LINES * 8, LINES / 2);
    return probe_finish("brk");
}
