/* What a rank knows that it sends: rows of a file EXPECT.RANK, `source destination messages bytes` in ranks of the
 * world (`w<NUMBER>:RANK` in another world), which tests compare with the profile. */
#ifndef EXPECT_H
#define EXPECT_H

#include <mpi.h>
#include <stdbool.h>

extern int me, ranks; /* in MPI_COMM_WORLD */
extern int elements;  /* of collectives; 0: several sizes */
/* This rank sends so many messages of so many bytes to a rank of the world. */
void sends(int to, long messages, long bytes_each);
/* This rank fetches from another. */
void fetches(int from, long messages, long bytes_each);
/* To or from a rank of another world: 0 is the first, 1 the one that it spawned. */
void sends_between(int from_world, int from, int to_world, int to, long messages, long bytes_each);
void write_expected(const char *path, const char *suffix);

typedef void pattern_fn(int rounds);
typedef struct {
    const char *name;
    pattern_fn *run;
    int minimum; /* ranks */
} pattern_t;
extern const pattern_t messages_table[], groups_table[], collectives_table[], spawn_table[];

#endif
