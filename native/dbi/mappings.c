/* Which addresses are memory shared between processes (mappings.h). Compiled without vector registers.
 *
 * The mappings lie in a table sorted by address. It is never changed: a change writes the other of two tables and turns
 * to it, so that whoever looks something up needs no lock, and a child that is forked in between finds a whole one.
 */
#include "mappings.h"
#include "common.h"
#include "recorder_shared.h"
#include "shadow.h"
#include "system.h"
#include <asm/unistd.h>
#include <linux/falloc.h>
#include <linux/mman.h>

#define MAX_MAPPINGS (1u << 17)
#define PAGE 4096u

typedef struct {
    uint64_t start;
    uint64_t end;
    uint64_t object;
    uint64_t offset;   /* of `start` in the object */
    uint64_t attached; /* System V: bytes of the segment, at its first address */
} mapping_t;

typedef struct {
    uint32_t count;
    mapping_t rows[MAX_MAPPINGS];
} table_t;

bool mappings_some;
static table_t *tables; /* two; the one in use is tables[version % 2] */
static uint64_t version = 1;
static int lock;

/* From this version on the range is what `mapping` says, or the process's own where that is NULL. */
static void
record(const mapping_t *mapping, uint64_t start, uint64_t end, uint64_t from)
{
    cohabit_mapping_t change = { from, start, end, 0, 0 };
    if (mapping != NULL) {
        change.object = mapping->object;
        change.offset = mapping->offset;
    }
    recorder_mapping(&change);
}

bool
mappings_init(void)
{
    tables = system_map_reserve(2 * sizeof(*tables));
    return tables != NULL;
}

/* What a forked child has mapped is told again: its recording is another. */
void
mappings_fork(void)
{
    lock = 0;
    const table_t *table = &tables[version % 2];
    for (uint32_t i = 0; i < table->count; i++)
        record(&table->rows[i], table->rows[i].start, table->rows[i].end, version);
}

static uint64_t
whole_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Index of the first mapping that ends behind the address. */
static uint32_t
first_behind(const table_t *table, uint64_t address)
{
    uint32_t low = 0, high = table->count < MAX_MAPPINGS ? table->count : MAX_MAPPINGS;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->rows[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The mapping that holds the address, and when that was so. */
static bool
find(uint64_t address, mapping_t *found, uint64_t *when)
{
    for (;;) {
        *when = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
        const table_t *table = &tables[*when % 2];
        uint32_t at = first_behind(table, address);
        bool inside = at < table->count && at < MAX_MAPPINGS;
        if (inside) {
            *found = table->rows[at];
            inside = found->start <= address;
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&version, __ATOMIC_ACQUIRE) == *when)
            return inside;
    }
}

bool
mappings_hold(uint64_t address)
{
    mapping_t found;
    uint64_t when;
    return mappings_any() && find(address, &found, &when);
}

static inline void
say_version(task_t *me, uint64_t now)
{
    if (me->recorder != NULL && me->mappings_seen != now)
        recorder_mappings(me, now);
}

word_t *
mappings_word(task_t *me, uint64_t block)
{
    if (!common_there())
        return NULL;
    uint64_t address = block << shadow_block_shift, now = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
    say_version(me, now);
    __typeof__(&me->mapped[0]) lately = &me->mapped[(address >> 22) % 4];
    if (lately->version == now && block >= lately->first && block < lately->end)
        return lately->words + (block - lately->first);
    mapping_t mapping;
    bool found = find(address, &mapping, &now);
    say_version(me, now);
    if (!found)
        return NULL;
    uint64_t offset = mapping.offset + (address - mapping.start);
    uint64_t number = offset / COMMON_SEGMENT_BYTES, within = offset % COMMON_SEGMENT_BYTES;
    word_t *words = common_segment(mapping.object, number, true);
    if (words == NULL)
        return NULL;
    /* As much of the mapping as lies in this segment. */
    uint64_t before = address - mapping.start < within ? address - mapping.start : within;
    uint64_t behind = COMMON_SEGMENT_BYTES - within;
    behind = mapping.end - address < behind ? mapping.end - address : behind;
    lately->version = now;
    lately->first = (address - before) >> shadow_block_shift;
    lately->end = (address + behind) >> shadow_block_shift;
    lately->words = words + ((within - before) >> shadow_block_shift);
    return lately->words + (block - lately->first);
}

static void
put(table_t *table, mapping_t mapping)
{
    if (mapping.start >= mapping.end)
        return;
    if (table->count == MAX_MAPPINGS) {
        part()->events_lost++;
        return;
    }
    table->rows[table->count++] = mapping;
}

/* The range is what `mapping` says, or the process's own where that is NULL. */
static void
replace(uint64_t start, uint64_t end, const mapping_t *mapping)
{
    if (start >= end || (mapping == NULL && !mappings_any()))
        return;
    system_lock(&lock);
    const table_t *from = &tables[version % 2];
    uint32_t first = first_behind(from, start);
    if (mapping == NULL && (first == from->count || from->rows[first].start >= end)) {
        system_unlock(&lock); /* it was so before */
        return;
    }
    record(mapping, start, end, version + 1);
    table_t *to = &tables[(version + 1) % 2];
    to->count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        mapping_t left = from->rows[i], right = from->rows[i];
        if (left.end > start)
            left.end = start;
        if (right.start < end) {
            right.offset += end - right.start;
            right.start = end;
        }
        put(to, left);
        if (mapping != NULL && right.start < right.end) {
            put(to, *mapping);
            mapping = NULL;
        }
        put(to, right);
    }
    if (mapping != NULL)
        put(to, *mapping);
    __atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&mappings_some, true, __ATOMIC_RELEASE);
    system_unlock(&lock);
}

static uint64_t
mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

/* The kinds of object, in their numbers. */
enum { OBJECT_FILE = 1, OBJECT_ANONYMOUS, OBJECT_SEGMENT };

static uint64_t
object_of_file(const file_identity_t *file)
{
    return mix(mix(mix(OBJECT_FILE, file->device), file->inode), file->born_ns);
}

static uint64_t
object_of_mapping(uint64_t flags, int fd)
{
    if ((flags & MAP_TYPE) != MAP_SHARED && (flags & MAP_TYPE) != MAP_SHARED_VALIDATE)
        return 0;
    file_identity_t file = { FILE_ZERO, 0, 0, 0, 0 };
    if ((flags & MAP_ANONYMOUS) == 0)
        file = system_identify(fd);
    if (file.kind == FILE_REGULAR)
        return object_of_file(&file);
    if (file.kind != FILE_ZERO)
        return 0;
    return mix(OBJECT_ANONYMOUS, common_there() ? common_new_object() : 0);
}

static void
mapped(const uint64_t *argument, uint64_t result)
{
    uint64_t object = object_of_mapping(argument[3], (int)argument[4]);
    mapping_t made = { result, result + whole_pages(argument[1]), object, argument[5], 0 };
    if ((argument[3] & MAP_ANONYMOUS) != 0)
        made.offset = 0;
    replace(made.start, made.end, object == 0 ? NULL : &made);
}

static void
attached(uint64_t id, uint64_t address)
{
    uint64_t bytes, creator;
    if (!system_segment((int)id, &bytes, &creator))
        return;
    uint64_t object = mix(mix(mix(OBJECT_SEGMENT, id), creator), bytes);
    bytes = whole_pages(bytes);
    mapping_t made = { address, address + bytes, object, 0, bytes };
    shadow_clear(address, bytes);
    replace(address, address + bytes, &made);
}

/* Where the memory that a system call is about to move comes from. */
static void
remember(task_t *me, uint64_t address, uint64_t bytes)
{
    mapping_t found;
    uint64_t when;
    me->remapped.object = 0;
    if (!mappings_any() || !find(address, &found, &when))
        return;
    me->remapped.object = found.object;
    me->remapped.offset = found.offset + (address - found.start);
    me->remapped.end = me->remapped.offset + bytes;
}

static void
place(const task_t *me, uint64_t address, uint64_t bytes)
{
    mapping_t made = { address, address + whole_pages(bytes), me->remapped.object, me->remapped.offset, 0 };
    replace(made.start, made.end, made.object == 0 ? NULL : &made);
}

static void
remember_file(task_t *me, file_identity_t file, uint64_t start, uint64_t end)
{
    me->remapped.object = file.kind == FILE_REGULAR ? object_of_file(&file) : 0;
    me->remapped.offset = start;
    me->remapped.end = end < file.bytes ? end : file.bytes;
}

static void
forget(task_t *me)
{
    if (common_there() && me->remapped.object != 0 && me->remapped.offset < me->remapped.end) {
        common_clear(me->remapped.object, me->remapped.offset, me->remapped.end);
        recorder_cleared(me, me->remapped.object, me->remapped.offset, me->remapped.end);
    }
}

void
mappings_before(task_t *me, int number, const uint64_t *argument)
{
    mapping_t found;
    uint64_t when;
    switch (number) {
    case __NR_munmap:
        /* Before it happens: after it another thread may be given the addresses. */
        if (argument[0] % PAGE == 0)
            replace(argument[0], argument[0] + whole_pages(argument[1]), NULL);
        break;
    case __NR_mremap:
        remember(me, argument[0], 0);
        if (me->remapped.object != 0 && argument[1] != 0 && (argument[3] & MREMAP_DONTUNMAP) == 0)
            replace(argument[0], argument[0] + whole_pages(argument[1]), NULL);
        break;
    case __NR_remap_file_pages: remember(me, argument[0], 0); break;
    case __NR_shmdt:
        if (mappings_any() && find(argument[0], &found, &when) && found.attached != 0)
            replace(argument[0], argument[0] + found.attached, NULL);
        break;
    case __NR_ftruncate: remember_file(me, system_identify((int)argument[0]), argument[1], ~0ull); break;
    case __NR_truncate: remember_file(me, system_identify_path((const char *)argument[0]), argument[1], ~0ull); break;
    case __NR_madvise:
        if (argument[2] == MADV_REMOVE)
            remember(me, argument[0], argument[1]);
        break;
    default: break;
    }
}

void
mappings_after(task_t *me, int number, const uint64_t *argument, uint64_t result)
{
    switch (number) {
    case __NR_mmap: mapped(argument, result); break;
    case __NR_shmat: attached(argument[0], result); break;
    case __NR_mremap: place(me, result, argument[2]); break;
    case __NR_remap_file_pages:
        me->remapped.offset = argument[3] * PAGE;
        place(me, argument[0], argument[1]);
        break;
    case __NR_ftruncate:
    case __NR_truncate: forget(me); break;
    case __NR_madvise:
        if (argument[2] == MADV_REMOVE)
            forget(me);
        break;
    case __NR_fallocate:
        if ((argument[1] & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
            remember_file(me, system_identify((int)argument[0]), argument[2], argument[2] + argument[3]);
            forget(me);
        }
        break;
    default: break;
    }
}

void
mappings_failed(task_t *me, int number, const uint64_t *argument)
{
    if (number == __NR_mremap && me->remapped.object != 0)
        place(me, argument[0], argument[1]);
}
