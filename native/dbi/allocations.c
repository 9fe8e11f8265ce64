/* The table of live allocations (allocations.h). Compiled without vector registers: hot blocks are described from the
 * slow path.
 *
 * Entries hang in buckets by the 4 KiB page they start in. So who holds a block is found by looking back page by page,
 * as far as a small allocation may reach; large ones are few and are looked through one by one.
 */
#include "allocations.h"
#include "system.h"

#define MAX_ENTRIES (1u << 22)
#define BUCKETS (1u << 18)
#define MAX_STACKS (1u << 16)
#define PAGE_SHIFT 12
/* Allocations of more pages than this hang in a bucket of their own. */
#define SMALL_PAGES 8u

typedef struct {
    uint64_t start;
    uint64_t bytes;
    uint32_t next; /* index + 1 */
    uint32_t stack : 30;
    uint32_t kind : 2;
} entry_t;

static entry_t *entries;
static uint32_t *buckets; /* index + 1; bucket BUCKETS holds the large ones */
static uint32_t made, first_free;
static frames_t *stacks;
static uint32_t *stack_slots; /* index + 1 by hash: open addressing */
static uint32_t stack_count;
static int lock;

bool
allocations_init(void)
{
    entries = system_map_reserve((size_t)MAX_ENTRIES * sizeof(*entries));
    buckets = system_map_reserve((BUCKETS + 1) * sizeof(*buckets));
    stacks = system_map_reserve(MAX_STACKS * sizeof(*stacks));
    stack_slots = system_map_reserve(2 * MAX_STACKS * sizeof(*stack_slots));
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
    uint32_t slot = (uint32_t)(hash >> 40) % (2 * MAX_STACKS);
    for (; stack_slots[slot] != 0; slot = (slot + 1) % (2 * MAX_STACKS)) {
        if (same_stack(&stacks[stack_slots[slot] - 1], stack))
            return stack_slots[slot] - 1;
    }
    if (stack_count + 1 == MAX_STACKS)
        return 0;
    uint32_t number = ++stack_count;
    for (uint32_t i = 0; i < COHABIT_HOT_STACK; i++)
        stacks[number].frames[i] = stack->frames[i];
    stack_slots[slot] = number + 1;
    return number;
}

static uint32_t *
bucket_of(uint64_t start, uint64_t bytes)
{
    if (bytes > SMALL_PAGES << PAGE_SHIFT)
        return &buckets[BUCKETS];
    return &buckets[(uint32_t)((start >> PAGE_SHIFT) * 0x9e3779b97f4a7c15ull >> 40) % BUCKETS];
}

static void
unlink_entry(uint32_t *link)
{
    uint32_t index = *link - 1;
    *link = entries[index].next;
    entries[index].next = first_free;
    first_free = index + 1;
}

static bool
remove_locked(uint64_t start, uint32_t kind)
{
    uint32_t *places[2] = { bucket_of(start, 0), &buckets[BUCKETS] };
    for (int i = 0; i < 2; i++) {
        for (uint32_t *link = places[i]; *link != 0; link = &entries[*link - 1].next) {
            if (entries[*link - 1].start == start && entries[*link - 1].kind == kind) {
                unlink_entry(link);
                return true;
            }
        }
    }
    return false;
}

void
allocations_add(uint64_t start, uint64_t bytes, uint32_t kind, const frames_t *stack)
{
    system_lock(&lock);
    remove_locked(start, kind); /* where its end was not seen */
    uint32_t index = MAX_ENTRIES;
    if (first_free != 0) {
        index = first_free - 1;
        first_free = entries[index].next;
    } else if (made < MAX_ENTRIES) {
        index = made++;
    }
    if (index < MAX_ENTRIES) {
        uint32_t *bucket = bucket_of(start, bytes);
        entries[index] = (entry_t) { start, bytes, *bucket, intern(stack), kind };
        *bucket = index + 1;
    }
    system_unlock(&lock);
}

bool
allocations_remove(uint64_t start)
{
    system_lock(&lock);
    bool removed = remove_locked(start, COHABIT_ALLOCATION_HEAP);
    system_unlock(&lock);
    return removed;
}

void
allocations_unmapped(uint64_t start, uint64_t bytes)
{
    system_lock(&lock);
    for (uint32_t *link = &buckets[BUCKETS]; *link != 0;) {
        const entry_t *entry = &entries[*link - 1];
        if (entry->kind == COHABIT_ALLOCATION_MAPPING && entry->start >= start && entry->start - start < bytes)
            unlink_entry(link);
        else
            link = &entries[*link - 1].next;
    }
    system_unlock(&lock);
}

/* The smallest allocation in a bucket that holds the address. */
static const entry_t *
search(uint32_t bucket, uint64_t address, const entry_t *best)
{
    for (uint32_t i = bucket; i != 0; i = entries[i - 1].next) {
        const entry_t *entry = &entries[i - 1];
        if (address - entry->start < entry->bytes && (best == NULL || entry->bytes < best->bytes))
            best = entry;
    }
    return best;
}

void
allocations_describe(cohabit_hot_t *hot, uint64_t address)
{
    system_lock(&lock);
    const entry_t *found = search(buckets[BUCKETS], address, NULL);
    for (uint32_t back = 0; back <= SMALL_PAGES; back++)
        found = search(*bucket_of(address - ((uint64_t)back << PAGE_SHIFT), 0), address, found);
    if (found != NULL) {
        hot->allocation = found->start;
        hot->allocation_bytes = found->bytes;
        hot->allocation_kind = found->kind;
        for (uint32_t i = 0; i < COHABIT_HOT_STACK; i++)
            hot->allocation_stack[i] = stacks[found->stack].frames[i];
    }
    system_unlock(&lock);
}
