/* Messages between pairs of MPI ranks, to and fro or both ways at once, pairs alone or several at once, by length: the
 * experiments of the IBM report, section 2 and Figure 1 (there by NetPIPE). `cohabit measure -- mpirun ...` starts it.
 *
 *   pingpong                                     prints the ranks' hosts
 *   pingpong MS SIZE,SIZE... KIND:A-B,A-B ...    and measures; KIND is o (one way) or b (both ways)
 *
 * Rank 0 prints lines that begin with "cohabit-pingpong ": "host RANK NAME", "size RANKS", and "result EXPERIMENT SIZE
 * SECONDS SECONDS ...", seconds of a message for each pair of the experiment. MS is how long each figure is measured.
 * Ranks that wait sleep, for they may share processors with those that are measured. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME = 256, WARM_UP = 2, LEAST_ROUNDS = 3, MOST_ROUNDS = 100000, MOST_PAIRS = 1024, TAG = 7 };

static int rank, ranks;

static void sleep_until(MPI_Request *request)
{
    const struct timespec pause = { .tv_nsec = 500000 };
    for (int done = 0;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        nanosleep(&pause, NULL);
    }
}

static void barrier(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    sleep_until(&request);
}

static double longest(double seconds)
{
    double most;
    MPI_Request request;
    MPI_Iallreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    sleep_until(&request);
    return most;
}

/* Rounds with `other`, which has the same `length`; seconds they take. */
static double rounds(long count, int other, int begins, char both, char *out, char *in, int length)
{
    double start = MPI_Wtime();
    for (long round = 0; round < count; round++) {
        if (both) {
            MPI_Sendrecv(out, length, MPI_BYTE, other, TAG, in, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        } else if (begins) {
            MPI_Send(out, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
            MPI_Recv(in, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - start;
}

/* One length of an experiment: rank 0 gets the seconds of a message of each pair. */
static void measure(const int (*pairs)[2], int count, char both, int length, double least_s, double *seconds)
{
    int other = -1, begins = 0, pair = -1;
    for (int at = 0; at < count; at++)
        for (int end = 0; end < 2; end++)
            if (pairs[at][end] == rank) {
                other = pairs[at][!end];
                begins = !end;
                pair = at;
            }
    char *out = calloc(2, length > 0 ? length : 1), *in = out + length;
    if (!out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    barrier();
    double trial = other < 0 ? 0 : rounds(WARM_UP, other, begins, both, out, in, length) / WARM_UP;
    /* The first rounds connect; these do not. */
    trial = longest(other < 0 ? 0 : rounds(WARM_UP, other, begins, both, out, in, length) / WARM_UP);
    long wanted = trial > 0 ? (long)(least_s / trial) : MOST_ROUNDS;
    wanted = wanted < LEAST_ROUNDS ? LEAST_ROUNDS : wanted > MOST_ROUNDS ? MOST_ROUNDS : wanted;
    barrier();
    double *own = calloc(count, sizeof *own);
    if (!own)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (other >= 0)
        own[pair] = rounds(wanted, other, begins, both, out, in, length) / wanted / (both ? 1 : 2);
    MPI_Request request;
    MPI_Ireduce(own, seconds, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD, &request);
    sleep_until(&request);
    free(own);
    free(out);
}

/* The pairs of "b:0-1,2-3"; -1 where it is something else. */
static int parse(const char *text, int (*pairs)[2])
{
    int count = 0, used = 0;
    if ((text[0] != 'o' && text[0] != 'b') || text[1] != ':')
        return -1;
    for (text += 2;; text += used + 1) {
        if (count == MOST_PAIRS || sscanf(text, "%d-%d%n", &pairs[count][0], &pairs[count][1], &used) != 2)
            return -1;
        if (pairs[count][0] < 0 || pairs[count][0] >= ranks || pairs[count][1] < 0 || pairs[count][1] >= ranks)
            return -1;
        count++;
        if (text[used] != ',')
            return text[used] ? -1 : count;
    }
}

static void print_hosts(void)
{
    char name[NAME] = "", *names = rank ? NULL : malloc((size_t)ranks * NAME);
    char processor[MPI_MAX_PROCESSOR_NAME + 1];
    int length;
    MPI_Get_processor_name(processor, &length);
    snprintf(name, sizeof name, "%.*s", length, processor);
    MPI_Gather(name, NAME, MPI_CHAR, names, NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank)
        return;
    printf("cohabit-pingpong size %d\n", ranks);
    for (int at = 0; at < ranks; at++)
        printf("cohabit-pingpong host %d %s\n", at, names + (size_t)at * NAME);
    fflush(stdout);
    free(names);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    print_hosts();
    double least_s = argc > 1 ? atof(argv[1]) / 1e3 : 0;
    static int pairs[MOST_PAIRS][2];
    static double seconds[MOST_PAIRS];
    for (int experiment = 3; experiment < argc; experiment++) {
        int count = parse(argv[experiment], pairs);
        if (count < 0) {
            if (!rank)
                fprintf(stderr, "pingpong: %s is no experiment of %d ranks\n", argv[experiment], ranks);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        for (const char *size = argv[2]; *size; size += strcspn(size, ",") + (size[strcspn(size, ",")] == ',')) {
            measure((const int(*)[2])pairs, count, argv[experiment][0] == 'b', atoi(size), least_s, seconds);
            if (rank)
                continue;
            printf("cohabit-pingpong result %d %d", experiment - 3, atoi(size));
            for (int at = 0; at < count; at++)
                printf(" %.9e", seconds[at]);
            printf("\n");
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
