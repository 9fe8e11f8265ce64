/* Neighbours on a ring that never touch one another's bytes, yet share blocks: the left one has the first half of each
 * block between them, the right one the second half. */
#include "pattern.h"

static unsigned steps(const struct shape *shape)
{
    (void)shape;
    return 5;
}

static size_t plan(const struct shape *shape, unsigned segment, unsigned role, unsigned step, struct action *out)
{
    (void)segment;
    uint32_t right_of = (role + shape->roles - 1) % shape->roles; /* the item this role is at the right of */
    switch (step) {
    case 0: *out = (struct action){WRITE, role, 0, 0}; return 1;
    case 1: *out = (struct action){READ, right_of, 1, 2}; return 1; /* its own value of the round before */
    case 2: *out = (struct action){WRITE, right_of, 1, 0}; return 1;
    case 3: *out = (struct action){READ, role, 0, 3}; return 1;
    default: *out = (struct action){WRITE, right_of, 1, 0}; return 1; /* the left role's copy goes stale */
    }
}

static struct known known(const struct shape *shape, unsigned writer, unsigned reader)
{
    struct known sum = {0, 0};
    if ((writer + 1) % shape->roles == reader) /* steps 0 and 1 */
        sum.messages += shape->rounds;
    if ((reader + 1) % shape->roles == writer) { /* steps 2 and 3, then 4 */
        sum.messages += shape->rounds;
        sum.invalidations += shape->rounds;
    }
    return sum;
}

const struct pattern pattern_false_sharing = {.name = "false-sharing",
                                              .summary = "neighbours on a ring use different bytes of the same blocks",
                                              .steps = steps,
                                              .plan = plan,
                                              .known = known};
