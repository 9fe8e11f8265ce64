/* Phases that the program says it is in (cohabit_phase). */
#ifndef COHABIT_PHASES_H
#define COHABIT_PHASES_H

#include <stdint.h>

/* Notes in the part that a phase begins now; after COHABIT_MAX_PHASES only the count goes on. */
void phases_note(uint64_t number);

#endif
