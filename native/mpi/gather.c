/* Gathers the parts of a world into one file through MPI itself, when all ranks are in MPI_Finalize.
 *
 * A binomial tree, so that no rank has more partners than the logarithm of the world; parts are passed on in pieces, so
 * that no rank holds more than one piece. A child waits to be asked: who is not asked within the deadline (a rank that
 * could not be observed does not answer) leaves its part where it is, and the program goes on.
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

static struct {
    int parent; /* -1: the root */
    int file;
    char *piece;
    uint64_t deadline_ns;
} tree;

static bool
finished(MPI_Request *request, MPI_Status *status)
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
            if (realtime_ns() - start > tree.deadline_ns)
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
        finished(&request, &status);
}

/* Bytes received, or -1. */
static int
receive(void *bytes, int capacity, int from)
{
    MPI_Request request;
    MPI_Status status;
    int count = -1;
    if (real.Irecv(bytes, capacity, real.byte, from, TAG, real.world, &request) != MPI_SUCCESS ||
        !finished(&request, &status))
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
        if (tree.parent >= 0) {
            if (!send(bytes, now, tree.parent))
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
pass_on(int child)
{
    char asked = 1;
    if (!send(&asked, 1, child))
        return false;
    for (;;) {
        int count = receive(tree.piece, PIECE_BYTES, child);
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
    if (tree.parent >= 0 && receive(&asked, 1, tree.parent) != 1)
        return false;
    bool whole = up((const char *)part(), part()->used);
    int reach = library.rank == 0 ? library.size : library.rank & -library.rank;
    for (int bit = 1; bit < reach && library.rank + bit < library.size; bit *= 2)
        whole &= pass_on(library.rank + bit);
    if (tree.parent >= 0) {
        /* The end of the subtree; then whether all is in the file, and parts may go. */
        if (!send(tree.piece, 0, tree.parent) || receive(&kept, 1, tree.parent) != 1)
            return false;
    } else {
        kept = whole && fsync(tree.file) == 0;
    }
    for (int bit = 1; bit < reach && library.rank + bit < library.size; bit *= 2)
        send(&kept, 1, library.rank + bit);
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
    tree.parent = library.rank == 0 ? -1 : library.rank & (library.rank - 1);
    tree.piece = malloc((size_t)PIECE_BYTES);
    tree.file = -1;
    if (tree.piece == NULL)
        return;
    if (tree.parent < 0) {
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
    /* The root keeps its own until the last: whoever looks finds the file or the parts. */
    if (kept)
        part_remove();
}
