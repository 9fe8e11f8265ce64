/* The messages that collectives are made of: what one rank sends and waits for, one function an algorithm. */
#ifndef COHABIT_MPI_ALGORITHMS_H
#define COHABIT_MPI_ALGORITHMS_H

#include <stdbool.h>
#include <stdint.h>

/* Where a rank stands in a communicator, and what is told of each message that it sends. Where `post` is not NULL it is
 * told of each that the rank is ready to receive (which is not sent where it would be empty), and `wait` where the rank
 * goes on only when all that it has sent and posted in this call is over. */
typedef struct {
    int size;
    int rank;
    void (*send)(void *context, int to, uint64_t bytes);
    void (*post)(void *context, int from);
    void (*wait)(void *context);
    void *context;
} place_t;

/* Counts of every rank: an array of int or of MPI_Count, or one value for all. */
typedef struct {
    const void *at; /* NULL: `each` for all */
    bool large;
    uint64_t each;
    uint64_t unit; /* bytes of one */
} counts_t;

uint64_t counts_bytes(const counts_t *counts, int rank);
uint64_t counts_total(const counts_t *counts, int size);
/* The largest power of two that is not above `size`. */
int power_below(int size);
bool is_power(int size);

/* Parts of algorithms: all that may be sent to this rank is posted; all that is under way is waited for. */
void post_all(const place_t *at);
void wait_all(const place_t *at);
/* One rank sends to another, where they are two. */
void from_one_to(const place_t *at, int from, int to, uint64_t bytes);
/* All others send to one. */
void linear_to(const place_t *at, int to, uint64_t bytes);
void linear_from(const place_t *at, int root, const counts_t *counts, bool itself);
void dissemination(const place_t *at);
void bcast_binomial(const place_t *at, int root, uint64_t bytes);
/* `exact`: a rank passes on what it got; else as much as would be left of the whole for it and all after it. */
void bcast_scatter_ring(const place_t *at, int root, uint64_t bytes, bool exact);
void bcast_scatter_doubling(const place_t *at, int root, uint64_t bytes, bool exact);
void gather_binomial(const place_t *at, int root, uint64_t bytes);
void scatter_binomial(const place_t *at, int root, uint64_t bytes);
void allgather_doubling(const place_t *at, const counts_t *counts);
void allgather_bruck(const place_t *at, const counts_t *counts);
void allgather_ring(const place_t *at, const counts_t *counts, uint64_t segment_bytes);
void alltoall_bruck(const place_t *at, uint64_t bytes);
void alltoall_pairwise(const place_t *at, uint64_t bytes);
void alltoall_linear(const place_t *at, const counts_t *counts, bool itself);
/* To the rank after, then the one after that, each when the message before it is sent and what comes meanwhile is
 * there. */
void alltoall_steps(const place_t *at, const counts_t *counts);
/* From rank 0 on; the other way from the one before this. */
void alltoall_ascending(const place_t *at, const counts_t *counts);
void alltoall_descending(const place_t *at, const counts_t *counts);
void alltoall_exchange(const place_t *at, const counts_t *counts);
void reduce_binomial(const place_t *at, int root, uint64_t bytes, bool commutative);
/* `fair`: what does not divide is dealt one by one; else the last rank gets it. */
void reduce_halving(const place_t *at, int root, uint64_t count, uint64_t unit, bool fair);
void allreduce_doubling(const place_t *at, uint64_t bytes);
void allreduce_halving(const place_t *at, uint64_t count, uint64_t unit, bool fair);
void reduce_scatter_halving(const place_t *at, const counts_t *counts);
void reduce_scatter_pairwise(const place_t *at, const counts_t *counts);
void reduce_scatter_doubling(const place_t *at, const counts_t *counts);
void reduce_scatter_noncommutative(const place_t *at, uint64_t total);
void scan_doubling(const place_t *at, uint64_t bytes);

#endif
