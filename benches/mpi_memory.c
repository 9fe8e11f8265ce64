/* What a rank keeps of its messages, by the number of its neighbours: bytes of its part, in a world of any size.
 *
 *     cc -O2 -D_GNU_SOURCE -I native/mpi benches/mpi_memory.c native/mpi/part.c -o mpi_memory && ./mpi_memory
 *
 * Each neighbour gets messages of four sizes, from one place in the code, in 100 windows of the series. */
#include "part.h"
#include <stdio.h>
#include <stdlib.h>

enum { WORLD = 10000, SIZES = 4, WINDOWS = 100 };

int
main(void)
{
    printf("neighbours  bytes  of which series  call sites\n");
    for (unsigned neighbours = 1; neighbours <= WORLD; neighbours *= 10) {
        char folder[] = "/tmp/cohabit-mpi-memory-XXXXXX";
        if (mkdtemp(folder) == NULL || !part_create(folder))
            return 1;
        part_start_series(0, 1000, COHABIT_MPI_SERIES_OF_WORLD / WORLD);
        for (unsigned window = 0; window < WINDOWS; window++)
            for (unsigned peer = 0; peer < neighbours; peer++)
                for (unsigned size = 0; size < SIZES; size++) {
                    uint64_t key = (uint64_t)(peer * (WORLD / neighbours)) << COHABIT_MPI_KEY_RANK_SHIFT;
                    part_count(key, 8u << 3 * size, 1, peer, window * 1000);
                    /* The size class is in a site's key, whatever number stands for it. */
                    if (part_find_site(key + size, 1) == NULL)
                        part_new_site(key + size, 1, 1, 0);
                }
        part_flush_window(WINDOWS * 1000);
        printf("%10u  %llu  %llu  %llu\n", neighbours, (unsigned long long)part()->used,
               (unsigned long long)part()->series_rows * sizeof(cohabit_mpi_row_t),
               (unsigned long long)part()->site_capacity * sizeof(cohabit_mpi_site_t));
        part_remove();
        remove(folder);
    }
    return 0;
}
