/* How far a program has come, told to cohabit while it runs: C and C++, Linux, nothing to link.
 *
 * `cohabit run` moves threads where that should help, watches what comes of it, and undoes what hurts. What it can see
 * from outside is how long threads wait for a processor; a program that says what it gets done is judged by that.
 *
 *     #include <cohabit_progress.h>
 *
 *     while (!converged) {
 *         iterate(grid);
 *         cohabit_progress(1);      // once a step, by one thread of each process; any unit of work
 *     }
 *
 * The protocol, for other languages: the environment variable COHABIT_PROGRESS names a file, which is mapped shared.
 * Its first two 64-bit integers, in the machine's byte order, are added to atomically: to the first the units of work
 * done, to the second 1. Several times a second is often enough to be judged by, and a thousand times costs nothing
 * that can be measured. Without the variable, or where the file cannot be had, nothing happens.
 */
#ifndef COHABIT_PROGRESS_H
#define COHABIT_PROGRESS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline uint64_t *cohabit_progress_open_(void)
{
    const char *path = getenv("COHABIT_PROGRESS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return (uint64_t *)page;
}

/* `units` more of the program's work are done. Any thread may call it. */
static inline void cohabit_progress(uint64_t units)
{
    static uint64_t *opened;
    uint64_t *counters = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
    if (counters == NULL) {
        /* Two threads may come here at once: both mappings are of the same page, and one of them is used no more. */
        counters = cohabit_progress_open_();
        __atomic_store_n(&opened, counters, __ATOMIC_RELEASE);
    }
    if (counters == (uint64_t *)MAP_FAILED)
        return;
    __atomic_fetch_add(&counters[0], units, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counters[1], 1, __ATOMIC_RELAXED);
}

#endif
