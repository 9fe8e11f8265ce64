/* Whether the program is counted right now: a region of interest, a signal, or bursts may turn counting off and on. */
#ifndef COHABIT_COUNTING_H
#define COHABIT_COUNTING_H

#include <stdbool.h>

void counting_init(void);

/* Whether code is to be translated with checks. */
bool counting_on(void);

/* A region of interest begins or ends. True where that changed anything: all translated code is then flushed, and the
 * caller must go on in new code. */
bool counting_region(bool begins);

#endif
