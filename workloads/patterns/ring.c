/* Each role and both its neighbours on a ring. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    unsigned ahead = (reader + shape->roles - writer) % shape->roles;
    return ahead == 1 || ahead == shape->roles - 1;
}

const struct pattern pattern_ring = {.name = "ring", .summary = "neighbours on a ring, both ways", .talks = talks};
