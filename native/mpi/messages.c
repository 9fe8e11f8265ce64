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
#define SENDRECV(N)                                                                                                    \
    const void *buf, N count, MPI_Datatype type, int dest, int sendtag, void *recvbuf, N recvcount,                    \
        MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm
#define SENDRECV_ARGUMENTS buf, count, type, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm
#define REPLACE(N)                                                                                                     \
    void *buf, N count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm
#define REPLACE_ARGUMENTS buf, count, type, dest, sendtag, source, recvtag, comm

#define SENDS(SUFFIX, N)                                                                                               \
    CALL(Send##SUFFIX, SEND(N), (buf, count, type, dest, tag, comm), FROM_HERE, NOTHING)                               \
    CALL(Bsend##SUFFIX, SEND(N), (buf, count, type, dest, tag, comm), FROM_HERE, NOTHING)                              \
    CALL(Ssend##SUFFIX, SEND(N), (buf, count, type, dest, tag, comm), FROM_HERE, NOTHING)                              \
    CALL(Rsend##SUFFIX, SEND(N), (buf, count, type, dest, tag, comm), FROM_HERE, NOTHING)                              \
    CALL(Isend##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE, NOTHING)             \
    CALL(Ibsend##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE, NOTHING)            \
    CALL(Issend##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE, NOTHING)            \
    CALL(Irsend##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE, NOTHING)            \
    REPEATED(Send_init##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE)              \
    REPEATED(Bsend_init##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE)             \
    REPEATED(Ssend_init##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE)             \
    REPEATED(Rsend_init##SUFFIX, SEND_REQUEST(N), (buf, count, type, dest, tag, comm, request), FROM_HERE)             \
    WAITS(Recv##SUFFIX, RECEIVE(N), (buf, count, type, source, tag, comm, status))                                     \
    CALL(Sendrecv##SUFFIX, (SENDRECV(N), MPI_Status *status), (SENDRECV_ARGUMENTS, status), FROM_HERE, round_over())        \
    CALL(Sendrecv_replace##SUFFIX, (REPLACE(N), MPI_Status *status), (REPLACE_ARGUMENTS, status), FROM_HERE, round_over())
SENDS(, int)
#if LARGE_COUNT
SENDS(_c, MPI_Count)
#endif

#define EXCHANGES(SUFFIX, N)                                                                                           \
    CALL(Isendrecv##SUFFIX, (SENDRECV(N), MPI_Request *request), (SENDRECV_ARGUMENTS, request), FROM_HERE, NOTHING)    \
    CALL(Isendrecv_replace##SUFFIX, (REPLACE(N), MPI_Request *request), (REPLACE_ARGUMENTS, request), FROM_HERE, NOTHING)
#if ISENDRECV
EXCHANGES(, int)
#if LARGE_COUNT
EXCHANGES(_c, MPI_Count)
#endif
#endif

CALL(Start, (MPI_Request *request), (request), list_replay(*request), NOTHING)
CALL(Startall, (int count, MPI_Request requests[]), (count, requests), {
    for (int i = 0; i < count; i++)
        list_replay(requests[i]);
}, NOTHING)
CALL(Request_free, (MPI_Request *request), (request), list_forget(*request), NOTHING)

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

WAITS(Wait, (MPI_Request * request, MPI_Status *status), (request, status))
WAITS(Waitall, (int count, MPI_Request requests[], MPI_Status *statuses), (count, requests, statuses))
WAITS(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status), (count, requests, index, status))
WAITS(Waitsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
      (count, requests, done, indices, statuses))
ASKS(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status), *flag)
ASKS(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]), (count, requests, flag, statuses), *flag)
ASKS(Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status),
      (count, requests, index, flag, status), *flag)
ASKS(Testsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
      (count, requests, done, indices, statuses), *done > 0)
WAITS(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, status))
TIMED(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, tag, comm, flag, status))
WAITS(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
      (source, tag, comm, message, status))
WAITS(Mrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
      (buf, count, type, message, status))
TIMED(Buffer_detach, (void *buffer, int *size), (buffer, size))
