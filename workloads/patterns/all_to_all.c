/* Everybody to everybody. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    (void)shape, (void)writer, (void)reader;
    return true;
}

const struct pattern pattern_all_to_all = {.name = "all-to-all", .summary = "everybody to everybody", .talks = talks};
