/* The detector: the block table and the matrix of CDSM (sections 2.1 and 2.3), in BPF maps.
 *
 * A block's line is found by the hash of its key. A task that faults is credited with every task that has faulted on the
 * block since the task itself last did, as far as the block remembers (its last four tasks). CDSM credits all that are
 * remembered; then two tasks that left a block would be credited for ever by two others that use it now, because
 * nobody pushes them out. crates/observe/src/faults/table.rs is the same in Rust, and a test compares the two.
 *
 * SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 */
#ifndef COHABIT_BPF_DETECT_H
#define COHABIT_BPF_DETECT_H

#include "kernel.h"
#include "faults_abi.h"
#include <bpf/bpf_helpers.h>

const volatile struct cohabit_fault_settings settings = {0, 8, COHABIT_MAX_SLOTS};

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
    __type(value, cohabit_u64);
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

/* MurmurHash3's finalizer: a bijection, so that different blocks of one address space keep different keys. */
static __always_inline cohabit_u64 mix(cohabit_u64 x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    x ^= x >> 33;
    return x;
}

static __always_inline void credit(cohabit_u32 a, cohabit_u32 b)
{
    cohabit_u32 key = a < b ? a << 16 | b : b << 16 | a;
    cohabit_u64 *value = bpf_map_lookup_elem(&matrix, &key);
    if (value) {
        __sync_fetch_and_add(value, 1);
        return;
    }
    cohabit_u64 one = 1;
    if (bpf_map_update_elem(&matrix, &key, &one, BPF_NOEXIST) == 0)
        return;
    /* Somebody was faster, or the matrix is full. */
    value = bpf_map_lookup_elem(&matrix, &key);
    if (value)
        __sync_fetch_and_add(value, 1);
    else
        count(COHABIT_COUNT_PAIRS_LOST, 1);
}

/* Where in a block's recent tasks `task` (a slot plus 1) is; COHABIT_RECENT_TASKS where it is not. */
static __always_inline cohabit_u32 place_of(cohabit_u64 recent, cohabit_u64 task)
{
    cohabit_u32 place = 0;
#pragma unroll
    for (cohabit_u32 i = 0; i < COHABIT_RECENT_TASKS; i++) {
        if ((recent >> (i * COHABIT_RECENT_BITS) & 0xffff) == task)
            break;
        place++;
    }
    return place;
}

/* The recent tasks with `task` moved to the front from `place`, or put there. */
static __always_inline cohabit_u64 to_front(cohabit_u64 recent, cohabit_u32 place, cohabit_u64 task)
{
    if (place >= COHABIT_RECENT_TASKS - 1)
        return recent << COHABIT_RECENT_BITS | task;
    cohabit_u32 bits = (place + 1) * COHABIT_RECENT_BITS & 63;
    cohabit_u64 behind = recent >> bits << bits;
    cohabit_u64 ahead = recent & (((cohabit_u64)1 << (place * COHABIT_RECENT_BITS & 63)) - 1);
    return behind | ahead << COHABIT_RECENT_BITS | task;
}

/* The way of `line` that holds `key`, or that held the block which makes room for it. */
static __always_inline cohabit_u32 way_of(struct cohabit_block_line *line, cohabit_u64 key, int *found)
{
    cohabit_u32 empty = COHABIT_WAYS;
    *found = 1;
#pragma unroll
    for (cohabit_u32 i = 0; i < COHABIT_WAYS; i++) {
        cohabit_u64 there = line->key[i];
        if (there == key)
            return i;
        if (there == 0 && empty == COHABIT_WAYS)
            empty = i;
    }
    *found = 0;
    return empty < COHABIT_WAYS ? empty : key >> 60 & (COHABIT_WAYS - 1);
}

/* The way of `line` for `key`, taken for it where it had none; COHABIT_WAYS where there is nothing left to do. Two tasks may
 * come for the same new block at the same time: the one that is later finds the key there, and forgets nothing. */
static __always_inline cohabit_u32 own_way(struct cohabit_block_line *line, cohabit_u64 key, cohabit_u64 task)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        int found;
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
        return __sync_val_compare_and_swap(&line->recent[way], recent, task) == recent ? COHABIT_WAYS : way;
    }
    count(COHABIT_COUNT_RACES, 1);
    return COHABIT_WAYS;
}

/* A task in `slot` has touched the block of `key`. */
static __always_inline void touch(cohabit_u64 key, cohabit_u32 slot)
{
    cohabit_u32 index = key & settings.line_mask;
    struct cohabit_block_line *line = bpf_map_lookup_elem(&blocks, &index);
    if (!line)
        return;
    cohabit_u64 task = (cohabit_u64)slot + 1;
    cohabit_u32 way = own_way(line, key, task);
    if (way >= COHABIT_WAYS)
        return;
    for (int attempt = 0; attempt < 4; attempt++) {
        cohabit_u64 recent = line->recent[way];
        cohabit_u32 place = place_of(recent, task);
        if (place == 0)
            return;
        cohabit_u64 next = to_front(recent, place, task);
        if (__sync_val_compare_and_swap(&line->recent[way], recent, next) != recent)
            continue;
        cohabit_u64 events = 0;
#pragma unroll
        for (cohabit_u32 i = 0; i < COHABIT_RECENT_TASKS; i++) {
            cohabit_u64 other = recent >> (i * COHABIT_RECENT_BITS) & 0xffff;
            if (i >= place || other == 0)
                break;
            credit(slot, other - 1);
            events++;
        }
        if (events)
            count(COHABIT_COUNT_EVENTS, events);
        return;
    }
    count(COHABIT_COUNT_RACES, 1);
}

#endif
