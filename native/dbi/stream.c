/* Writing the access stream (stream.h). Compiled without vector registers.
 *
 * The file is mapped and grown like a part, so that what was recorded survives whatever ends the program.
 */
#include "stream.h"
#include "common.h"
#include "dr_api.h"
#include "system.h"
#include "ticks.h"

#define STREAM_SPACE (1ull << 42)
#define STREAM_CHUNK (16ull << 20)

static cohabit_stream_t *head;
static uint64_t reserved; /* bytes of the file that exist */
static int fd;
static int lock;

/* One lock for all processes, where they may share memory: their streams have one order. */
static int *
order(void)
{
    return common_there() ? common_stream_lock() : &lock;
}

static bool
grow_to(uint64_t bytes)
{
    if (bytes <= reserved)
        return true;
    if (bytes > STREAM_SPACE || system_fallocate(fd, reserved, STREAM_CHUNK) != 0)
        return false;
    reserved += STREAM_CHUNK;
    return true;
}

bool
stream_open(const char *directory)
{
    char path[512];
    if (head != NULL) { /* after fork: the parent's */
        system_unmap(head, STREAM_SPACE);
        system_close(fd);
    }
    head = NULL;
    reserved = 0;
    lock = 0;
    dr_snprintf(path, sizeof(path), "%s/%016llx-%u.stream", directory, (unsigned long long)part()->start_ticks,
                (unsigned)part()->pid);
    fd = system_create(path);
    if (fd < 0) {
        dr_fprintf(STDERR, "cohabit: %s: cannot be created (error %d)\n", path, -fd);
        return false;
    }
    if (!grow_to(sizeof(*head)) || (head = system_map_shared(fd, STREAM_SPACE)) == NULL) {
        dr_fprintf(STDERR, "cohabit: %s: no space for the access stream\n", path);
        return false;
    }
    head->version = COHABIT_STREAM_VERSION;
    head->pid = part()->pid;
    head->start_ticks = part()->start_ticks;
    head->ticks_per_second = part()->ticks_per_second;
    head->block_bytes = part()->block_bytes;
    __atomic_store_n(&head->magic, COHABIT_STREAM_MAGIC, __ATOMIC_RELEASE);
    return true;
}

static void
append(uint32_t task, uint64_t address, uint32_t size, uint32_t kind)
{
    uint64_t end = sizeof(*head) + (head->count + 1) * sizeof(cohabit_access_t);
    if (head->lost != 0 || !grow_to(end)) { /* never a gap: what follows one would mislead */
        head->lost++;
        part()->events_lost++;
        __atomic_or_fetch(&part()->flags, COHABIT_FLAG_NO_SPACE, __ATOMIC_RELAXED);
        return;
    }
    cohabit_access_t *access = (cohabit_access_t *)(head + 1) + head->count;
    access->ticks = common_there() ? common_stream_ticks(ticks_now()) : ticks_now();
    access->address = address;
    access->size = size;
    access->kind_and_task = kind << COHABIT_ACCESS_KIND_SHIFT | task;
    __atomic_store_n(&head->count, head->count + 1, __ATOMIC_RELEASE);
}

void
stream_begin(const task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    system_lock(order());
    for (; bytes > UINT32_MAX; address += 1u << 31, bytes -= 1u << 31)
        append(me->id, address, 1u << 31, kind);
    append(me->id, address, (uint32_t)bytes, kind);
}

void
stream_clear_begin(uint64_t first, uint64_t end)
{
    system_lock(order());
    while (first < end) {
        uint64_t some = end - first < UINT32_MAX ? end - first : UINT32_MAX;
        append(0, first << shadow_block_shift, (uint32_t)some, COHABIT_ACCESS_CLEAR);
        first += some;
    }
}

void
stream_end(void)
{
    system_unlock(order());
}

void
stream_clear_all(void)
{
    system_lock(order());
    append(0, 0, 0, COHABIT_ACCESS_CLEAR);
    system_unlock(order());
}

void
stream_only(uint64_t start, uint64_t bytes)
{
    const uint64_t most = UINT32_MAX & ~4095ull;
    system_lock(order());
    for (; bytes > most; start += most, bytes -= most)
        append(0, start, (uint32_t)most, COHABIT_ACCESS_ONLY);
    append(0, start, (uint32_t)bytes, COHABIT_ACCESS_ONLY);
    system_unlock(order());
}
