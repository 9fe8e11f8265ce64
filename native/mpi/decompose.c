/* Which algorithm a collective call takes, and so which messages this rank sends in it.
 *
 * The choices are MPICH's automatic ones for a communicator whose ranks are on one node, as they were seen in what it
 * really sends (scripts/mpich-collectives.sh). Some blocking collectives have a step within the node besides: the root
 * is always the first rank there. Open MPI chooses otherwise: there the monitoring component's totals are what counts,
 * and this decomposition says when and in which sizes. All-to-alls go by Open MPI's own choices (coll/tuned's fixed
 * rules, the same in 4.1.4 and 5.0.7), because the order of their messages matters (docs/estimator.md).
 */
#include "decompose.h"
#include <stdlib.h>
#include <string.h>

#define BCAST_SHORT_BYTES 12288
#define BCAST_LONG_BYTES 524288
#define BCAST_MIN_RANKS 8
#define REDUCE_SHORT_BYTES 2048
#define ALLGATHER_SHORT_BYTES 81920
#define ALLGATHER_LONG_BYTES 524288
#define ALLGATHERV_SEGMENT_BYTES 32768
#define ALLTOALL_SHORT_BYTES 256
#define IALLTOALL_SHORT_BYTES 2048
#define ALLTOALL_MEDIUM_BYTES 32768
#define ALLTOALL_MIN_RANKS 9
#define REDUCE_SCATTER_LONG_BYTES 524288

#if defined(OPEN_MPI)
#define NODE_STEP false
#else
#define NODE_STEP true
#endif

/* The operations before those of the call under way. */
static uint32_t first;

static void
send(void *context, int to, uint64_t bytes)
{
    peers_t *peers = context;
    uint64_t key = count_peer(peers, to, COHABIT_MPI_KIND_COLLECTIVE, bytes, 1);
    if (to != peers->rank)
        trace_collective_send(peers, key, bytes);
}

static void
post(void *context, int from)
{
    trace_collective_post(context, from);
}

static void
wait(void *context)
{
    (void)context;
    if (library.waits)
        trace_collective_wait(first);
}

static place_t
place(MPI_Comm comm, peers_t **peers)
{
    *peers = peers_of_comm(comm);
    part()->flags |= COHABIT_MPI_FLAG_COLLECTIVES;
    place_t at = { (*peers)->size, (*peers)->rank, send, NULL, NULL, *peers };
    if ((*peers)->inter)
        trace_end();
    if (library.traces) {
        trace_collective(*peers);
        first = part()->operation_count;
        at.post = post;
        at.wait = wait;
    }
    return at;
}

/* Intercommunicators: every rank that gives sends to every one that takes; what MPI really does is not known here. */
static void
between(peers_t *peers, uint64_t bytes)
{
    part()->flags |= COHABIT_MPI_FLAG_APPROXIMATE;
    for (int to = 0; to < peers->size; to++)
        send(peers, to, bytes);
}

static void
to_root_between(peers_t *peers, int root, uint64_t bytes)
{
    part()->flags |= COHABIT_MPI_FLAG_APPROXIMATE;
    if (root >= 0)
        send(peers, root, bytes);
}

static bool
is_built_in(MPI_Op op)
{
#if defined(OPEN_MPI)
    (void)op;
    return true;
#else
    return ((unsigned)op & 0xc0000000u) == 0x40000000u;
#endif
}

static bool
commutes(MPI_Op op)
{
    int commutative = 1;
    real.Op_commutative(op, &commutative);
    return commutative != 0;
}

void
count_barrier(MPI_Comm comm, bool blocking)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    if (peers->inter) {
        between(peers, 0);
        return;
    }
    dissemination(&at);
    if (NODE_STEP && blocking)
        bcast_binomial(&at, 0, 1);
}

void
count_bcast(MPI_Comm comm, int root, uint64_t bytes, bool blocking)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    bool is_short = bytes <= BCAST_SHORT_BYTES || at.size < BCAST_MIN_RANKS;
    if (peers->inter) {
        if (root == MPI_ROOT)
            between(peers, bytes);
        return;
    }
    if (bytes == 0)
        return;
    if (NODE_STEP && (is_short || !blocking)) {
        from_one_to(&at, root, 0, bytes);
        root = 0;
    }
    if (is_short)
        bcast_binomial(&at, root, bytes);
    else if (bytes <= BCAST_LONG_BYTES && is_power(at.size))
        bcast_scatter_doubling(&at, root, bytes, blocking);
    else
        bcast_scatter_ring(&at, root, bytes, blocking);
}

void
count_gather(MPI_Comm comm, int root, uint64_t sent_bytes, uint64_t received_bytes)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    if (peers->inter)
        to_root_between(peers, root, sent_bytes);
    else if ((at.rank == root ? received_bytes : sent_bytes) > 0)
        gather_binomial(&at, root, sent_bytes);
}

void
count_gatherv(MPI_Comm comm, int root, uint64_t sent_bytes)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    if (peers->inter)
        to_root_between(peers, root, sent_bytes);
    else if (sent_bytes > 0 || at.rank == root)
        linear_to(&at, root, sent_bytes);
}

void
count_scatter(MPI_Comm comm, int root, uint64_t sent_bytes, uint64_t received_bytes)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    uint64_t bytes = at.rank == root ? sent_bytes : received_bytes;
    if (peers->inter) {
        if (root == MPI_ROOT)
            between(peers, sent_bytes);
    } else if (bytes > 0) {
        scatter_binomial(&at, root, bytes);
    }
}

void
count_scatterv(MPI_Comm comm, int root, counts_t sent)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    if (!peers->inter) {
        linear_from(&at, root, &sent, false);
    } else if (root == MPI_ROOT) {
        part()->flags |= COHABIT_MPI_FLAG_APPROXIMATE;
        for (int to = 0; to < at.size; to++)
            send(peers, to, counts_bytes(&sent, to));
    }
}

void
count_allgather(MPI_Comm comm, uint64_t sent_bytes, uint64_t received_bytes)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    counts_t counts = { NULL, false, received_bytes, 1 };
    uint64_t total = received_bytes * (uint64_t)at.size;
    if (peers->inter)
        between(peers, sent_bytes);
    else if (total == 0)
        return;
    else if (total < ALLGATHER_LONG_BYTES && is_power(at.size))
        allgather_doubling(&at, &counts);
    else if (total < ALLGATHER_SHORT_BYTES)
        allgather_bruck(&at, &counts);
    else
        allgather_ring(&at, &counts, 0);
}

void
count_allgatherv(MPI_Comm comm, uint64_t sent_bytes, counts_t received)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    if (peers->inter) {
        between(peers, sent_bytes);
        return;
    }
    uint64_t total = counts_total(&received, at.size);
    if (total == 0)
        return;
    if (total < ALLGATHER_LONG_BYTES && is_power(at.size)) {
        allgather_doubling(&at, &received);
    } else if (total < ALLGATHER_SHORT_BYTES) {
        allgather_bruck(&at, &received);
    } else {
        uint64_t unit = received.unit == 0 ? 1 : received.unit;
        uint64_t segment = ALLGATHERV_SEGMENT_BYTES / unit * unit;
        allgather_ring(&at, &received, segment == 0 ? unit : segment);
    }
}

#if defined(OPEN_MPI)
/* Up to how many ranks, and then by bytes for each of the others: Bruck's algorithm below, one rank after another from
 * .. to ..; else all at once, beginning with the rank before. */
static const struct {
    int size;
    uint64_t bruck_below, pairwise_from, pairwise_below;
} alltoall_choices[] = {
    { 7, 0, 524288, 1048576 },    { 15, 0, 0, 0 },          { 31, 512, 0, 0 },
    { 63, 512, 0, 0 },            { 127, 1024, 262144, UINT64_MAX }, { 255, 1024, 262144, UINT64_MAX },
    { 511, 1024, 32768, UINT64_MAX }, { 1023, 512, 262144, UINT64_MAX }, { 2047, 512, 0, 0 },
    { 4095, 1024, 0, 0 },         { INT32_MAX, 2048, 0, 0 },
};

static void
step_by_step(const place_t *at, const counts_t *counts)
{
    sent_in_round |= COHABIT_MPI_STEPS;
    alltoall_steps(at, counts);
    sent_in_round &= ~COHABIT_MPI_STEPS;
}

static void
alltoall(const place_t *at, uint64_t bytes, bool blocking)
{
    counts_t counts = { NULL, false, bytes, 1 };
    int row = 0;
    while (at->size > alltoall_choices[row].size)
        row++;
    if (blocking && bytes < alltoall_choices[row].bruck_below)
        alltoall_bruck(at, bytes);
    else if (blocking && bytes >= alltoall_choices[row].pairwise_from && bytes < alltoall_choices[row].pairwise_below)
        step_by_step(at, &counts);
    else if (blocking)
        alltoall_descending(at, &counts);
    else
        alltoall_ascending(at, &counts); /* coll/libnbc */
}

static void
alltoallv(const place_t *at, const counts_t *counts)
{
    bool is_pairwise = at->size < 4 || (at->size >= 64 && at->size < 128) || (at->size >= 256 && at->size < 1024);
    if (is_pairwise)
        step_by_step(at, counts);
    else
        alltoall_ascending(at, counts);
}
#else
static void
alltoall(const place_t *at, uint64_t bytes, bool blocking)
{
    counts_t counts = { NULL, false, bytes, 1 };
    if (bytes <= (blocking ? ALLTOALL_SHORT_BYTES : IALLTOALL_SHORT_BYTES) && at->size >= ALLTOALL_MIN_RANKS)
        alltoall_bruck(at, bytes);
    else if (bytes <= ALLTOALL_MEDIUM_BYTES)
        alltoall_linear(at, &counts, true);
    else {
        sent_in_round |= COHABIT_MPI_STEPS;
        alltoall_pairwise(at, bytes);
        sent_in_round &= ~COHABIT_MPI_STEPS;
    }
}

static void
alltoallv(const place_t *at, const counts_t *counts)
{
    alltoall_linear(at, counts, true);
}
#endif

void
count_alltoall(MPI_Comm comm, bool in_place, uint64_t sent_bytes, bool blocking)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    counts_t counts = { NULL, false, sent_bytes, 1 };
    if (peers->inter)
        between(peers, sent_bytes);
    else if (sent_bytes == 0)
        return;
    else if (in_place)
        alltoall_exchange(&at, &counts);
    else
        alltoall(&at, sent_bytes, blocking);
}

void
count_alltoallv(MPI_Comm comm, bool in_place, counts_t counts)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    if (peers->inter) {
        part()->flags |= COHABIT_MPI_FLAG_APPROXIMATE;
        for (int to = 0; to < at.size; to++)
            send(peers, to, counts_bytes(&counts, to));
    } else if (in_place) {
        alltoall_exchange(&at, &counts);
    } else {
        alltoallv(&at, &counts);
    }
}

void
count_alltoallw(MPI_Comm comm, bool in_place, counts_t counts, const MPI_Datatype types[])
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    counts.unit = 1;
    post_all(&at);
    for (int step = 0; step < at.size; step++) {
        int to = peers->inter ? step : (at.rank + step) % at.size;
        uint64_t bytes = bytes_of((MPI_Count)counts_bytes(&counts, to), types[to]);
        if (bytes > 0 || in_place)
            send(peers, to, bytes);
    }
    wait_all(&at);
}

void
count_reduce(MPI_Comm comm, int root, uint64_t count, MPI_Datatype type, MPI_Op op, bool blocking)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    uint64_t bytes = bytes_of((MPI_Count)count, type);
    if (peers->inter)
        to_root_between(peers, root, bytes);
    else if (count == 0)
        return;
    else if (bytes > REDUCE_SHORT_BYTES && is_built_in(op) && count >= (uint64_t)power_below(at.size)) {
        bool to_first = NODE_STEP && blocking;
        reduce_halving(&at, to_first ? 0 : root, count, bytes / count, blocking);
        if (to_first)
            from_one_to(&at, 0, root, bytes);
    } else
        reduce_binomial(&at, root, bytes, commutes(op));
}

void
count_allreduce(MPI_Comm comm, uint64_t count, MPI_Datatype type, MPI_Op op, bool blocking)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    uint64_t bytes = bytes_of((MPI_Count)count, type);
    uint64_t least = NODE_STEP && blocking ? 0 : REDUCE_SHORT_BYTES;
    if (peers->inter)
        between(peers, bytes);
    else if (count == 0)
        return;
    else if (bytes > least && is_built_in(op) && count >= (uint64_t)power_below(at.size))
        allreduce_halving(&at, count, bytes / count, blocking);
    else
        allreduce_doubling(&at, bytes);
}

void
count_reduce_scatter(MPI_Comm comm, counts_t counts, MPI_Op op)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    uint64_t total = counts_total(&counts, at.size);
    if (peers->inter)
        between(peers, total);
    else if (total == 0)
        return;
    else if (commutes(op) && total < REDUCE_SCATTER_LONG_BYTES)
        reduce_scatter_halving(&at, &counts);
    else if (commutes(op))
        reduce_scatter_pairwise(&at, &counts);
    else if (is_power(at.size) && counts.at == NULL)
        reduce_scatter_noncommutative(&at, total);
    else
        reduce_scatter_doubling(&at, &counts);
}

void
count_scan(MPI_Comm comm, uint64_t count, MPI_Datatype type, bool node_step)
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    uint64_t bytes = bytes_of((MPI_Count)count, type);
    if (count == 0)
        return;
    scan_doubling(&at, bytes);
    if (NODE_STEP && node_step) {
        from_one_to(&at, at.size - 1, 0, bytes);
        bcast_binomial(&at, 0, sizeof(int));
    }
}

/* The neighbours that this rank sends to, in the order of the counts, and after them those that send to it; NULL for
 * none. */
static int *
neighbours(MPI_Comm comm, const peers_t *peers, int *count, int *sources)
{
    int kind = MPI_UNDEFINED, dimensions = 0, weighted = 0;
    int *to = NULL;
    *count = *sources = 0;
    real.Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        real.Cartdim_get(comm, &dimensions);
        *count = *sources = 2 * dimensions;
        to = calloc(2 * (size_t)*count + 1, sizeof(int));
        for (int dimension = 0; to != NULL && dimension < dimensions; dimension++)
            real.Cart_shift(comm, dimension, 1, &to[2 * dimension], &to[2 * dimension + 1]);
        if (to != NULL)
            memcpy(to + *count, to, (size_t)*count * sizeof(int));
    } else if (kind == MPI_GRAPH) {
        real.Graph_neighbors_count(comm, peers->rank, count);
        *sources = *count;
        to = calloc(2 * (size_t)*count + 1, sizeof(int));
        if (to != NULL) {
            real.Graph_neighbors(comm, peers->rank, *count, to);
            memcpy(to + *count, to, (size_t)*count * sizeof(int));
        }
    } else if (kind == MPI_DIST_GRAPH) {
        real.Dist_graph_neighbors_count(comm, sources, count, &weighted);
        int *room = calloc((size_t)*sources + (size_t)*count + 1, 2 * sizeof(int));
        if (room == NULL)
            return NULL;
        to = room;
        int *from = room + *count, *weights = from + *sources;
        real.Dist_graph_neighbors(comm, *sources, from, weights, *count, to, weights + *sources);
    }
    return to;
}

void
count_neighbours(MPI_Comm comm, counts_t counts, const MPI_Datatype types[])
{
    peers_t *peers;
    place_t at = place(comm, &peers);
    int count = 0, sources = 0;
    int *to = neighbours(comm, peers, &count, &sources);
    for (int i = 0; to != NULL && at.post != NULL && i < sources; i++)
        if (to[count + i] >= 0 && to[count + i] != at.rank)
            post(peers, to[count + i]);
    for (int i = 0; to != NULL && i < count; i++) {
        uint64_t bytes = counts_bytes(&counts, i);
        if (types != NULL)
            bytes = bytes_of((MPI_Count)bytes, types[i]);
        if (to[i] >= 0)
            send(peers, to[i], bytes);
    }
    wait_all(&at);
    free(to);
}
