/* All others write, one reads. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    (void)shape, (void)writer;
    return reader == 0;
}

const struct pattern pattern_gather = {.name = "gather", .summary = "all others write, role 0 reads", .talks = talks};
