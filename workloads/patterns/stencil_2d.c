/* Five-point stencil on a grid with edges. */
#include "pattern.h"

#include <stdlib.h>

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    struct place extent = grid_2d(shape->roles);
    struct place a = grid_place(extent, writer), b = grid_place(extent, reader);
    return abs((int)a.x - (int)b.x) + abs((int)a.y - (int)b.y) == 1;
}

const struct pattern pattern_stencil_2d = {.name = "stencil-2d", .summary = "five-point stencil on a 2D grid", .talks = talks};
