/* The pieces of every span ever planned, for the slow path. Equal groups are kept once, so that code translated again
 * and again (traces, JIT compilers) does not make them grow.
 */
#include "groups.h"
#include "system.h"
#include <string.h>

#define MAX_GROUPS (1u << 22)
#define MAX_PIECES (1u << 26)

typedef struct {
    uint32_t first;
    uint32_t count;
    uint32_t next; /* in the bucket, index + 1 */
    uint32_t hash;
} group_t;

static group_t *groups;
static piece_t *pieces;
static uint32_t *buckets;
static uint32_t group_count, piece_count;
static int lock;
#define BUCKETS (1u << 18)

bool
groups_init(void)
{
    groups = system_map_reserve(MAX_GROUPS * sizeof(*groups));
    pieces = system_map_reserve((size_t)MAX_PIECES * sizeof(*pieces));
    buckets = system_map_reserve(BUCKETS * sizeof(*buckets));
    return groups != NULL && pieces != NULL && buckets != NULL;
}

static uint32_t
hash_of(const piece_t *piece, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t mix = (uint64_t)(uint32_t)piece[i].offset << 34 ^ (uint64_t)piece[i].bytes << 8 ^ piece[i].kind ^ piece[i].pc << 3;
        hash = (hash ^ mix) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 16);
}

uint32_t
groups_intern(const piece_t *piece, uint32_t count)
{
    uint32_t hash = hash_of(piece, count);
    system_lock(&lock);
    uint32_t *bucket = &buckets[hash % BUCKETS];
    for (uint32_t i = *bucket; i != 0; i = groups[i - 1].next) {
        group_t *group = &groups[i - 1];
        if (group->hash == hash && group->count == count &&
            memcmp(&pieces[group->first], piece, count * sizeof(*piece)) == 0) {
            system_unlock(&lock);
            return i - 1;
        }
    }
    uint32_t made = GROUPS_NONE;
    if (group_count < MAX_GROUPS && piece_count + count <= MAX_PIECES) {
        made = group_count++;
        memcpy(&pieces[piece_count], piece, count * sizeof(*piece));
        groups[made] = (group_t) { piece_count, count, *bucket, hash };
        piece_count += count;
        *bucket = made + 1;
    }
    system_unlock(&lock);
    return made;
}

const piece_t *
groups_at(uint32_t group, uint32_t *count)
{
    *count = groups[group].count;
    return &pieces[groups[group].first];
}
