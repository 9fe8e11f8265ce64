/* Near pairs for a while, then far pairs: the same total looks different in each half of the run. */
#include "pattern.h"

extern const struct pattern pattern_pairs_near, pattern_pairs_far;

static unsigned items(const struct shape *shape)
{
    return 2 * shape->roles;
}

static unsigned steps(const struct shape *shape)
{
    (void)shape;
    return 2;
}

static size_t plan(const struct shape *shape, unsigned segment, unsigned role, unsigned step, struct action *out)
{
    const struct pattern *now = segment == 0 ? &pattern_pairs_near : &pattern_pairs_far;
    return neighbour_plan(shape, now->talks, segment * shape->roles, role, step, out);
}

static struct known known(const struct shape *shape, unsigned writer, unsigned reader)
{
    struct known near = pattern_known(&pattern_pairs_near, shape, writer, reader);
    struct known far = pattern_known(&pattern_pairs_far, shape, writer, reader);
    return (struct known){near.messages + far.messages, near.invalidations + far.invalidations};
}

const struct pattern pattern_phases = {.name = "phases",
                                       .summary = "near pairs, then far pairs; each for all the rounds",
                                       .segments = 2,
                                       .items = items,
                                       .steps = steps,
                                       .plan = plan,
                                       .known = known};
