/* What the patterns have in common. */
#include "pattern.h"

#include <string.h>

const struct pattern *pattern_find(const char *name)
{
    for (const struct pattern *const *row = patterns; *row; row++)
        if (strcmp((*row)->name, name) == 0)
            return *row;
    return NULL;
}

unsigned pattern_segments(const struct pattern *pattern)
{
    return pattern->segments ? pattern->segments : 1;
}

unsigned pattern_items(const struct pattern *pattern, const struct shape *shape)
{
    return pattern->items ? pattern->items(shape) : shape->roles;
}

unsigned pattern_steps(const struct pattern *pattern, const struct shape *shape)
{
    return pattern->steps ? pattern->steps(shape) : 2;
}

size_t pattern_plan(const struct pattern *pattern, const struct shape *shape, unsigned segment, unsigned role,
                    unsigned step, struct action *out)
{
    if (pattern->plan)
        return pattern->plan(shape, segment, role, step, out);
    return neighbour_plan(shape, pattern->talks, 0, role, step, out);
}

struct known pattern_known(const struct pattern *pattern, const struct shape *shape, unsigned writer, unsigned reader)
{
    if (writer == reader)
        return (struct known){0, 0};
    if (pattern->known)
        return pattern->known(shape, writer, reader);
    return pattern->talks(shape, writer, reader) ? neighbour_known(shape) : (struct known){0, 0};
}

size_t neighbour_plan(const struct shape *shape, bool (*talks)(const struct shape *, unsigned, unsigned),
                      uint32_t first_item, unsigned role, unsigned step, struct action *out)
{
    size_t count = 0;
    for (unsigned other = 0; other < shape->roles; other++) {
        if (other == role)
            continue;
        if (step == 1 && talks(shape, other, role))
            out[count++] = (struct action){READ, first_item + other, 0, 1};
        /* Who talks to nobody does not write. */
        if (step == 0 && count == 0 && talks(shape, role, other))
            out[count++] = (struct action){WRITE, first_item + role, 0, 0};
    }
    return count;
}

struct known neighbour_known(const struct shape *shape)
{
    /* One value a round, read once; all copies but the last round's are overwritten. */
    return (struct known){shape->rounds, shape->rounds - 1};
}
