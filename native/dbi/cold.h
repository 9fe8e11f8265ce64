/* What runs when an inline check fails, kept out of the program's code: a few instructions for each kind of check. */
#ifndef COHABIT_COLD_H
#define COHABIT_COLD_H

#include "plan.h"

/* Spans that one check stands for, and the group that each takes to the slow path. */
typedef struct {
    const span_t *spans[MAX_BUNDLE];
    uint32_t groups[MAX_BUNDLE];
    uint32_t count;
} bundle_t;

bool cold_init(void);
void cold_exit(void);

/* Code to jump to, with the program's values in the registers of the spans' operands and the address to go on at in
 * `back`; it may change `scratch` and `back`. Where `look_again`, the inline check was too strict (it refuses addresses
 * that are not aligned, or asked of several spans at once): each span is asked for by itself before it goes to the slow
 * path. NULL where there is no room left. */
byte *cold_code(void *drcontext, const bundle_t *bundle, reg_id_t scratch, reg_id_t back, bool look_again);

#endif
