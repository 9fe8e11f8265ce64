/* Roles in pairs, both ways: 0 and 1, 2 and 3, and so on. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    (void)shape;
    return (writer ^ 1) == reader;
}

const struct pattern pattern_pairs_near = {.name = "pairs-near", .summary = "pairs i and i^1, both ways", .talks = talks};
