/* Reader sets (reader_sets.h).
 *
 * A record is a short list of task numbers, or a bit set once the list is full. Records of one class lie in one range
 * of address space and are never unmapped, so that a stale index is harmless to read: whoever looks without the lock
 * checks afterwards that the word still names the same record of the same generation.
 */
#include "reader_sets.h"
#include "system.h"

#define WRITER_SHIFT 50
#define WRITER_RECORD 0x3fffull
#define LAYOUT_DIRECT (1ull << 48)
#define LAYOUT_GROUP (1ull << 49)
#define LAYOUT_BITS (LAYOUT_DIRECT | LAYOUT_GROUP)
#define DIRECT_TASKS 48u
#define GROUP_TASKS 32u
#define GROUPS 256u
#define GROUP_RAILS (0xffffull << 32)

#define RECORD_LOCK (1ull << 47)
#define GENERATION_SHIFT 28
#define GENERATION_BITS 19
#define CLASS_SHIFT 24
#define NUMBER_MASK ((1u << CLASS_SHIFT) - 1)

/* Classes 0 and 1 are lists, the others bit sets of 64 << (class - 2) tasks. */
#define LISTS 2u
#define CLASSES 14u
static const uint32_t list_capacity[LISTS] = { 4, 12 };
/* The class that says "followed": the number is then an index in follow.c. */
#define CLASS_FOLLOWED 15u

typedef struct {
    uint32_t writer;
    uint32_t generation;
    uint32_t count;     /* of a list */
    uint32_t next_free; /* number + 1 */
    union {
        uint32_t list[12];
        uint64_t bits[1];
    };
} record_t;

static struct {
    char *base;
    uint32_t size;
    uint32_t made;
    uint32_t free; /* number + 1 of the first free record */
    int lock;
} classes[CLASSES];
static uint32_t records_made;

static inline uint32_t
capacity_of(uint32_t class)
{
    return class < LISTS ? list_capacity[class] : 64u << (class - LISTS);
}

bool
reader_sets_init(void)
{
    for (uint32_t class = 0; class < CLASSES; class++) {
        uint32_t payload = class < LISTS ? list_capacity[class] * 4 : capacity_of(class) / 8;
        classes[class].size = (uint32_t)offsetof(record_t, list) + payload;
        classes[class].base = system_map_reserve((uint64_t)classes[class].size << CLASS_SHIFT);
        if (classes[class].base == NULL)
            return false;
    }
    return true;
}

bool
reader_sets_used(void)
{
    return __atomic_load_n(&records_made, __ATOMIC_RELAXED) != 0;
}

void
reader_sets_reset(void)
{
    for (uint32_t class = 0; class < CLASSES; class++) {
        system_discard(classes[class].base, (uint64_t)classes[class].size << CLASS_SHIFT);
        classes[class].made = 0;
        classes[class].free = 0;
        classes[class].lock = 0;
    }
    records_made = 0;
}

word_t
word_of_reader(uint32_t task)
{
    if (task < DIRECT_TASKS)
        return LAYOUT_DIRECT | 1ull << task;
    uint32_t group = (task - DIRECT_TASKS) / GROUP_TASKS;
    if (group >= GROUPS)
        return 0;
    uint64_t rails = 0;
    for (uint32_t bit = 0; bit < 8; bit++)
        rails |= ((group >> bit & 1) != 0 ? 2ull : 1ull) << (2 * bit);
    return LAYOUT_GROUP | rails << 32 | 1ull << (task - DIRECT_TASKS) % GROUP_TASKS;
}

word_t
word_with_writer(uint32_t task)
{
    return (uint64_t)(task + 1) << WRITER_SHIFT;
}

static inline bool
is_record(word_t word)
{
    return word >> WRITER_SHIFT == WRITER_RECORD && (word & LAYOUT_BITS) == 0;
}

bool
reader_set_is_record(word_t word)
{
    return is_record(word);
}

static inline uint32_t
class_of(word_t word)
{
    return (uint32_t)(word >> CLASS_SHIFT) & 0xf;
}

static inline record_t *
record_of(uint32_t class, uint32_t number)
{
    return (record_t *)(classes[class].base + (uint64_t)number * classes[class].size);
}

static inline record_t *
record_at(word_t word)
{
    return record_of(class_of(word), (uint32_t)word & NUMBER_MASK);
}

/* A fresh record without readers; its word, or 0 when none is to be had. */
static word_t
record_new(uint32_t class, uint32_t writer)
{
    system_lock(&classes[class].lock);
    uint32_t number = classes[class].free;
    if (number != 0) {
        classes[class].free = record_of(class, --number)->next_free;
    } else if (classes[class].made <= NUMBER_MASK) {
        number = classes[class].made++;
    } else {
        system_unlock(&classes[class].lock);
        return 0;
    }
    system_unlock(&classes[class].lock);
    __atomic_store_n(&records_made, 1, __ATOMIC_RELAXED);
    record_t *record = record_of(class, number);
    uint32_t generation = (record->generation + 1) & ((1u << GENERATION_BITS) - 1);
    record->generation = generation;
    record->writer = writer;
    record->count = 0;
    for (uint32_t i = 0; class >= LISTS && i < capacity_of(class) / 64; i++)
        record->bits[i] = 0;
    return WRITER_RECORD << WRITER_SHIFT | (uint64_t)generation << GENERATION_SHIFT | class << CLASS_SHIFT | number;
}

static void
record_free(word_t word)
{
    uint32_t class = class_of(word);
    uint32_t number = (uint32_t)word & NUMBER_MASK;
    system_lock(&classes[class].lock);
    record_of(class, number)->next_free = classes[class].free;
    classes[class].free = number + 1;
    system_unlock(&classes[class].lock);
}

static bool
record_has(word_t word, uint32_t task)
{
    record_t *record = record_at(word);
    uint32_t class = class_of(word);
    if (class >= LISTS)
        return task < capacity_of(class) &&
            (__atomic_load_n(&record->bits[task / 64], __ATOMIC_ACQUIRE) >> task % 64 & 1) != 0;
    uint32_t count = __atomic_load_n(&record->count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < list_capacity[class]; i++) {
        if (record->list[i] == task)
            return true;
    }
    return false;
}

/* Adds a task; false where the record has no room for it. */
static bool
record_add(word_t word, uint32_t task)
{
    record_t *record = record_at(word);
    uint32_t class = class_of(word);
    if (class >= LISTS) {
        if (task >= capacity_of(class))
            return false;
        __atomic_or_fetch(&record->bits[task / 64], 1ull << task % 64, __ATOMIC_RELEASE);
        return true;
    }
    if (record->count == list_capacity[class])
        return false;
    record->list[record->count] = task;
    __atomic_store_n(&record->count, record->count + 1, __ATOMIC_RELEASE);
    return true;
}

static void
visit_bits(uint64_t bits, uint32_t first, uint32_t except, void (*visit)(void *, uint32_t), void *context)
{
    for (; bits != 0; bits &= bits - 1) {
        uint32_t task = first + (uint32_t)__builtin_ctzll(bits);
        if (task != except)
            visit(context, task);
    }
}

static void
visit_record(word_t word, void (*visit)(void *, uint32_t), void *context)
{
    record_t *record = record_at(word);
    uint32_t class = class_of(word);
    if (class >= LISTS) {
        for (uint32_t i = 0; i < capacity_of(class) / 64; i++)
            visit_bits(record->bits[i], 64 * i, record->writer, visit, context);
    } else {
        for (uint32_t i = 0; i < record->count; i++) {
            if (record->list[i] != record->writer)
                visit(context, record->list[i]);
        }
    }
}

static uint32_t
writer_of(word_t word)
{
    return (uint32_t)(word >> WRITER_SHIFT) - 1; /* COHABIT_NO_TASK for none */
}

void
word_visit_readers(word_t word, void (*visit)(void *, uint32_t), void *context)
{
    if (word & LAYOUT_DIRECT) {
        visit_bits(word & (LAYOUT_DIRECT - 1), 0, writer_of(word), visit, context);
    } else if (word & LAYOUT_GROUP) {
        uint32_t group = 0;
        for (uint32_t bit = 0; bit < 8; bit++)
            group |= (uint32_t)(word >> (33 + 2 * bit) & 1) << bit;
        visit_bits(word & 0xffffffffu, DIRECT_TASKS + GROUP_TASKS * group, writer_of(word), visit, context);
    }
}

uint32_t
reader_set_writer(word_t word)
{
    return is_record(word) ? record_at(word)->writer : writer_of(word);
}

bool
reader_set_busy(word_t word)
{
    return is_record(word) && (word & RECORD_LOCK) != 0;
}

word_t
word_of_followed(uint32_t index)
{
    return WRITER_RECORD << WRITER_SHIFT | (uint64_t)CLASS_FOLLOWED << CLASS_SHIFT | index;
}

bool
word_is_followed(word_t word)
{
    return is_record(word) && class_of(word) == CLASS_FOLLOWED;
}

uint32_t
followed_of(word_t word)
{
    return (uint32_t)word & NUMBER_MASK;
}

static void
add_to_record(void *word, uint32_t task)
{
    record_add(*(word_t *)word, task);
}

static void
count_one(void *count, uint32_t task)
{
    (void)task;
    ++*(uint32_t *)count;
}

static void
keep_greatest(void *greatest, uint32_t task)
{
    if (task > *(uint32_t *)greatest)
        *(uint32_t *)greatest = task;
}

void
reader_set_visit(word_t word, void (*visit)(void *, uint32_t), void *context)
{
    if (is_record(word))
        visit_record(word, visit, context);
    else
        word_visit_readers(word, visit, context);
}

/* A record with the readers of `word` and room for one more; 0 when none is to be had. */
static word_t
record_from(word_t word, uint32_t task)
{
    uint32_t count = 1, greatest = task;
    reader_set_visit(word, count_one, &count);
    uint32_t class = 0;
    if (count > list_capacity[1]) {
        reader_set_visit(word, keep_greatest, &greatest);
        for (class = LISTS; class < CLASSES - 1 && capacity_of(class) <= greatest; class ++)
            ;
    } else if (count > list_capacity[0]) {
        class = 1;
    }
    word_t made = record_new(class, reader_set_writer(word));
    if (made != 0)
        reader_set_visit(word, add_to_record, &made);
    return made;
}

static reader_result_t
add_to_locked_record(word_t *at, word_t word, uint32_t task, uint32_t *writer, reader_joins_t joins, void *context)
{
    reader_result_t result = READER_KNOWN;
    word_t now = word;
    *writer = record_at(word)->writer;
    if (*writer != task && !record_has(word, task)) {
        if (joins != NULL)
            joins(context, *writer, word);
        if (!record_add(word, task)) {
            now = record_from(word, task);
            if (now == 0) {
                now = word; /* out of records: this reader is not kept, and may be counted again */
                part()->events_lost++;
            } else {
                record_add(now, task);
            }
        }
        result = READER_ADDED;
    }
    __atomic_store_n(at, now, __ATOMIC_RELEASE);
    if (now != word)
        record_free(word);
    return result;
}

bool
word_has_room(word_t word, word_t mask)
{
    word_t rails = LAYOUT_BITS | ((word & LAYOUT_GROUP) ? GROUP_RAILS : 0);
    return mask != ~0ull && ((word & LAYOUT_BITS) == 0 || (word & rails) == (mask & rails));
}

reader_result_t
reader_set_add(word_t *at, word_t word, uint32_t task, word_t mask, uint32_t *writer, reader_joins_t joins,
               void *context)
{
    if (is_record(word)) {
        if (word & RECORD_LOCK) {
            system_yield();
            return READER_RETRY;
        }
        if (class_of(word) == CLASS_FOLLOWED)
            return READER_FOLLOWED;
        if (record_has(word, task) && __atomic_load_n(at, __ATOMIC_ACQUIRE) == word)
            return READER_KNOWN;
        if (!__atomic_compare_exchange_n(at, &word, word | RECORD_LOCK, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return READER_RETRY;
        return add_to_locked_record(at, word, task, writer, joins, context);
    }
    *writer = writer_of(word);
    if (*writer == task) /* its own value, while readers of another group hold the payload */
        return READER_KNOWN;
    bool fits = word_has_room(word, mask);
    word_t now = fits ? word | mask : record_from(word, task);
    if (now == 0) {
        part()->events_lost++;
        return READER_ADDED;
    }
    if (!fits)
        record_add(now, task);
    if (!__atomic_compare_exchange_n(at, &word, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        if (!fits)
            record_free(now);
        return READER_RETRY;
    }
    if (joins != NULL)
        joins(context, *writer, word);
    return READER_ADDED;
}

word_t
reader_set_replace(word_t *at, word_t exact, uint32_t task)
{
    if (exact == ~0ull) {
        exact = record_new(0, task);
        if (exact == 0)
            part()->events_lost++;
    }
    for (;;) {
        word_t word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (is_record(word) && (word & RECORD_LOCK) != 0) {
            system_yield();
        } else if (__builtin_expect(word_is_followed(word), 0)) {
            if (is_record(exact))
                record_free(exact);
            return word;
        } else if (__atomic_compare_exchange_n(at, &word, exact, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return word;
        }
    }
}

void
reader_set_visit_and_free(word_t word, void (*visit)(void *context, uint32_t reader), void *context)
{
    if (visit != NULL)
        reader_set_visit(word, visit, context);
    if (is_record(word))
        record_free(word);
}

void
reader_set_forget(word_t *at)
{
    if (is_record(__atomic_load_n(at, __ATOMIC_RELAXED)))
        reader_set_visit_and_free(reader_set_replace(at, 0, 0), NULL, NULL);
}
