/* Messages in other communicators: split, in another order, between groups, and merged. */
#include "expect.h"
#include <stddef.h>

#define W MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE
static char out[4096], in[4096];

/* Rings in the communicators of even and odd ranks, ordered backwards; made and freed over and over. */
static void
split(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        MPI_Comm half, backwards;
        int rank, size;
        MPI_Comm_split(W, me % 2, -me, &half);
        MPI_Comm_rank(half, &rank);
        MPI_Comm_size(half, &size);
        MPI_Sendrecv(out, 200, MPI_BYTE, (rank + 1) % size, 0, in, 200, MPI_BYTE, (rank + size - 1) % size, 0, half,
                     IGNORE);
        /* Ranks of this half, the highest first. */
        int highest = ranks - 1 - ((ranks - 1) % 2 != me % 2);
        sends(highest - 2 * ((rank + 1) % size), 1, 200);
        MPI_Comm_free(&half);
        MPI_Comm_split(W, 0, -me, &backwards);
        MPI_Comm_rank(backwards, &rank);
        MPI_Sendrecv(out, 20, MPI_BYTE, (rank + 1) % ranks, 0, in, 20, MPI_BYTE, (rank + ranks - 1) % ranks, 0, backwards,
                     IGNORE);
        sends((me + ranks - 1) % ranks, 1, 20);
        MPI_Comm_free(&backwards);
    }
}

static void
duplicate(int rounds)
{
    MPI_Comm copy;
    MPI_Comm_dup(W, &copy);
    for (int round = 0; round < rounds; round++)
        MPI_Sendrecv(out, 64, MPI_INT, (me + 1) % ranks, 0, in, 64, MPI_INT, (me + ranks - 1) % ranks, 0, copy, IGNORE);
    MPI_Comm_free(&copy);
    sends((me + 1) % ranks, rounds, 256);
}

/* Even and odd ranks: each sends to the rank of the same number in the other group. */
static void
intercommunicator(int rounds)
{
    MPI_Comm half, between, merged;
    int rank, size, there, all;
    MPI_Comm_split(W, me % 2, me, &half);
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    MPI_Intercomm_create(half, 0, W, me % 2 == 0 ? 1 : 0, 7, &between);
    MPI_Comm_remote_size(between, &there);
    if (rank < there) {
        for (int round = 0; round < rounds; round++)
            MPI_Sendrecv(out, 300, MPI_BYTE, rank, 0, in, 300, MPI_BYTE, rank, 0, between, IGNORE);
        sends(me % 2 == 0 ? me + 1 : me - 1, rounds, 300);
    }
    /* Even ranks first, then odd ones. */
    MPI_Intercomm_merge(between, me % 2, &merged);
    MPI_Comm_rank(merged, &all);
    for (int round = 0; round < rounds; round++)
        MPI_Sendrecv(out, 5, MPI_BYTE, (all + 1) % ranks, 0, in, 5, MPI_BYTE, (all + ranks - 1) % ranks, 0, merged,
                     IGNORE);
    int evens = (ranks + 1) / 2, next = (all + 1) % ranks;
    sends(next < evens ? 2 * next : 2 * (next - evens) + 1, rounds, 5);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

const pattern_t groups_table[] = {
    { "split", split, 2 },
    { "duplicate", duplicate, 1 },
    { "intercommunicator", intercommunicator, 2 },
    { NULL, NULL, 0 },
};
