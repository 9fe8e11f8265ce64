/* Data that lies in the program and its libraries: where their symbols are. */
#ifndef COHABIT_STATICS_H
#define COHABIT_STATICS_H

#include "part.h"
#include "dr_api.h"

/* A symbol, or a part of a file that is mapped where no symbol is known. Each has a number, less than STATICS. */
#define STATIC_SYMBOLS (1u << 20)
#define STATIC_SEGMENTS (1u << 12)
#define STATICS (STATIC_SYMBOLS + STATIC_SEGMENTS)
typedef struct {
    uint64_t start;
    uint64_t bytes;
    uint32_t number;
    bool symbol;
} static_t;

bool statics_init(void);
/* After fork, in the child. */
void statics_fork(void);
/* Reads the module's symbols. */
void statics_loaded(const module_data_t *module);
void statics_unmapped(uint64_t start, uint64_t bytes);

/* What lies at an address; false where it is not in data of a module. From the slow path. */
bool statics_find(uint64_t address, static_t *found);

#endif
