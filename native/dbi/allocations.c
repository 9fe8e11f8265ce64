/* The table of live allocations (allocations.h). Compiled without vector registers: objects are looked up from the slow
 * path.
 *
 * Entries are sorted by their length into levels, each level four times as long as the one below, and hang in buckets
 * by level and by where they start in units of the level's length. So whoever holds an address starts in the same unit
 * or the one before, at every level, and no bucket has many.
 */
#include "allocations.h"
#include "system.h"

#define MAX_ENTRIES (1u << 22)
#define BUCKETS (1u << 18)
/* log2 of the length of the lowest level. */
#define LOWEST 8u
#define LEVELS 20u

typedef struct {
    uint64_t start;
    uint64_t bytes;
    uint32_t next; /* index + 1, in the bucket or among the free ones */
    uint32_t stack : 30;
    uint32_t kind : 2;
    uint32_t before, behind; /* index + 1, among the mappings */
} entry_t;

static entry_t *entries;
static uint32_t *buckets; /* index + 1 */
static uint32_t of_level[LEVELS];
static uint32_t made, first_free, first_mapping; /* the latter two: index + 1 */
static frames_t *stacks;
static uint32_t *stack_slots; /* index + 1 by hash: open addressing */
static uint32_t stack_count;
static uint64_t version;
static int lock;

bool
allocations_init(void)
{
    entries = system_map_reserve((size_t)MAX_ENTRIES * sizeof(*entries));
    buckets = system_map_reserve(BUCKETS * sizeof(*buckets));
    stacks = system_map_reserve(ALLOCATION_STACKS * sizeof(*stacks));
    stack_slots = system_map_reserve(2 * ALLOCATION_STACKS * sizeof(*stack_slots));
    return entries != NULL && buckets != NULL && stacks != NULL && stack_slots != NULL;
}

static bool
same_stack(const frames_t *a, const frames_t *b)
{
    uint32_t i = 0;
    while (i < COHABIT_HOT_STACK && a->frames[i] == b->frames[i])
        i++;
    return i == COHABIT_HOT_STACK;
}

/* The number of a call stack; equal ones have one number. Stack 0 is empty and stands for those that found no room. */
static uint32_t
intern(const frames_t *stack)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < COHABIT_HOT_STACK; i++)
        hash = (hash ^ stack->frames[i]) * 0x9e3779b97f4a7c15ull;
    uint32_t slot = (uint32_t)(hash >> 40) % (2 * ALLOCATION_STACKS);
    for (; stack_slots[slot] != 0; slot = (slot + 1) % (2 * ALLOCATION_STACKS)) {
        if (same_stack(&stacks[stack_slots[slot] - 1], stack))
            return stack_slots[slot] - 1;
    }
    if (stack_count + 1 == ALLOCATION_STACKS)
        return 0;
    uint32_t number = ++stack_count;
    for (uint32_t i = 0; i < COHABIT_HOT_STACK; i++)
        stacks[number].frames[i] = stack->frames[i];
    stack_slots[slot] = number + 1;
    return number;
}

static uint32_t
level_of(uint64_t bytes)
{
    uint32_t level = 0;
    while (level < LEVELS - 1 && bytes > 1ull << (LOWEST + 2 * level))
        level++;
    return level;
}

static uint64_t
unit_of(uint32_t level, uint64_t address)
{
    return address >> (LOWEST + 2 * level);
}

static uint32_t *
bucket_of(uint32_t level, uint64_t unit)
{
    return &buckets[(uint32_t)((unit * LEVELS + level) * 0x9e3779b97f4a7c15ull >> 40) % BUCKETS];
}

static void
set_behind(uint32_t before, uint32_t behind)
{
    if (before == 0)
        first_mapping = behind;
    else
        entries[before - 1].behind = behind;
    if (behind != 0)
        entries[behind - 1].before = before;
}

static void
unlink_entry(uint32_t level, uint32_t *link)
{
    uint32_t index = *link - 1;
    entry_t *entry = &entries[index];
    *link = entry->next;
    if (entry->kind == COHABIT_OBJECT_MAPPING)
        set_behind(entry->before, entry->behind);
    entry->next = first_free;
    first_free = index + 1;
    of_level[level]--;
}

/* The link to the entry of this kind that starts there; NULL where there is none. */
static uint32_t *
find_start(uint64_t start, uint32_t kind, uint32_t *level)
{
    for (*level = 0; *level < LEVELS; ++*level) {
        if (of_level[*level] == 0)
            continue;
        for (uint32_t *link = bucket_of(*level, unit_of(*level, start)); *link != 0; link = &entries[*link - 1].next) {
            if (entries[*link - 1].start == start && entries[*link - 1].kind == kind)
                return link;
        }
    }
    return NULL;
}

static bool
remove_locked(uint64_t start, uint32_t kind)
{
    uint32_t level;
    uint32_t *link = find_start(start, kind, &level);
    if (link != NULL)
        unlink_entry(level, link);
    return link != NULL;
}

static void
add_locked(uint64_t start, uint64_t bytes, uint32_t kind, uint32_t stack)
{
    uint32_t index = MAX_ENTRIES, level = level_of(bytes);
    if (first_free != 0) {
        index = first_free - 1;
        first_free = entries[index].next;
    } else if (made < MAX_ENTRIES) {
        index = made++;
    }
    if (index == MAX_ENTRIES)
        return;
    uint32_t *bucket = bucket_of(level, unit_of(level, start));
    entries[index] = (entry_t) { start, bytes, *bucket, stack, kind, 0, 0 };
    *bucket = index + 1;
    of_level[level]++;
    if (kind == COHABIT_OBJECT_MAPPING) {
        set_behind(index + 1, first_mapping);
        set_behind(0, index + 1);
    }
}

static void
changed(void)
{
    __atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
}

void
allocations_fork(void)
{
    lock = 0;
    changed();
}

void
allocations_add(uint64_t start, uint64_t bytes, uint32_t kind, const frames_t *stack)
{
    system_lock(&lock);
    remove_locked(start, kind); /* where its end was not seen */
    add_locked(start, bytes, kind, intern(stack));
    changed();
    system_unlock(&lock);
}

bool
allocations_remove(uint64_t start)
{
    system_lock(&lock);
    bool removed = remove_locked(start, COHABIT_OBJECT_HEAP);
    changed();
    system_unlock(&lock);
    return removed;
}

/* What lies outside the range of a mapping that lies in it in part is a mapping still. */
static void
cut(const entry_t *whole, uint64_t start, uint64_t end)
{
    entry_t old = *whole;
    uint64_t old_end = old.start + old.bytes;
    remove_locked(old.start, COHABIT_OBJECT_MAPPING);
    if (old.start < start)
        add_locked(old.start, start - old.start, COHABIT_OBJECT_MAPPING, old.stack);
    if (end < old_end)
        add_locked(end, old_end - end, COHABIT_OBJECT_MAPPING, old.stack);
}

void
allocations_unmapped(uint64_t start, uint64_t bytes)
{
    uint64_t end = start + bytes;
    system_lock(&lock);
    for (uint32_t at = first_mapping; at != 0;) {
        const entry_t *entry = &entries[at - 1];
        at = entry->behind;
        if (entry->start < end && start < entry->start + entry->bytes)
            cut(entry, start, end);
    }
    changed();
    system_unlock(&lock);
}

uint64_t
allocations_version(void)
{
    return __atomic_load_n(&version, __ATOMIC_ACQUIRE);
}

/* The smaller of `best` and the smallest allocation in a bucket that holds the address; index + 1. */
static uint32_t
search(uint32_t bucket, uint64_t address, uint32_t best)
{
    for (uint32_t i = bucket; i != 0; i = entries[i - 1].next) {
        const entry_t *entry = &entries[i - 1];
        if (address - entry->start < entry->bytes && (best == 0 || entry->bytes < entries[best - 1].bytes))
            best = i;
    }
    return best;
}

bool
allocations_find(uint64_t address, allocation_t *found)
{
    uint32_t best = 0;
    system_lock(&lock);
    for (uint32_t level = 0; level < LEVELS && best == 0; level++) {
        if (of_level[level] == 0)
            continue;
        uint64_t unit = unit_of(level, address);
        best = search(*bucket_of(level, unit), address, 0);
        best = search(*bucket_of(level, unit - 1), address, best);
    }
    if (best != 0) {
        const entry_t *entry = &entries[best - 1];
        *found = (allocation_t) { entry->start, entry->bytes, entry->kind, entry->stack };
    }
    system_unlock(&lock);
    return best != 0;
}

const frames_t *
allocations_stack(uint32_t number)
{
    return &stacks[number];
}
