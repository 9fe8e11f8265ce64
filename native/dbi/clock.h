/* A thread of the profiler's own that watches the time, for what must happen while the program runs undisturbed. */
#ifndef COHABIT_CLOCK_H
#define COHABIT_CLOCK_H

#include <stdbool.h>

/* Starts the thread where an option needs it: windows of the sharing matrix, bursts. Also after fork: a child has the
 * thread that called fork and no other. */
bool clock_start(void);

/* Ends it; when this returns it touches nothing any more. */
void clock_stop(void);

#endif
