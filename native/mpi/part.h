/* The part file (abi.h) of this rank: cells, call sites and the series. */
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
/* Counts `messages` messages of `bytes` bytes each for a key of size class 0 at time `now`. */
void part_count(uint64_t key, uint64_t bytes, uint64_t messages, uint64_t now);
/* Counts for a place in the code. */
void part_count_site(uint64_t key, uint64_t address, uint64_t messages, uint64_t bytes);
/* Makes rows of the window under way. */
void part_flush_window(uint64_t now);
/* Keeps the code lines of /proc/self/maps. */
void part_keep_maps(void);

#endif
