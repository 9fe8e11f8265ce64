/* Loops of one basic block, unrolled so that one check stands for several iterations.
 *
 * A loop that walks through memory asks the same question of a block again and again. When such a block of code is
 * translated it becomes
 *
 *     TOP      check what the next k iterations touch; not all of it fine: to ALONE
 *     ITER x k the program's instructions, with checks only of what the check at TOP does not cover
 *              to TOP
 *     EXIT x k the loop ended in the middle: take back the iterations that were counted but not made
 *     ALONE    the loop as it is, each access checked, for k iterations; then to TOP
 *
 * The check at TOP changes nothing when it passes, and when it fails nothing is counted there: iterations that never
 * come are not counted. Only addresses that move from iteration to iteration are checked ahead. One that stays is asked
 * again each time (the loop may wait for another task to write there), unless it lies in memory that cannot be written.
 */
#ifndef COHABIT_LOOPS_H
#define COHABIT_LOOPS_H

#include "values.h"
#include "dr_api.h"

typedef enum { LOOP_NONE, LOOP_TOP, LOOP_ITERATION, LOOP_EXIT, LOOP_ALONE, LOOP_MARKS } loop_mark_t;

/* By how much an iteration moves each register. */
typedef struct {
    int64_t step[16];
    bool regular[16];
} induction_t;

bool loops_init(void);

/* Unrolls the block where it is a loop that gains by it; leaves it alone otherwise. */
void loops_unroll(void *drcontext, instrlist_t *block);

/* What the label marks; LOOP_NONE for any other instruction. */
loop_mark_t loops_mark(instr_t *instr);
/* Of LOOP_TOP: the iterations that its check stands for. Of LOOP_EXIT: those that were not made. */
uint32_t loops_iterations(instr_t *mark);
/* Of LOOP_TOP: where to go on when the check fails. */
instr_t *loops_alone(instr_t *top);

/* What the iterations do to the registers, from the instructions at `first` up to the first branch. */
void loops_induction(induction_t *induction, instr_t *first);

/* Whether the access can be checked before the iteration begins, and for later iterations too. `address` is as it was
 * found in an iteration whose registers were unknown when it began; `*stride` is what it moves by an iteration. */
bool loops_checks_ahead(const induction_t *induction, const address_t *address, opnd_t operand, bool writes,
                        int64_t *stride);

#endif
