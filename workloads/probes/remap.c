/* Addresses used twice are not communication: memory that is unmapped, mapped over, moved, thrown away or grown anew
 * starts clean, for its writer and for the holders of copies. Each way to renew a page goes through the same
 * sequence. */
#include "probe.h"

#include <sys/mman.h>

#define PAGE 4096
#define LINES 4

enum way { UNMAP_AND_MAP, MAP_OVER, THROW_AWAY, MOVE_AWAY, SHRINK_AND_GROW, WAYS };

static unsigned char *pages[WAYS]; /* the page renewed; one more page lies before it */
static unsigned char *moved;       /* where MOVE_AWAY's old page went */

static void *map_at(unsigned char *address)
{
    return mmap(address, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static bool renew(enum way way)
{
    unsigned char *page = pages[way];
    switch (way) {
    case UNMAP_AND_MAP: return munmap(page, PAGE) == 0 && map_at(page) == page;
    case MAP_OVER: return map_at(page) == page;
    case THROW_AWAY: return madvise(page, PAGE, MADV_DONTNEED) == 0;
    case MOVE_AWAY:
        return mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved && map_at(page) == page;
    default:
        return mremap(page - PAGE, 2 * PAGE, PAGE, 0) == page - PAGE &&
               mremap(page - PAGE, PAGE, 2 * PAGE, 0) == page - PAGE;
    }
}

static void body(unsigned thread)
{
    for (enum way way = 0; way < WAYS; way++) {
        unsigned char *page = pages[way];
        if (thread == 0)
            store_blocks(page, LINES, 1);
        probe_barrier();
        if (thread == 1)
            probe_check(load_blocks(page, 2, 1), "what was written"); /* holds copies of lines 0 and 1 */
        probe_barrier();
        if (thread == 0 && !renew(way))
            probe_die("a page could not be renewed");
        probe_barrier();
        if (thread == 1)
            probe_check(load_blocks(page + 2 * BLOCK, 2, 0), "a renewed page"); /* lines 2 and 3, which nobody wrote */
        if (thread == 1 && way == MOVE_AWAY)
            probe_check(load_blocks(moved, LINES, 1), "a moved page"); /* starts clean where it is now */
        probe_barrier();
        if (thread == 0)
            store_blocks(page, LINES, 2); /* stale now: the copies of lines 2 and 3, not the old ones of 0 and 1 */
        probe_barrier();
        if (thread == 1)
            probe_check(load_blocks(page, LINES, 2), "what was written after");
        probe_barrier();
    }
}

int main(void)
{
    for (enum way way = 0; way < WAYS; way++)
        pages[way] = probe_data(2 * PAGE / BLOCK) + PAGE;
    moved = probe_data(PAGE / BLOCK);
    probe_threads(2, body);
    probe_expect(0, 1, WAYS * 6, WAYS * 6 * 8, WAYS * 2);
    return probe_finish("remap");
}
