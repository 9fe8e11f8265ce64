/* Roles in pairs, both ways, half the roles apart. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    unsigned half = shape->roles / 2;
    return writer < half ? reader == writer + half : reader < half && writer == reader + half;
}

const struct pattern pattern_pairs_far = {.name = "pairs-far", .summary = "pairs i and i + N/2, both ways", .talks = talks};
