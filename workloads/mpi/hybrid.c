/* Ranks with threads whose communication is known: `hybrid FILE [THREADS [ROUNDS [BYTES [all]]]]`.
 *
 * In each round every thread of a rank stores 8 bytes into each of its 4 blocks of 64, all threads of the rank meet,
 * each loads the blocks of the thread behind it, and all meet again; then the first thread sends BYTES to the next
 * rank. So a thread gives the one before it 4 values of 8 bytes a round, and a rank the next one message. Only the
 * blocks are counted as memory (cohabit_only); in the same round each rank also stores into a block of a file that all
 * ranks have mapped, and loads that of the rank behind it: one value between first threads. With `all` every thread
 * sends BYTES of its own each round (MPI_THREAD_MULTIPLE). */
#include "../../native/include/cohabit.h"
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 64, BLOCKS = 4, MOST = 64, PAGE = 4096 };

static int threads = 2, rounds = 5, bytes = 1000, me, ranks, all;
static unsigned char *data, *shared;
static char *outbox, *inbox;
static pthread_barrier_t barrier;

static volatile uint64_t *block(int thread, int number)
{
    return (volatile uint64_t *)(data + ((size_t)thread * BLOCKS + (size_t)number) * BLOCK);
}

static void exchange(int round)
{
    memset(outbox, round + me, (size_t)bytes);
    MPI_Sendrecv(outbox, bytes, MPI_BYTE, (me + 1) % ranks, 0, inbox, bytes, MPI_BYTE, (me + ranks - 1) % ranks, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (inbox[bytes - 1] != (char)(round + (me + ranks - 1) % ranks))
        abort();
    *(volatile uint64_t *)(shared + me * BLOCK) = (uint64_t)round;
    MPI_Barrier(MPI_COMM_WORLD);
    if (*(volatile uint64_t *)(shared + (me + 1) % ranks * BLOCK) != (uint64_t)round)
        abort();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void send_own(int thread)
{
    char *own = calloc(2, (size_t)bytes);
    MPI_Sendrecv(own, bytes, MPI_BYTE, (me + 1) % ranks, thread, own + bytes, bytes, MPI_BYTE, (me + ranks - 1) % ranks,
                 thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(own);
}

static void *work(void *number)
{
    int thread = (int)(intptr_t)number;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++)
            *block(thread, i) = (uint64_t)(round * 100 + thread);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < BLOCKS; i++)
            if (*block((thread + 1) % threads, i) != (uint64_t)(round * 100 + (thread + 1) % threads))
                abort();
        pthread_barrier_wait(&barrier);
        if (thread == 0)
            exchange(round);
        else if (all)
            send_own(thread);
    }
    return NULL;
}

static void map_shared(const char *path)
{
    FILE *file = fopen(path, me == 0 ? "w+" : "r+");
    if (file == NULL || (me == 0 && (fseek(file, PAGE - 1, SEEK_SET) != 0 || fputc(0, file) == EOF || fflush(file) != 0)))
        abort();
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (shared == MAP_FAILED)
        abort();
}

int main(int argc, char **argv)
{
    int level;
    pthread_t made[MOST];
    if (argc > 2 && atoi(argv[2]) > 0)
        threads = atoi(argv[2]);
    if (argc > 3)
        rounds = atoi(argv[3]);
    if (argc > 4)
        bytes = atoi(argv[4]);
    all = argc > 5;
    MPI_Init_thread(&argc, &argv, all ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
    if (all && level != MPI_THREAD_MULTIPLE)
        return 77;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2 || threads > MOST)
        abort();
    if (me == 0)
        map_shared(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me != 0)
        map_shared(argv[1]);
    size_t size = (size_t)MOST * BLOCKS * BLOCK;
    data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    outbox = malloc((size_t)bytes);
    inbox = malloc((size_t)bytes);
    if (data == MAP_FAILED || outbox == NULL || inbox == NULL)
        abort();
    cohabit_only(data, size);
    cohabit_only(shared, PAGE);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++)
        if (pthread_create(&made[i], NULL, work, (void *)(intptr_t)i) != 0)
            abort();
    work(NULL);
    for (int i = 1; i < threads; i++)
        pthread_join(made[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        remove(argv[1]);
    return MPI_Finalize();
}
