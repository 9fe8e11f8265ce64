/* Ranks that exchange with one neighbour, and then with another, from different places in the code:
 * `phased [ROUNDS [BYTES [TIMES [PAUSE_US]]]]`. In the first phase rank r exchanges with r ^ 1, in the second with r ^ 2,
 * both ROUNDS times with a pause before each, and both phases come TIMES times. At the end of each each rank prints its
 * number, the phase and the PUs that it may use then. Four ranks, or a multiple of them. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void
print_place(int me, const char *phase)
{
    cpu_set_t cpus;
    char line[4096];
    int length = snprintf(line, sizeof(line), "%d %s", me, phase);
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int cpu = 0; cpu < CPU_SETSIZE && length < 4000; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            length += snprintf(line + length, sizeof(line) - (size_t)length, " %d", cpu);
    line[length++] = '\n';
    /* In one piece, so that launchers do not mix the lines of ranks. */
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The same function for both phases: a place that says nothing of which it is. */
static __attribute__((noinline)) void
agree(void)
{
    int own = 1, all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static __attribute__((noinline)) void
near(int rounds, int bytes, int pause_us, int me, char *out, char *in)
{
    for (int round = 0; round < rounds; round++) {
        usleep((useconds_t)pause_us);
        MPI_Sendrecv(out, bytes, MPI_BYTE, me ^ 1, 0, in, bytes, MPI_BYTE, me ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static __attribute__((noinline)) void
far(int rounds, int bytes, int pause_us, int me, char *out, char *in)
{
    for (int round = 0; round < rounds; round++) {
        usleep((useconds_t)pause_us);
        MPI_Sendrecv(out, bytes, MPI_BYTE, me ^ 2, 1, in, bytes, MPI_BYTE, me ^ 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int
main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, bytes = argc > 2 ? atoi(argv[2]) : 1024;
    int times = argc > 3 ? atoi(argv[3]) : 1, pause_us = argc > 4 ? atoi(argv[4]) : 0, me, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *out = calloc(1, bytes < 1 ? 1 : (size_t)bytes), *in = calloc(1, bytes < 1 ? 1 : (size_t)bytes);
    if (ranks % 4 != 0 || rounds < 1 || bytes < 1 || pause_us < 0 || out == NULL || in == NULL) {
        fprintf(stderr, "phased: a multiple of four ranks, rounds and bytes of 1 at least, and a pause\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int time = 0; time < times; time++) {
        agree();
        near(rounds, bytes, pause_us, me, out, in);
        agree();
        print_place(me, "near");
        far(rounds, bytes, pause_us, me, out, in);
        agree();
        print_place(me, "far");
    }
    MPI_Finalize();
    free(out);
    free(in);
    return 0;
}
