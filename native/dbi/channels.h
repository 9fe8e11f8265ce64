/* What tasks may exchange data through that is no memory, and so is not counted: sockets, pipes, files. That there was
 * such a channel is noted in the part, so that nobody takes silence in memory for silence. */
#ifndef COHABIT_CHANNELS_H
#define COHABIT_CHANNELS_H

#include <stdint.h>

/* A system call succeeded. */
void channels_syscall(int number, const uint64_t *argument, uint64_t result);

#endif
