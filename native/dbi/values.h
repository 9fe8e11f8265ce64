/* Symbolic values of registers within a basic block: "what this register held at the start, or after the instruction
 * that last wrote it, plus a constant". Two operands with the same roots are a known distance apart, so one check can
 * cover both: pushes of a prologue, fields of a structure, neighbours in an array.
 */
#ifndef COHABIT_VALUES_H
#define COHABIT_VALUES_H

#include "dr_api.h"
#include <stdint.h>

typedef struct {
    int32_t root;
    int64_t offset;
} value_t;

typedef struct {
    value_t registers[16];
    int32_t next_root;
} values_t;

/* A memory operand's address: roots that tell whether two are comparable, and the constant between them. */
typedef struct {
    int32_t base_root;
    int32_t index_root;
    int32_t scale;
    int32_t segment;
    int64_t offset;
} address_t;

#define ROOT_NONE (-1)

void values_init(values_t *values);
/* The index of a register in `registers`; -1 where it is none of them. */
int values_number(reg_id_t reg);
/* The address of a memory operand before the instruction runs. */
address_t values_address(const values_t *values, opnd_t operand);
/* What the instruction does to the registers. */
void values_step(values_t *values, instr_t *instr);
bool address_comparable(const address_t *a, const address_t *b);

#endif
