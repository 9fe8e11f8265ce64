/* Ranks of communicators and windows as keys (abi.h): the world that a peer belongs to, and its rank there.
 *
 * A translation is looked up once for each neighbour, so that a rank's memory grows with its neighbours and not with
 * its communicators' sizes. Communicators are known by their handles until the program frees them; no attribute is
 * used, since MPI may hold a lock of its own when it calls an attribute's functions.
 */
#include "library.h"
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256
static struct {
    peers_t *buckets[BUCKETS];
    peers_t *newest; /* the one that was asked for last */
    MPI_Group world;
    bool have_world;
    MPI_Group worlds[64]; /* other worlds, from 1 */
    uint32_t world_count;
} state;

static peers_t **
bucket(uintptr_t handle, bool window)
{
    uintptr_t mixed = (handle * 0x9e3779b97f4a7c15ull) >> 40;
    return &state.buckets[(mixed + window) % BUCKETS];
}

static MPI_Group
world_group(void)
{
    if (!state.have_world) {
        real.Comm_group(real.world, &state.world);
        state.have_world = true;
    }
    return state.world;
}

static uint64_t
key_of(uint64_t world, int rank)
{
    return world << COHABIT_MPI_KEY_WORLD_SHIFT | (uint64_t)rank << COHABIT_MPI_KEY_RANK_SHIFT;
}

static uint64_t
translate(const peers_t *peers, int rank)
{
    int there = MPI_UNDEFINED;
    real.Group_translate_ranks(peers->group, 1, &rank, world_group(), &there);
    if (there != MPI_UNDEFINED)
        return key_of(0, there);
    for (uint32_t world = 1; world <= state.world_count; world++) {
        real.Group_translate_ranks(peers->group, 1, &rank, state.worlds[world], &there);
        if (there != MPI_UNDEFINED)
            return key_of(world, there);
    }
    return NO_KEY;
}

/* A number that all ranks of a group make of its ranks in the world, where a trace is kept. */
static uint32_t
name_of(const peers_t *peers)
{
    size_t count = library.traces ? (size_t)peers->size : 0;
    int *ranks = malloc(2 * count * sizeof(int) + 1), *there = ranks + count;
    uint64_t hash = 0xcbf29ce484222325ull;
    if (ranks == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        ranks[i] = (int)i;
    if (count > 0)
        real.Group_translate_ranks(peers->group, peers->size, ranks, world_group(), there);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)(uint32_t)there[i]) * 0x100000001b3ull;
    free(ranks);
    return (uint32_t)(hash >> 32) | 1;
}

static void
fill_comm(peers_t *peers, MPI_Comm comm)
{
    int inter = 0;
    real.Comm_test_inter(comm, &inter);
    real.Comm_rank(comm, &peers->rank);
    real.Comm_size(comm, &peers->local_size);
    peers->inter = inter != 0;
    if (inter) {
        real.Comm_remote_size(comm, &peers->size);
        real.Comm_remote_group(comm, &peers->group);
        return;
    }
    peers->size = peers->local_size;
    int same = MPI_UNEQUAL;
    if (comm != real.world)
        real.Comm_compare(comm, real.world, &same);
    peers->identity = comm == real.world || same == MPI_CONGRUENT || same == MPI_IDENT;
    if (peers->identity)
        return;
    real.Comm_group(comm, &peers->group);
    peers->name = name_of(peers);
}

static peers_t *
find(uintptr_t handle, bool window)
{
    if (state.newest != NULL && state.newest->handle == handle && state.newest->window == window)
        return state.newest;
    peers_t *peers = *bucket(handle, window);
    while (peers != NULL && !(peers->handle == handle && peers->window == window))
        peers = peers->next;
    if (peers != NULL)
        state.newest = peers;
    return peers;
}

static peers_t *
add(uintptr_t handle, bool window)
{
    peers_t *peers = calloc(1, sizeof(*peers));
    if (peers == NULL)
        abort();
    peers->handle = handle;
    peers->window = window;
    return peers;
}

/* Under the lock a communicator was not found: it is filled without, since MPI takes locks of its own. */
static peers_t *
insert(peers_t *peers)
{
    peers_t *there = find(peers->handle, peers->window);
    if (there != NULL) {
        free(peers);
        return there;
    }
    peers_t **at = bucket(peers->handle, peers->window);
    peers->next = *at;
    *at = peers;
    state.newest = peers;
    return peers;
}

peers_t *
peers_of_comm(MPI_Comm comm)
{
    if (comm == real.null_comm)
        return NULL;
    lock();
    peers_t *peers = find((uintptr_t)comm, false);
    unlock();
    if (peers == NULL) {
        peers = add((uintptr_t)comm, false);
        fill_comm(peers, comm);
        lock();
        peers = insert(peers);
        unlock();
    }
    return peers;
}

peers_t *
peers_of_win(MPI_Win win)
{
    lock();
    peers_t *peers = find((uintptr_t)win, true);
    unlock();
    if (peers == NULL) {
        peers = add((uintptr_t)win, true);
        real.Win_get_group(win, &peers->group);
        real.Group_size(peers->group, &peers->size);
        real.Group_rank(peers->group, &peers->rank);
        peers->local_size = peers->size;
        lock();
        peers = insert(peers);
        unlock();
    }
    return peers;
}

static void
forget(uintptr_t handle, bool window)
{
    lock();
    peers_t **at = bucket(handle, window);
    while (*at != NULL && !((*at)->handle == handle && (*at)->window == window))
        at = &(*at)->next;
    peers_t *peers = *at;
    if (peers != NULL) {
        *at = peers->next;
        if (state.newest == peers)
            state.newest = NULL;
    }
    unlock();
    if (peers == NULL)
        return;
    trace_forget(peers);
    if (!peers->identity)
        real.Group_free(&peers->group);
    free(peers->known);
    free(peers);
}

void
peers_forget_comm(MPI_Comm comm)
{
    forget((uintptr_t)comm, false);
}

void
peers_forget_win(MPI_Win win)
{
    forget((uintptr_t)win, true);
}

static void
remember(peers_t *peers, int rank, uint64_t key)
{
    if (peers->known_count * 2 >= peers->known_capacity) {
        int capacity = peers->known_capacity == 0 ? 16 : peers->known_capacity * 2;
        struct translation *known = malloc((size_t)capacity * sizeof(*known));
        if (known == NULL)
            return;
        memset(known, 0xff, (size_t)capacity * sizeof(*known));
        for (int i = 0; i < peers->known_capacity; i++) {
            int slot = peers->known[i].rank & (capacity - 1);
            while (peers->known[i].rank != -1 && known[slot].rank != -1)
                slot = (slot + 1) & (capacity - 1);
            if (peers->known[i].rank != -1)
                known[slot] = peers->known[i];
        }
        free(peers->known);
        peers->known = known;
        peers->known_capacity = capacity;
    }
    int slot = rank & (peers->known_capacity - 1);
    while (peers->known[slot].rank != -1)
        slot = (slot + 1) & (peers->known_capacity - 1);
    peers->known[slot] = (struct translation) { rank, key };
    peers->known_count++;
}

uint64_t
peers_key(peers_t *peers, int rank)
{
    if (peers->identity)
        return key_of(0, rank);
    if (peers->known_capacity > 0) {
        int slot = rank & (peers->known_capacity - 1);
        while (peers->known[slot].rank != -1) {
            if (peers->known[slot].rank == rank)
                return peers->known[slot].key;
            slot = (slot + 1) & (peers->known_capacity - 1);
        }
    }
    uint64_t key = translate(peers, rank);
    remember(peers, rank, key);
    return key;
}

void
peers_new_world(MPI_Comm inter, uint32_t kind, MPI_Comm local, uint64_t began_ns)
{
    if (state.world_count + 1 >= sizeof(state.worlds) / sizeof(state.worlds[0])) {
        part()->flags |= COHABIT_MPI_FLAG_BEYOND_WORLD;
        return;
    }
    MPI_Group group;
    int size = 0, count = 0;
    if (real.Comm_remote_group(inter, &group) != MPI_SUCCESS)
        return;
    real.Group_size(group, &size);
    lock();
    uint64_t at = part_allocate(sizeof(cohabit_mpi_world_t));
    if (at != 0) {
        cohabit_mpi_world_t *world = part_at(at);
        *world = (cohabit_mpi_world_t) {
            .next = part()->worlds, .kind = kind, .size = (uint32_t)size, .began_ns = began_ns, .ended_ns = realtime_ns()
        };
        if (kind == COHABIT_MPI_WORLD_SPAWNED && real.Comm_size(local, &count) == MPI_SUCCESS) {
            uint64_t ranks = part_allocate((uint64_t)count * sizeof(uint32_t));
            MPI_Group from;
            real.Comm_group(local, &from);
            for (int rank = 0; ranks != 0 && rank < count; rank++) {
                int there = MPI_UNDEFINED;
                real.Group_translate_ranks(from, 1, &rank, world_group(), &there);
                ((uint32_t *)part_at(ranks))[rank] = (uint32_t)there;
            }
            real.Group_free(&from);
            world->ranks = ranks;
            world->rank_count = ranks == 0 ? 0 : (uint32_t)count;
        }
        part()->worlds = at;
        state.worlds[++state.world_count] = group;
    }
    unlock();
}
