/* Groups of roles in a row: every member of a group feeds every member of the next. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    uint64_t groups = shape->groups < shape->roles ? shape->groups : shape->roles;
    return writer * groups / shape->roles + 1 == reader * groups / shape->roles;
}

const struct pattern pattern_pipeline = {
    .name = "pipeline", .summary = "groups of roles in a row, each feeding the next (--groups)", .talks = talks};
