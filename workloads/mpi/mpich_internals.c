/* What MPICH really sends in collectives: counts the calls of its own internal send functions, by linking them with
 * --wrap into a program that holds libmpich.a (scripts/mpich-collectives.sh). For checking the decomposition of
 * native/mpi/decompose.c. Writes rows `source destination messages bytes` to MPICH_INTERNALS.RANK.
 *
 * The functions' parameters are those of MPICH 4.0 to 4.2 (src/include/mpir_coll.h, mpir_nbc.h).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    long messages;
    long bytes;
} counts[4096];

static void
count(int to, MPI_Aint number, MPI_Datatype type, const int *comm)
{
    MPI_Group group, world;
    int size = 0, there = 0;
    if (to < 0)
        return;
    PMPI_Type_size(type, &size);
    /* A communicator object begins with its handle; some are internal and have no group of their own. */
    if (*comm != MPI_COMM_WORLD && PMPI_Comm_group(*comm, &group) == MPI_SUCCESS) {
        PMPI_Comm_group(MPI_COMM_WORLD, &world);
        PMPI_Group_translate_ranks(group, 1, &to, world, &there);
        to = there;
    }
    counts[to].messages++;
    counts[to].bytes += (long)number * size;
}

#define ONE_WAY(NAME, MORE, ...)                                                                                       \
    int __real_##NAME(const void *, MPI_Aint, MPI_Datatype, int, int, void *, MORE);                                   \
    int __wrap_##NAME(const void *buffer, MPI_Aint number, MPI_Datatype type, int to, int tag, void *comm, MORE a)     \
    {                                                                                                                  \
        count(to, number, type, comm);                                                                                 \
        return __real_##NAME(buffer, number, type, to, tag, comm, a);                                                  \
    }
ONE_WAY(MPIC_Send, void *)
ONE_WAY(MPIC_Ssend, void *)

#define ONE_WAY_REQUEST(NAME)                                                                                          \
    int __real_##NAME(const void *, MPI_Aint, MPI_Datatype, int, int, void *, void *, void *);                         \
    int __wrap_##NAME(const void *buffer, MPI_Aint number, MPI_Datatype type, int to, int tag, void *comm,             \
                      void *request, void *flag)                                                                       \
    {                                                                                                                  \
        count(to, number, type, comm);                                                                                 \
        return __real_##NAME(buffer, number, type, to, tag, comm, request, flag);                                      \
    }
ONE_WAY_REQUEST(MPIC_Isend)
ONE_WAY_REQUEST(MPIC_Issend)

int __real_MPIC_Sendrecv(const void *, MPI_Aint, MPI_Datatype, int, int, void *, MPI_Aint, MPI_Datatype, int, int,
                         void *, void *, void *);
int
__wrap_MPIC_Sendrecv(const void *buffer, MPI_Aint number, MPI_Datatype type, int to, int tag, void *in,
                     MPI_Aint in_number, MPI_Datatype in_type, int from, int in_tag, void *comm, void *status,
                     void *flag)
{
    count(to, number, type, comm);
    return __real_MPIC_Sendrecv(buffer, number, type, to, tag, in, in_number, in_type, from, in_tag, comm, status, flag);
}

int __real_MPIC_Sendrecv_replace(void *, MPI_Aint, MPI_Datatype, int, int, int, int, void *, void *, void *);
int
__wrap_MPIC_Sendrecv_replace(void *buffer, MPI_Aint number, MPI_Datatype type, int to, int tag, int from, int in_tag,
                             void *comm, void *status, void *flag)
{
    count(to, number, type, comm);
    return __real_MPIC_Sendrecv_replace(buffer, number, type, to, tag, from, in_tag, comm, status, flag);
}

int
MPI_Finalize(void)
{
    int rank;
    char path[4096];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof(path), "%s.%d", getenv("MPICH_INTERNALS"), rank);
    FILE *file = fopen(path, "w");
    for (int to = 0; file != NULL && to < 4096; to++)
        if (counts[to].messages > 0)
            fprintf(file, "%d %d %ld %ld\n", rank, to, counts[to].messages, counts[to].bytes);
    if (file == NULL || fclose(file) != 0)
        perror(path);
    return PMPI_Finalize();
}
