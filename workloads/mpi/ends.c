/* Ranks that end before MPI_Finalize: `ends abort|kill|exit`. Every rank sends three messages of 100 bytes to the next
 * one; then rank 1 ends as it is told to, and the others go on waiting. With `leave` all end without MPI_Finalize; with
 * `posted` all come to it, and have receives posted for anything from anybody, as servers do: what comes is said. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(int argc, char **argv)
{
    int rank, ranks;
    char out[100] = "", in[100];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(out, 100, MPI_BYTE, (rank + 1) % ranks, 0, in, 100, MPI_BYTE, (rank + ranks - 1) % ranks, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* All have sent all before one ends. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "leave") == 0)
        _Exit(0);
    if (argc > 1 && strcmp(argv[1], "posted") == 0) {
        MPI_Request requests[4];
        char caught[4];
        memset(caught, 0x55, sizeof(caught));
        for (int i = 0; i < 4; i++)
            MPI_Irecv(&caught[i], 1, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
        MPI_Finalize();
        for (int i = 0; i < 4; i++)
            if (caught[i] != 0x55)
                printf("rank %d got what nobody sent: %d\n", rank, caught[i]);
        return 0;
    }
    if (rank == 1 && argc > 1) {
        if (strcmp(argv[1], "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        if (strcmp(argv[1], "kill") == 0)
            raise(SIGKILL);
        if (strcmp(argv[1], "exit") == 0)
            _Exit(4);
    }
    MPI_Recv(in, 100, MPI_BYTE, (rank + 1) % ranks, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
