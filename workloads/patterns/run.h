/* One run of a pattern: its options, its data, what its threads do, and what is known of it beforehand. */
#ifndef COHABIT_RUN_H
#define COHABIT_RUN_H

#include "pattern.h"

#include <stdio.h>

struct options {
    const struct pattern *pattern;
    struct shape shape;
    unsigned warmup; /* rounds before the region of interest */
    uint64_t seed;   /* 0 leaves thread t in role t */
    const char *expect;
    const char *stream;
    bool everywhere; /* memory that is counted is not confined to the data */
    bool verify;
};

struct run {
    struct options options;
    volatile unsigned char *data; /* items one after the other, each block-aligned */
    size_t data_bytes;
    unsigned *thread_of_role;
    unsigned *role_of_thread;
};

/* Exits with status 0 after --help and --list, 2 on wrong usage. */
struct options options_parse(int argc, char **argv);

/* Allocates the data (fresh pages that nobody has touched) and deals the roles; exits with status 1 if it cannot. */
struct run run_prepare(const struct options *);

/* What thread `thread` does from beginning to end. Returns the number of words it read; `*wrong` counts those that did
 * not hold the value they had to. */
uint64_t run_thread(const struct run *, unsigned thread, uint64_t *wrong);

/* The known matrix as CSV; see README.md. */
void run_write_truth(const struct run *, FILE *);

/* The accesses to the data, in an order in which they may happen, as CSV; see README.md. Runs no thread. */
void run_write_stream(const struct run *, FILE *);

/* ---- what a driver (driver_*.c) provides ---- */

extern const char driver_name[];
/* Runs `body` in threads 0 (the caller) to count - 1, created in this order; returns when all have ended. */
void driver_run(unsigned count, void (*body)(unsigned thread));
/* Waits for all threads. Its state lies outside the data. */
void driver_barrier(void);

#endif
