/* Grids for the stencils. */
#include "pattern.h"

/* The largest divisor of `number` whose `power`-th power is at most `number`. */
static unsigned divisor(unsigned number, unsigned power)
{
    unsigned best = 1;
    for (uint64_t d = 1; (power == 2 ? d * d : d * d * d) <= number; d++)
        if (number % d == 0)
            best = (unsigned)d;
    return best;
}

struct place grid_2d(unsigned roles)
{
    unsigned y = divisor(roles, 2);
    return (struct place){roles / y, y, 1};
}

struct place grid_3d(unsigned roles)
{
    unsigned z = divisor(roles, 3);
    struct place extent = grid_2d(roles / z);
    extent.z = z;
    return extent;
}

struct place grid_place(struct place extent, unsigned role)
{
    return (struct place){role % extent.x, role / extent.x % extent.y, role / extent.x / extent.y};
}
