/* Everybody reads everything and nobody writes: blocks are shared, nothing is communicated. */
#include "pattern.h"

static unsigned steps(const struct shape *shape)
{
    (void)shape;
    return 1;
}

static size_t plan(const struct shape *shape, unsigned segment, unsigned role, unsigned step, struct action *out)
{
    (void)segment, (void)role, (void)step;
    for (uint32_t item = 0; item < shape->roles; item++)
        out[item] = (struct action){READ, item, 0, AGE_NEVER};
    return shape->roles;
}

static struct known known(const struct shape *shape, unsigned writer, unsigned reader)
{
    (void)shape, (void)writer, (void)reader;
    return (struct known){0, 0};
}

const struct pattern pattern_read_only = {
    .name = "read-only", .summary = "everybody reads, nobody writes", .steps = steps, .plan = plan, .known = known};
