/* What system calls read and write in the program's memory counts for the calling task; what they unmap starts
 * clean. */
#ifndef COHABIT_SYSCALLS_H
#define COHABIT_SYSCALLS_H

void syscalls_init(void);
void syscalls_exit(void);

#endif
