/* The table of patterns: a new one is a file and a name here. */
#include "pattern.h"

#define PATTERNS(ROW)                                                                                                  \
    ROW(ring) ROW(chain) ROW(stencil_2d) ROW(stencil_3d) ROW(torus) ROW(pairs_near) ROW(pairs_far) ROW(all_to_all)     \
    ROW(master) ROW(gather) ROW(pipeline) ROW(butterfly) ROW(token) ROW(false_sharing) ROW(read_only) ROW(phases)

#define DECLARE(name) extern const struct pattern pattern_##name;
#define POINT(name) &pattern_##name,

PATTERNS(DECLARE)

const struct pattern *const patterns[] = {PATTERNS(POINT) NULL};
