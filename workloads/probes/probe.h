/* What the probes share: data that is looked at, threads that take turns, and the expected counts.
 *
 * A probe is one small program about one thing an instrumenting profiler can get wrong. It checks its own values (exit
 * status 1 and a line on standard error if one is wrong), and ends by writing the known matrix to standard output in
 * the workloads' format (../README.md). A probe that cannot run here prints "# skip: REASON" and exits with 77. */
#ifndef COHABIT_PROBE_H
#define COHABIT_PROBE_H

#include <cohabit.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK 64u

/* Fresh zero pages of at least `blocks` blocks, counted by cohabit (cohabit_only). Aligned to 4096 bytes. */
unsigned char *probe_data(size_t blocks);

/* Has cohabit count what lies in the range (cohabit_only), and names it in the output. */
void probe_only(void *address, size_t bytes);

/* Runs `body` in threads 0 (the caller) to count - 1, created in this order; returns when all have ended. */
void probe_threads(unsigned count, void (*body)(unsigned thread));

/* Waits for all threads of probe_threads. */
void probe_barrier(void);

/* Adds to the expected counts of source -> destination in one process of the run. */
void probe_expect_in(unsigned process, unsigned source, unsigned destination, uint64_t messages, uint64_t bytes,
                     uint64_t invalidations);
/* The same in process 0. */
void probe_expect(unsigned source, unsigned destination, uint64_t messages, uint64_t bytes, uint64_t invalidations);

/* Notes a failure unless `holds`. */
void probe_check(bool holds, const char *what);

bool probe_failed(void);

/* Ends the program: the system said no (errno tells why). */
_Noreturn void probe_die(const char *what);
_Noreturn void probe_skip(const char *reason);

/* Prints the expected counts; returns the exit status. */
int probe_finish(const char *name);

/* Single accesses of exactly 8 bytes. */
static inline uint64_t load8(const volatile void *from)
{
    return *(const volatile uint64_t *)from;
}

static inline void store8(volatile void *to, uint64_t value)
{
    *(volatile uint64_t *)to = value;
}

/* One store8 at the start of each block. */
static inline void store_blocks(unsigned char *data, size_t blocks, uint64_t value)
{
    for (size_t block = 0; block < blocks; block++)
        store8(data + block * BLOCK, value);
}

/* One load8 at the start of each block; whether each held `value`. */
static inline bool load_blocks(const unsigned char *data, size_t blocks, uint64_t value)
{
    bool same = true;
    for (size_t block = 0; block < blocks; block++)
        same &= load8(data + block * BLOCK) == value;
    return same;
}

#endif
