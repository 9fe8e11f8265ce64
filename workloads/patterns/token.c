/* One item handed round the ring: in step k role k reads what the role before it wrote, then writes it. */
#include "pattern.h"

static unsigned items(const struct shape *shape)
{
    (void)shape;
    return 1;
}

static unsigned steps(const struct shape *shape)
{
    return shape->roles;
}

static size_t plan(const struct shape *shape, unsigned segment, unsigned role, unsigned step, struct action *out)
{
    (void)shape, (void)segment;
    if (role != step)
        return 0;
    out[0] = (struct action){READ, 0, 0, 1};
    out[1] = (struct action){WRITE, 0, 0, 0};
    return 2;
}

static struct known known(const struct shape *shape, unsigned writer, unsigned reader)
{
    if ((writer + 1) % shape->roles != reader)
        return (struct known){0, 0};
    /* The very first read finds what nobody wrote. Who writes holds the only copy: nothing is invalidated. */
    return (struct known){shape->rounds - (reader == 0), 0};
}

const struct pattern pattern_token = {.name = "token",
                                      .summary = "one item handed round a ring",
                                      .items = items,
                                      .steps = steps,
                                      .plan = plan,
                                      .known = known};
