/* The set of tasks that have read a block's value: within its word, or in a record where they are too many or too far
 * apart for that (the layouts are in shadow.h).
 */
#ifndef COHABIT_READER_SETS_H
#define COHABIT_READER_SETS_H

#include "part.h"

typedef uint64_t word_t;

typedef enum {
    READER_ADDED, /* first read of this value by this task */
    READER_KNOWN, /* it had read the value before, or wrote it */
    READER_RETRY, /* the word changed meanwhile */
    READER_FOLLOWED, /* the block is followed: its state is kept elsewhere (follow.h), and nothing was done */
} reader_result_t;

bool reader_sets_init(void);
/* Whether the word points to a record. */
bool reader_set_is_record(word_t word);
/* Whether a record was ever made. */
bool reader_sets_used(void);
/* All records are void: for when all words are. */
void reader_sets_reset(void);

/* The payload and layout that say "only this task has read"; 0 for task numbers beyond the groups. */
word_t word_of_reader(uint32_t task);
/* The writer field for a task. */
word_t word_with_writer(uint32_t task);

/* Calls `visit` for each reader in a word that is no record, its writer left out. */
void word_visit_readers(word_t word, void (*visit)(void *context, uint32_t reader), void *context);
/* Whether the word, no record, can take the reader whose mask this is. */
bool word_has_room(word_t word, word_t mask);

/* Calls `visit` for each reader in a word, its writer left out. A record must not change meanwhile. */
void reader_set_visit(word_t word, void (*visit)(void *context, uint32_t reader), void *context);
/* What is done with the word that a new reader found, while no record of it changes. */
typedef void (*reader_joins_t)(void *context, uint32_t writer, word_t before);
/* Adds a reader to the set of a word that was just loaded as `word`. Where ADDED `writer` is set, and `joins`, which
 * may be NULL, called. */
reader_result_t reader_set_add(word_t *at, word_t word, uint32_t task, word_t mask, uint32_t *writer,
                               reader_joins_t joins, void *context);

/* The word becomes "written by `task`" (`exact`, see task_t); its previous content. A followed word stays as it is. */
word_t reader_set_replace(word_t *at, word_t exact, uint32_t task);

/* Calls `visit` for each task that had read the value of a replaced word, its writer apart, and frees its record. */
void reader_set_visit_and_free(word_t word, void (*visit)(void *context, uint32_t reader), void *context);

/* The task whose value a word describes; COHABIT_NO_TASK for none. Its record must not be freed meanwhile. */
uint32_t reader_set_writer(word_t word);

/* Whether a transition of the word is under way, so that it cannot be moved. */
bool reader_set_busy(word_t word);

/* The word of the followed block `index` (follow.h): no inline check passes on it. */
word_t word_of_followed(uint32_t index);
bool word_is_followed(word_t word);
uint32_t followed_of(word_t word);

/* Frees the record of a word that is about to be zeroed. */
void reader_set_forget(word_t *at);

#endif
