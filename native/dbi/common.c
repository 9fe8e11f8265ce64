/* The state of memory shared between processes (common.h). Compiled without vector registers.
 *
 * The file is sparse and as large as anybody could need; before a page of it is touched for the first time it is made
 * to exist, so that a full disk is an error seen here and not a signal in the program.
 */
#include "common.h"
#include "dr_api.h"
#include "mix.h"
#include "recorder_shared.h"
#include "system.h"
#include "shadow.h"
#include "transfers.h"

/* Where things lie in the file. */
#define HEAD_BYTES 4096u
#define SEGMENTS_AT (1ull << 20)
#define RECORDS_AT (1ull << 32)
#define CLASS_BYTES (1ull << 34)
#define WORDS_AT (1ull << 39)
/* Behind the words of all segments, where blocks have 32 bytes and more. */
#define POSITIONS_AT (WORDS_AT + (1ull << 40))

/* Made to exist at once. */
#define CHUNK_SHIFT 15u
#define CHUNKS (COHABIT_COMMON_BYTES >> CHUNK_SHIFT)

/* Records: class 0 is a list, the others are bit sets of 64 << (class - 1) tasks. */
#define CLASSES 13u
#define LIST_TASKS 12u
/* The word of a record (shadow.h): generation and index as there, the lock unused. */
#define WRITER_SHIFT 50
#define GENERATION_SHIFT 28
#define GENERATION_BITS 19
#define CLASS_SHIFT 24
#define NUMBER_MASK ((1u << CLASS_SHIFT) - 1)

typedef struct {
    uint32_t writer;
    uint32_t generation;
    uint32_t count;     /* of a list */
    uint32_t next_free; /* number + 1 */
    union {
        uint32_t list[LIST_TASKS];
        uint64_t bits[1];
    };
} record_t;

typedef struct {
    uint64_t tasks;
    uint64_t objects;
    uint64_t removals; /* how often pages of the file were given back */
    uint64_t stream_ticks;
    int stream_lock;
    uint32_t reserved;
    struct {
        uint64_t free; /* changes << 32 | number + 1 of the first free record */
        uint64_t made;
    } classes[CLASSES];
} head_t;

static char *file;       /* NULL: there is none */
static uint64_t *exists; /* a bit for each chunk that this process has made to exist */
static uint64_t removals_seen;

static inline head_t *
head(void)
{
    return (head_t *)file;
}

bool
common_there(void)
{
    return file != NULL;
}

/* Makes what lies at an address of the file exist. False where there is no space for it. */
static bool
ensure(const void *at)
{
    uint64_t removals = __atomic_load_n(&head()->removals, __ATOMIC_ACQUIRE);
    if (__builtin_expect(removals != __atomic_load_n(&removals_seen, __ATOMIC_RELAXED), 0)) {
        system_discard(exists, CHUNKS / 8);
        __atomic_store_n(&removals_seen, removals, __ATOMIC_RELAXED);
    }
    uint64_t chunk = (uint64_t)((const char *)at - file) >> CHUNK_SHIFT;
    if ((__atomic_load_n(&exists[chunk / 64], __ATOMIC_RELAXED) >> chunk % 64 & 1) != 0)
        return true;
    if (!system_populate(file + (chunk << CHUNK_SHIFT), 1u << CHUNK_SHIFT)) {
        part()->events_lost++;
        __atomic_or_fetch(&part()->flags, COHABIT_FLAG_NO_SPACE, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_or_fetch(&exists[chunk / 64], 1ull << chunk % 64, __ATOMIC_RELAXED);
    return true;
}

void *
common_room(uint64_t at)
{
    return file != NULL && ensure(file + at) ? file + at : NULL;
}

uint64_t *
common_position(const word_t *at)
{
    uint64_t *position = (uint64_t *)(file + POSITIONS_AT) + (at - (word_t *)(file + WORDS_AT));
    return ensure(position) ? position : NULL;
}

void
common_fork(void)
{
    if (file == NULL)
        part()->flags |= COHABIT_FLAG_ALONE;
}

bool
common_open(const char *directory)
{
    char path[512];
    dr_snprintf(path, sizeof(path), "%s/common", directory);
    file = system_map_file(path, COHABIT_COMMON_BYTES);
    exists = system_map_reserve(CHUNKS / 8);
    if (exists == NULL) {
        dr_fprintf(STDERR, "cohabit: no address space for the memory that processes share\n  lift ulimit -v\n");
        return false;
    }
    if (file != NULL && !system_populate(file, HEAD_BYTES))
        file = NULL;
    common_fork();
    return true;
}

uint64_t
common_new_object(void)
{
    return __atomic_add_fetch(&head()->objects, 1, __ATOMIC_RELAXED);
}

word_t *
common_segment(uint64_t object, uint64_t number, bool make)
{
    const uint64_t key = mix(object, number);
    const uint64_t words = COMMON_SEGMENT_BYTES >> shadow_block_shift;
    uint64_t *table = (uint64_t *)(file + SEGMENTS_AT);
    for (uint32_t tries = 0; tries < COHABIT_COMMON_SEGMENTS / 2; tries++) {
        uint32_t at = ((uint32_t)(key >> 32) + tries) % COHABIT_COMMON_SEGMENTS;
        if (!ensure(&table[at]))
            return NULL;
        uint64_t found = __atomic_load_n(&table[at], __ATOMIC_ACQUIRE);
        if (found == 0 && !make)
            return NULL;
        if (found == 0 && __atomic_compare_exchange_n(&table[at], &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            found = key;
        if (found == key)
            return (word_t *)(file + WORDS_AT) + at * words;
    }
    part()->events_lost++;
    __atomic_or_fetch(&part()->flags, COHABIT_FLAG_SEGMENTS, __ATOMIC_RELAXED);
    return NULL;
}

void
common_clear(uint64_t object, uint64_t start, uint64_t end)
{
    start = (start + (1ull << shadow_block_shift) - 1) >> shadow_block_shift;
    end = (end + (1ull << shadow_block_shift) - 1) >> shadow_block_shift;
    const uint64_t words = COMMON_SEGMENT_BYTES >> shadow_block_shift;
    bool removed = false;
    while (start < end) {
        uint64_t next = (start / words + 1) * words < end ? (start / words + 1) * words : end;
        word_t *first = common_segment(object, start / words, false);
        for (uint64_t i = start % words, last = i + (next - start); first != NULL && i < last;) {
            const uint64_t page = 4096 / sizeof(word_t), whole = (last - i) / page * page;
            if (i % page == 0 && whole > 0 && system_remove(&first[i], whole * sizeof(word_t))) {
                removed = true;
                i += whole;
            } else {
                if (ensure(&first[i]))
                    __atomic_store_n(&first[i], 0, __ATOMIC_RELEASE);
                i++;
            }
        }
        start = next;
    }
    if (removed)
        __atomic_add_fetch(&head()->removals, 1, __ATOMIC_ACQ_REL);
}

static inline uint32_t
capacity_of(uint32_t class)
{
    return class == 0 ? LIST_TASKS : 64u << (class - 1);
}

static inline uint64_t
size_of(uint32_t class)
{
    return class <= 1 ? sizeof(record_t) : offsetof(record_t, bits) + capacity_of(class) / 8;
}

static inline uint32_t
class_of(word_t word)
{
    uint32_t class = (uint32_t)(word >> CLASS_SHIFT) & 0xf;
    return class < CLASSES ? class : 0;
}

static record_t *
record_of(uint32_t class, uint64_t number)
{
    uint64_t most = CLASS_BYTES / size_of(class);
    uint64_t at = (number < most ? number : 0) * size_of(class);
    return (record_t *)(file + RECORDS_AT + class * CLASS_BYTES + at);
}

static inline record_t *
record_at(word_t word)
{
    return record_of(class_of(word), (uint32_t)word & NUMBER_MASK);
}

static bool
ensure_record(uint32_t class, record_t *record)
{
    char *last = (char *)record + size_of(class) - 1;
    for (char *at = (char *)record; at < last; at += 1u << CHUNK_SHIFT) {
        if (!ensure(at))
            return false;
    }
    return ensure(last);
}

static void
record_free(word_t word)
{
    uint32_t class = class_of(word);
    uint64_t number = (uint32_t)word & NUMBER_MASK;
    uint64_t *free = &head()->classes[class].free;
    uint64_t before = __atomic_load_n(free, __ATOMIC_ACQUIRE), now;
    do {
        record_of(class, number)->next_free = (uint32_t)before;
        now = ((before >> 32) + 1) << 32 | (number + 1);
    } while (!__atomic_compare_exchange_n(free, &before, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

/* The number of a record that is nobody else's, + 1; 0 when none is to be had. */
static uint64_t
take_record(uint32_t class)
{
    uint64_t *free = &head()->classes[class].free;
    uint64_t before = __atomic_load_n(free, __ATOMIC_ACQUIRE);
    while ((uint32_t)before != 0) {
        record_t *record = record_of(class, (uint32_t)before - 1);
        if (!ensure_record(class, record))
            return 0;
        uint64_t now = ((before >> 32) + 1) << 32 | __atomic_load_n(&record->next_free, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(free, &before, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return (uint32_t)before;
    }
    uint64_t number = __atomic_fetch_add(&head()->classes[class].made, 1, __ATOMIC_RELAXED);
    bool room = number <= NUMBER_MASK && (number + 1) * size_of(class) <= CLASS_BYTES;
    return room && ensure_record(class, record_of(class, number)) ? number + 1 : 0;
}

/* A fresh record without readers; its word, or 0 when none is to be had. */
static word_t
record_new(uint32_t class, uint32_t writer)
{
    uint64_t number = take_record(class);
    if (number-- == 0) {
        part()->events_lost++;
        return 0;
    }
    record_t *record = record_of(class, number);
    uint32_t generation = (record->generation + 1) & ((1u << GENERATION_BITS) - 1);
    record->generation = generation;
    record->writer = writer;
    record->count = 0;
    for (uint32_t i = 0; class > 0 && i < capacity_of(class) / 64; i++)
        record->bits[i] = 0;
    return 0x3fffull << WRITER_SHIFT | (uint64_t)generation << GENERATION_SHIFT | class << CLASS_SHIFT | number;
}

static bool
record_has(word_t word, uint32_t task)
{
    const record_t *record = record_at(word);
    uint32_t class = class_of(word);
    if (class > 0)
        return task < capacity_of(class) && (record->bits[task / 64] >> task % 64 & 1) != 0;
    for (uint32_t i = 0; i < record->count && i < LIST_TASKS; i++) {
        if (record->list[i] == task)
            return true;
    }
    return false;
}

static void
record_add(void *word, uint32_t task)
{
    record_t *record = record_at(*(word_t *)word);
    uint32_t class = class_of(*(word_t *)word);
    if (class > 0 && task < capacity_of(class))
        record->bits[task / 64] |= 1ull << task % 64;
    else if (class == 0 && record->count < LIST_TASKS)
        record->list[record->count++] = task;
}

/* The readers of a word, its writer left out. */
static void
visit_readers(word_t word, void (*visit)(void *, uint32_t), void *context)
{
    if (!reader_set_is_record(word)) {
        word_visit_readers(word, visit, context);
        return;
    }
    const record_t *record = record_at(word);
    uint32_t class = class_of(word), writer = record->writer;
    if (class == 0) {
        for (uint32_t i = 0; i < record->count && i < LIST_TASKS; i++) {
            if (record->list[i] != writer)
                visit(context, record->list[i]);
        }
        return;
    }
    for (uint32_t i = 0; i < capacity_of(class) / 64; i++) {
        for (uint64_t bits = record->bits[i]; bits != 0; bits &= bits - 1) {
            uint32_t task = 64 * i + (uint32_t)__builtin_ctzll(bits);
            if (task != writer)
                visit(context, task);
        }
    }
}

typedef struct {
    uint32_t count;
    uint32_t greatest;
} extent_t;

static void
extend(void *context, uint32_t task)
{
    extent_t *extent = context;
    extent->count++;
    if (task > extent->greatest)
        extent->greatest = task;
}

/* A record with the readers of `word` and one more; 0 when none is to be had. */
static word_t
record_from(word_t word, uint32_t writer, uint32_t task)
{
    extent_t extent = { 1, task };
    visit_readers(word, extend, &extent);
    uint32_t class = 0;
    if (extent.count > LIST_TASKS) {
        for (class = 1; class < CLASSES - 1 && capacity_of(class) <= extent.greatest; class ++)
            ;
    }
    word_t made = record_new(class, writer);
    if (made != 0) {
        visit_readers(word, record_add, &made);
        record_add(&made, task);
    }
    return made;
}

bool
common_number(task_t *me)
{
    if (__builtin_expect(me->common_exact != 0, 1))
        return true;
    if (me->shared->common == 0) {
        uint64_t number = __atomic_fetch_add(&head()->tasks, 1, __ATOMIC_RELAXED);
        if (number >= COHABIT_MAX_TASKS) {
            part()->events_lost++;
            __atomic_or_fetch(&part()->flags, COHABIT_FLAG_TASKS_LOST, __ATOMIC_RELAXED);
            return false;
        }
        me->shared->common = (uint32_t)number + 1;
    }
    me->common = me->shared->common - 1;
    word_t own = word_of_reader(me->common);
    me->common_mask = own == 0 ? ~0ull : own;
    me->common_exact = own == 0 ? ~0ull : own | word_with_writer(me->common);
    return true;
}

uint32_t
common_tasks(void)
{
    uint64_t tasks = __atomic_load_n(&head()->tasks, __ATOMIC_ACQUIRE);
    return tasks < COHABIT_MAX_TASKS ? (uint32_t)tasks : COHABIT_MAX_TASKS;
}

/* The message of a reader that comes to those that hold the value of a word, shared out among them; -1: taken back. */
static void
count_transfers(task_t *me, uint32_t writer, word_t before, int32_t sign)
{
    transfers_t transfers = transfers_of(me, COHABIT_COMMON_TASKS, sign);
    visit_readers(before, transfers_holder, &transfers);
    transfers_add(&transfers, writer);
    visit_readers(before, transfers_add, &transfers);
}

typedef enum { KNOWN, ADDED, AGAIN } added_t;

static added_t
try_read(task_t *me, word_t *at, word_t word, bool counts, uint32_t *writer)
{
    bool is_record = reader_set_is_record(word);
    if (!is_record && (~word & me->common_mask) == 0)
        return KNOWN;
    *writer = is_record ? record_at(word)->writer : reader_set_writer(word);
    bool known = *writer == me->common || (is_record && record_has(word, me->common));
    if (is_record) { /* what was read of it holds only if it was still in use */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != word)
            return AGAIN;
    }
    if (known)
        return KNOWN;
    bool fits = !is_record && word_has_room(word, me->common_mask);
    word_t now = fits ? word | me->common_mask : record_from(word, *writer, me->common);
    if (now == 0)
        return ADDED; /* it is not kept, and may be counted again: events_lost says so */
    if (!__atomic_compare_exchange_n(at, &word, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        if (!fits)
            record_free(now);
        return AGAIN;
    }
    if (counts && *writer != COHABIT_NO_TASK)
        count_transfers(me, *writer, word, 1);
    if (is_record)
        record_free(word);
    return ADDED;
}

void
common_read(task_t *me, word_t *at, uint64_t block, uint32_t bytes, bool counts)
{
    if (!ensure(at) || !common_number(me))
        return;
    uint32_t writer = COHABIT_NO_TASK;
    word_t before;
    added_t added;
    do {
        before = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        added = try_read(me, at, before, counts, &writer);
    } while (added == AGAIN);
    if (added == KNOWN)
        return;
    if (me->recorder != NULL && writer != COHABIT_NO_TASK && writer != me->common)
        recorder_reads_shared(me, at);
    counts &= writer != COHABIT_NO_TASK && writer != me->common;
    if (counts)
        part_count_message(me, COHABIT_COMMON_TASKS + writer, bytes);
    me->last_read_block = block;
    me->last_read_common = at;
    me->last_read_word = before;
    me->last_read_writer = counts ? COHABIT_COMMON_TASKS + writer : COHABIT_NO_TASK;
    me->last_read_bytes = bytes;
}

static void
invalidate(void *context, uint32_t holder)
{
    task_t *me = context;
    cohabit_cell_t *cell = holder == me->common ? NULL : part_cell(me, COHABIT_COMMON_TASKS + holder);
    if (cell != NULL)
        cell->invalidations++;
}

static void
revalidate(void *context, uint32_t holder)
{
    task_t *me = context;
    cohabit_cell_t *cell = holder == me->common ? NULL : part_cell(me, COHABIT_COMMON_TASKS + holder);
    if (cell != NULL)
        cell->invalidations--;
}

void
common_write(task_t *me, word_t *at, uint64_t block, bool counts)
{
    if (!ensure(at) || !common_number(me))
        return;
    if (me->recorder != NULL)
        recorder_writes_shared(me, at); /* first: who sees the word sees the position */
    word_t exact = me->common_exact, old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (old == exact && exact != ~0ull)
        return;
    if (exact == ~0ull) { /* numbers beyond the groups: always a record */
        exact = record_new(0, me->common);
        if (exact == 0)
            return;
    }
    while (!__atomic_compare_exchange_n(at, &old, exact, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    me->last_write_block = block;
    me->last_write_common = at;
    me->last_write_word = old;
    if (counts)
        visit_readers(old, invalidate, me);
    if (reader_set_is_record(old))
        record_free(old);
}

void
common_undo_write(task_t *me, bool counts)
{
    word_t old = me->last_write_word, now = me->common_exact;
    if (reader_set_is_record(old) || now == ~0ull ||
        !__atomic_compare_exchange_n(me->last_write_common, &now, old, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    if (counts)
        visit_readers(old, revalidate, me);
}

void
common_undo_read(task_t *me)
{
    word_t old = me->last_read_word, now = old | me->common_mask;
    if (reader_set_is_record(old) || me->common_mask == ~0ull ||
        !__atomic_compare_exchange_n(me->last_read_common, &now, old, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    if (me->last_read_writer == COHABIT_NO_TASK)
        return;
    part_uncount_message(me, me->last_read_writer, me->last_read_bytes);
    count_transfers(me, me->last_read_writer - COHABIT_COMMON_TASKS, old, -1);
}

uint64_t
common_block(const word_t *at)
{
    return (uint64_t)(at - (word_t *)(file + WORDS_AT));
}

int *
common_stream_lock(void)
{
    return &head()->stream_lock;
}

uint64_t
common_stream_ticks(uint64_t now)
{
    uint64_t last = head()->stream_ticks;
    return head()->stream_ticks = now > last ? now : last + 1;
}
