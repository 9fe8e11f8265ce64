/* Processes that communicate in pairs through shared memory: process i and i^1 use the same pages of one mapping, each
 * at another address. Checks its sums; --pairs N processes are 2 N, --rounds R.
 *
 * Usage: shared_pairs [PAIRS [ROUNDS [PAGES]]]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static char *map_shared(size_t bytes)
{
    char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return mapped;
}

int main(int argc, char **argv)
{
    int processes = 2 * (argc > 1 ? atoi(argv[1]) : 2);
    long rounds = argc > 2 ? atol(argv[2]) : 1, pages = argc > 3 ? atol(argv[3]) : 64;
    size_t part = (size_t)pages * PAGE;
    char *shared = map_shared((size_t)(processes / 2) * part);
    for (int i = 0; i < processes; i++) {
        if (fork() == 0) {
            /* Whoever watches has time to see the mapping. */
            usleep(400000);
            char *own = shared + (size_t)(i / 2) * part;
            for (long round = 0; round < rounds; round++)
                for (long page = 0; page < pages; page++)
                    atomic_fetch_add((atomic_long *)(own + page * PAGE), 1);
            _exit(0);
        }
    }
    int failed = 0;
    for (int i = 0, status; i < processes; i++)
        failed |= wait(&status) < 0 || status != 0;
    for (long page = 0; page < pages * processes / 2; page++)
        failed |= *(long *)(shared + page * PAGE) != 2 * rounds;
    printf("%s\n", failed ? "wrong" : "right");
    return failed;
}
