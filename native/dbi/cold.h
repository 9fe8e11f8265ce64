/* What runs when an inline check fails, kept out of the program's code: a few instructions for each kind of check. */
#ifndef COHABIT_COLD_H
#define COHABIT_COLD_H

#include "plan.h"

bool cold_init(void);
void cold_exit(void);

/* Code to jump to, with the program's values in the registers of the span's operand and the address to go on at in
 * r[1]; it may change r[0] and r[1]. Where `look_again`, the inline check was too strict (it refuses addresses that
 * are not aligned): ask of both ends before going to the slow path. NULL where there is no room left. */
byte *cold_code(void *drcontext, const span_t *span, uint32_t group, const reg_id_t r[2], bool look_again);

#endif
