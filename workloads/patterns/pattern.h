/* What a communication pattern is: a schedule of reads and writes, and the counts that follow from it.
 *
 * A run has `roles` roles, one a thread. It goes in rounds of a fixed number of steps with a barrier after each. In a
 * step every role carries out the actions of its plan, on items: pieces of the data that are whole blocks. Within one
 * step an item that some role writes is touched by no other role, so that the order within a step cannot matter.
 */
#ifndef COHABIT_PATTERN_H
#define COHABIT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
    unsigned roles;
    unsigned rounds; /* of each segment */
    unsigned groups; /* of the pipeline */
    unsigned words;  /* 8-byte words each action touches in each block */
    size_t blocks;   /* blocks in an item */
    size_t block_bytes;
};

enum kind { READ, WRITE };

/* The value read was never written: it is still 0. */
#define AGE_NEVER UINT32_MAX

struct action {
    enum kind kind;
    uint32_t item;
    uint32_t half; /* which half of each block: 0 or 1 */
    uint32_t age;  /* of a READ: how many steps ago the value was written; checked */
};

/* Counts for one block of an item, over the whole run. */
struct known {
    uint64_t messages;
    uint64_t invalidations; /* made by the first role, of the second one's copies */
};

/* A row of the table. The usual pattern gives only `talks`: each round every role writes its own item, then reads those
 * of all roles that talk to it. The others give all of `steps`, `plan` and `known`. */
struct pattern {
    const char *name;
    const char *summary;
    bool (*talks)(const struct shape *, unsigned writer, unsigned reader); /* never asked about a role and itself */
    unsigned segments;                                                     /* 0 means 1 */
    unsigned (*items)(const struct shape *);                               /* none: one a role */
    unsigned (*steps)(const struct shape *);
    /* Writes at most roles + 1 actions to `out`, gives their number. */
    size_t (*plan)(const struct shape *, unsigned segment, unsigned role, unsigned step, struct action *out);
    struct known (*known)(const struct shape *, unsigned writer, unsigned reader);
};

/* All patterns, ended by a null pointer. */
extern const struct pattern *const patterns[];

/* What holds for every pattern, whichever fields it gives. */
const struct pattern *pattern_find(const char *name);
unsigned pattern_segments(const struct pattern *);
unsigned pattern_items(const struct pattern *, const struct shape *);
unsigned pattern_steps(const struct pattern *, const struct shape *);
size_t pattern_plan(const struct pattern *, const struct shape *, unsigned segment, unsigned role, unsigned step,
                    struct action *out);
struct known pattern_known(const struct pattern *, const struct shape *, unsigned writer, unsigned reader);

/* The plan of a pattern given by `talks`, on the items from `first_item` on. */
size_t neighbour_plan(const struct shape *, bool (*talks)(const struct shape *, unsigned, unsigned),
                      uint32_t first_item, unsigned role, unsigned step, struct action *out);
/* Its counts for a writer and a reader that do talk. */
struct known neighbour_known(const struct shape *);

/* Places on grids as square as the number of roles allows; x runs fastest. */
struct place {
    unsigned x, y, z;
};
struct place grid_2d(unsigned roles);                    /* its extent; z = 1 */
struct place grid_3d(unsigned roles);                    /* its extent */
struct place grid_place(struct place extent, unsigned role);

#endif
