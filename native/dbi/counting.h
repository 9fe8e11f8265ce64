/* Whether the program is counted right now: a region of interest, a signal, or bursts may turn counting off and on. */
#ifndef COHABIT_COUNTING_H
#define COHABIT_COUNTING_H

#include <stdbool.h>
#include <stdint.h>

bool counting_init(void);
/* After fork, in the child, whose part is a new one. */
void counting_fork(void);

/* Whether counting may be on at one time and off at another. */
bool counting_partly(void);

/* Whether code is to be translated with checks. */
bool counting_on(void);

/* A region of interest begins or ends. True where that changed anything: all translated code is then flushed, and the
 * caller must go on in new code. */
bool counting_region(bool begins);

/* Turns counting on or off where a signal asked for it or a burst begins or ends. Called before system calls. */
void counting_poll(void);

/* How often code was flushed so far: each time interrupts what threads wait in. */
uint32_t counting_flushes(void);

/* Brings the time spent counting up to date in the part. */
void counting_account(void);

#endif
