/* Where the part of a rank that has finished is read. On a host where cohabit itself reads the parts it stays where it
 * is; on any other it is copied into a folder that the hosts share.
 *
 * MPI is not asked to do that: a receive that the program has left posted, or a rank without this library, might take
 * our messages for its own, and a rank that has ended early would be waited for.
 */
#include "library.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
write_part(int file)
{
    const char *bytes = (const char *)part();
    uint64_t left = part()->used;
    while (left > 0) {
        ssize_t written = write(file, bytes, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        left -= (uint64_t)written;
    }
    return true;
}

/* Whether this is the rank that speaks for its host: one whose launcher numbers none does. */
static bool
speaks_for_host(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID" };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            return strcmp(getenv(names[i]), "0") == 0;
    return true;
}

void
deliver(void)
{
    const char *here = getenv("COHABIT_MPI_HERE"), *shared = getenv("COHABIT_MPI_SHARED");
    char path[4096], whole_path[4096];
    if (shared == NULL || (here != NULL && access(here, F_OK) == 0))
        return;
    snprintf(whole_path, sizeof(whole_path), "%.3500s/%.63s-%u-%u-%llx.mpi-part", shared, part()->host, part()->rank,
             part()->pid, (unsigned long long)part()->job);
    /* Under another name until it is whole. */
    snprintf(path, sizeof(path), "%.4000s.new", whole_path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool whole = file >= 0 && write_part(file);
    int error = errno;
    if (file >= 0 && close(file) != 0 && whole) {
        error = errno;
        whole = false;
    }
    if (whole && rename(path, whole_path) == 0) {
        part_remove();
        return;
    }
    if (file >= 0)
        unlink(path);
    if (speaks_for_host())
        fprintf(stderr,
                "cohabit: %s on %s: %s; what ranks leave there stays in %s (-o names a profile in a folder that all "
                "hosts share; `cohabit import` joins parts)\n",
                shared, part()->host, strerror(error), getenv("COHABIT_MPI_PARTS"));
}
