/* Which ranks have this library in them: a byte for each in a file beside the one for the gathered parts.
 *
 * A rank marks itself before MPI_Init, in which all wait for all, so that whoever looks later finds every mark. A rank
 * without the library (static, or started without our environment) has none, and who gathers need not wait for it.
 */
#include "library.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file's name; false where there is none to be: worlds that are spawned have no name under MPICH. */
static bool
file_of_world(char path[4096])
{
    const char *gathered = getenv("COHABIT_MPI_GATHERED"), *space = getenv("PMIX_NAMESPACE");
    if (gathered == NULL || (space == NULL && getenv("PMI_SPAWNED") != NULL))
        return false;
    snprintf(path, 4096, "%.4000s.joined.%llx", gathered, space == NULL ? 0ull : (unsigned long long)job());
    return true;
}

static void
mark(char what)
{
    char path[4096];
    const char *rank = told_rank();
    if (rank == NULL || !file_of_world(path))
        return;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) /* another host, without that folder */
        return;
    if (pwrite(file, &what, 1, (off_t)strtoull(rank, NULL, 10)) != 1)
        fprintf(stderr, "cohabit: %s: no space for the mark of rank %s\n", path, rank);
    close(file);
}

void
joined_mark(void)
{
    mark(1);
}

void
joined_unmark(void)
{
    mark(0);
}

bool
joined_read(char *marks, uint32_t size)
{
    char path[4096];
    if (!file_of_world(path))
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    uint32_t got = 0;
    for (ssize_t some = 1; some > 0 && got < size; got += some > 0 ? (uint32_t)some : 0)
        some = pread(file, marks + got, size - got, (off_t)got);
    close(file);
    return marks[library.rank] == 1;
}

/* A launcher's variable that says how many of the world's ranks are here. */
bool
joined_one_host(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE" };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *local = getenv(names[i]);
        if (local != NULL)
            return strtol(local, NULL, 10) == library.size;
    }
    const char *nodes = getenv("SLURM_STEP_NUM_NODES");
    return nodes != NULL && strcmp(nodes, "1") == 0;
}
