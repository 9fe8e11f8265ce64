/* The messages that collectives are made of: what one rank sends, and waits for, in each algorithm.
 *
 * After Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), and
 * Bruck et al., "Efficient algorithms for all-to-all communications" (1997). Ranks of a communicator throughout.
 */
#include "algorithms.h"
#include <stddef.h>

#define SEND(to, bytes) at->send(at->context, (to), (bytes))

static void
post(const place_t *at, int from)
{
    if (at->post != NULL && from != at->rank)
        at->post(at->context, from);
}

void
wait_all(const place_t *at)
{
    if (at->post != NULL)
        at->wait(at->context);
}

static void
receive(const place_t *at, int from)
{
    post(at, from);
    wait_all(at);
}

/* One goes there, one comes from there, and both are waited for. */
static void
exchange(const place_t *at, int to, uint64_t bytes, int from)
{
    post(at, from);
    SEND(to, bytes);
    wait_all(at);
}

void
post_all(const place_t *at)
{
    for (int from = 0; at->post != NULL && from < at->size; from++)
        post(at, from);
}

uint64_t
counts_bytes(const counts_t *counts, int rank)
{
    if (counts->at == NULL)
        return counts->each * counts->unit;
    int64_t count = counts->large ? ((const int64_t *)counts->at)[rank] : ((const int *)counts->at)[rank];
    return count <= 0 ? 0 : (uint64_t)count * counts->unit;
}

uint64_t
counts_total(const counts_t *counts, int size)
{
    if (counts->at == NULL)
        return counts->each * counts->unit * (uint64_t)size;
    uint64_t total = 0;
    for (int rank = 0; rank < size; rank++)
        total += counts_bytes(counts, rank);
    return total;
}

int
power_below(int size)
{
    int power = 1;
    while (power <= size / 2)
        power *= 2;
    return power;
}

bool
is_power(int size)
{
    return size > 0 && (size & (size - 1)) == 0;
}

static int
modulo(int value, int size)
{
    return ((value % size) + size) % size;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void
from_one_to(const place_t *at, int from, int to, uint64_t bytes)
{
    if (from == to)
        return;
    if (at->rank == from)
        SEND(to, bytes);
    else if (at->rank == to)
        post(at, from);
    wait_all(at);
}

void
linear_to(const place_t *at, int to, uint64_t bytes)
{
    if (at->rank != to)
        SEND(to, bytes);
    else
        post_all(at);
    wait_all(at);
}

/* The root sends to each of the others; empty messages are left out where counts differ. */
void
linear_from(const place_t *at, int root, const counts_t *counts, bool itself)
{
    for (int to = 0; at->rank == root && to < at->size; to++)
        if ((to != root || itself) && counts_bytes(counts, to) > 0)
            SEND(to, counts_bytes(counts, to));
    post(at, root);
    wait_all(at);
}

void
dissemination(const place_t *at)
{
    for (int mask = 1; mask < at->size; mask *= 2)
        exchange(at, (at->rank + mask) % at->size, 0, modulo(at->rank - mask, at->size));
}

/* The bit of the relative rank by which it hangs in a binomial tree; at the root the first beyond the size. */
static int
tree_bit(int relative, int size)
{
    int mask = 1;
    while (mask < size && (relative & mask) == 0)
        mask *= 2;
    return mask;
}

void
bcast_binomial(const place_t *at, int root, uint64_t bytes)
{
    int relative = modulo(at->rank - root, at->size);
    int bit = tree_bit(relative, at->size);
    if (relative != 0)
        receive(at, ((relative ^ bit) + root) % at->size);
    for (int mask = bit / 2; mask > 0; mask /= 2)
        if (relative + mask < at->size)
            SEND((at->rank + mask) % at->size, bytes);
    wait_all(at);
}

/* What a block of ranks from `relative` on holds of `bytes` cut into slices. */
static uint64_t
slice(uint64_t bytes, uint64_t width, int relative, int ranks)
{
    uint64_t start = width * (uint64_t)relative;
    return start >= bytes ? 0 : least(bytes - start, width * (uint64_t)ranks);
}

static void
scatter_slices(const place_t *at, int root, uint64_t bytes, uint64_t width, bool exact)
{
    int relative = modulo(at->rank - root, at->size);
    int bit = tree_bit(relative, at->size);
    uint64_t mine = slice(bytes, width, relative, exact && relative != 0 ? bit : at->size);
    if (relative != 0)
        receive(at, ((relative ^ bit) + root) % at->size);
    for (int mask = bit / 2; mask > 0; mask /= 2) {
        uint64_t kept = width * (uint64_t)mask;
        if (relative + mask < at->size && mine > kept) {
            SEND((at->rank + mask) % at->size, mine - kept);
            mine = kept;
        }
    }
    wait_all(at);
}

void
bcast_scatter_ring(const place_t *at, int root, uint64_t bytes, bool exact)
{
    uint64_t width = (bytes + (uint64_t)at->size - 1) / (uint64_t)at->size;
    scatter_slices(at, root, bytes, width, exact);
    for (int step = 0; step < at->size - 1; step++) {
        int relative = modulo(at->rank - step - root, at->size);
        exchange(at, (at->rank + 1) % at->size, slice(bytes, width, relative, 1), modulo(at->rank - 1, at->size));
    }
}

void
bcast_scatter_doubling(const place_t *at, int root, uint64_t bytes, bool exact)
{
    uint64_t width = (bytes + (uint64_t)at->size - 1) / (uint64_t)at->size;
    int relative = modulo(at->rank - root, at->size);
    scatter_slices(at, root, bytes, width, exact);
    for (int mask = 1; mask < at->size; mask *= 2) {
        int other = relative ^ mask;
        int partner = (other + root) % at->size;
        if (other < at->size)
            exchange(at, partner, slice(bytes, width, relative & ~(mask - 1), mask), partner);
    }
}

void
gather_binomial(const place_t *at, int root, uint64_t bytes)
{
    int relative = modulo(at->rank - root, at->size);
    int bit = tree_bit(relative, at->size);
    for (int mask = 1; mask < bit; mask *= 2)
        if (relative + mask < at->size)
            receive(at, (relative + mask + root) % at->size);
    if (relative != 0) {
        int ranks = bit < at->size - relative ? bit : at->size - relative;
        SEND(((relative ^ bit) + root) % at->size, bytes * (uint64_t)ranks);
    }
    wait_all(at);
}

void
scatter_binomial(const place_t *at, int root, uint64_t bytes)
{
    int relative = modulo(at->rank - root, at->size);
    int bit = tree_bit(relative, at->size);
    if (relative != 0)
        receive(at, ((relative ^ bit) + root) % at->size);
    for (int mask = bit / 2; mask > 0; mask /= 2) {
        int child = relative + mask;
        if (child < at->size) {
            int ranks = mask < at->size - child ? mask : at->size - child;
            SEND((child + root) % at->size, bytes * (uint64_t)ranks);
        }
    }
    wait_all(at);
}

static uint64_t
range_bytes(const counts_t *counts, int size, int first, int ranks)
{
    if (counts->at == NULL)
        return counts->each * counts->unit * (uint64_t)ranks;
    uint64_t bytes = 0;
    for (int i = 0; i < ranks; i++)
        bytes += counts_bytes(counts, (first + i) % size);
    return bytes;
}

/* Powers of two only. */
void
allgather_doubling(const place_t *at, const counts_t *counts)
{
    for (int mask = 1; mask < at->size; mask *= 2)
        exchange(at, at->rank ^ mask, range_bytes(counts, at->size, at->rank & ~(mask - 1), mask), at->rank ^ mask);
}

void
allgather_bruck(const place_t *at, const counts_t *counts)
{
    int power = 1;
    for (; power <= at->size / 2; power *= 2)
        exchange(at, modulo(at->rank - power, at->size), range_bytes(counts, at->size, at->rank, power),
                 (at->rank + power) % at->size);
    if (at->size > power)
        exchange(at, modulo(at->rank - power, at->size), range_bytes(counts, at->size, at->rank, at->size - power),
                 (at->rank + power) % at->size);
}

/* A block a step to the right; with segments a large block is several messages (and an empty one none). */
void
allgather_ring(const place_t *at, const counts_t *counts, uint64_t segment_bytes)
{
    int right = (at->rank + 1) % at->size, before = modulo(at->rank - 1, at->size);
    for (int step = 0; step < at->size - 1; step++) {
        uint64_t left = counts_bytes(counts, modulo(at->rank - step, at->size));
        uint64_t comes = counts_bytes(counts, modulo(before - step, at->size));
        for (uint64_t done = 0; segment_bytes > 0 && done < comes; done += segment_bytes)
            post(at, before);
        if (segment_bytes == 0) {
            post(at, before);
            SEND(right, left);
        }
        while (segment_bytes > 0 && left > 0) {
            uint64_t now = least(left, segment_bytes);
            SEND(right, now);
            left -= now;
        }
        wait_all(at);
    }
}

void
alltoall_bruck(const place_t *at, uint64_t bytes)
{
    for (int power = 1; power < at->size; power *= 2) {
        uint64_t blocks = 0;
        for (int block = 1; block < at->size; block++)
            blocks += (block & power) != 0;
        exchange(at, (at->rank + power) % at->size, bytes * blocks, modulo(at->rank - power, at->size));
    }
}

void
alltoall_pairwise(const place_t *at, uint64_t bytes)
{
    for (int step = 1; step < at->size; step++) {
        bool paired = is_power(at->size);
        exchange(at, paired ? at->rank ^ step : (at->rank + step) % at->size, bytes,
                 paired ? at->rank ^ step : modulo(at->rank - step, at->size));
    }
}

void
alltoall_linear(const place_t *at, const counts_t *counts, bool itself)
{
    post_all(at);
    for (int step = itself ? 0 : 1; step < at->size; step++) {
        int to = (at->rank + step) % at->size;
        if (counts_bytes(counts, to) > 0)
            SEND(to, counts_bytes(counts, to));
    }
    wait_all(at);
}

void
alltoall_steps(const place_t *at, const counts_t *counts)
{
    for (int step = 1; step < at->size; step++) {
        int to = (at->rank + step) % at->size;
        post(at, modulo(at->rank - step, at->size));
        if (counts_bytes(counts, to) > 0)
            SEND(to, counts_bytes(counts, to));
        wait_all(at);
    }
}

void
alltoall_ascending(const place_t *at, const counts_t *counts)
{
    post_all(at);
    for (int to = 0; to < at->size; to++)
        if (to != at->rank && counts_bytes(counts, to) > 0)
            SEND(to, counts_bytes(counts, to));
    wait_all(at);
}

void
alltoall_descending(const place_t *at, const counts_t *counts)
{
    post_all(at);
    for (int step = 1; step < at->size; step++) {
        int to = (at->rank + at->size - step) % at->size;
        if (counts_bytes(counts, to) > 0)
            SEND(to, counts_bytes(counts, to));
    }
    wait_all(at);
}

/* In place: an exchange with every rank, itself included. */
void
alltoall_exchange(const place_t *at, const counts_t *counts)
{
    post_all(at);
    for (int to = 0; to < at->size; to++)
        SEND(to, counts_bytes(counts, to));
    wait_all(at);
}

void
reduce_binomial(const place_t *at, int root, uint64_t bytes, bool commutative)
{
    int top = commutative ? root : 0;
    int relative = modulo(at->rank - top, at->size);
    int bit = tree_bit(relative, at->size);
    for (int mask = 1; mask < bit; mask *= 2)
        if (relative + mask < at->size)
            receive(at, (relative + mask + top) % at->size);
    if (relative != 0)
        SEND(((relative ^ bit) + top) % at->size, bytes);
    else if (top != root)
        SEND(root, bytes);
    wait_all(at);
    if (at->rank == root && top != root)
        receive(at, top);
}

/* Ranks beyond a power of two join in pairs; what is left is numbered again. `low` says which of a pair stays. */
typedef struct {
    int power;
    int rest;
    int rank; /* -1: does not take part */
} folded_t;

static folded_t
fold(const place_t *at, bool low_stays)
{
    folded_t folded = { .power = power_below(at->size) };
    folded.rest = at->size - folded.power;
    if (at->rank >= 2 * folded.rest)
        folded.rank = at->rank - folded.rest;
    else if ((at->rank % 2 == 0) == low_stays)
        folded.rank = at->rank / 2;
    else
        folded.rank = -1;
    return folded;
}

static int
unfold(const folded_t *folded, int rank, bool low_stays)
{
    return rank < folded->rest ? rank * 2 + (low_stays ? 0 : 1) : rank + folded->rest;
}

/* Items [first, last) of `count` dealt to a power of two of ranks: the first ones get one more, or (not `fair`) the
 * last one all that is left over. */
static uint64_t
dealt(uint64_t count, int ranks, int first, int last, bool fair)
{
    uint64_t each = count / (uint64_t)ranks, more = count % (uint64_t)ranks;
    if (!fair)
        return each * (uint64_t)(last - first) + (last == ranks && last > first ? more : 0);
    uint64_t before_last = each * (uint64_t)last + least(more, (uint64_t)last);
    uint64_t before_first = each * (uint64_t)first + least(more, (uint64_t)first);
    return before_last - before_first;
}

/* Recursive halving of a dealt vector; leaves where this rank's part begins and where it would end. */
static void
halve(const place_t *at, const folded_t *folded, bool low_stays, uint64_t count, uint64_t unit, bool fair, int *mine,
      int *last)
{
    int power = folded->power, from = 0, keep = 0;
    *last = power;
    for (int mask = 1; mask < power; mask *= 2) {
        int other = folded->rank ^ mask, to = unfold(folded, other, low_stays);
        post(at, to);
        if (folded->rank < other) {
            from = keep + power / (mask * 2);
            SEND(to, dealt(count, power, from, *last, fair) * unit);
        } else {
            keep = from + power / (mask * 2);
            SEND(to, dealt(count, power, from, keep, fair) * unit);
        }
        wait_all(at);
        from = keep;
        if (mask * 2 < power)
            *last = keep + power / (mask * 2);
    }
    *mine = from;
}

void
allreduce_doubling(const place_t *at, uint64_t bytes)
{
    folded_t folded = fold(at, false);
    bool stands_for_two = folded.rank >= 0 && at->rank < 2 * folded.rest;
    if (folded.rank < 0) {
        SEND(at->rank + 1, bytes);
        receive(at, at->rank + 1);
    }
    if (stands_for_two)
        receive(at, at->rank - 1);
    for (int mask = 1; folded.rank >= 0 && mask < folded.power; mask *= 2) {
        int partner = unfold(&folded, folded.rank ^ mask, false);
        exchange(at, partner, bytes, partner);
    }
    if (stands_for_two) {
        SEND(at->rank - 1, bytes);
        wait_all(at);
    }
}

void
allreduce_halving(const place_t *at, uint64_t count, uint64_t unit, bool fair)
{
    folded_t folded = fold(at, false);
    if (folded.rank < 0) {
        SEND(at->rank + 1, count * unit);
        receive(at, at->rank + 1);
        return;
    }
    if (at->rank < 2 * folded.rest)
        receive(at, at->rank - 1);
    int power = folded.power, from, last;
    halve(at, &folded, false, count, unit, fair, &from, &last);
    for (int mask = power / 2; mask > 0; mask /= 2) {
        int other = folded.rank ^ mask, keep;
        int to = unfold(&folded, other, false);
        post(at, to);
        if (folded.rank < other) {
            if (mask != power / 2)
                last += power / (mask * 2);
            keep = from + power / (mask * 2);
            SEND(to, dealt(count, power, from, keep, fair) * unit);
        } else {
            keep = from - power / (mask * 2);
            SEND(to, dealt(count, power, from, last, fair) * unit);
            from = keep;
        }
        wait_all(at);
    }
    if (at->rank < 2 * folded.rest)
        SEND(at->rank - 1, count * unit);
    wait_all(at);
}

void
reduce_halving(const place_t *at, int root, uint64_t count, uint64_t unit, bool fair)
{
    folded_t folded = fold(at, true);
    int power = folded.power, from = 0, last = power, new_root;
    if (folded.rank < 0)
        SEND(at->rank - 1, count * unit);
    else if (at->rank < 2 * folded.rest)
        receive(at, at->rank + 1);
    wait_all(at);
    if (folded.rank >= 0)
        halve(at, &folded, true, count, unit, fair, &from, &last);
    if (root >= 2 * folded.rest) {
        new_root = root - folded.rest;
    } else if (root % 2 == 0) {
        new_root = root / 2;
    } else {
        /* The root has stayed out: it takes the place of the first. */
        if (at->rank == root) {
            receive(at, unfold(&folded, 0, true));
            folded.rank = 0;
            from = 0;
            last = 2;
        } else if (folded.rank == 0) {
            SEND(root, dealt(count, power, 0, 1, fair) * unit);
            wait_all(at);
            return;
        }
        new_root = 0;
    }
    if (folded.rank < 0)
        return;
    int level = 0;
    while (1 << level < power)
        level++;
    level--;
    for (int mask = power / 2; mask > 0; mask /= 2, level--) {
        int other = folded.rank ^ mask, to = unfold(&folded, other, true), keep;
        if (other == 0 && root < 2 * folded.rest && root % 2 != 0)
            to = root;
        uint64_t items;
        if (folded.rank < other) {
            if (mask != power / 2)
                last += power / (mask * 2);
            keep = from + power / (mask * 2);
            items = dealt(count, power, from, keep, fair);
        } else {
            keep = from - power / (mask * 2);
            items = dealt(count, power, from, last, fair);
        }
        if (other >> level == new_root >> level) {
            SEND(to, items * unit);
            wait_all(at);
            return;
        }
        receive(at, to);
        if (folded.rank > other)
            from = keep;
    }
}

/* What the new ranks [first, last) stand for. */
static uint64_t
folded_bytes(const counts_t *counts, const folded_t *folded, int first, int last)
{
    uint64_t bytes = 0;
    for (int rank = first; rank < last; rank++) {
        int former = unfold(folded, rank, false);
        bytes += counts_bytes(counts, former);
        if (former < 2 * folded->rest)
            bytes += counts_bytes(counts, former - 1);
    }
    return bytes;
}

void
reduce_scatter_halving(const place_t *at, const counts_t *counts)
{
    folded_t folded = fold(at, false);
    if (folded.rank < 0) {
        SEND(at->rank + 1, counts_total(counts, at->size));
        receive(at, at->rank + 1);
        return;
    }
    if (at->rank < 2 * folded.rest)
        receive(at, at->rank - 1);
    int from = 0, keep = 0, last = folded.power;
    for (int mask = folded.power / 2; mask > 0; mask /= 2) {
        int other = folded.rank ^ mask;
        uint64_t bytes;
        post(at, unfold(&folded, other, false));
        if (folded.rank < other) {
            from = keep + mask;
            bytes = folded_bytes(counts, &folded, from, last);
        } else {
            keep = from + mask;
            bytes = folded_bytes(counts, &folded, from, keep);
        }
        if (bytes > 0)
            SEND(unfold(&folded, other, false), bytes);
        wait_all(at);
        from = keep;
        last = keep + mask;
    }
    if (at->rank < 2 * folded.rest && counts_bytes(counts, at->rank - 1) > 0)
        SEND(at->rank - 1, counts_bytes(counts, at->rank - 1));
    wait_all(at);
}

void
reduce_scatter_pairwise(const place_t *at, const counts_t *counts)
{
    for (int step = 1; step < at->size; step++) {
        int to = (at->rank + step) % at->size;
        exchange(at, to, counts_bytes(counts, to), modulo(at->rank - step, at->size));
    }
}

/* Everything but what the ranks of this subtree hold goes to the partner; powers of two. */
void
reduce_scatter_doubling(const place_t *at, const counts_t *counts)
{
    uint64_t total = counts_total(counts, at->size);
    for (int mask = 1; mask < at->size; mask *= 2) {
        int to = at->rank ^ mask;
        post(at, to < at->size ? to : at->rank);
        if (to < at->size)
            SEND(to, total - range_bytes(counts, at->size, at->rank & ~(mask - 1),
                                         mask < at->size - (at->rank & ~(mask - 1)) ? mask
                                                                                     : at->size - (at->rank & ~(mask - 1))));
        wait_all(at);
    }
}

/* Powers of two and equal blocks. */
void
reduce_scatter_noncommutative(const place_t *at, uint64_t total)
{
    for (int mask = 1; mask < at->size; mask *= 2) {
        total /= 2;
        exchange(at, at->rank ^ mask, total, at->rank ^ mask);
    }
}

void
scan_doubling(const place_t *at, uint64_t bytes)
{
    for (int mask = 1; mask < at->size; mask *= 2)
        if ((at->rank ^ mask) < at->size)
            exchange(at, at->rank ^ mask, bytes, at->rank ^ mask);
}
