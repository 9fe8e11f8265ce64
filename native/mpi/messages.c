/* Messages of the program: sends of every kind, persistent and partitioned ones, and what waits for messages. */
/* Declared with a const list by some versions and without by others: their declaration is put aside. */
#define MPI_Pready_list declared_MPI_Pready_list
#define PMPI_Pready_list declared_PMPI_Pready_list
#include "calls.h"
#undef MPI_Pready_list
#undef PMPI_Pready_list

#define FROM_HERE count_send(comm, dest, count, type)
#define SEND(N) (const void *buf, N count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
#define SEND_REQUEST(N)                                                                                                \
    (const void *buf, N count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
#define RECEIVE(N) (void *buf, N count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
#define RECEIVE_REQUEST(N)                                                                                             \
    (void *buf, N count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
#define SENDRECV(N)                                                                                                    \
    const void *buf, N count, MPI_Datatype type, int dest, int sendtag, void *recvbuf, N recvcount,                    \
        MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm
#define SENDRECV_ARGUMENTS buf, count, type, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm
#define REPLACE(N)                                                                                                     \
    void *buf, N count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm
#define REPLACE_ARGUMENTS buf, count, type, dest, sendtag, source, recvtag, comm

/* Where it is known only from a status who has sent, and the program wants none. */
#define KNOW(SOURCE, TAG)                                                                                              \
    MPI_Status known;                                                                                                  \
    bool any = trace_any((SOURCE), (TAG));                                                                             \
    if (any && status == MPI_STATUS_IGNORE)                                                                            \
    status = &known

#define SENDS_OVER(NAME, N, WAITS)                                                                                     \
    CALL(NAME, SEND(N), (buf, count, type, dest, tag, comm), trace_send(FROM_HERE, tag, WAITS), NOTHING)
#define SENDS_UNDER_WAY(NAME, N)                                                                                       \
    CALL(NAME, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request),                                          \
         uint32_t operation = trace_send(FROM_HERE, tag, false),                                                       \
         if (result == MPI_SUCCESS) trace_bind(*request, operation, false, comm))
#define SENDS_AGAIN(NAME, N)                                                                                           \
    CALL(NAME, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request),                                          \
         list_begin();                                                                                                 \
         sent_t sent = FROM_HERE, {                                                                                    \
             if (result == MPI_SUCCESS) {                                                                              \
                 list_store(*request);                                                                                 \
                 trace_repeat_send(*request, sent, tag);                                                               \
             } else                                                                                                    \
                 list_drop();                                                                                          \
         })
#define EXCHANGES_OVER(NAME, PARAMETERS, ARGUMENTS)                                                                    \
    CALL(NAME, PARAMETERS, ARGUMENTS,                                                                                  \
         KNOW(source, recvtag);                                                                                        \
         uint32_t posted = trace_post(comm, source, recvtag);                                                          \
         uint32_t sent = trace_send(FROM_HERE, sendtag, false), {                                                      \
             if (result == MPI_SUCCESS)                                                                                \
                 trace_exchanged(comm, posted, sent, any, status);                                                     \
             round_over();                                                                                             \
         })

#define SENDS(SUFFIX, N)                                                                                               \
    SENDS_OVER(Send##SUFFIX, N, true)                                                                                  \
    SENDS_OVER(Bsend##SUFFIX, N, false)                                                                                \
    SENDS_OVER(Ssend##SUFFIX, N, true)                                                                                 \
    SENDS_OVER(Rsend##SUFFIX, N, true)                                                                                 \
    SENDS_UNDER_WAY(Isend##SUFFIX, N)                                                                                  \
    SENDS_UNDER_WAY(Ibsend##SUFFIX, N)                                                                                 \
    SENDS_UNDER_WAY(Issend##SUFFIX, N)                                                                                 \
    SENDS_UNDER_WAY(Irsend##SUFFIX, N)                                                                                 \
    SENDS_AGAIN(Send_init##SUFFIX, N)                                                                                  \
    SENDS_AGAIN(Bsend_init##SUFFIX, N)                                                                                 \
    SENDS_AGAIN(Ssend_init##SUFFIX, N)                                                                                 \
    SENDS_AGAIN(Rsend_init##SUFFIX, N)                                                                                 \
    CALL(Recv##SUFFIX, RECEIVE(N), (buf, count, type, source, tag, comm, status), KNOW(source, tag), {                 \
        if (result == MPI_SUCCESS)                                                                                     \
            trace_received(comm, source, tag, status);                                                                 \
        (void)any;                                                                                                     \
        round_over();                                                                                                  \
    })                                                                                                                 \
    CALL(Irecv##SUFFIX, RECEIVE_REQUEST(N), (buf, count, type, source, tag, comm, request),                            \
         uint32_t operation = trace_post(comm, source, tag),                                                           \
         if (result == MPI_SUCCESS) trace_bind(*request, operation, trace_any(source, tag), comm))                     \
    CALL(Recv_init##SUFFIX, RECEIVE_REQUEST(N), (buf, count, type, source, tag, comm, request), NOTHING,               \
         if (result == MPI_SUCCESS) trace_repeat_post(*request, comm, source, tag))                                    \
    EXCHANGES_OVER(Sendrecv##SUFFIX, (SENDRECV(N), MPI_Status *status), (SENDRECV_ARGUMENTS, status))                  \
    EXCHANGES_OVER(Sendrecv_replace##SUFFIX, (REPLACE(N), MPI_Status *status), (REPLACE_ARGUMENTS, status))
SENDS(, int)
#if LARGE_COUNT
SENDS(_c, MPI_Count)
#endif

#define EXCHANGES(SUFFIX, N)                                                                                           \
    CALL(Isendrecv##SUFFIX, (SENDRECV(N), MPI_Request *request), (SENDRECV_ARGUMENTS, request),                        \
         { FROM_HERE; trace_end(); }, NOTHING)                                                                        \
    CALL(Isendrecv_replace##SUFFIX, (REPLACE(N), MPI_Request *request), (REPLACE_ARGUMENTS, request),                  \
         { FROM_HERE; trace_end(); }, NOTHING)
#if ISENDRECV
EXCHANGES(, int)
#if LARGE_COUNT
EXCHANGES(_c, MPI_Count)
#endif
#endif

static void
start(MPI_Request request)
{
    list_replay(request);
    trace_start(request);
}

static void
forget(MPI_Request request)
{
    list_forget(request);
    trace_forget_request(request);
}

CALL(Start, (MPI_Request *request), (request), start(*request), NOTHING)
CALL(Startall, (int count, MPI_Request requests[]), (count, requests), {
    for (int i = 0; i < count; i++)
        start(requests[i]);
}, NOTHING)
CALL(Request_free, (MPI_Request *request), (request), forget(*request), NOTHING)

#if PARTITIONED
/* A message a partition, counted when it is given to MPI. */
static void
keep_partition(MPI_Comm comm, int dest, MPI_Count count, MPI_Datatype type)
{
    peers_t *peers = dest < 0 ? NULL : peers_of_comm(comm);
    if (peers != NULL)
        count_peer(peers, dest, COHABIT_MPI_KIND_SENT, bytes_of(count, type), 0);
}

REPEATED(Psend_init,
         (const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
          MPI_Info info, MPI_Request *request),
         (buf, partitions, count, type, dest, tag, comm, info, request), keep_partition(comm, dest, count, type))
CALL(Pready, (int partition, MPI_Request request), (partition, request), list_replay_part(request, 1), NOTHING)
CALL(Pready_range, (int low, int high, MPI_Request request), (low, high, request),
     list_replay_part(request, high >= low ? (uint64_t)(high - low) + 1 : 0), NOTHING)
CALL(Pready_list, (int length, const int partitions[], MPI_Request request), (length, partitions, request),
     list_replay_part(request, length > 0 ? (uint64_t)length : 0), NOTHING)
#endif

/* Which of the requests are over, and with which statuses. */
static void
some_over(int done, const int indices[], const MPI_Status statuses[])
{
    for (int i = 0; library.traces && i < done; i++)
        trace_over(indices[i], &statuses[i]);
}

#define OVER(DONE, ...)                                                                                                \
    {                                                                                                                  \
        if (result == MPI_SUCCESS && (DONE)) {                                                                         \
            __VA_ARGS__;                                                                                               \
            round_over();                                                                                              \
        }                                                                                                              \
    }
CALL(Wait, (MPI_Request * request, MPI_Status *status), (request, status), status = trace_ask(1, request, status),
     OVER(true, trace_over(0, status)))
CALL(Waitall, (int count, MPI_Request requests[], MPI_Status *statuses), (count, requests, statuses),
     statuses = trace_ask(count, requests, statuses), OVER(true, trace_over_all(count, statuses)))
CALL(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status), (count, requests, index, status),
     status = trace_ask(count, requests, status), OVER(true, if (*index >= 0) trace_over(*index, status)))
CALL(Waitsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
     (count, requests, done, indices, statuses), statuses = trace_ask(count, requests, statuses),
     OVER(true, some_over(*done, indices, statuses)))
CALL(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status),
     status = trace_ask(1, request, status), OVER(*flag, trace_over(0, status)))
CALL(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]), (count, requests, flag, statuses),
     statuses = trace_ask(count, requests, statuses), OVER(*flag, trace_over_all(count, statuses)))
CALL(Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status),
     (count, requests, index, flag, status), status = trace_ask(count, requests, status),
     OVER(*flag, if (*index >= 0) trace_over(*index, status)))
CALL(Testsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
     (count, requests, done, indices, statuses), statuses = trace_ask(count, requests, statuses),
     OVER(*done > 0, some_over(*done, indices, statuses)))
WAITS(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, status))
TIMED(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, tag, comm, flag, status))
WAITS(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
      (source, tag, comm, message, status))
/* Who has sent what is received here was said by the call before. */
CALL(Mrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
     (buf, count, type, message, status), trace_end(), round_over())
CALL(Imrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
     (buf, count, type, message, request), trace_end(), NOTHING)
TIMED(Buffer_detach, (void *buffer, int *size), (buffer, size))
