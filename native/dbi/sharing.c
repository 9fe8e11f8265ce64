/* Counting sharing (sharing.h). Compiled without vector registers.
 *
 * A task that comes to a block counts one for each task that was there before it in the window. Where tasks of
 * different layouts meet, the word points to a record, a bit for each task; the block keeps it until all words are
 * cleared, which happens whenever the numbers of windows are used up. Then nobody may be half way through a transition,
 * so those are counted while they last, in places apart so that tasks do not wait for one another's cache lines.
 */
#include "sharing.h"
#include "modes.h"
#include "system.h"
#include "ticks.h"
#include "transitions.h"

#define WINDOWS ((1u << 14) - 1)
#define WINDOW_BITS ((uint64_t)WINDOWS << SHARING_WINDOW_SHIFT)
#define LAYOUT_BITS (3ull << 48)
#define PAYLOAD_BITS ((1ull << 48) - 1)
#define RECORD_LOCK (1ull << 47)
#define ARENA_BYTES (1ull << 40)
#define PAGE 4096u
#define STRIPES 64u

typedef struct {
    uint32_t capacity; /* tasks, a multiple of 64 */
    uint32_t reserved;
    uint64_t bits[];
} record_t;

uint64_t sharing_base;
static uint64_t shadow_bytes;
static char *arena;
static uint64_t arena_used;
static uint64_t window_end; /* in ticks */
static int lock;            /* of the change of windows */
static int clearing;
static int ending;
static struct {
    uint64_t inside;
    uint64_t apart[7];
} stripes[STRIPES];

static inline word_t *
word_at(uint64_t block)
{
    return (word_t *)sharing_base + block;
}

static inline word_t
everybody(void)
{
    return __atomic_load_n((word_t *)sharing_base - 1, __ATOMIC_ACQUIRE);
}

/* The window under way ends where the series' windows do. */
static void
begin_window(uint64_t number)
{
    uint64_t width = part()->window_ticks, start = part()->start_ticks;
    uint64_t end = start + ((ticks_now() - start) / width + 1) * width;
    __atomic_store_n((word_t *)sharing_base - 1, number << SHARING_WINDOW_SHIFT | LAYOUT_BITS | PAYLOAD_BITS,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&window_end, end, __ATOMIC_RELEASE);
}

bool
sharing_init(void)
{
    shadow_bytes = (1ull << (47 - shadow_block_shift)) * sizeof(word_t);
    char *base = system_map_reserve(PAGE + shadow_bytes);
    arena = system_map_reserve(ARENA_BYTES);
    if (base == NULL || arena == NULL)
        return false;
    sharing_base = (uint64_t)base + PAGE;
    part()->flags |= COHABIT_FLAG_SHARING;
    begin_window(1);
    return true;
}

void
sharing_fork(void)
{
    lock = clearing = 0;
    for (uint32_t i = 0; i < STRIPES; i++)
        stripes[i].inside = 0;
    part()->flags |= COHABIT_FLAG_SHARING;
    begin_window(1);
}

uint64_t
sharing_mask(const task_t *task)
{
    return task->read_mask == ~0ull ? ~0ull : WINDOW_BITS | task->read_mask;
}

static void
enter(const task_t *me)
{
    uint64_t *inside = &stripes[me->id % STRIPES].inside;
    for (;;) {
        __atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&clearing, __ATOMIC_SEQ_CST))
            return;
        __atomic_sub_fetch(inside, 1, __ATOMIC_RELEASE);
        system_yield();
    }
}

static void
leave(const task_t *me)
{
    __atomic_sub_fetch(&stripes[me->id % STRIPES].inside, 1, __ATOMIC_RELEASE);
}

/* Waits until nobody is in a transition, and forgets everything. */
static void
clear_words(void)
{
    __atomic_store_n(&clearing, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < STRIPES; i++) {
        while (__atomic_load_n(&stripes[i].inside, __ATOMIC_SEQ_CST) != 0 && !__atomic_load_n(&ending, __ATOMIC_RELAXED))
            system_yield();
    }
    system_discard((void *)sharing_base, shadow_bytes);
    system_discard(arena, arena_used);
    arena_used = 0;
    begin_window(1);
    __atomic_store_n(&clearing, 0, __ATOMIC_SEQ_CST);
}

void
sharing_tick(void)
{
    if (ticks_now() < __atomic_load_n(&window_end, __ATOMIC_ACQUIRE))
        return;
    if (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE) != 0)
        return; /* somebody is at it */
    if (ticks_now() >= window_end) {
        uint64_t number = everybody() >> SHARING_WINDOW_SHIFT;
        if (number < WINDOWS)
            begin_window(number + 1);
        else
            clear_words();
    }
    system_unlock(&lock);
}

void
sharing_end(void)
{
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
}

static void
meet(void *context, uint32_t other)
{
    cohabit_cell_t *cell = part_cell(context, other);
    if (cell != NULL)
        cell->sharing++;
}

/* An empty record for tasks up to `greatest`; NULL when there is no room. */
static record_t *
record_new(uint32_t greatest)
{
    uint32_t capacity = 1024;
    while (capacity <= greatest)
        capacity *= 2;
    uint64_t bytes = (sizeof(record_t) + capacity / 8 + 63) & ~63ull;
    uint64_t at = __atomic_fetch_add(&arena_used, bytes, __ATOMIC_RELAXED);
    if (at + bytes > ARENA_BYTES) {
        part()->events_lost++;
        return NULL;
    }
    record_t *record = (record_t *)(arena + at);
    record->capacity = capacity;
    return record;
}

static inline record_t *
record_at(word_t word)
{
    return (record_t *)(arena + (word & (RECORD_LOCK - 1)) * 64);
}

static inline word_t
word_of_record(word_t window, const record_t *record)
{
    return window | (uint64_t)((const char *)record - arena) / 64;
}

static inline bool
is_record(word_t word)
{
    return (word & LAYOUT_BITS) == 0 && word != 0;
}

static void
record_add(void *record, uint32_t task)
{
    record_t *to = record;
    __atomic_or_fetch(&to->bits[task / 64], 1ull << task % 64, __ATOMIC_RELEASE);
}

static bool
record_has(const record_t *record, uint32_t task)
{
    return task < record->capacity && (__atomic_load_n(&record->bits[task / 64], __ATOMIC_ACQUIRE) >> task % 64 & 1) != 0;
}

static void
record_visit(const record_t *record, void (*visit)(void *, uint32_t), void *context)
{
    for (uint32_t i = 0; i < record->capacity / 64; i++) {
        for (uint64_t bits = record->bits[i]; bits != 0; bits &= bits - 1)
            visit(context, 64 * i + (uint32_t)__builtin_ctzll(bits));
    }
}

/* The task comes to a block with a record. False where the word changed meanwhile. */
static bool
touch_record(task_t *me, word_t *at, word_t word, word_t window, bool count)
{
    if (word & RECORD_LOCK) {
        system_yield();
        return false;
    }
    record_t *record = record_at(word);
    bool same_window = (word & WINDOW_BITS) == window;
    if (same_window && record_has(record, me->id))
        return true;
    if (!__atomic_compare_exchange_n(at, &word, word | RECORD_LOCK, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    if (same_window && count)
        record_visit(record, meet, me);
    for (uint32_t i = 0; !same_window && i < record->capacity / 64; i++)
        record->bits[i] = 0;
    if (me->id >= record->capacity) {
        record_t *larger = record_new(me->id);
        if (larger != NULL) {
            record_visit(record, record_add, larger);
            record = larger;
        }
    }
    if (me->id < record->capacity)
        record_add(record, me->id);
    __atomic_store_n(at, word_of_record(window, record), __ATOMIC_RELEASE);
    return true;
}

static void
touch_block(task_t *me, uint64_t block)
{
    word_t *at = word_at(block);
    bool count = transition_counted(block);
    for (;;) {
        word_t word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        word_t window = everybody() & WINDOW_BITS;
        if (is_record(word)) {
            if (touch_record(me, at, word, window, count))
                return;
            continue;
        }
        bool same_window = (word & WINDOW_BITS) == window;
        word_t others = same_window ? word & ~WINDOW_BITS : 0;
        word_t now = window | others | me->read_mask;
        if (me->read_mask == ~0ull || !word_has_room(others, me->read_mask)) {
            record_t *record = record_new(me->id);
            if (record == NULL)
                return;
            word_visit_readers(others, record_add, record);
            record_add(record, me->id);
            now = word_of_record(window, record);
        }
        if (now == word)
            return;
        if (__atomic_compare_exchange_n(at, &word, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            if (count)
                word_visit_readers(others, meet, me);
            return;
        }
    }
}

void
sharing_access(task_t *me, uint64_t address, uint64_t bytes)
{
    if ((address + bytes - 1) >> 47 != 0 || (modes & MODE_OFF) != 0)
        return;
    sharing_tick();
    enter(me);
    uint64_t last = (address + bytes - 1) >> shadow_block_shift;
    for (uint64_t block = address >> shadow_block_shift; block <= last; block++)
        touch_block(me, block);
    leave(me);
}

void
sharing_clear(uint64_t first, uint64_t end)
{
    shadow_zero(word_at(0), first, end);
}

void
sharing_clear_all(void)
{
    system_lock(&lock);
    clear_words();
    system_unlock(&lock);
}
