/* Seven-point stencil on a grid with faces. */
#include "pattern.h"

#include <stdlib.h>

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    struct place extent = grid_3d(shape->roles);
    struct place a = grid_place(extent, writer), b = grid_place(extent, reader);
    return abs((int)a.x - (int)b.x) + abs((int)a.y - (int)b.y) + abs((int)a.z - (int)b.z) == 1;
}

const struct pattern pattern_stencil_3d = {.name = "stencil-3d", .summary = "seven-point stencil on a 3D grid", .talks = talks};
