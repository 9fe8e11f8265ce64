/* The slow path of the detector: transitions of a block's word (shadow.h).
 *
 * Compiled without vector registers (the program's are live) and without locks but for records: a transition is one
 * compare-and-swap, a write one exchange. The definition of what counts is DESIGN's: every reader once a written value,
 * when it reads; an invalidation for every counted copy that a write makes stale (COMPROF, Algorithm 1).
 */
#include "shadow.h"
#include "common.h"
#include "mappings.h"
#include "modes.h"
#include "recorder.h"
#include "system.h"
#include "transfers.h"
#include "transitions.h"

/* User addresses have 47 bits; what lies above (vsyscall) is not memory anybody shares. */
#define ADDRESS_BITS 47
#define MAX_RANGES 256

uint32_t shadow_block_shift;
uint64_t shadow_base;
uint64_t shadow_space_bytes;

static struct {
    uint64_t start;
    uint64_t end;
} ranges[MAX_RANGES];
static uint32_t range_count;

bool
shadow_init(uint32_t block_bytes)
{
    shadow_block_shift = (uint32_t)__builtin_ctz(block_bytes);
    shadow_space_bytes = (1ull << (ADDRESS_BITS - shadow_block_shift)) * sizeof(uint64_t);
    void *base = system_map_reserve(shadow_space_bytes);
    shadow_base = (uint64_t)base;
    return base != NULL && reader_sets_init();
}

void
shadow_init_task(task_t *task)
{
    word_t own = word_of_reader(task->id);
    if (own == 0) { /* numbers beyond the groups: always the slow path, always a record */
        task->read_mask = ~0ull;
        task->exact_word = ~0ull;
        return;
    }
    task->read_mask = own;
    task->exact_word = own | word_with_writer(task->id);
}

bool
transition_counted(uint64_t block)
{
    uint32_t count = __atomic_load_n(&range_count, __ATOMIC_ACQUIRE);
    if (__builtin_expect(count == 0, 1))
        return true;
    uint64_t start = block << shadow_block_shift;
    for (uint32_t i = 0; i < count; i++) {
        if (start >= ranges[i].start && start + (1ull << shadow_block_shift) <= ranges[i].end)
            return true;
    }
    return false;
}

/* A block whose word is zero may be memory shared between processes, whose words are elsewhere. */
static inline word_t *
word_in_common(task_t *me, uint64_t block, word_t word)
{
    return word == 0 && mappings_any() ? mappings_word(me, block) : NULL;
}

/* The message of a reader that comes to those that hold the value of a word, shared out among them; -1: taken back. */
static void
count_transfers(task_t *me, uint32_t writer, word_t before, int32_t sign)
{
    transfers_t transfers = transfers_of(me, 0, sign);
    reader_set_visit(before, transfers_holder, &transfers);
    transfers_add(&transfers, writer);
    reader_set_visit(before, transfers_add, &transfers);
}

void
transition_transfers(void *context, uint32_t writer, word_t before)
{
    task_t *me = context;
    if (writer != COHABIT_NO_TASK && writer != me->id)
        count_transfers(me, writer, before, 1);
}

static void
read_block(task_t *me, uint64_t block, uint32_t bytes)
{
    uint32_t writer;
    word_t before = __atomic_load_n(word_of_block(block), __ATOMIC_RELAXED);
    word_t *common = word_in_common(me, block, before);
    if (common != NULL) {
        if (me->in_mpi && me->recorder == NULL)
            return;
        common_read(me, common, block, bytes, transition_counted(block));
        return;
    }
    if (recorder_waited_at(me, block) && !reader_set_is_record(before) && reader_set_writer(before) == me->id)
        return; /* its own value; with its bit in the word the next write would pass unseen */
    if (transition_read(me, word_of_block(block), block, &writer) != READER_ADDED)
        return;
    bool counts = writer != COHABIT_NO_TASK && writer != me->id && transition_counted(block);
    if (counts)
        part_count_message(me, writer, bytes);
    if (writer != COHABIT_NO_TASK && writer != me->id)
        recorder_reads(me, writer, block);
    me->last_read_block = block;
    me->last_read_common = NULL;
    me->last_read_word = before;
    me->last_read_writer = counts ? writer : COHABIT_NO_TASK;
    me->last_read_bytes = bytes;
}

void
shadow_undo_read(task_t *me, uint64_t address)
{
    uint64_t block = address >> shadow_block_shift;
    word_t old = me->last_read_word, now = old | me->read_mask;
    if (modes != 0 || block != me->last_read_block)
        return;
    if (me->last_read_common != NULL) {
        me->last_read_block = ~0ull;
        common_undo_read(me);
        return;
    }
    if (reader_set_is_record(old) ||
        !__atomic_compare_exchange_n(word_of_block(block), &now, old, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    me->last_read_block = ~0ull;
    if (me->last_read_writer != COHABIT_NO_TASK) {
        part_uncount_message(me, me->last_read_writer, me->last_read_bytes);
        count_transfers(me, me->last_read_writer, old, -1);
    }
}

void
shadow_settle_undo(task_t *me)
{
    me->last_read_block = me->last_write_block = ~0ull;
}

void
transition_invalidates(void *context, uint32_t holder)
{
    task_t *me = context;
    if (holder == me->id)
        return;
    cohabit_cell_t *cell = part_cell(me, holder);
    if (cell != NULL)
        cell->invalidations++;
}

static void
write_block(task_t *me, uint64_t block)
{
    word_t *common = word_in_common(me, block, __atomic_load_n(word_of_block(block), __ATOMIC_RELAXED));
    if (common != NULL) {
        if (me->in_mpi && me->recorder == NULL)
            return;
        common_write(me, common, block, transition_counted(block));
        return;
    }
    bool waited_at = recorder_waited_at(me, block);
    if (waited_at || (me->recorder != NULL && __atomic_load_n(word_of_block(block), __ATOMIC_RELAXED) != me->exact_word))
        recorder_writes(me, block); /* first: who sees the word sees the position */
    word_t own = waited_at && me->exact_word != ~0ull ? word_with_writer(me->id) : me->exact_word;
    word_t old = waited_at ? reader_set_replace(word_of_block(block), own, me->id)
                           : transition_write(me, word_of_block(block));
    if (old == me->exact_word || old == own)
        return;
    me->last_write_block = block;
    me->last_write_common = NULL;
    me->last_write_word = old;
    reader_set_visit_and_free(old, transition_counted(block) ? transition_invalidates : NULL, me);
}

static void
still_holds(void *context, uint32_t holder)
{
    task_t *me = context;
    cohabit_cell_t *cell = holder == me->id ? NULL : part_cell(me, holder);
    if (cell != NULL)
        cell->invalidations--;
}

void
shadow_undo_write(task_t *me, uint64_t address)
{
    uint64_t block = address >> shadow_block_shift;
    word_t old = me->last_write_word, now = me->exact_word;
    if (modes != 0 || block != me->last_write_block)
        return;
    if (me->last_write_common != NULL) {
        me->last_write_block = ~0ull;
        common_undo_write(me, transition_counted(block));
        return;
    }
    if (reader_set_is_record(old) ||
        !__atomic_compare_exchange_n(word_of_block(block), &now, old, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    me->last_write_block = ~0ull;
    if (transition_counted(block))
        reader_set_visit_and_free(old, still_holds, me);
}

void
shadow_access(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    if (bytes == 0 || (address >> ADDRESS_BITS) != 0 || ((address + bytes - 1) >> ADDRESS_BITS) != 0)
        return;
    if (__builtin_expect(modes != 0, 0)) {
        modes_access(me, address, bytes, kind);
        return;
    }
    uint64_t last = (address + bytes - 1) >> shadow_block_shift;
    for (uint64_t block = address >> shadow_block_shift; block <= last; block++) {
        if (kind & ACCESS_READ)
            read_block(me, block, shadow_bytes_within(block, address, bytes));
        if (kind & ACCESS_WRITE)
            write_block(me, block);
    }
    if (me->order == RECORDER_NO_ORDER)
        recorder_access(me, address, bytes, kind);
}

bool
shadow_settled(const task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    for (uint64_t block = address >> shadow_block_shift; block <= (address + bytes - 1) >> shadow_block_shift; block++) {
        word_t word = *word_of_block(block);
        if ((kind & ACCESS_WRITE) ? word != me->exact_word : (~word & me->read_mask) != 0)
            return false;
    }
    return true;
}

void
shadow_clear_all(void)
{
    system_discard((void *)shadow_base, shadow_space_bytes);
    reader_sets_reset();
    modes_clear_all();
}

/* Whole pages are given back to the kernel, the rest is zeroed. */
void
shadow_zero(word_t *words, uint64_t first, uint64_t end)
{
    const uint64_t page = 4096 / sizeof(word_t);
    while (first < end) {
        if (first % page == 0 && end - first >= page) {
            uint64_t whole = (end - first) / page * page;
            system_discard(&words[first], whole * sizeof(word_t));
            first += whole;
        } else {
            if (words[first] != 0)
                words[first] = 0;
            first++;
        }
    }
}

void
shadow_clear(uint64_t start, uint64_t bytes)
{
    if (bytes == 0 || (start >> ADDRESS_BITS) != 0)
        return;
    recorder_unmapped(start, bytes);
    uint64_t block_bytes = 1ull << shadow_block_shift;
    uint64_t first = (start + block_bytes - 1) >> shadow_block_shift;
    uint64_t end = (start + bytes) >> shadow_block_shift;
    if (end > 1ull << (ADDRESS_BITS - shadow_block_shift))
        end = 1ull << (ADDRESS_BITS - shadow_block_shift);
    if (end <= first)
        return;
    if (__builtin_expect(modes != 0, 0))
        modes_clear_begin(first, end);
    /* Records that the words point to are freed one by one; a program of few tasks has none. */
    for (uint64_t block = first; reader_sets_used() && block < end; block++)
        reader_set_forget(word_of_block(block));
    shadow_zero((word_t *)shadow_base, first, end);
    if (__builtin_expect(modes != 0, 0))
        modes_clear_end();
}

void
shadow_only(uint64_t start, uint64_t bytes)
{
    static int lock;
    system_lock(&lock);
    if (range_count < MAX_RANGES) {
        ranges[range_count].start = start;
        ranges[range_count].end = start + bytes;
        modes_only(start, bytes);
        __atomic_or_fetch(&part()->flags, COHABIT_FLAG_ONLY, __ATOMIC_RELAXED);
        __atomic_store_n(&range_count, range_count + 1, __ATOMIC_RELEASE);
    }
    system_unlock(&lock);
}
