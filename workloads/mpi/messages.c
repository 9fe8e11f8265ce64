/* Messages between ranks of the world: neighbours, every kind of send, persistent and partitioned ones, one-sided. */
#include "expect.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define W MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE
static char out[1 << 20], in[1 << 20];

static int
around(int rank)
{
    return ((rank % ranks) + ranks) % ranks;
}

static void
ring(int rounds)
{
    for (int round = 0; round < rounds; round++)
        MPI_Sendrecv(out, 1000, MPI_BYTE, around(me + 1), 0, in, 1000, MPI_BYTE, around(me - 1), 0, W, IGNORE);
    sends(around(me + 1), rounds, 1000);
}

/* A periodic grid of MPI's own making; the neighbours come from it, and messages go by world ranks. */
static void
stencil(int dimensions, int rounds)
{
    int extent[3] = { 0 }, periodic[3] = { 1, 1, 1 };
    MPI_Comm grid;
    MPI_Dims_create(ranks, dimensions, extent);
    MPI_Cart_create(W, dimensions, extent, periodic, 0, &grid);
    for (int dimension = 0; dimension < dimensions; dimension++) {
        for (int step = -1; step <= 1; step += 2) {
            int from, to, count = 100 * (dimension + 1);
            MPI_Cart_shift(grid, dimension, step, &from, &to);
            for (int round = 0; round < rounds; round++) {
                MPI_Request requests[2];
                MPI_Irecv(in, count, MPI_DOUBLE, from, 5, grid, &requests[0]);
                MPI_Isend(out, count, MPI_DOUBLE, to, 5, grid, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            }
            sends(to, rounds, 8L * count);
        }
    }
    MPI_Comm_free(&grid);
}

static void
stencil_2d(int rounds)
{
    stencil(2, rounds);
}

static void
stencil_3d(int rounds)
{
    stencil(3, rounds);
}

/* What is sent at different times, from different places and from one: with both neighbours of a row that has ends, to
 * the next one alone, and with each other rank whose number differs in one bit, one after the other. */
static void
phases(int rounds)
{
    int next = me + 1 < ranks ? me + 1 : MPI_PROC_NULL, last = me > 0 ? me - 1 : MPI_PROC_NULL;
    for (int round = 0; round < rounds; round++) {
        MPI_Request requests[4];
        MPI_Irecv(in, 1000, MPI_BYTE, last, 0, W, &requests[0]);
        MPI_Irecv(in + 1000, 1000, MPI_BYTE, next, 0, W, &requests[1]);
        MPI_Isend(out, 1000, MPI_BYTE, next, 0, W, &requests[2]);
        MPI_Isend(out, 1000, MPI_BYTE, last, 0, W, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        MPI_Irecv(in, 300, MPI_BYTE, last, 1, W, &requests[0]);
        MPI_Send(out, 300, MPI_BYTE, next, 1, W);
        MPI_Wait(&requests[0], IGNORE);
        for (int bit = 1; bit < ranks; bit *= 2) {
            int other = (me ^ bit) < ranks ? me ^ bit : MPI_PROC_NULL;
            MPI_Sendrecv(out, 500, MPI_BYTE, other, 2, in, 500, MPI_BYTE, other, 2, W, IGNORE);
        }
    }
    if (next != MPI_PROC_NULL) {
        sends(next, rounds, 1000);
        sends(next, rounds, 300);
    }
    if (last != MPI_PROC_NULL)
        sends(last, rounds, 1000);
    for (int bit = 1; bit < ranks; bit *= 2)
        if ((me ^ bit) < ranks)
            sends(me ^ bit, rounds, 500);
}

static void
all_to_all(int rounds)
{
    MPI_Request *requests = calloc((size_t)ranks * 2, sizeof(*requests));
    for (int round = 0; round < rounds; round++) {
        for (int other = 0; other < ranks; other++) {
            MPI_Irecv(in + other * 64, me, MPI_BYTE, other, 0, W, &requests[2 * other]);
            MPI_Isend(out, other, MPI_BYTE, other, 0, W, &requests[2 * other + 1]);
        }
        MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    }
    for (int other = 0; other < ranks; other++)
        sends(other, rounds, other);
    free(requests);
}

/* Receives `count` messages from the previous rank while this one sends to the next. */
static void
receive_all(MPI_Request *requests, int count, int from)
{
    for (int tag = 0; tag < count; tag++)
        MPI_Irecv(in + tag * 4096, 4096, MPI_BYTE, from, tag, W, &requests[tag]);
}

/* Every kind of send to the next rank; derived types, empty messages, MPI_PROC_NULL. */
static void
every_send(int rounds)
{
    enum { KINDS = 11 };
    int to = around(me + 1), from = around(me - 1), size;
    static char buffer[1 << 16];
    void *detached;
    MPI_Datatype holes;
    MPI_Buffer_attach(buffer, sizeof(buffer));
    MPI_Type_vector(10, 3, 7, MPI_INT, &holes);
    MPI_Type_commit(&holes);
    for (int round = 0; round < rounds; round++) {
        MPI_Request received[KINDS], sent[6];
        receive_all(received, KINDS, from);
        /* A ready send needs its receive: the next rank says that it has posted all. */
        MPI_Sendrecv(out, 1, MPI_BYTE, from, 99, in + 900000, 1, MPI_BYTE, to, 99, W, IGNORE);
        MPI_Rsend(out, 3, MPI_BYTE, to, 0, W);
        MPI_Bsend(out, 30, MPI_BYTE, to, 1, W);
        MPI_Isend(out, 300, MPI_BYTE, to, 2, W, &sent[0]);
        MPI_Issend(out, 301, MPI_BYTE, to, 3, W, &sent[1]);
        MPI_Irsend(out, 302, MPI_BYTE, to, 4, W, &sent[2]);
        MPI_Ibsend(out, 303, MPI_BYTE, to, 5, W, &sent[3]);
        MPI_Isend(out, 1, holes, to, 6, W, &sent[4]);
        MPI_Isend(out, 0, MPI_DOUBLE, to, 7, W, &sent[5]);
        MPI_Send(out, 4, MPI_INT, to, 8, W);
        if (me % 2 == 0 || ranks == 1)
            MPI_Waitall(KINDS - 2, received, MPI_STATUSES_IGNORE);
        MPI_Ssend(out, 5, MPI_SHORT, to, 9, W);
        MPI_Send(out, 1, MPI_BYTE, MPI_PROC_NULL, 10, W);
        MPI_Send(out, 7, MPI_BYTE, to, 10, W);
        MPI_Waitall(6, sent, MPI_STATUSES_IGNORE);
        MPI_Waitall(KINDS, received, MPI_STATUSES_IGNORE);
        MPI_Sendrecv_replace(out, 77, MPI_BYTE, to, 11, from, 11, W, IGNORE);
    }
    MPI_Buffer_detach(&detached, &size);
    MPI_Type_free(&holes);
    sends(from, rounds, 1);
    static const long bytes[] = { 3, 30, 300, 301, 302, 303, 120, 0, 16, 10, 7, 77 };
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        sends(to, rounds, bytes[i]);
}

static void
persistent(int rounds)
{
    int to = around(me + 1), from = around(me - 2);
    static char buffer[1 << 16];
    void *detached;
    int size;
    MPI_Request requests[4];
    MPI_Buffer_attach(buffer, sizeof(buffer));
    MPI_Send_init(out, 100, MPI_INT, to, 1, W, &requests[0]);
    MPI_Recv_init(in, 100, MPI_INT, around(me - 1), 1, W, &requests[1]);
    MPI_Bsend_init(out, 50, MPI_BYTE, around(me + 2), 2, W, &requests[2]);
    MPI_Recv_init(in + 4096, 50, MPI_BYTE, from, 2, W, &requests[3]);
    for (int round = 0; round < rounds; round++) {
        MPI_Startall(4, requests);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        MPI_Start(&requests[1]);
        MPI_Start(&requests[0]);
        MPI_Wait(&requests[0], IGNORE);
        MPI_Wait(&requests[1], IGNORE);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
    /* The handles may be used again: what was freed must not be counted for them. */
    for (int round = 0; round < rounds; round++) {
        MPI_Irecv(in, 10, MPI_BYTE, around(me - 1), 3, W, &requests[0]);
        MPI_Send(out, 10, MPI_BYTE, to, 3, W);
        MPI_Wait(&requests[0], IGNORE);
    }
    MPI_Buffer_detach(&detached, &size);
    sends(to, 2 * rounds, 400);
    sends(around(me + 2), rounds, 50);
    sends(to, rounds, 10);
}

#if (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5) || (!defined(OMPI_MAJOR_VERSION) && MPI_VERSION >= 4)
#define HAVE_PARTITIONED 1
static void
partitioned(int rounds)
{
    MPI_Request requests[2];
    MPI_Psend_init(out, 8, 25, MPI_INT, around(me + 1), 1, W, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 8, 25, MPI_INT, around(me - 1), 1, W, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < rounds; round++) {
        int some[] = { 0, 2 };
        MPI_Startall(2, requests);
        MPI_Pready(1, requests[0]);
        MPI_Pready_list(2, some, requests[0]);
        MPI_Pready_range(3, 7, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    sends(around(me + 1), 8 * rounds, 100);
}
#endif

static void
one_sided(int rounds)
{
    int next = around(me + 1), last = around(me - 1);
    long old = 0, one = 1, none = 0;
    MPI_Win window;
    MPI_Win_create(in, sizeof(in), 1, MPI_INFO_NULL, W, &window);
    for (int round = 0; round < rounds; round++) {
        MPI_Win_fence(0, window);
        MPI_Put(out, 100, MPI_INT, next, 0, 100, MPI_INT, window);
        MPI_Win_fence(0, window);
        MPI_Get(out, 50, MPI_DOUBLE, last, 8192, 50, MPI_DOUBLE, window);
        MPI_Accumulate(out + 4096, 10, MPI_INT, next, 4096, 10, MPI_INT, MPI_SUM, window);
        MPI_Win_fence(0, window);
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, next, 65536, MPI_SUM, window);
        MPI_Fetch_and_op(&none, &old, MPI_LONG, next, 65536, MPI_NO_OP, window);
        MPI_Win_unlock(next, window);
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    sends(next, rounds, 400);
    fetches(last, rounds, 400);
    sends(next, rounds, 40);
    sends(next, rounds, 8);
    fetches(next, 2 * rounds, 8);
}

enum { THREADS = 4 };

static void *
exchange(void *argument)
{
    int thread = (int)(long)argument % 100, rounds = (int)(long)argument / 100;
    static char data[THREADS][2][1024];
    for (int round = 0; round < rounds; round++)
        MPI_Sendrecv(data[thread][0], 100 + thread, MPI_BYTE, around(me + 1), thread, data[thread][1], 1024, MPI_BYTE,
                     around(me - 1), thread, W, IGNORE);
    return NULL;
}

static void
threads(int rounds)
{
    pthread_t started[THREADS];
    for (long thread = 0; thread < THREADS; thread++)
        pthread_create(&started[thread], NULL, exchange, (void *)(100L * rounds * 10 + thread));
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(started[thread], NULL);
    for (int thread = 0; thread < THREADS; thread++)
        sends(around(me + 1), 10 * rounds, 100 + thread);
}

/* Threads that send at once, with nothing that orders them: new sizes and peers in all of them, persistent requests
 * that are made, started and freed, and messages to many ranks. */
enum { CROWD = 4 };

static void *
hurry(void *argument)
{
    int thread = (int)(long)argument % 100, rounds = (int)(long)argument / 100;
    static char data[CROWD][4][1024];
    for (int round = 0; round < rounds; round++) {
        MPI_Request requests[4];
        int ahead = around(me + 1), behind = around(me - 1), size = 1 << (round + thread) % 8;
        MPI_Irecv(data[thread][0], 1024, MPI_BYTE, behind, thread, W, &requests[0]);
        MPI_Irecv(data[thread][1], 1024, MPI_BYTE, ahead, 100 + thread, W, &requests[1]);
        MPI_Send_init(data[thread][2], size, MPI_BYTE, ahead, thread, W, &requests[2]);
        MPI_Start(&requests[2]);
        MPI_Isend(data[thread][3], 10 + thread, MPI_BYTE, behind, 100 + thread, W, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        MPI_Request_free(&requests[2]);
    }
    return NULL;
}

static void
threads_at_once(int rounds)
{
    pthread_t started[CROWD];
    for (long thread = 0; thread < CROWD; thread++)
        pthread_create(&started[thread], NULL, hurry, (void *)(100L * rounds * 20 + thread));
    for (int thread = 0; thread < CROWD; thread++)
        pthread_join(started[thread], NULL);
    for (int thread = 0; thread < CROWD; thread++) {
        for (int round = 0; round < 20 * rounds; round++)
            sends(around(me + 1), 1, 1 << (round + thread) % 8);
        sends(around(me - 1), 20 * rounds, 10 + thread);
    }
}

const pattern_t messages_table[] = {
    { "ring", ring, 1 },
    { "phases", phases, 1 },
    { "stencil_2d", stencil_2d, 1 },
    { "stencil_3d", stencil_3d, 1 },
    { "all_to_all", all_to_all, 1 },
    { "every_send", every_send, 2 },
    { "persistent", persistent, 3 },
#ifdef HAVE_PARTITIONED
    { "partitioned", partitioned, 2 },
#endif
    { "one_sided", one_sided, 2 },
    { "threads", threads, 2 },
    { "threads_at_once", threads_at_once, 2 },
    { NULL, NULL, 0 },
};
