/* The detector: the block table and the matrix of CDSM (sections 2.1 and 2.3), in BPF maps.
 *
 * A block's line is found by the hash of its key. A task that faults is credited with every task that has faulted on
 * the block since the task itself last did, as far as the block remembers (its last four tasks). CDSM credits all that
 * are remembered; then two tasks that left a block would be credited for ever by two others that use it now, because
 * nobody pushes them out.
 *
 * A page that was write-protected faults once, wherever it is written to first. Blocks would rarely meet, and whole
 * pages would take neighbours in memory for partners. So such a page is one block of the table, which remembers from
 * where to where in it each task has written: tasks are credited with one another where these spans overlap.
 *
 * crates/online/src/faults/table.rs is the same in Rust, and a test compares the two.
 *
 * SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 */
#ifndef COHABIT_BPF_DETECT_H
#define COHABIT_BPF_DETECT_H

#include "kernel.h"
#include "faults_abi.h"
#include <bpf/bpf_helpers.h>

const volatile struct cohabit_fault_settings settings = {0, 0, 0, 8, COHABIT_MAX_SLOTS};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, cohabit_u32);
    __type(value, struct cohabit_block_line);
} blocks SEC(".maps");

/* A pair of slots, the smaller in the high half, to its events. Sparse, so that it grows past any number of tasks. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 1);
    __type(key, cohabit_u32);
    __type(value, struct cohabit_events);
} matrix SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, COHABIT_COUNTERS);
    __type(key, cohabit_u32);
    __type(value, cohabit_u64);
} counters SEC(".maps");

static __always_inline void count(cohabit_u32 counter, cohabit_u64 by)
{
    cohabit_u64 *value = bpf_map_lookup_elem(&counters, &counter);
    if (value)
        *value += by;
}

/* Comparisons as numbers, without branches: the kernel's verifier follows every way through a program. The compiler
 * would make branches of them again if it saw that a sign is all that is wanted, and newer kernels (6.18) go two ways
 * at a word that is masked with 0 or -1, so numbers are multiplied by 0 or 1. */
static __always_inline cohabit_u64 sign(cohabit_u64 word)
{
    __asm__ __volatile__("" : "+r"(word));
    return word >> 63;
}

/* 1 where a < b, of numbers that are less than 2^63 apart, else 0. */
static __always_inline cohabit_u64 is_less(cohabit_u64 a, cohabit_u64 b)
{
    return sign(a - b);
}

/* 1 where `word` is not 0, else 0. */
static __always_inline cohabit_u64 is_any(cohabit_u64 word)
{
    return sign(word | (0 - word));
}

/* `a` where `condition` is 0, `b` where it is 1. */
static __always_inline cohabit_u64 chosen(cohabit_u64 condition, cohabit_u64 a, cohabit_u64 b)
{
    return a + (b - a) * condition;
}

/* MurmurHash3's finalizer. */
static __always_inline cohabit_u64 mix(cohabit_u64 x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    x ^= x >> 33;
    return x;
}

#define PAGE_SHIFT 12

/* Consecutive pages of which the blocks are in consecutive lines of the table: programs touch memory in order, and a
 * line of its own for each page, anywhere in the table, is a miss in caches and TLB each time. */
#define NEIGHBOURS_LOG2 6
#define NEIGHBOURS_MASK ((1ull << NEIGHBOURS_LOG2) - 1)
/* Bits of a key that no number has: of a shared object; of who writes next. */
#define SHARED_KEY (1ull << 63)
#define WRITTEN_KEY (1ull << 62)

/* The key of the block that holds a byte of an address space or an object, `memory`, in blocks (or pages) of 1 << shift
 * bytes. The low bits are the page's, for its place among its neighbours; 56 bits above them are mixed of all the rest,
 * of what memory it is too. Of a million blocks two have the same key once in some ten million runs. */
static __always_inline cohabit_u64 key_of(cohabit_u64 memory, cohabit_u64 byte, cohabit_u32 shift)
{
    cohabit_u64 in_page = chosen(is_less(shift, PAGE_SHIFT), 0, PAGE_SHIFT - shift);
    cohabit_u64 block = byte >> shift, page = block >> in_page;
    cohabit_u64 others = page >> NEIGHBOURS_LOG2 << in_page | (block & ((1ull << in_page) - 1));
    return mix(memory + others) << 8 >> (8 - NEIGHBOURS_LOG2) | (page & NEIGHBOURS_MASK);
}

/* A function of its own, not static and not inlined: the verifier goes through such a one once, not for each way that
 * leads to it. */
__attribute__((noinline)) int credit(cohabit_u32 a, cohabit_u32 b, cohabit_u32 kind, cohabit_u64 by)
{
    cohabit_u32 key = a < b ? a << 16 | b : b << 16 | a;
    kind &= COHABIT_KINDS - 1;
    struct cohabit_events *events = bpf_map_lookup_elem(&matrix, &key);
    if (!events) {
        struct cohabit_events none = {};
        /* Fails where somebody was faster, or the matrix is full. */
        bpf_map_update_elem(&matrix, &key, &none, BPF_NOEXIST);
        events = bpf_map_lookup_elem(&matrix, &key);
    }
    if (events)
        __sync_fetch_and_add(&events->of_kind[kind], by);
    else
        count(COHABIT_COUNT_PAIRS_LOST, 1);
    return 0;
}

static __always_inline cohabit_u64 recent_at(cohabit_u64 recent, cohabit_u32 place)
{
    return recent >> (place * COHABIT_RECENT_BITS & 63) & 0xffff;
}

/* Where in a block's recent tasks `task` (a slot plus 1) is; COHABIT_RECENT_TASKS where it is not. */
static __always_inline cohabit_u32 place_of(cohabit_u64 recent, cohabit_u64 task)
{
    cohabit_u64 place = 0, others = 1;
#pragma unroll
    for (cohabit_u32 i = 0; i < COHABIT_RECENT_TASKS; i++) {
        others &= is_less(0, recent_at(recent, i) ^ task);
        place += others;
    }
    return place;
}

/* The recent tasks, or their spans, with `first` put at the front, from `place` if it had one. */
static __always_inline cohabit_u64 to_front(cohabit_u64 recent, cohabit_u32 place, cohabit_u64 first)
{
    if (place >= COHABIT_RECENT_TASKS - 1)
        return recent << COHABIT_RECENT_BITS | first;
    cohabit_u32 bits = (place + 1) * COHABIT_RECENT_BITS & 63;
    cohabit_u64 behind = recent >> bits << bits;
    cohabit_u64 ahead = recent & (((cohabit_u64)1 << (place * COHABIT_RECENT_BITS & 63)) - 1);
    return behind | ahead << COHABIT_RECENT_BITS | first;
}

#define SPAN_MASK ((1u << COHABIT_SPAN_BITS) - 1)

/* The span of the task at `place`, made to hold `block`; that alone where the task has none yet. */
static __always_inline cohabit_u64 span_with(cohabit_u64 spans, cohabit_u32 place, cohabit_u64 block)
{
    cohabit_u64 span = chosen(is_less(place, COHABIT_RECENT_TASKS), block | block << COHABIT_SPAN_BITS, recent_at(spans, place));
    cohabit_u64 first = span & SPAN_MASK, last = span >> COHABIT_SPAN_BITS;
    return chosen(is_less(block, first), first, block) | chosen(is_less(last, block), last, block) << COHABIT_SPAN_BITS;
}

/* 1 where two spans have a block in common, else 0. */
static __always_inline cohabit_u64 overlap(cohabit_u64 a, cohabit_u64 b)
{
    return 1 ^ (is_less(b >> COHABIT_SPAN_BITS, a & SPAN_MASK) | is_less(a >> COHABIT_SPAN_BITS, b & SPAN_MASK));
}

/* The way of `line` that holds `key`, or else the first that is empty, or else the one that makes room for it. */
static __always_inline cohabit_u32 way_of(struct cohabit_block_line *line, cohabit_u64 key, cohabit_u64 *found)
{
    cohabit_u64 holds = COHABIT_WAYS, way = key >> 60 & (COHABIT_WAYS - 1);
#pragma unroll
    for (cohabit_u32 i = COHABIT_WAYS; i-- > 0;) {
        cohabit_u64 there = line->key[i];
        way = chosen(is_any(there), i, way);
        holds = chosen(is_any(there ^ key), i, holds);
    }
    *found = is_less(holds, COHABIT_WAYS);
    return chosen(*found, way, holds);
}

/* The way of the line at `index` for `key`, taken for it where it had none; COHABIT_WAYS where there is nothing left to
 * do. Two tasks may come for the same new block at the same time: the one that is later finds the key there, and
 * forgets nothing. Like credit(), verified once. */
__attribute__((noinline)) cohabit_u32 own_way(cohabit_u32 index, cohabit_u64 key, cohabit_u64 task, cohabit_u64 block)
{
    struct cohabit_block_line *line = bpf_map_lookup_elem(&blocks, &index);
    if (!line)
        return COHABIT_WAYS;
    for (int attempt = 0; attempt < 3; attempt++) {
        cohabit_u64 found;
        cohabit_u32 way = way_of(line, key, &found) & (COHABIT_WAYS - 1);
        if (found)
            return way;
        cohabit_u64 there = line->key[way], recent = line->recent[way];
        if (__sync_val_compare_and_swap(&line->key[way], there, key) != there)
            continue;
        count(COHABIT_COUNT_NEW_BLOCKS, 1);
        if (!there)
            return way;
        count(COHABIT_COUNT_EVICTIONS, 1);
        /* The tasks of the block that was there go, unless somebody has touched the new one already. */
        if (__sync_val_compare_and_swap(&line->recent[way], recent, task) != recent)
            return way;
        line->spans[way] = span_with(0, COHABIT_RECENT_TASKS, block);
        return COHABIT_WAYS;
    }
    count(COHABIT_COUNT_RACES, 1);
    return COHABIT_WAYS;
}

/* Credits the task in `slot` with those of the recent tasks that are ahead of its own place and whose spans its own
 * overlaps. */
__attribute__((noinline)) int credit_recent(cohabit_u64 recent, cohabit_u64 spans, cohabit_u64 own, cohabit_u64 place, cohabit_u64 slot_and_kind)
{
    cohabit_u32 slot = slot_and_kind >> 1, kind = slot_and_kind & 1;
    cohabit_u64 events = 0;
#pragma unroll
    for (cohabit_u32 i = 0; i < COHABIT_RECENT_TASKS; i++) {
        cohabit_u64 other = recent_at(recent, i);
        cohabit_u64 meets = is_less(i, place) & is_less(0, other) & overlap(own, recent_at(spans, i));
        events += meets;
        if (meets)
            credit(slot, other - 1, kind, 1);
    }
    if (events)
        count(COHABIT_COUNT_EVENTS, events);
    return 0;
}

/* A task in `slot` has touched the block of `key`, or block `block` of the page of `key`. Like credit(), verified
 * once. */
__attribute__((noinline)) int touch(cohabit_u64 key, cohabit_u64 block, cohabit_u32 slot, cohabit_u32 kind)
{
    cohabit_u32 index = key & settings.line_mask;
    struct cohabit_block_line *line = bpf_map_lookup_elem(&blocks, &index);
    if (!line)
        return 0;
    cohabit_u64 task = (cohabit_u64)slot + 1;
    cohabit_u32 way = own_way(index, key, task, block);
    if (way >= COHABIT_WAYS)
        return 0;
    for (int attempt = 0; attempt < 4; attempt++) {
        cohabit_u64 recent = line->recent[way], spans = line->spans[way];
        cohabit_u32 place = place_of(recent, task);
        cohabit_u64 own = span_with(spans, place, block);
        if (place == 0 && own == recent_at(spans, 0))
            return 0;
        cohabit_u64 next = to_front(recent, place, task);
        if (__sync_val_compare_and_swap(&line->recent[way], recent, next) != recent)
            continue;
        /* Two words: of two tasks that come at the same moment, the spans of the later one stay, and what the other has
         * added to them is lost. */
        line->spans[way] = to_front(spans, place, own);
        if (recent)
            credit_recent(recent, spans, own, place, (cohabit_u64)slot << 1 | (kind & 1));
        return 0;
    }
    count(COHABIT_COUNT_RACES, 1);
    return 0;
}

#endif
