/* Messages with spawned processes. In a program of its own: what can spawn is not monitored by Open MPI. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define W MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE
static char out[4096], in[4096];

/* Two processes are spawned; each parent sends to one of them, and gets an answer; then all in one communicator. */
static void
spawn(int rounds)
{
    enum { SPAWNED = 2 };
    MPI_Comm parent, between, merged;
    int all, total;
    MPI_Comm_get_parent(&parent);
    bool child = parent != MPI_COMM_NULL;
    if (child) {
        between = parent;
    } else {
        char program[4096] = "";
        ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
        char number[16], *arguments[] = { "spawn", "--rounds", number, NULL, NULL, NULL };
        char *expected = getenv("MPI_EXPECT");
        snprintf(number, sizeof(number), "%d", rounds);
        if (expected != NULL) {
            arguments[3] = "--expect";
            arguments[4] = expected;
        }
        program[length < 0 ? 0 : length] = '\0';
        MPI_Comm_spawn(program, arguments, SPAWNED, MPI_INFO_NULL, 0, W, &between, MPI_ERRCODES_IGNORE);
    }
    int parents;
    if (child)
        MPI_Comm_remote_size(between, &parents);
    else
        parents = ranks;
    for (int other = 0; other < (child ? parents : SPAWNED); other++) {
        int mine = child ? other % SPAWNED == me : me % SPAWNED == other;
        if (!mine)
            continue;
        MPI_Sendrecv(out, child ? 11 : 700, MPI_BYTE, other, 0, in, 4096, MPI_BYTE, other, 0, between, IGNORE);
        sends_between(child, me, !child, other, 1, child ? 11 : 700);
    }
    MPI_Intercomm_merge(between, child, &merged);
    MPI_Comm_rank(merged, &all);
    MPI_Comm_size(merged, &total);
    for (int round = 0; round < rounds; round++)
        MPI_Sendrecv(out, 9, MPI_BYTE, (all + 1) % total, 0, in, 9, MPI_BYTE, (all + total - 1) % total, 0, merged,
                     IGNORE);
    int next = (all + 1) % total;
    sends_between(child, me, next >= parents, next >= parents ? next - parents : next, rounds, 9);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
}

const pattern_t spawn_table[] = {
    { "spawn", spawn, 1 },
    { NULL, NULL, 0 },
};
