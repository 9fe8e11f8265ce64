/* A stencil on a periodic grid of ranks that says how long it takes: `halo [ROUNDS [BYTES [DIMENSIONS]]]`. In each
 * round every rank exchanges BYTES with each of its neighbours, all at once. The grid is MPI_Dims_create's, row by
 * row. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 3

int
main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50, bytes = argc > 2 ? atoi(argv[2]) : 16384;
    int dimensions = argc > 3 ? atoi(argv[3]) : 2, ranks, me;
    int sizes[MOST] = { 0 }, periodic[MOST] = { 1, 1, 1 };
    MPI_Comm grid;
    MPI_Request requests[4 * MOST];
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rounds < 1 || bytes < 1 || dimensions < 1 || dimensions > MOST) {
        fprintf(stderr, "halo: rounds and bytes are at least 1, dimensions 1 to %d\n", MOST);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Dims_create(ranks, dimensions, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, dimensions, sizes, periodic, 0, &grid);
    MPI_Comm_rank(grid, &me);
    char *out = calloc(1, (size_t)bytes), *in = calloc(2 * MOST, (size_t)bytes);
    if (out == NULL || in == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(grid);
    double start = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        int count = 0;
        for (int side = 0; side < 2 * dimensions; side++) {
            int from, to;
            MPI_Cart_shift(grid, side / 2, side % 2 == 0 ? 1 : -1, &from, &to);
            if (to == me)
                continue;
            MPI_Irecv(in + (size_t)side * (size_t)bytes, bytes, MPI_BYTE, from, side, grid, &requests[count++]);
            MPI_Isend(out, bytes, MPI_BYTE, to, side, grid, &requests[count++]);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    double took = MPI_Wtime() - start, longest;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, grid);
    if (me == 0)
        printf("Time in seconds = %.6f\n", longest);
    MPI_Finalize();
    return 0;
}
