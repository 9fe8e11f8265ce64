/* Loops that wait: blocks of code that read the same addresses again and again until another task writes there.
 *
 * How often they read says how long the task waited, and nothing of its work, so what they read is counted apart. Such a
 * block writes no memory, reads some, and either is a loop by itself in which no register is stepped
 * and whose addresses stay as they are, or has PAUSE in it, or at one of the two places where it goes on.
 */
#ifndef COHABIT_SPINS_H
#define COHABIT_SPINS_H

#include "dr_api.h"
#include <stdbool.h>

/* Of a block as the program has it. */
bool spins_block(instrlist_t *block);

#endif
