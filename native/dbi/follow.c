/* Followed blocks (follow.h). Compiled without vector registers.
 *
 * A message is true sharing where the reader needs it: while it holds the copy it reads a byte that another task wrote
 * since the reader last needed one. It is false sharing where the reader meets only bytes that nobody else has written
 * since then, its own and those that nobody writes. That is the essential miss of Dubois, Skeppstedt, Ricciulli,
 * Ramamurthy and Stenstrom (The detection and elimination of useless misses in multiprocessors, ISCA 1993). A read that
 * looked false becomes true when the reader comes to such a byte while it holds the same copy. What was written before
 * the block was followed is not known: of each reader's first message nothing is said.
 */
#include "follow.h"
#include "sites.h"
#include "system.h"
#include "transitions.h"

#define MAX_FOLLOWED 1024u
/* A block is let go after so many messages, or accesses: a block that one task alone uses a while would crawl. */
#define ENOUGH_MESSAGES 2048u
#define ENOUGH_ACCESSES (1u << 16)
#define GRANULES COHABIT_HOT_GRANULES
#define READERS 64u

/* What a reader knows; tasks whose numbers share a slot forget each other's. */
typedef struct {
    uint32_t task;
    uint32_t consumed; /* version of the last copy that it needed */
    uint32_t newest;   /* version that came with its last message; 0: none came yet */
    bool pending;      /* that one counts as falsely shared so far */
} reader_t;

typedef struct {
    int lock;
    uint32_t next_free; /* index + 1 */
    word_t inner;       /* the block's state */
    uint64_t block;
    cohabit_hot_t *hot;
    uint32_t version; /* of the value: one more for each write that replaces one */
    uint32_t messages;
    uint32_t accesses;
    uint32_t last_site;          /* of the newest write; SITE_NONE: there was none */
    uint32_t versions[GRANULES]; /* when the granule was last written ... */
    uint32_t writers[GRANULES];  /* ... and by whom; COHABIT_NO_TASK: not since the block is followed ... */
    uint8_t sites[GRANULES];     /* ... and where */
    reader_t readers[READERS];
} followed_t;

static followed_t *followed;
static uint32_t made, first_free; /* first_free: index + 1 */
static int free_lock;
static uint32_t granule_shift;

bool
follow_init(void)
{
    while ((1u << shadow_block_shift) >> granule_shift > GRANULES)
        granule_shift++;
    followed = system_map_reserve(MAX_FOLLOWED * sizeof(*followed));
    return followed != NULL;
}

static uint32_t
granules(void)
{
    return (1u << shadow_block_shift) >> granule_shift;
}

static followed_t *
take_free(void)
{
    followed_t *taken = NULL;
    system_lock(&free_lock);
    if (first_free != 0) {
        taken = &followed[first_free - 1];
        first_free = taken->next_free;
    } else if (made < MAX_FOLLOWED) {
        taken = &followed[made++];
    }
    system_unlock(&free_lock);
    return taken;
}

static void
give_free(followed_t *one)
{
    system_lock(&free_lock);
    one->next_free = first_free;
    first_free = (uint32_t)(one - followed) + 1;
    system_unlock(&free_lock);
}

bool
follow_begin(uint64_t block, cohabit_hot_t *hot)
{
    followed_t *one = take_free();
    if (one == NULL)
        return false;
    system_lock(&one->lock);
    one->block = block;
    one->hot = hot;
    one->version = 1;
    one->messages = one->accesses = 0;
    one->last_site = SITE_NONE;
    for (uint32_t i = 0; i < granules(); i++)
        one->writers[i] = COHABIT_NO_TASK;
    for (uint32_t i = 0; i < READERS; i++)
        one->readers[i] = (reader_t) { COHABIT_NO_TASK, 0, 0, false };
    word_t *at = word_of_block(block);
    word_t now = word_of_followed((uint32_t)(one - followed));
    bool begun = false;
    for (;;) {
        one->inner = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (word_is_followed(one->inner))
            break;
        if (reader_set_busy(one->inner)) {
            system_yield();
            continue;
        }
        begun = __atomic_compare_exchange_n(at, &one->inner, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        if (begun)
            break;
    }
    system_unlock(&one->lock);
    if (!begun)
        give_free(one);
    return begun;
}

/* The followed block, locked; NULL where it is not followed. */
static followed_t *
enter(uint64_t block)
{
    word_t *at = word_of_block(block);
    for (;;) {
        word_t word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (!word_is_followed(word))
            return NULL;
        followed_t *one = &followed[followed_of(word)];
        system_lock(&one->lock);
        if (__atomic_load_n(at, __ATOMIC_ACQUIRE) == word)
            return one;
        system_unlock(&one->lock);
    }
}

static void
leave(followed_t *one)
{
    bool enough = ++one->accesses >= ENOUGH_ACCESSES || one->messages >= ENOUGH_MESSAGES;
    if (enough)
        __atomic_store_n(word_of_block(one->block), one->inner, __ATOMIC_RELEASE);
    system_unlock(&one->lock);
    if (enough)
        give_free(one);
}

static reader_t *
reader_of(followed_t *one, uint32_t task)
{
    reader_t *reader = &one->readers[task % READERS];
    if (reader->task != task)
        *reader = (reader_t) { task, 0, 0, false };
    return reader;
}

typedef struct {
    uint32_t first;
    uint32_t last;
} range_t;

/* The granules of an access. They count as used. */
static range_t
range_of(followed_t *one, uint32_t offset, uint32_t bytes)
{
    range_t range = { offset >> granule_shift, (offset + bytes - 1) >> granule_shift };
    for (uint32_t i = range.first; i <= range.last; i++)
        one->hot->used[i / 64] |= 1ull << i % 64;
    return range;
}

/* The site that wrote one of the granules after the reader last needed its copy, and at which version; SITE_NONE where
 * nobody else did. */
static uint32_t
written_by_others(const followed_t *one, const reader_t *reader, range_t range, uint32_t *version)
{
    for (uint32_t i = range.first; i <= range.last; i++) {
        *version = one->versions[i];
        if (one->writers[i] != COHABIT_NO_TASK && one->writers[i] != reader->task && *version > reader->consumed)
            return one->sites[i];
    }
    return SITE_NONE;
}

static void
classify(followed_t *one, reader_t *reader, range_t range)
{
    uint32_t version;
    uint32_t site = written_by_others(one, reader, range, &version);
    bool first = reader->newest == 0;
    reader->newest = one->version;
    reader->pending = !first && site == SITE_NONE;
    if (first || site != SITE_NONE)
        reader->consumed = one->version;
    if (!first && reader->pending)
        one->hot->false_reads++;
    else if (!first)
        one->hot->true_reads++;
    sites_event(one->hot->writers, site == SITE_NONE ? one->last_site : site);
}

/* A read of a copy that the reader holds: its last message's, or one that came with a write of its own later. */
static void
reconsider(followed_t *one, reader_t *reader, range_t range)
{
    uint32_t version;
    if (written_by_others(one, reader, range, &version) == SITE_NONE)
        return;
    if (reader->pending && version <= reader->newest) {
        one->hot->false_reads--;
        one->hot->true_reads++;
    }
    reader->pending = false;
    reader->consumed = one->version;
}

bool
follow_read(task_t *me, uint64_t block, uint32_t offset, uint32_t bytes, bool *counted)
{
    followed_t *one = enter(block);
    if (one == NULL)
        return false;
    uint32_t writer;
    bool added = transition_read(me, &one->inner, block, &writer) == READER_ADDED;
    reader_t *reader = reader_of(one, me->id);
    range_t range = range_of(one, offset, bytes);
    *counted = added && writer != COHABIT_NO_TASK && writer != me->id && transition_counted(block);
    if (*counted) {
        part_count_message(me, writer, bytes);
        one->messages++;
        classify(one, reader, range);
        sites_event(one->hot->readers, sites_find(one->hot->readers, me));
    } else {
        reconsider(one, reader, range);
    }
    leave(one);
    return true;
}

bool
follow_write(task_t *me, uint64_t block, uint32_t offset, uint32_t bytes)
{
    followed_t *one = enter(block);
    if (one == NULL)
        return false;
    word_t old = transition_write(me, &one->inner);
    if (old != me->exact_word) {
        one->version++;
        reader_set_visit_and_free(old, transition_counted(block) ? transition_invalidates : NULL, me);
    }
    one->last_site = sites_find(one->hot->writers, me);
    range_t range = range_of(one, offset, bytes);
    for (uint32_t i = range.first; i <= range.last; i++) {
        one->writers[i] = me->id;
        one->sites[i] = (uint8_t)one->last_site;
        one->versions[i] = one->version;
    }
    leave(one);
    return true;
}

void
follow_clear(uint64_t first, uint64_t end)
{
    for (uint32_t i = 0; i < __atomic_load_n(&made, __ATOMIC_ACQUIRE); i++) {
        uint64_t block = __atomic_load_n(&followed[i].block, __ATOMIC_RELAXED);
        followed_t *one = block < first || block >= end ? NULL : enter(block);
        if (one == NULL)
            continue;
        reader_set_forget(&one->inner);
        __atomic_store_n(word_of_block(one->block), 0, __ATOMIC_RELEASE);
        system_unlock(&one->lock);
        give_free(one);
    }
}

void
follow_clear_all(void)
{
    system_discard(followed, MAX_FOLLOWED * sizeof(*followed));
    made = first_free = 0;
    free_lock = 0;
}
