/* Gathers the parts of a world into one file through MPI itself, when all ranks are in MPI_Finalize.
 *
 * A binomial tree of the ranks that have the library (joined.c), so that no rank has more partners than the logarithm
 * of the world; parts are passed on in pieces, so that no rank holds more than one piece. A child waits to be asked:
 * who is not asked within the deadline (the other may have been killed) leaves its part where it is, and the program
 * goes on. On several hosts, which may not all see the marks, all ranks are in the tree, and those that have none are
 * waited for a moment only.
 */
#include "library.h"
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG 32749
#define PIECE_BYTES ((int)COHABIT_MPI_PIECE_BYTES)

/* How long a rank is waited for that has no mark while this one has. */
#define UNMARKED_NS 20000000000ull

static struct {
    char *marks;   /* a byte a rank */
    bool marked;   /* they are known */
    int *members;  /* ranks in the tree, ascending */
    int count;
    int me;        /* this rank's place among them; 0: the root */
    int file;
    char *piece;
    uint64_t deadline_ns;
} tree;

/* The members; false without memory. */
static bool
plant(void)
{
    tree.marks = calloc((size_t)library.size, 1);
    tree.members = calloc((size_t)library.size, sizeof(int));
    if (tree.marks == NULL || tree.members == NULL)
        return false;
    tree.marked = joined_read(tree.marks, (uint32_t)library.size);
    bool all = !tree.marked || !joined_one_host();
    for (int rank = 0; rank < library.size; rank++) {
        if (rank == library.rank)
            tree.me = tree.count;
        if (all || tree.marks[rank] == 1)
            tree.members[tree.count++] = rank;
    }
    return true;
}

static uint64_t
patience_ns(int rank)
{
    return tree.marked && tree.marks[rank] != 1 && tree.deadline_ns > UNMARKED_NS ? UNMARKED_NS : tree.deadline_ns;
}

/* The member above this one; -1 for the root. */
static int
parent(void)
{
    return tree.me == 0 ? -1 : tree.members[tree.me & (tree.me - 1)];
}

/* The next member below this one, by a bit that is doubled from 1 on; -1 where there is none. */
static int
child(int bit)
{
    int reach = tree.me == 0 ? tree.count : tree.me & -tree.me;
    return bit < reach && tree.me + bit < tree.count ? tree.members[tree.me + bit] : -1;
}

static bool
finished(MPI_Request *request, MPI_Status *status, uint64_t patience)
{
    uint64_t start = realtime_ns();
    for (unsigned tries = 0;; tries++) {
        int flag = 0;
        if (real.Test(request, &flag, status) != MPI_SUCCESS)
            return false;
        if (flag)
            return true;
        if (tries > 1000) {
            struct timespec pause = { 0, 50000 };
            nanosleep(&pause, NULL);
            if (realtime_ns() - start > patience)
                break;
        }
    }
    real.Cancel(request);
    real.Request_free(request);
    return false;
}

static bool
send(const void *bytes, int count, int to)
{
    MPI_Request request;
    MPI_Status status;
    return real.Isend(bytes, count, real.byte, to, TAG, real.world, &request) == MPI_SUCCESS &&
        finished(&request, &status, patience_ns(to));
}

/* Bytes received, or -1. */
static int
receive(void *bytes, int capacity, int from)
{
    MPI_Request request;
    MPI_Status status;
    int count = -1;
    if (real.Irecv(bytes, capacity, real.byte, from, TAG, real.world, &request) != MPI_SUCCESS ||
        !finished(&request, &status, patience_ns(from)))
        return -1;
    real.Get_count(&status, real.byte, &count);
    return count;
}

/* One step up: to the parent, or into the file. */
static bool
up(const char *bytes, uint64_t count)
{
    while (count > 0) {
        int now = count < (uint64_t)PIECE_BYTES ? (int)count : PIECE_BYTES;
        if (parent() >= 0) {
            if (!send(bytes, now, parent()))
                return false;
        } else {
            ssize_t written = write(tree.file, bytes, (size_t)now);
            if (written < 0 && errno == EINTR)
                continue;
            if (written <= 0)
                return false;
            now = (int)written;
        }
        bytes += now;
        count -= (uint64_t)now;
    }
    return true;
}

/* Everything of a child's subtree; false where it ended early. */
static bool
pass_on(int from)
{
    char asked = 1;
    if (!send(&asked, 1, from))
        return false;
    for (;;) {
        int count = receive(tree.piece, PIECE_BYTES, from);
        if (count == 0)
            return true;
        if (count < 0 || !up(tree.piece, (uint64_t)count))
            return false;
    }
}

static bool
gather_into(void)
{
    char asked = 0, kept = 0;
    if (parent() >= 0 && receive(&asked, 1, parent()) != 1)
        return false;
    bool whole = up((const char *)part(), part()->used);
    for (int bit = 1; child(bit) >= 0; bit *= 2)
        whole &= pass_on(child(bit));
    if (parent() >= 0) {
        /* The end of the subtree; then whether all is in the file, and parts may go. */
        if (!send(tree.piece, 0, parent()) || receive(&kept, 1, parent()) != 1)
            return false;
    } else {
        kept = whole && fsync(tree.file) == 0;
    }
    for (int bit = 1; child(bit) >= 0; bit *= 2)
        send(&kept, 1, child(bit));
    return kept != 0;
}

void
gather(void)
{
    const char *name = getenv("COHABIT_MPI_GATHERED"), *seconds = getenv("COHABIT_MPI_DEADLINE");
    char path[4096], whole_path[4096];
    if (name == NULL)
        return;
    if (part()->flags & COHABIT_MPI_FLAG_SPAWNED)
        snprintf(whole_path, sizeof(whole_path), "%s.%llx", name, (unsigned long long)part()->job);
    else
        snprintf(whole_path, sizeof(whole_path), "%s", name);
    snprintf(path, sizeof(path), "%.4000s.new", whole_path);
    tree.deadline_ns = (seconds == NULL ? 600 : strtoull(seconds, NULL, 10)) * 1000000000ull;
    tree.piece = malloc((size_t)PIECE_BYTES);
    tree.file = -1;
    if (!plant() || tree.piece == NULL)
        return;
    if (parent() < 0) {
        uint64_t magic = COHABIT_MPI_GATHERED_MAGIC;
        tree.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (tree.file < 0 || write(tree.file, &magic, sizeof(magic)) != sizeof(magic))
            fprintf(stderr, "cohabit: %s on %s: %s; parts stay where they are\n", path, part()->host, strerror(errno));
    }
    bool kept = gather_into();
    if (tree.file >= 0) {
        close(tree.file);
        if (kept && rename(path, whole_path) != 0)
            kept = false;
        if (!kept) {
            fprintf(stderr, "cohabit: not every rank's part could be gathered; `cohabit import` joins those in %s\n",
                    getenv("COHABIT_MPI_PARTS"));
            unlink(path);
        }
    }
    free(tree.piece);
    free(tree.marks);
    free(tree.members);
    /* The root keeps its own until the last: whoever looks finds the file or the parts. */
    if (kept)
        part_remove();
}
