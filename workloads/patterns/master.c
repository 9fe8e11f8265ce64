/* One writes, all others read. */
#include "pattern.h"

static bool talks(const struct shape *shape, unsigned writer, unsigned reader)
{
    (void)shape, (void)reader;
    return writer == 0;
}

const struct pattern pattern_master = {.name = "master", .summary = "role 0 writes, all others read", .talks = talks};
