/* What pairs of ranks (0 and 1, 2 and 3, ...) get through at the same time, by message length, as NetPIPE finds it:
 * `bandwidth one|both`. `one`: messages go to and fro, one at a time; `both`: both ranks of a pair send at once. A line
 * a length: bytes, and Mbit/s of all pairs together. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (1 << 20)
#define LEAST_SECONDS 0.15

static void
exchange(char *out, char *in, int bytes, int other, int both, int first)
{
    if (both)
        MPI_Sendrecv(out, bytes, MPI_BYTE, other, 0, in, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!both && first)
        MPI_Send(out, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    if (!both)
        MPI_Recv(in, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!both && !first)
        MPI_Send(out, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
}

int
main(int argc, char **argv)
{
    int rank, ranks, both = argc > 1 && strcmp(argv[1], "both") == 0;
    char *out = calloc(1, LONGEST), *in = calloc(1, LONGEST);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % 2 != 0 || out == NULL || in == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int bytes = 256; bytes <= LONGEST; bytes *= 2) {
        /* As many exchanges as the slowest pair makes in the time, agreed on beforehand. */
        long times = 1;
        for (double took = 0; took < LEAST_SECONDS; times *= 2) {
            MPI_Barrier(MPI_COMM_WORLD);
            double own = -MPI_Wtime();
            for (long i = 0; i < times; i++)
                exchange(out, in, bytes, rank ^ 1, both, rank % 2 == 0);
            own += MPI_Wtime();
            MPI_Allreduce(&own, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            /* Two messages an exchange, whether one after the other or at once. */
            if (rank == 0 && took >= LEAST_SECONDS)
                printf("%d %.2f\n", bytes, (double)bytes * 8 * 2 * (double)times * (ranks / 2) / took / 1e6);
        }
    }
    MPI_Finalize();
    return 0;
}
