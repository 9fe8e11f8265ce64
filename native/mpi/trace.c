/* What this rank does with messages, in its order (abi.h): what it sends, what it is ready to receive, and what it
 * waits for.
 *
 * The first operations of a run are kept, as many as there is room for. An operation that cannot be told ends the trace
 * there. Of a request it is kept which operation it stands for, by its handle: MPI uses handles again, so that there
 * are no more of them than the program has requests at a time. Not where several threads may be in MPI at a time: then
 * a rank has no one order.
 */
#include "library.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    uintptr_t handle; /* 0: empty */
    uint32_t operation; /* that is under way; 0: none */
    bool any;           /* who sends it is known when it has come */
    bool repeated;      /* by MPI_Start */
    peers_t *peers;
    cohabit_mpi_operation_t again; /* what MPI_Start does */
} request_t;

/* How many collectives there were of communicators of one name. */
typedef struct calls {
    struct calls *next;
    uint32_t name;
    uint32_t count;
} calls_t;

static struct {
    cohabit_mpi_part_t *head;
    calls_t *calls; /* first of those of the collective under way */
    cohabit_mpi_operation_t *next; /* in the page under way */
    uint32_t left;                 /* there */
    uint32_t most;                 /* operations */
    request_t *requests; /* open addressing */
    uint32_t count, capacity;
    uint32_t *asked; /* slots + 1 of the requests that the call under way asks for */
    MPI_Status *statuses;
    int asked_capacity;
} state;

void
trace_begin(void)
{
    uint64_t share = COHABIT_MPI_OPERATIONS_OF_WORLD / (uint64_t)library.size;
    state.most = share < COHABIT_MPI_MAX_OPERATIONS ? (uint32_t)share : COHABIT_MPI_MAX_OPERATIONS;
    state.head = part();
    library.traces = !library.threaded;
}

void
trace_end(void)
{
    if (!library.traces)
        return;
    library.traces = false;
    state.head->flags |= COHABIT_MPI_FLAG_TRACE_ENDED;
}

static cohabit_mpi_operation_t *
at(uint32_t number)
{
    const uint64_t *pages = part_at(state.head->operations);
    cohabit_mpi_operation_t *page = part_at(pages[number / COHABIT_MPI_OPERATIONS_PER_PAGE]);
    return &page[number % COHABIT_MPI_OPERATIONS_PER_PAGE];
}

static bool
new_page(uint32_t number)
{
    cohabit_mpi_part_t *head = state.head;
    if (number >= state.most)
        return false;
    if (head->operations == 0)
        head->operations = part_allocate(COHABIT_MPI_OPERATION_PAGES * sizeof(uint64_t));
    uint64_t page = head->operations == 0
        ? 0
        : part_allocate(COHABIT_MPI_OPERATIONS_PER_PAGE * sizeof(cohabit_mpi_operation_t));
    if (page == 0)
        return false;
    ((uint64_t *)part_at(head->operations))[number / COHABIT_MPI_OPERATIONS_PER_PAGE] = page;
    state.next = part_at(page);
    state.left = state.most - number;
    if (state.left > COHABIT_MPI_OPERATIONS_PER_PAGE)
        state.left = COHABIT_MPI_OPERATIONS_PER_PAGE;
    return true;
}

/* Its number, from 1 on; 0 where there is no more room. */
static uint32_t
append(cohabit_mpi_operation_t operation)
{
    uint32_t number = state.head->operation_count;
    if (__builtin_expect(state.left == 0, 0) && !new_page(number)) {
        trace_end();
        return 0;
    }
    *state.next++ = operation;
    state.left--;
    __atomic_store_n(&state.head->operation_count, number + 1, __ATOMIC_RELEASE);
    return number + 1;
}

/* Of messages of one communicator with one tag. */
static uint64_t
whole_tag(const peers_t *peers, int tag)
{
    return (uint64_t)peers->name << 32 | (uint32_t)tag;
}

uint32_t
trace_send(sent_t sent, int tag, bool waits)
{
    if (!library.traces || sent.key == NO_KEY)
        return 0;
    uint64_t does = waits ? COHABIT_MPI_DOES_SEND | COHABIT_MPI_DOES_WAIT : COHABIT_MPI_DOES_SEND;
    return append((cohabit_mpi_operation_t) { sent.key | does, sent.bytes, whole_tag(sent.peers, tag) });
}

bool
trace_any(int source, int tag)
{
    return library.traces && (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
}

static uint32_t
post(peers_t *peers, int source, int tag, uint64_t does)
{
    uint64_t key = COHABIT_MPI_OPERATION_NO_PEER;
    if (!trace_any(source, tag))
        key = peers_key(peers, source);
    if (key == NO_KEY)
        key = COHABIT_MPI_OPERATION_NO_PEER;
    return append((cohabit_mpi_operation_t) { key | does, 0, whole_tag(peers, tag) });
}

uint32_t
trace_post(MPI_Comm comm, int source, int tag)
{
    if (!library.traces || source == MPI_PROC_NULL)
        return 0;
    peers_t *peers = peers_of_comm(comm);
    return peers == NULL ? 0 : post(peers, source, tag, COHABIT_MPI_DOES_POST);
}

void
trace_received(MPI_Comm comm, int source, int tag, const MPI_Status *status)
{
    if (!library.traces || source == MPI_PROC_NULL)
        return;
    bool any = trace_any(source, tag);
    peers_t *peers = peers_of_comm(comm);
    if (peers != NULL)
        post(peers, any ? status->MPI_SOURCE : source, any ? status->MPI_TAG : tag,
             COHABIT_MPI_DOES_POST | COHABIT_MPI_DOES_WAIT);
}

/* What was posted for any has come. */
static void
come(uint32_t operation, peers_t *peers, const MPI_Status *status)
{
    uint64_t key = peers == NULL || status->MPI_SOURCE < 0 ? NO_KEY : peers_key(peers, status->MPI_SOURCE);
    if (key == NO_KEY)
        return;
    *at(operation - 1) =
        (cohabit_mpi_operation_t) { key | COHABIT_MPI_DOES_POST, 0, whole_tag(peers, status->MPI_TAG) };
}

static void
wait_for(uint32_t operation)
{
    if (operation != 0)
        append((cohabit_mpi_operation_t) { COHABIT_MPI_DOES_WAIT, operation - 1, 0 });
}

void
trace_exchanged(MPI_Comm comm, uint32_t posted, uint32_t sent, bool any, const MPI_Status *status)
{
    if (!library.traces)
        return;
    if (posted != 0 && any)
        come(posted, peers_of_comm(comm), status);
    wait_for(posted);
    wait_for(sent);
}

static uint32_t
slot_of(const request_t *requests, uint32_t capacity, uintptr_t handle)
{
    uint32_t slot = (uint32_t)(handle * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1);
    while (requests[slot].handle != 0 && requests[slot].handle != handle)
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

/* NULL where it is not known. */
static request_t *
known(MPI_Request request)
{
    if (state.capacity == 0)
        return NULL;
    request_t *found = &state.requests[slot_of(state.requests, state.capacity, (uintptr_t)request)];
    return found->handle == 0 ? NULL : found;
}

static request_t *
keep(MPI_Request request)
{
    if ((state.count + 1) * 2 > state.capacity) {
        uint32_t capacity = state.capacity == 0 ? 256 : state.capacity * 2;
        request_t *requests = calloc(capacity, sizeof(*requests));
        if (requests == NULL)
            return NULL;
        for (uint32_t i = 0; i < state.capacity; i++)
            if (state.requests[i].handle != 0)
                requests[slot_of(requests, capacity, state.requests[i].handle)] = state.requests[i];
        free(state.requests);
        state.requests = requests;
        state.capacity = capacity;
    }
    request_t *kept = &state.requests[slot_of(state.requests, state.capacity, (uintptr_t)request)];
    state.count += kept->handle == 0;
    memset(kept, 0, sizeof(*kept));
    kept->handle = (uintptr_t)request;
    return kept;
}

void
trace_bind(MPI_Request request, uint32_t operation, bool any, MPI_Comm comm)
{
    if (!library.traces)
        return;
    /* Of none: the handle may have been another's. */
    request_t *kept = operation != 0 || known(request) != NULL ? keep(request) : NULL;
    if (kept == NULL)
        return;
    kept->operation = operation;
    kept->any = any;
    kept->peers = any ? peers_of_comm(comm) : NULL;
}

void
trace_repeat_send(MPI_Request request, sent_t sent, int tag)
{
    request_t *kept = library.traces ? keep(request) : NULL;
    if (kept == NULL)
        return;
    kept->repeated = true;
    kept->again.key = COHABIT_MPI_OPERATION_NO_PEER;
    if (sent.key != NO_KEY)
        kept->again =
            (cohabit_mpi_operation_t) { sent.key | COHABIT_MPI_DOES_SEND, sent.bytes, whole_tag(sent.peers, tag) };
}

void
trace_repeat_post(MPI_Request request, MPI_Comm comm, int source, int tag)
{
    request_t *kept = library.traces ? keep(request) : NULL;
    peers_t *peers = kept == NULL || source == MPI_PROC_NULL ? NULL : peers_of_comm(comm);
    if (kept == NULL)
        return;
    kept->repeated = true;
    kept->again.key = COHABIT_MPI_OPERATION_NO_PEER;
    if (peers == NULL)
        return;
    kept->any = trace_any(source, tag);
    kept->peers = peers;
    uint64_t key = kept->any ? COHABIT_MPI_OPERATION_NO_PEER : peers_key(peers, source);
    if (key != NO_KEY)
        kept->again = (cohabit_mpi_operation_t) { key | COHABIT_MPI_DOES_POST, 0, whole_tag(peers, tag) };
}

void
trace_start(MPI_Request request)
{
    if (!library.traces)
        return;
    request_t *kept = known(request);
    if (kept == NULL || !kept->repeated)
        trace_end(); /* a collective, or a message in partitions */
    else if ((kept->again.key & COHABIT_MPI_DOES_MASK) != 0)
        kept->operation = append(kept->again);
}

void
trace_forget_request(MPI_Request request)
{
    request_t *kept = library.traces ? known(request) : NULL;
    if (kept != NULL)
        kept->repeated = false;
}

void
trace_forget(const peers_t *peers)
{
    for (uint32_t i = 0; i < state.capacity; i++)
        if (state.requests[i].peers == peers)
            state.requests[i].peers = NULL;
}

MPI_Status *
trace_ask(int count, MPI_Request requests[], MPI_Status *statuses)
{
    if (!library.traces || count < 0)
        return statuses;
    if (count > state.asked_capacity) {
        free(state.asked);
        free(state.statuses);
        state.asked_capacity = 0;
        state.asked = malloc((size_t)count * sizeof(*state.asked));
        state.statuses = malloc((size_t)count * sizeof(*state.statuses));
        if (state.asked == NULL || state.statuses == NULL) {
            trace_end();
            return statuses;
        }
        state.asked_capacity = count;
    }
    bool any = false;
    for (int i = 0; i < count; i++) {
        request_t *kept = known(requests[i]);
        bool counts = kept != NULL && kept->operation != 0;
        state.asked[i] = counts ? (uint32_t)(kept - state.requests) + 1 : 0;
        any |= counts && kept->any;
    }
    return any && statuses == MPI_STATUSES_IGNORE ? state.statuses : statuses;
}

void
trace_over(int number, const MPI_Status *status)
{
    if (!library.traces || state.asked[number] == 0)
        return;
    request_t *kept = &state.requests[state.asked[number] - 1];
    uint32_t operation = kept->operation;
    kept->operation = 0;
    if (kept->any)
        come(operation, kept->peers, status);
    wait_for(operation);
}

void
trace_over_all(int count, const MPI_Status *statuses)
{
    for (int i = 0; library.traces && i < count; i++)
        trace_over(i, &statuses[i]);
}

void
trace_collective(const peers_t *peers)
{
    calls_t **at = &state.calls;
    while (*at != NULL && (*at)->name != peers->name)
        at = &(*at)->next;
    calls_t *calls = *at;
    if (calls != NULL)
        *at = calls->next;
    else
        calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        trace_end();
        return;
    }
    calls->name = peers->name;
    calls->count++;
    calls->next = state.calls;
    state.calls = calls;
}

void
trace_collective_send(peers_t *peers, uint64_t key, uint64_t bytes)
{
    if (state.calls != NULL)
        trace_send((sent_t) { peers, key, bytes }, (int)(state.calls->count & INT32_MAX), false);
}

void
trace_collective_post(peers_t *peers, int from)
{
    if (library.traces && state.calls != NULL)
        post(peers, from, (int)(state.calls->count & INT32_MAX),
             COHABIT_MPI_DOES_POST | (uint64_t)COHABIT_MPI_KIND_COLLECTIVE << COHABIT_MPI_KEY_KIND_SHIFT);
}

void
trace_collective_wait(uint32_t first)
{
    if (library.traces && state.head->operation_count > first)
        append((cohabit_mpi_operation_t) { COHABIT_MPI_DOES_WAIT | COHABIT_MPI_DOES_FROM, first, 0 });
}
