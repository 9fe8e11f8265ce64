/* Code that is rewritten by another way than by stores to where it lies, which is all that DynamoRIO notices: through a
 * second mapping of the same memory, by another process that has it mapped, or by the kernel (/proc/PID/mem,
 * process_vm_writev).
 *
 * Code in memory that can be mapped twice is compared, whenever a block of it is entered, with what it was translated
 * from; what the kernel writes is flushed. That other processes' code is written to is said in the part.
 */
#ifndef COHABIT_ALIASES_H
#define COHABIT_ALIASES_H

#include "part.h"
#include "dr_api.h"

/* Whether code at an address lies in memory that can be mapped twice. */
bool aliases_possible(void *tag);

/* Before the first instruction of a block, and before anything else there. */
void aliases_insert(void *drcontext, void *tag, instrlist_t *block, instr_t *instr);

/* A system call succeeded. */
void aliases_syscall(int number, const uint64_t *argument, uint64_t result);

#endif
