/* Collective calls: blocking, non-blocking, persistent, and with large counts. */
#include "calls.h"
#include "decompose.h"

#define COUNTS(ARRAY, TYPE) ((counts_t) { (ARRAY), sizeof(*(ARRAY)) == 8, 0, bytes_of(1, (TYPE)) })
#define RAW(ARRAY) ((counts_t) { (ARRAY), sizeof(*(ARRAY)) == 8, 0, 1 })
#define SAME(COUNT, TYPE) ((counts_t) { NULL, false, 1, bytes_of((COUNT), (TYPE)) })
#define HERE (sendbuf == MPI_IN_PLACE)
#define IS_ROOT (root >= 0 && peers_of_comm(comm)->rank == root && !peers_of_comm(comm)->inter)

#if PERSISTENT_COLLECTIVES
#define PERSISTENT(NAME, PARAMETERS, ARGUMENTS, COUNTED)                                                               \
    REPEATED(NAME, (LIST PARAMETERS, MPI_Info info, MPI_Request *request), (LIST ARGUMENTS, info, request),            \
             { trace_end(); COUNTED; })
#else
#define PERSISTENT(NAME, PARAMETERS, ARGUMENTS, COUNTED)
#endif
#define FORMS(NAME, INAME, SUFFIX, PARAMETERS, ARGUMENTS, COUNTED)                                                     \
    CALL(NAME##SUFFIX, PARAMETERS, ARGUMENTS,                                                                          \
         { const bool blocking = library.waits = true; (void)blocking; round_over(); COUNTED; }, round_over())         \
    CALL(INAME##SUFFIX, (LIST PARAMETERS, MPI_Request *request), (LIST ARGUMENTS, request),                            \
         { const bool blocking = library.waits = false; (void)blocking; COUNTED; }, NOTHING)                           \
    PERSISTENT(NAME##_init##SUFFIX, PARAMETERS, ARGUMENTS,                                                             \
               { const bool blocking = false; (void)blocking; COUNTED; })
#if LARGE_COUNT
#define COLLECTIVE(NAME, INAME, PARAMETERS, ARGUMENTS, COUNTED)                                                        \
    FORMS(NAME, INAME, , PARAMETERS(int, int), ARGUMENTS, COUNTED)                                                     \
    FORMS(NAME, INAME, _c, PARAMETERS(MPI_Count, MPI_Aint), ARGUMENTS, COUNTED)
#else
#define COLLECTIVE(NAME, INAME, PARAMETERS, ARGUMENTS, COUNTED)                                                        \
    FORMS(NAME, INAME, , PARAMETERS(int, int), ARGUMENTS, COUNTED)
#endif

FORMS(Barrier, Ibarrier, , (MPI_Comm comm), (comm), count_barrier(comm, blocking))

#define BCAST(N, D) (void *buffer, N count, MPI_Datatype type, int root, MPI_Comm comm)
COLLECTIVE(Bcast, Ibcast, BCAST, (buffer, count, type, root, comm), count_bcast(comm, root, bytes_of(count, type), blocking))

#define ROOTED(N, D)                                                                                                   \
    (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount, MPI_Datatype recvtype,       \
     int root, MPI_Comm comm)
#define ROOTED_ARGUMENTS (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm)
COLLECTIVE(Gather, Igather, ROOTED, ROOTED_ARGUMENTS,
           count_gather(comm, root, HERE || root == MPI_ROOT ? 0 : bytes_of(sendcount, sendtype),
                        IS_ROOT ? bytes_of(recvcount, recvtype) : 0))
COLLECTIVE(Scatter, Iscatter, ROOTED, ROOTED_ARGUMENTS,
           count_scatter(comm, root, IS_ROOT || root == MPI_ROOT ? bytes_of(sendcount, sendtype) : 0,
                         IS_ROOT || root == MPI_ROOT ? 0 : bytes_of(recvcount, recvtype)))

#define GATHERV(N, D)                                                                                                  \
    (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, const N recvcounts[], const D displs[],   \
     MPI_Datatype recvtype, int root, MPI_Comm comm)
COLLECTIVE(Gatherv, Igatherv, GATHERV,
           (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm),
           count_gatherv(comm, root, HERE || root == MPI_ROOT ? 0 : bytes_of(sendcount, sendtype)))

#define SCATTERV(N, D)                                                                                                 \
    (const void *sendbuf, const N sendcounts[], const D displs[], MPI_Datatype sendtype, void *recvbuf, N recvcount,   \
     MPI_Datatype recvtype, int root, MPI_Comm comm)
COLLECTIVE(Scatterv, Iscatterv, SCATTERV,
           (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm), {
               if (IS_ROOT || root == MPI_ROOT)
                   count_scatterv(comm, root, COUNTS(sendcounts, sendtype));
               else
                   count_scatterv(comm, root, (counts_t) { NULL, false, 0, 1 });
           })

#define ALL(N, D)                                                                                                      \
    (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount, MPI_Datatype recvtype,       \
     MPI_Comm comm)
#define ALL_ARGUMENTS (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)
COLLECTIVE(Allgather, Iallgather, ALL, ALL_ARGUMENTS,
           count_allgather(comm, HERE ? 0 : bytes_of(sendcount, sendtype), bytes_of(recvcount, recvtype)))
COLLECTIVE(Alltoall, Ialltoall, ALL, ALL_ARGUMENTS,
           count_alltoall(comm, HERE, HERE ? bytes_of(recvcount, recvtype) : bytes_of(sendcount, sendtype), blocking))
COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, ALL, ALL_ARGUMENTS,
           count_neighbours(comm, SAME(sendcount, sendtype), NULL))
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, ALL, ALL_ARGUMENTS,
           count_neighbours(comm, SAME(sendcount, sendtype), NULL))

#define ALLGATHERV(N, D)                                                                                               \
    (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, const N recvcounts[], const D displs[],   \
     MPI_Datatype recvtype, MPI_Comm comm)
#define ALLGATHERV_ARGUMENTS (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm)
COLLECTIVE(Allgatherv, Iallgatherv, ALLGATHERV, ALLGATHERV_ARGUMENTS,
           count_allgatherv(comm, HERE ? 0 : bytes_of(sendcount, sendtype), COUNTS(recvcounts, recvtype)))
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, ALLGATHERV, ALLGATHERV_ARGUMENTS,
           count_neighbours(comm, SAME(sendcount, sendtype), NULL))

#define ALLTOALLV(N, D)                                                                                                \
    (const void *sendbuf, const N sendcounts[], const D sdispls[], MPI_Datatype sendtype, void *recvbuf,               \
     const N recvcounts[], const D rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
#define ALLTOALLV_ARGUMENTS (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm)
COLLECTIVE(Alltoallv, Ialltoallv, ALLTOALLV, ALLTOALLV_ARGUMENTS,
           count_alltoallv(comm, HERE, HERE ? COUNTS(recvcounts, recvtype) : COUNTS(sendcounts, sendtype)))
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, ALLTOALLV, ALLTOALLV_ARGUMENTS,
           count_neighbours(comm, COUNTS(sendcounts, sendtype), NULL))

#define ALLTOALLW(N, D)                                                                                                \
    (const void *sendbuf, const N sendcounts[], const D sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,      \
     const N recvcounts[], const D rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
#define ALLTOALLW_ARGUMENTS (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm)
COLLECTIVE(Alltoallw, Ialltoallw, ALLTOALLW, ALLTOALLW_ARGUMENTS,
           count_alltoallw(comm, HERE, HERE ? RAW(recvcounts) : RAW(sendcounts), HERE ? recvtypes : sendtypes))
#define NEIGHBOURW(N, D) ALLTOALLW(N, MPI_Aint)
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, NEIGHBOURW, ALLTOALLW_ARGUMENTS,
           count_neighbours(comm, RAW(sendcounts), sendtypes))

#define REDUCE(N, D) (const void *sendbuf, void *recvbuf, N count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
COLLECTIVE(Reduce, Ireduce, REDUCE, (sendbuf, recvbuf, count, type, op, root, comm),
           count_reduce(comm, root, (uint64_t)count, type, op, blocking))

#define REDUCE_ALL(N, D) (const void *sendbuf, void *recvbuf, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
#define REDUCE_ALL_ARGUMENTS (sendbuf, recvbuf, count, type, op, comm)
COLLECTIVE(Allreduce, Iallreduce, REDUCE_ALL, REDUCE_ALL_ARGUMENTS,
           count_allreduce(comm, (uint64_t)count, type, op, blocking))
COLLECTIVE(Scan, Iscan, REDUCE_ALL, REDUCE_ALL_ARGUMENTS, count_scan(comm, (uint64_t)count, type, blocking))
COLLECTIVE(Exscan, Iexscan, REDUCE_ALL, REDUCE_ALL_ARGUMENTS, count_scan(comm, (uint64_t)count, type, false))
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, REDUCE_ALL, REDUCE_ALL_ARGUMENTS,
           count_reduce_scatter(comm, SAME(count, type), op))

#define REDUCE_SCATTER(N, D)                                                                                           \
    (const void *sendbuf, void *recvbuf, const N recvcounts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
COLLECTIVE(Reduce_scatter, Ireduce_scatter, REDUCE_SCATTER, (sendbuf, recvbuf, recvcounts, type, op, comm),
           count_reduce_scatter(comm, COUNTS(recvcounts, type), op))
