/* The part file (abi.h) of this rank: cells, call sites with their rounds, and the series. */
#ifndef COHABIT_MPI_PART_H
#define COHABIT_MPI_PART_H

#include "abi.h"
#include <stdbool.h>
#include <stddef.h>

/* Creates the part in `directory`, which is made where it is missing. False, after a word on standard error, where
 * that fails. */
bool part_create(const char *directory);
void part_remove(void);
cohabit_mpi_part_t *part(void);
void *part_at(uint64_t offset);
/* Room in the part, zeroed; 0 where there is none. */
uint64_t part_allocate(uint64_t bytes);
/* Starts the series: bin 0 is at `ticks_zero`. */
void part_start_series(uint64_t zero_ticks, uint64_t window_ticks, uint64_t bound_rows);
/* Counts `messages` messages of `bytes` bytes each for a key of size class 0 at time `now`, so many others having been
 * sent in the round before. */
void part_count(uint64_t key, uint64_t bytes, uint64_t messages, uint32_t before, uint64_t now);
/* The row of a key and an address; NULL where there is none yet. */
cohabit_mpi_site_t *part_find_site(uint64_t key, uint64_t address);
/* Makes it; NULL where there is no room. `round` 0 makes a round of its own. */
cohabit_mpi_site_t *part_new_site(uint64_t key, uint64_t address, uint64_t place, uint32_t round);
/* Makes one round of two, and says which; 0 is none. */
uint32_t part_join_rounds(uint32_t a, uint32_t b);
/* Makes rows of the window under way. */
void part_flush_window(uint64_t now);
/* Keeps the code lines of /proc/self/maps. */
void part_keep_maps(void);

#endif
