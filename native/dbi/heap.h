/* Watches the program allocate memory, so that hot blocks can be named by the calls that asked for them. */
#ifndef COHABIT_HEAP_H
#define COHABIT_HEAP_H

#include "dr_api.h"
#include <stdint.h>

bool heap_init(void);
void heap_exit(void);

/* Wraps the allocation functions that a module exports. */
void heap_module_loaded(const module_data_t *module);

/* A mapping came (by the calling thread) or went. */
void heap_mapped(uint64_t start, uint64_t bytes);
void heap_unmapped(uint64_t start, uint64_t bytes);
/* What the calling thread asked for by brk ends there now. */
void heap_moved_top(uint64_t top);

#endif
