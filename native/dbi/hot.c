/* Finding hot blocks (hot.h). Compiled without vector registers.
 *
 * One message in 32 is looked at, on average: a fixed step would keep time with the program's loops. Candidates live
 * in a table with one place for each hash of a block, where another block's sample takes one away and replaces what
 * has none left (the majority vote of Boyer and Moore, a place at a time; see Misra and Gries for many). A candidate
 * with enough samples gets its record and is followed; the more records there are, the more it takes.
 */
#include "hot.h"
#include "allocations.h"
#include "follow.h"
#include "shadow.h"
#include "system.h"

#define PERIOD 32u
#define CANDIDATES (1u << 16)
#define MAX_RECORDS 4096u
#define RECORD_SLOTS (4u * MAX_RECORDS)
/* Samples it takes while there are few records, and after how many more records it takes twice as many. */
#define FIRST_THRESHOLD 4u
#define RECORDS_PER_DOUBLING 512u

#define SAMPLE_BITS 16
#define SAMPLE_MASK ((1u << SAMPLE_BITS) - 1)

static uint64_t *candidates; /* block << SAMPLE_BITS | samples */
/* Records by block: open addressing. `record` is an offset in the part, 0: the slot is free. */
static struct {
    uint64_t block;
    uint64_t record;
} *records;
static uint32_t record_count;
static int lock;

bool
hot_init(void)
{
    candidates = system_map_reserve(CANDIDATES * sizeof(*candidates));
    records = system_map_reserve(RECORD_SLOTS * sizeof(*records));
    if (candidates == NULL || records == NULL || !allocations_init() || !follow_init())
        return false;
    part()->flags |= COHABIT_FLAG_HOT;
    return true;
}

void
hot_fork(void)
{
    system_discard(candidates, CANDIDATES * sizeof(*candidates));
    system_discard(records, RECORD_SLOTS * sizeof(*records));
    record_count = 0;
    lock = 0;
    part()->flags |= COHABIT_FLAG_HOT;
}

static uint32_t
hash_of(uint64_t block)
{
    return (uint32_t)(block * 0x9e3779b97f4a7c15ull >> 32);
}

static uint32_t
slot_of(uint64_t block)
{
    uint32_t slot = hash_of(block) % RECORD_SLOTS;
    while (__atomic_load_n(&records[slot].record, __ATOMIC_ACQUIRE) != 0 && records[slot].block != block)
        slot = (slot + 1) % RECORD_SLOTS;
    return slot;
}

/* The block's samples so far, this one with it. Tasks that come at once may lose one: they are samples. */
static uint32_t
add_to_candidates(uint64_t block)
{
    uint64_t *place = &candidates[hash_of(block) % CANDIDATES];
    uint64_t found = __atomic_load_n(place, __ATOMIC_RELAXED);
    uint32_t samples = (uint32_t)found & SAMPLE_MASK;
    if (found >> SAMPLE_BITS == block && samples < SAMPLE_MASK)
        found++;
    else if (samples > 1)
        found--;
    else
        found = block << SAMPLE_BITS | 1;
    __atomic_store_n(place, found, __ATOMIC_RELAXED);
    return found >> SAMPLE_BITS == block ? (uint32_t)found & SAMPLE_MASK : 0;
}

static cohabit_hot_t *
new_record(uint64_t block, uint64_t address, uint32_t samples, uint64_t *at)
{
    *at = part_alloc(sizeof(cohabit_hot_t));
    if (*at == 0)
        return NULL;
    cohabit_hot_t *hot = part_at(*at);
    hot->block = block << shadow_block_shift;
    hot->messages = (uint64_t)samples * PERIOD;
    allocations_describe(hot, address);
    hot->next = part()->hot;
    __atomic_store_n(&part()->hot, *at, __ATOMIC_RELEASE);
    return hot;
}

static void
promote(uint64_t block, uint64_t address, uint32_t samples)
{
    system_lock(&lock);
    uint32_t slot = slot_of(block);
    if (records[slot].record == 0 && record_count < MAX_RECORDS) {
        uint64_t at;
        cohabit_hot_t *hot = new_record(block, address, samples, &at);
        if (hot != NULL) {
            records[slot].block = block;
            __atomic_store_n(&records[slot].record, at, __ATOMIC_RELEASE);
            record_count++;
            follow_begin(block, hot);
        }
    }
    system_unlock(&lock);
}

static uint32_t
next_step(task_t *me)
{
    if (me->random == 0)
        me->random = me->id + 1;
    me->random ^= me->random << 13; /* Marsaglia's xorshift */
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return (uint32_t)(me->random >> 32) % (2 * PERIOD - 1);
}

void
hot_take_sample(task_t *me, uint64_t block, uint64_t address)
{
    me->until_sample = next_step(me);
    uint32_t slot = slot_of(block);
    if (records[slot].record != 0) {
        cohabit_hot_t *hot = part_at(records[slot].record);
        __atomic_add_fetch(&hot->messages, PERIOD, __ATOMIC_RELAXED);
        return;
    }
    uint32_t samples = add_to_candidates(block);
    if (samples >= FIRST_THRESHOLD << record_count / RECORDS_PER_DOUBLING)
        promote(block, address, samples);
}
