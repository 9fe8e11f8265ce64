/* The exchanges of an FFT or a recursive-doubling reduction: in stage k with the role whose number differs in bit k.
 * Where the number of roles is no power of two, who has no partner in a stage sits it out. */
#include "pattern.h"

static unsigned stages(const struct shape *shape)
{
    unsigned count = 0;
    while ((1u << count) < shape->roles)
        count++;
    return count;
}

static unsigned steps(const struct shape *shape)
{
    return 2 * stages(shape);
}

static size_t plan(const struct shape *shape, unsigned segment, unsigned role, unsigned step, struct action *out)
{
    (void)segment;
    unsigned partner = role ^ 1u << step / 2;
    if (partner >= shape->roles)
        return 0;
    *out = step % 2 == 0 ? (struct action){WRITE, role, 0, 0} : (struct action){READ, partner, 0, 1};
    return 1;
}

static struct known known(const struct shape *shape, unsigned writer, unsigned reader)
{
    unsigned difference = writer ^ reader;
    if (difference & (difference - 1))
        return (struct known){0, 0};
    /* Each copy goes stale in the writer's next stage; the one of its last stage only in the next round. */
    unsigned last = stages(shape) - 1;
    while ((writer ^ 1u << last) >= shape->roles)
        last--;
    bool is_last = difference == 1u << last;
    return (struct known){shape->rounds, shape->rounds - is_last};
}

const struct pattern pattern_butterfly = {
    .name = "butterfly", .summary = "exchanges of an FFT, stage by stage", .steps = steps, .plan = plan, .known = known};
