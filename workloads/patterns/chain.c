/* Each role and its neighbours on a line, both ways. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    (void)shape;
    return writer + 1 == reader || reader + 1 == writer;
}

const struct pattern pattern_chain = {.name = "chain", .summary = "neighbours on a line, both ways", .talks = talks};
