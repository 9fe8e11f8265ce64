/* Counting: a message, and the lists that persistent operations repeat. */
#include "library.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    uint64_t key;
    uint64_t bytes;
    uint64_t messages;
} entry_t;

typedef struct list {
    struct list *next;
    uintptr_t request;
    void *caller;
    uint32_t count;
    uint32_t capacity;
    entry_t entries[];
} list_t;

#define BUCKETS 1024
static list_t *lists[BUCKETS];
static __thread list_t *collecting;

uint64_t
realtime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
bytes_of(MPI_Count count, MPI_Datatype type)
{
    MPI_Count size = 0;
    if (count <= 0 || real.Type_size_x(type, &size) != MPI_SUCCESS || size <= 0)
        return 0;
    return (uint64_t)count * (uint64_t)size;
}

static void
collect(uint64_t key, uint64_t bytes, uint64_t messages)
{
    list_t *list = collecting;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity * 2;
        list = realloc(list, sizeof(*list) + capacity * sizeof(entry_t));
        if (list == NULL)
            abort();
        list->capacity = capacity;
        collecting = list;
    }
    list->entries[list->count++] = (entry_t) { key, bytes, messages };
}

static void
count_key(uint64_t key, uint64_t bytes, uint64_t messages)
{
    part_count(__builtin_expect(library.callers, 0) ? key | caller_key() : key, bytes, messages, sent_in_round++, entered);
    if (__builtin_expect(library.rounds, 1))
        count_site(key, bytes, messages);
}

uint64_t
count_peer(peers_t *peers, int rank, unsigned kind, uint64_t bytes, uint64_t messages)
{
    if (rank < 0 || rank >= peers->size)
        return NO_KEY; /* MPI_PROC_NULL, or an error that MPI will report */
    lock();
    uint64_t key = peers_key(peers, rank);
    if (__builtin_expect(key == NO_KEY, 0)) {
        part()->flags |= COHABIT_MPI_FLAG_UNKNOWN_PEER;
        part()->unknown_peer_messages += messages;
    } else {
        key |= (uint64_t)kind << COHABIT_MPI_KEY_KIND_SHIFT;
        if (__builtin_expect(collecting != NULL, 0))
            collect(key, bytes, messages);
        else
            count_key(key, bytes, messages);
    }
    unlock();
    return key;
}

sent_t
count_send(MPI_Comm comm, int rank, MPI_Count count, MPI_Datatype type)
{
    sent_t sent = { rank < 0 ? NULL : peers_of_comm(comm), NO_KEY, 0 };
    if (sent.peers == NULL)
        return sent;
    sent.bytes = bytes_of(count, type);
    sent.key = count_peer(sent.peers, rank, COHABIT_MPI_KIND_SENT, sent.bytes, 1);
    return sent;
}

void
list_begin(void)
{
    list_drop();
    collecting = malloc(sizeof(list_t) + 4 * sizeof(entry_t));
    if (collecting == NULL)
        abort();
    memset(collecting, 0, sizeof(list_t));
    collecting->capacity = 4;
    collecting->caller = caller;
}

void
list_drop(void)
{
    free(collecting);
    collecting = NULL;
}

static list_t **
find(MPI_Request request)
{
    uintptr_t handle = (uintptr_t)request;
    list_t **at = &lists[(handle * 0x9e3779b97f4a7c15ull >> 40) % BUCKETS];
    while (*at != NULL && (*at)->request != handle)
        at = &(*at)->next;
    return at;
}

void
list_store(MPI_Request request)
{
    list_t *list = collecting;
    collecting = NULL;
    if (list == NULL)
        return;
    lock();
    list_t **at = find(request);
    list_t *former = *at;
    if (former != NULL)
        *at = former->next;
    list->request = (uintptr_t)request;
    at = find(request);
    list->next = NULL;
    *at = list;
    unlock();
    free(former);
}

void
list_replay(MPI_Request request)
{
    lock();
    list_t *list = *find(request);
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (list->entries[i].messages > 0)
            count_key(list->entries[i].key, list->entries[i].bytes, list->entries[i].messages);
    unlock();
}

void
list_replay_part(MPI_Request request, uint64_t messages)
{
    lock();
    list_t *list = *find(request);
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        count_key(list->entries[i].key, list->entries[i].bytes, messages);
    unlock();
}

void
list_forget(MPI_Request request)
{
    lock();
    list_t **at = find(request);
    list_t *list = *at;
    if (list != NULL)
        *at = list->next;
    unlock();
    free(list);
}
