/* The pieces of every span ever planned (plan.h). */
#ifndef COHABIT_GROUPS_H
#define COHABIT_GROUPS_H

#include "shadow.h"

/* One access of a span. */
typedef struct {
    int32_t offset; /* from the span's first byte */
    uint32_t bytes;
    uint32_t kind; /* access_kind_t */
    uint32_t order; /* within its segment, where what tasks do is recorded (recorder.h), else 0 */
    uint64_t pc; /* of the instruction where hot blocks are followed, else 0 */
} piece_t;

#define GROUPS_NONE 0xffffffffu

bool groups_init(void);
/* The number of a group of pieces in program order; equal groups have one number. GROUPS_NONE when full. */
uint32_t groups_intern(const piece_t *pieces, uint32_t count);
/* The pieces of a group. */
const piece_t *groups_at(uint32_t group, uint32_t *count);

#endif
