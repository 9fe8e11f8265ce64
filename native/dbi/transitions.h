/* One transition of a block's word, for the ordinary slow path (shadow.c) and for what is done beside it (modes.c). */
#ifndef COHABIT_TRANSITIONS_H
#define COHABIT_TRANSITIONS_H

#include "reader_sets.h"
#include "shadow.h"

static inline word_t *
word_of_block(uint64_t block)
{
    return (word_t *)(shadow_base + block * sizeof(word_t));
}

/* Whether communication through the block is to be counted (cohabit_only). */
bool transition_counted(uint64_t block);

/* A reader that is `context` comes to those that hold the value: its message, if it counts, is shared out among
 * them. */
void transition_transfers(void *context, uint32_t writer, word_t before);

/* A read. Where ADDED, `writer` is whose value it was, COHABIT_NO_TASK for nobody's. Never RETRY. */
static inline reader_result_t
transition_read(task_t *me, word_t *at, uint64_t block, uint32_t *writer)
{
    for (;;) {
        word_t word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if ((~word & me->read_mask) == 0)
            return READER_KNOWN;
        reader_result_t result = reader_set_add(at, word, me->id, me->read_mask, writer,
                                                transition_counted(block) ? transition_transfers : NULL, me);
        if (result != READER_RETRY)
            return result;
    }
}

/* A write: the word it replaced, with the record that may belong to it; the task's exact word where nothing changed. */
static inline word_t
transition_write(task_t *me, word_t *at)
{
    if (__atomic_load_n(at, __ATOMIC_ACQUIRE) == me->exact_word)
        return me->exact_word;
    return reader_set_replace(at, me->exact_word, me->id);
}

/* Zeroes words [first, end) of a shadow that begins at `words`. */
void shadow_zero(word_t *words, uint64_t first, uint64_t end);

/* The task that is `context` made the copy stale that `holder` had (reader_set_visit_and_free). */
void transition_invalidates(void *context, uint32_t holder);

#endif
