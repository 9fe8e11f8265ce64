/* Which algorithm a collective call takes, and so which messages this rank sends in it. */
#ifndef COHABIT_MPI_DECOMPOSE_H
#define COHABIT_MPI_DECOMPOSE_H

#include "algorithms.h"
#include "library.h"

/* The descriptions are of what this rank passes to MPI; MPI_IN_PLACE has been resolved. */
void count_barrier(MPI_Comm comm, bool blocking);
void count_bcast(MPI_Comm comm, int root, uint64_t bytes, bool blocking);
void count_gather(MPI_Comm comm, int root, uint64_t sent_bytes, uint64_t received_bytes);
void count_gatherv(MPI_Comm comm, int root, uint64_t sent_bytes);
void count_scatter(MPI_Comm comm, int root, uint64_t sent_bytes, uint64_t received_bytes);
void count_scatterv(MPI_Comm comm, int root, counts_t sent);
void count_allgather(MPI_Comm comm, uint64_t sent_bytes, uint64_t received_bytes);
void count_allgatherv(MPI_Comm comm, uint64_t sent_bytes, counts_t received);
void count_alltoall(MPI_Comm comm, bool in_place, uint64_t sent_bytes, bool blocking);
void count_alltoallv(MPI_Comm comm, bool in_place, counts_t counts);
void count_alltoallw(MPI_Comm comm, bool in_place, counts_t counts, const MPI_Datatype types[]);
void count_reduce(MPI_Comm comm, int root, uint64_t count, MPI_Datatype type, MPI_Op op, bool blocking);
void count_allreduce(MPI_Comm comm, uint64_t count, MPI_Datatype type, MPI_Op op, bool blocking);
void count_reduce_scatter(MPI_Comm comm, counts_t counts, MPI_Op op);
void count_scan(MPI_Comm comm, uint64_t count, MPI_Datatype type, bool node_step);
/* `bytes` to each neighbour, or by `counts`, or by `counts` and `types`. */
void count_neighbours(MPI_Comm comm, counts_t counts, const MPI_Datatype types[]);

#endif
