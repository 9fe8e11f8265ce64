/* ns a message between ranks 0 and 1, or of one rank with itself: `pingpong BYTES MESSAGES`. Prints wall and CPU time
 * of a message, as rank 0 saw them. Two ranks spin, so that with a processor each the two times are alike; one waits
 * for nobody, so that its CPU time tells what three calls (Irecv, Send, Wait) cost on a busy machine too. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double
seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
    int bytes = argc > 1 ? atoi(argv[1]) : 8, rank, ranks;
    long messages = argc > 2 ? atol(argv[2]) : 1000000;
    char *buffer = calloc(1, (size_t)bytes + 1), *in = calloc(1, (size_t)bytes + 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double wall = 0, cpu = 0;
    for (long i = -1000; i < messages / 2; i++) {
        if (i == 0) {
            wall = seconds(CLOCK_MONOTONIC);
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        }
        if (ranks == 1) {
            for (int both = 0; both < 2; both++) {
                MPI_Request request;
                MPI_Irecv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
                MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        } else if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (rank == 0)
        printf("%.1f ns wall, %.1f ns CPU a message of %d bytes\n", wall / (double)messages * 1e9,
               cpu / (double)messages * 1e9, bytes);
    MPI_Finalize();
    return 0;
}
