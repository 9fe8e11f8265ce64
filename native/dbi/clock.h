/* A thread of the profiler's own that watches the time: windows of the sharing matrix end also while no task comes to
 * the slow path. */
#ifndef COHABIT_CLOCK_H
#define COHABIT_CLOCK_H

/* Starts the thread, once, where sharing is counted. Called when the program runs: before that DynamoRIO takes whatever
 * thread it finds for one of the program's. */
void clock_start(void);
/* After fork: a child has the thread that called fork and no other. */
void clock_fork(void);

/* Ends it; when this returns it is gone. */
void clock_stop(void);

#endif
