/* Five-point stencil on a grid whose edges meet. */
#include "pattern.h"

#include <stdlib.h>

/* Distance on a cycle of `extent` places. */
static unsigned around(unsigned a, unsigned b, unsigned extent)
{
    unsigned apart = (unsigned)abs((int)a - (int)b);
    return apart < extent - apart ? apart : extent - apart;
}

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    struct place extent = grid_2d(shape->roles);
    struct place a = grid_place(extent, writer), b = grid_place(extent, reader);
    return around(a.x, b.x, extent.x) + around(a.y, b.y, extent.y) == 1;
}

const struct pattern pattern_torus = {.name = "torus", .summary = "five-point stencil on a 2D torus", .talks = talks};
