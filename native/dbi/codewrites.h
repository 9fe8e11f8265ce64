/* Programs that write code: compilers at run time, and whoever patches himself. */
#ifndef COHABIT_CODEWRITES_H
#define COHABIT_CODEWRITES_H

#include "dr_api.h"
#include <stdbool.h>
#include <stdint.h>

/* After mmap or mprotect with this protection succeeded, on its thread. */
void codewrites_mapped(uint64_t protection);

/* When a block is translated. */
void codewrites_block(void *tag);

/* Whether the program has had a page that is both writable and executable. */
bool codewrites_possible(void);

/* Before an instruction of the program, behind its checks. */
void codewrites_insert(void *drcontext, instrlist_t *block, instr_t *instr);

#endif
