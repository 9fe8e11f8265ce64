/* The slow path with options (modes.h). Compiled without vector registers.
 *
 * What it counts is what shadow.c counts: both take the same transitions.
 */
#include "modes.h"
#include "common.h"
#include "follow.h"
#include "hot.h"
#include "mappings.h"
#include "options.h"
#include "sharing.h"
#include "stream.h"
#include "transitions.h"
#include "dr_api.h"

uint32_t modes;

bool
modes_init(void)
{
    if (options.sharing && !sharing_init()) {
        dr_fprintf(STDERR,
                   "cohabit: no address space for the second shadow that --sharing needs\n"
                   "  take larger blocks (--block 64), and lift ulimit -v\n");
        return false;
    }
    if (options.hot && !hot_init()) {
        dr_fprintf(STDERR, "cohabit: no address space for what --hot keeps\n  lift ulimit -v\n");
        return false;
    }
    if (options.record[0] != '\0' && !stream_open(options.record))
        return false;
    modes = (options.sharing ? MODE_SHARING : 0) | (options.hot ? MODE_HOT : 0) |
        (options.record[0] != '\0' ? MODE_RECORD : 0);
    return true;
}

bool
modes_fork(void)
{
    if (options.sharing)
        sharing_fork();
    if (options.hot)
        hot_fork();
    return options.record[0] == '\0' || stream_open(options.record);
}

void
modes_set(uint32_t mode, bool to)
{
    if (to)
        __atomic_or_fetch(&modes, mode, __ATOMIC_RELEASE);
    else
        __atomic_and_fetch(&modes, ~mode, __ATOMIC_RELEASE);
}

/* False where the block is followed. */
static bool
read_block(task_t *me, uint64_t block, uint64_t address, uint32_t bytes)
{
    uint32_t writer;
    switch (transition_read(me, word_of_block(block), block, &writer)) {
    case READER_FOLLOWED: return false;
    case READER_ADDED: break;
    default: return true;
    }
    if (writer == COHABIT_NO_TASK || writer == me->id || !transition_counted(block))
        return true;
    part_count_message(me, writer, bytes);
    if (modes & MODE_HOT)
        hot_sample(me, block, address, true);
    return true;
}

/* False where the block is followed. */
static bool
write_block(task_t *me, uint64_t block)
{
    word_t old = transition_write(me, word_of_block(block));
    if (word_is_followed(old))
        return false;
    if (old != me->exact_word)
        reader_set_visit_and_free(old, transition_counted(block) ? transition_invalidates : NULL, me);
    return true;
}

/* The word of a block of memory that is shared between processes; NULL for any other. */
static word_t *
common_word(task_t *me, uint64_t block)
{
    bool maybe = mappings_any() && __atomic_load_n(word_of_block(block), __ATOMIC_RELAXED) == 0;
    return maybe ? mappings_word(me, block) : NULL;
}

static void
access_common(task_t *me, word_t *at, uint64_t block, uint64_t address, uint32_t bytes, access_kind_t kind)
{
    me->last_read_writer = COHABIT_NO_TASK;
    if (kind & ACCESS_READ)
        common_read(me, at, block, bytes, transition_counted(block));
    if ((modes & MODE_HOT) && me->last_read_writer != COHABIT_NO_TASK)
        hot_sample(me, block, address, false);
    if (kind & ACCESS_WRITE)
        common_write(me, at, block, transition_counted(block));
}

static void
access_block(task_t *me, uint64_t block, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    uint32_t within = shadow_bytes_within(block, address, bytes);
    uint64_t start = block << shadow_block_shift;
    uint32_t offset = address > start ? (uint32_t)(address - start) : 0;
    word_t *common = common_word(me, block);
    if (common != NULL) {
        if (me->in_mpi)
            return;
        access_common(me, common, block, start + offset, within, kind);
        return;
    }
    /* Following ends and begins under other tasks' hands: whichever way it is found, it is tried the other way. */
    if (kind & ACCESS_READ) {
        bool counted = false;
        while (!follow_read(me, block, offset, within, &counted) && !read_block(me, block, start + offset, within))
            ;
        if (counted)
            hot_sample(me, block, start + offset, true);
    }
    if (kind & ACCESS_WRITE) {
        while (!follow_write(me, block, offset, within) && !write_block(me, block))
            ;
    }
}

/* Where memory may be shared between processes the stream has a record a block, with an address that is the same in
 * all of them (abi.h). */
static void
record_blocks(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    uint64_t last = (address + bytes - 1) >> shadow_block_shift;
    for (uint64_t block = address >> shadow_block_shift; block <= last; block++) {
        uint32_t within = shadow_bytes_within(block, address, bytes);
        uint64_t start = block << shadow_block_shift, from = address > start ? address : start;
        word_t *common = common_word(me, block);
        if (common != NULL && me->in_mpi)
            continue;
        if (common != NULL)
            from = COHABIT_COMMON_ADDRESS | (common_block(common) << shadow_block_shift) | (from - start);
        stream_begin(me, from, within, kind);
        access_block(me, block, address, bytes, kind);
        stream_end();
    }
}

void
modes_access(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    uint32_t now = __atomic_load_n(&modes, __ATOMIC_ACQUIRE);
    if (now & MODE_OFF)
        return;
    bool apart = (now & MODE_RECORD) != 0 && mappings_any();
    if ((now & MODE_RECORD) && !apart)
        stream_begin(me, address, bytes, kind);
    if (now & MODE_SHARING)
        sharing_access(me, address, bytes);
    if (apart) {
        record_blocks(me, address, bytes, kind);
        return;
    }
    uint64_t last = (address + bytes - 1) >> shadow_block_shift;
    for (uint64_t block = address >> shadow_block_shift; block <= last; block++)
        access_block(me, block, address, bytes, kind);
    if (now & MODE_RECORD)
        stream_end();
}

void
modes_clear_begin(uint64_t first, uint64_t end)
{
    if (modes & MODE_RECORD)
        stream_clear_begin(first, end);
    if (modes & MODE_SHARING)
        sharing_clear(first, end);
    if (modes & MODE_HOT)
        follow_clear(first, end);
}

void
modes_clear_end(void)
{
    if (modes & MODE_RECORD)
        stream_end();
}

void
modes_clear_all(void)
{
    if (modes & MODE_SHARING)
        sharing_clear_all();
    if (modes & MODE_HOT)
        follow_clear_all();
    if (modes & MODE_RECORD)
        stream_clear_all();
}

void
modes_only(uint64_t start, uint64_t bytes)
{
    if (modes & MODE_RECORD)
        stream_only(start, bytes);
}
