/* Every collective, in sizes that take each of the usual algorithms; what messages they are made of is MPI's choice. */
#include "expect.h"
#include <stdlib.h>
#include <string.h>

#define W MPI_COMM_WORLD
static char *out, *in;

static void
room(void)
{
    size_t bytes = (size_t)ranks * (1 << 21);
    out = calloc(1, bytes);
    in = calloc(1, bytes);
    if (out == NULL || in == NULL)
        MPI_Abort(W, 1);
}

static void
ends(void)
{
    free(out);
    free(in);
}

static const int sizes[] = { 1, 100, 1000, 3000, 20000, 100000 };
#define EACH_SIZE(N)                                                                                                   \
    for (unsigned size_at = elements > 0 ? 5 : 0, N = 0;                                                               \
         size_at < 6 && ((N = (unsigned)(elements > 0 ? elements : sizes[size_at])), 1); size_at++)

#define ONE(NAME, ...)                                                                                                 \
    static void NAME(int rounds)                                                                                       \
    {                                                                                                                  \
        room();                                                                                                        \
        for (int round = 0; round < rounds; round++)                                                                   \
            EACH_SIZE(n) { (void)n; __VA_ARGS__; }                                                                                    \
        ends();                                                                                                        \
    }

ONE(barrier, MPI_Barrier(W))
ONE(bcast, { MPI_Bcast(out, (int)n, MPI_DOUBLE, round % ranks, W); })
ONE(gather, { MPI_Gather(out, (int)n, MPI_INT, in, (int)n, MPI_INT, round % ranks, W); })
ONE(scatter, { MPI_Scatter(out, (int)n, MPI_INT, in, (int)n, MPI_INT, round % ranks, W); })
ONE(allgather, { MPI_Allgather(out, (int)n, MPI_INT, in, (int)n, MPI_INT, W); })
ONE(alltoall, { MPI_Alltoall(out, (int)n, MPI_INT, in, (int)n, MPI_INT, W); })
ONE(alltoall_in_place, { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, in, (int)n, MPI_INT, W); })
ONE(reduce, { MPI_Reduce(out, in, (int)n, MPI_DOUBLE, MPI_SUM, round % ranks, W); })
ONE(allreduce, { MPI_Allreduce(out, in, (int)n, MPI_DOUBLE, MPI_SUM, W); })
ONE(reduce_scatter_block, { MPI_Reduce_scatter_block(out, in, (int)n, MPI_DOUBLE, MPI_SUM, W); })
ONE(scan, { MPI_Scan(out, in, (int)n, MPI_DOUBLE, MPI_SUM, W); })
ONE(exscan, { MPI_Exscan(out, in, (int)n, MPI_DOUBLE, MPI_SUM, W); })

#define NOW(CALL) { MPI_Request request; CALL; MPI_Wait(&request, MPI_STATUS_IGNORE); }
ONE(ibarrier, NOW(MPI_Ibarrier(W, &request)))
ONE(ibcast, NOW(MPI_Ibcast(out, (int)n, MPI_DOUBLE, round % ranks, W, &request)))
ONE(iallreduce, NOW(MPI_Iallreduce(out, in, (int)n, MPI_DOUBLE, MPI_SUM, W, &request)))
ONE(iallgather, NOW(MPI_Iallgather(out, (int)n, MPI_INT, in, (int)n, MPI_INT, W, &request)))
ONE(ialltoall, NOW(MPI_Ialltoall(out, (int)n, MPI_INT, in, (int)n, MPI_INT, W, &request)))
ONE(ireduce, NOW(MPI_Ireduce(out, in, (int)n, MPI_DOUBLE, MPI_SUM, round % ranks, W, &request)))
ONE(igather, NOW(MPI_Igather(out, (int)n, MPI_INT, in, (int)n, MPI_INT, round % ranks, W, &request)))
ONE(iscatter, NOW(MPI_Iscatter(out, (int)n, MPI_INT, in, (int)n, MPI_INT, round % ranks, W, &request)))

/* Counts that differ: rank r has (r % 3) * n elements, so that some have none. */
typedef struct {
    int *counts;
    int *offsets;
} uneven_t;

static uneven_t
uneven(int n)
{
    uneven_t made = { calloc((size_t)ranks, sizeof(int)), calloc((size_t)ranks, sizeof(int)) };
    for (int rank = 0, at = 0; rank < ranks; rank++) {
        made.counts[rank] = rank % 3 * n;
        made.offsets[rank] = at;
        at += made.counts[rank];
    }
    return made;
}

#define UNEVEN(NAME, CALL)                                                                                            \
    ONE(NAME, {                                                                                                        \
        uneven_t v = uneven((int)n);                                                                                   \
        int mine = v.counts[me];                                                                                       \
        (void)mine;                                                                                                    \
        CALL;                                                                                                          \
        free(v.counts);                                                                                                \
        free(v.offsets);                                                                                               \
    })
UNEVEN(gatherv, MPI_Gatherv(out, mine, MPI_INT, in, v.counts, v.offsets, MPI_INT, round % ranks, W))
UNEVEN(scatterv, MPI_Scatterv(out, v.counts, v.offsets, MPI_INT, in, mine, MPI_INT, round % ranks, W))
UNEVEN(allgatherv, MPI_Allgatherv(out, mine, MPI_INT, in, v.counts, v.offsets, MPI_INT, W))
UNEVEN(reduce_scatter, MPI_Reduce_scatter(out, in, v.counts, MPI_DOUBLE, MPI_SUM, W))

/* Rank i sends ((i + j) % 3) * n elements to rank j, so that both know. */
ONE(alltoallv, {
    int *counts = calloc((size_t)ranks * 2, sizeof(int)), *offsets = counts + ranks;
    for (int other = 0; other < ranks; other++) {
        counts[other] = (me + other) % 3 * (int)n;
        offsets[other] = 2 * other * (int)n;
    }
    MPI_Alltoallv(out, counts, offsets, MPI_INT, in, counts, offsets, MPI_INT, W);
    free(counts);
})
ONE(alltoallw, {
    int *counts = calloc((size_t)ranks * 2, sizeof(int)), *offsets = counts + ranks;
    MPI_Datatype *types = calloc((size_t)ranks, sizeof(*types));
    for (int other = 0; other < ranks; other++) {
        counts[other] = (me + other) % 3 * (int)n;
        offsets[other] = 8 * other * (int)n;
        types[other] = MPI_INT;
    }
    MPI_Alltoallw(out, counts, offsets, types, in, counts, offsets, types, W);
    free(types);
    free(counts);
})

/* On a ring that MPI knows as a Cartesian grid: what goes where is known here. */
static void
neighbours(int rounds)
{
    MPI_Comm grid;
    int periodic = 1, from, to;
    room();
    MPI_Cart_create(W, 1, &ranks, &periodic, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &from, &to);
    for (int round = 0; round < rounds; round++) {
        MPI_Request request;
        int counts[2] = { 10, 20 }, offsets[2] = { 0, 1000 };
        MPI_Neighbor_allgather(out, 50, MPI_BYTE, in, 50, MPI_BYTE, grid);
        MPI_Neighbor_alltoall(out, 60, MPI_BYTE, in, 60, MPI_BYTE, grid);
        MPI_Ineighbor_alltoall(out, 70, MPI_BYTE, in, 70, MPI_BYTE, grid, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (ranks > 2) {
            /* Counts by neighbour: down, then up; each gets what the other's opposite count says. */
            int received[2] = { 20, 10 };
            MPI_Neighbor_alltoallv(out, counts, offsets, MPI_BYTE, in, received, offsets, MPI_BYTE, grid);
            sends(from, 1, 10);
            sends(to, 1, 20);
        }
    }
    static const long bytes[] = { 50, 60, 70 };
    for (int i = 0; i < 3; i++) {
        sends(from, rounds, bytes[i]);
        sends(to, rounds, bytes[i]);
    }
    MPI_Comm_free(&grid);
    ends();
}

const pattern_t collectives_table[] = {
#define ROW(NAME) { #NAME, NAME, 1 }
    ROW(barrier), ROW(bcast), ROW(gather), ROW(scatter), ROW(allgather), ROW(alltoall), ROW(alltoall_in_place),
    ROW(reduce), ROW(allreduce), ROW(reduce_scatter_block), ROW(scan), ROW(exscan), ROW(ibarrier), ROW(ibcast),
    ROW(iallreduce), ROW(iallgather), ROW(ialltoall), ROW(ireduce), ROW(igather), ROW(iscatter), ROW(gatherv),
    ROW(scatterv), ROW(allgatherv), ROW(reduce_scatter), ROW(alltoallv), ROW(alltoallw), ROW(neighbours),
    { NULL, NULL, 0 },
};
