/* Sampling messages (hot.h). Compiled without vector registers.
 *
 * Each task looks at its first messages one by one, so that short runs are known too, and at one in
 * COHABIT_HOT_INTERVAL on average later: a fixed step would keep time with the program's loops. Each message looked at
 * stands for as many as the interval at which it was taken, and is counted to its data object.
 *
 * Candidates for hot blocks live in a table with one place for each hash of a block, where another block's sample takes
 * away and replaces what has none left (the majority vote of Boyer and Moore, a place at a time; see Misra and Gries
 * for many). A candidate with a certain share of all messages so far gets a record and is followed. So do some blocks
 * of each object, however its messages are spread.
 */
#include "hot.h"
#include "follow.h"
#include "objects.h"
#include "shadow.h"
#include "system.h"
#include "unwind.h"

#define INTERVAL COHABIT_HOT_INTERVAL
/* A task's samples at intervals of 1, and of 8 (with those before). */
#define DENSE_SAMPLES 256u
#define MIDDLE_SAMPLES 512u
#define CANDIDATES (1u << 16)
#define MAX_RECORDS 4096u
#define RECORD_SLOTS (4u * MAX_RECORDS)
/* What makes a block hot: so many samples at least, and one of so many messages. */
#define HOT_SAMPLES 4u
#define HOT_SHARE 1024u
/* Of an object with so many messages some blocks are followed, and a few more each time these double. */
#define OBJECT_MESSAGES 8u
#define OBJECT_BLOCKS 4u
/* A block is followed again each time its messages have grown by this factor, from so many on. */
#define AGAIN_FACTOR 4u
#define AGAIN_MESSAGES 256u

#define SAMPLE_BITS 16
#define SAMPLE_MASK ((1u << SAMPLE_BITS) - 1)

static uint64_t *candidates; /* block << SAMPLE_BITS | messages that samples stand for */
/* Records by block: open addressing. `record` is an offset in the part, 0: the slot is free. */
static struct {
    uint64_t block;
    uint64_t record;
    uint64_t again_at; /* messages from which on it is followed again */
} *records;
static uint32_t record_count;
static int lock;

bool
hot_init(void)
{
    candidates = system_map_reserve(CANDIDATES * sizeof(*candidates));
    records = system_map_reserve(RECORD_SLOTS * sizeof(*records));
    if (candidates == NULL || records == NULL || !objects_init() || !follow_init())
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
    objects_fork();
    unwind_fork();
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

/* The block's messages so far, these with them. Tasks that come at once may lose some: they are samples. */
static uint32_t
add_to_candidates(uint64_t block, uint32_t messages)
{
    uint64_t *place = &candidates[hash_of(block) % CANDIDATES];
    uint64_t found = __atomic_load_n(place, __ATOMIC_RELAXED);
    uint32_t before = (uint32_t)found & SAMPLE_MASK;
    if (found >> SAMPLE_BITS == block)
        found += before + messages > SAMPLE_MASK ? 0 : messages;
    else if (before > messages)
        found -= messages;
    else
        found = block << SAMPLE_BITS | messages;
    __atomic_store_n(place, found, __ATOMIC_RELAXED);
    return found >> SAMPLE_BITS == block ? (uint32_t)found & SAMPLE_MASK : 0;
}

/* Another read at an address: the one that most began at stays. */
static void
vote(cohabit_hot_t *hot, uint64_t address)
{
    if (hot->address == address) {
        hot->votes++;
    } else if (hot->votes > 0) {
        hot->votes--;
    } else {
        hot->address = address;
        hot->votes = 1;
    }
}

static cohabit_hot_t *
new_record(uint64_t block, uint64_t address, uint32_t messages, const place_t *place, uint64_t *at)
{
    *at = part_alloc(sizeof(cohabit_hot_t));
    if (*at == 0)
        return NULL;
    cohabit_hot_t *hot = part_at(*at);
    hot->block = block << shadow_block_shift;
    hot->messages = messages;
    hot->address = address;
    hot->votes = 1;
    hot->object = place->record;
    hot->allocation = place->allocation;
    hot->allocation_bytes = place->allocation_bytes;
    hot->next = part()->hot;
    __atomic_store_n(&part()->hot, *at, __ATOMIC_RELEASE);
    return hot;
}

static void
promote(uint64_t block, uint64_t address, uint32_t messages, const place_t *place)
{
    system_lock(&lock);
    uint32_t slot = slot_of(block);
    if (records[slot].record == 0 && record_count < MAX_RECORDS) {
        uint64_t at;
        cohabit_hot_t *hot = new_record(block, address, messages, place, &at);
        if (hot != NULL) {
            records[slot].block = block;
            records[slot].again_at = AGAIN_MESSAGES;
            __atomic_store_n(&records[slot].record, at, __ATOMIC_RELEASE);
            record_count++;
            if (place->record != 0)
                ((cohabit_object_t *)part_at(place->record))->blocks++;
            follow_begin(block, hot);
        }
    }
    system_unlock(&lock);
}

/* The next message to look at, counted from this one; what the last one stands for. */
static uint32_t
step(task_t *me)
{
    uint32_t stands_for = me->interval == 0 ? 1 : me->interval;
    me->samples += me->samples < MIDDLE_SAMPLES;
    me->interval = me->samples < DENSE_SAMPLES ? 1 : me->samples < MIDDLE_SAMPLES ? INTERVAL / 4 : INTERVAL;
    if (me->random == 0)
        me->random = me->id + 1;
    me->random ^= me->random << 13; /* Marsaglia's xorshift */
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    me->until_sample = (uint32_t)(me->random >> 32) % (2 * me->interval - 1);
    return stands_for;
}

/* Whether so few blocks of the object have been followed that one more should be. */
static bool
wants_block(const cohabit_object_t *object)
{
    uint64_t messages = __atomic_load_n(&object->messages, __ATOMIC_RELAXED);
    if (messages < OBJECT_MESSAGES)
        return false;
    uint32_t doublings = 63 - (uint32_t)__builtin_clzll(messages / OBJECT_MESSAGES);
    return object->blocks < OBJECT_BLOCKS + 2 * doublings;
}

static void
again(uint64_t block, uint32_t slot, cohabit_hot_t *hot)
{
    uint64_t at = __atomic_load_n(&records[slot].again_at, __ATOMIC_RELAXED);
    if (hot->messages < at ||
        !__atomic_compare_exchange_n(&records[slot].again_at, &at, AGAIN_FACTOR * at, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    follow_begin(block, hot);
}

/* Counts what a message stands for, altogether and to its object. */
static uint64_t
count(uint64_t object_at, uint32_t messages)
{
    __atomic_add_fetch(&part()->hot_looked_at, 1, __ATOMIC_RELAXED);
    if (object_at != 0) {
        cohabit_object_t *object = part_at(object_at);
        __atomic_add_fetch(&object->looked_at, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&object->messages, messages, __ATOMIC_RELAXED);
    }
    return __atomic_add_fetch(&part()->hot_messages, messages, __ATOMIC_RELAXED);
}

void
hot_take_sample(task_t *me, uint64_t block, uint64_t address, bool may_follow)
{
    uint32_t messages = step(me);
    place_t place = objects_find(me, address);
    uint64_t all = count(place.record, messages);
    if (!may_follow)
        return;
    uint32_t slot = slot_of(block);
    if (records[slot].record != 0) {
        cohabit_hot_t *hot = part_at(records[slot].record);
        __atomic_add_fetch(&hot->messages, messages, __ATOMIC_RELAXED);
        vote(hot, address);
        again(block, slot, hot);
        return;
    }
    uint32_t of_block = add_to_candidates(block, messages);
    bool is_hot = of_block >= HOT_SAMPLES * messages && (uint64_t)of_block * HOT_SHARE >= all;
    if (is_hot || (place.record != 0 && wants_block(part_at(place.record))))
        promote(block, address, of_block == 0 ? messages : of_block, &place);
}
