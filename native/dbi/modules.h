/* The files mapped for execution: listed in the part, so that addresses can be named when the program is gone. */
#ifndef COHABIT_MODULES_H
#define COHABIT_MODULES_H

#include "dr_api.h"
#include <stdint.h>

/* Lists modules as they come and go; calls `loaded` (if any) for each that comes. */
bool modules_init(void (*loaded)(const module_data_t *module));
/* After fork: the new part gets its own list. */
void modules_fork(void);
void modules_exit(void);

/* Whether the address lies in a module. */
bool modules_contain(uint64_t address);

#endif
