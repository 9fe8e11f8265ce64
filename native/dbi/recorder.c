/* Recording (recorder.h): the file, the tasks' buffers, and the order among tasks. Compiled without vector
 * registers. */
#include "recorder.h"
#include "dr_api.h"
#include "options.h"
#include "recorder_channels.h"
#include "recorder_shared.h"
#include "recorder_state.h"
#include "slots.h"
#include "system.h"

#define FILE_SPACE (1ull << 42)
#define GROWTH_BYTES (4ull << 20)
#define BUFFER_WORDS 8192u
/* What the slow path may add within one segment: a wait for each of its accesses. */
#define MARGIN_WORDS 4096u
#define ADDRESS_BITS 47
#define INTERN_SLOTS (COHABIT_RECORDING_MAX_SEGMENTS * 2)

static struct {
    cohabit_recording_t *head;
    uint64_t reserved;
    int fd;
    int lock;
    /* Task and position of the write that took each block last: task << POSITION_BITS | position; 0: none. Where tasks
     * wait at the block, of its last write. */
    uint64_t *writes;
    cohabit_chunk_t *definitions;
    uint64_t segments; /* that this process knows: its parent may have more in the file that both have mapped for a moment */
    struct interned {
        uint64_t hash;
        uint32_t number; /* + 1; 0: free */
        uint32_t at;     /* chunk and offset of the definition: to compare with */
        uint64_t offset;
    } *interned;
    int intern_lock;
} file;

segment_shape_t *recorder_shapes;

/* A word for each block of the address space. */
static uint64_t
writes_bytes(void)
{
    return (1ull << (ADDRESS_BITS - shadow_block_shift)) * sizeof(uint64_t);
}

static cohabit_recorded_task_t *
recorded(uint32_t task)
{
    return (cohabit_recorded_task_t *)(file.head + 1) + task;
}

/* Variables that say which rank a process is begin so. */
static const char *const ranks[] = { "OMPI_COMM_WORLD_", "PMI", "SLURM_", "MPI_LOCALNRANKS", NULL };

static bool
open_file(void)
{
    char path[512];
    file.reserved = 0;
    file.lock = file.intern_lock = 0;
    file.head = NULL;
    file.definitions = NULL;
    dr_snprintf(path, sizeof(path), "%s/%016llx-%u.recording", options.recording,
                (unsigned long long)part()->start_ticks, (unsigned)part()->pid);
    file.fd = system_create(path);
    if (file.fd < 0) {
        dr_fprintf(STDERR, "cohabit: %s: cannot be created (error %d)\n", path, -file.fd);
        return false;
    }
    if (system_fallocate(file.fd, 0, COHABIT_RECORDING_HEAD_BYTES) != 0 ||
        (file.head = system_map_shared(file.fd, FILE_SPACE)) == NULL) {
        dr_fprintf(STDERR, "cohabit: %s: no space for the recording\n", path);
        return false;
    }
    file.reserved = COHABIT_RECORDING_HEAD_BYTES;
    file.head->version = COHABIT_RECORDING_VERSION;
    file.head->pid = part()->pid;
    file.head->image = recorder_shared_image();
    system_environment(ranks, (char *)file.head + COHABIT_RECORDING_ENVIRONMENT_AT, COHABIT_RECORDING_ENVIRONMENT_BYTES);
    __atomic_store_n(&file.head->magic, COHABIT_RECORDING_MAGIC, __ATOMIC_RELEASE);
    return true;
}

bool
recorder_init(void)
{
    if (options.recording[0] == '\0')
        return true;
    file.writes = system_map_reserve(writes_bytes());
    file.interned = system_map_reserve(INTERN_SLOTS * sizeof(struct interned));
    recorder_shapes = system_map_reserve(COHABIT_RECORDING_MAX_SEGMENTS * sizeof(segment_shape_t));
    if (file.writes == NULL || file.interned == NULL || recorder_shapes == NULL) {
        dr_fprintf(STDERR, "cohabit: no address space for the recording; lift ulimit -v\n");
        return false;
    }
    return open_file();
}

static void
copy_bytes(void *to, const void *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

static uint32_t
bytes_of_accesses(const cohabit_segment_t *segment)
{
    return segment->accesses * (uint32_t)sizeof(cohabit_recorded_access_t);
}

/* As they are written: with the zeros behind. */
static uint32_t
bytes_of_code(const cohabit_segment_t *segment)
{
    return (segment->code + COHABIT_RECORDING_ALIGN - 1) / COHABIT_RECORDING_ALIGN * COHABIT_RECORDING_ALIGN;
}

/* Translated code goes on in the child: the numbers of segments stay, and their definitions come along. What the parent
 * defines meanwhile does not. */
static bool
copy_definitions(const char *from, uint64_t chunks)
{
    uint64_t left = file.segments;
    for (uint64_t i = 0; i < chunks && left > 0; i++) {
        const cohabit_chunk_t *chunk =
            (const cohabit_chunk_t *)(from + COHABIT_RECORDING_HEAD_BYTES + i * COHABIT_RECORDING_CHUNK_BYTES);
        if (chunk->kind != COHABIT_CHUNK_DEFINITIONS)
            continue;
        cohabit_chunk_t *copy = recorder_chunk(COHABIT_CHUNK_DEFINITIONS, 0);
        if (copy == NULL)
            return false;
        uint32_t bytes = 0;
        for (; left > 0 && bytes < chunk->used; left--) {
            const cohabit_segment_t *segment = (const cohabit_segment_t *)((const char *)(chunk + 1) + bytes);
            bytes += (uint32_t)sizeof(*segment) + bytes_of_accesses(segment) + bytes_of_code(segment);
        }
        copy_bytes(copy + 1, chunk + 1, bytes);
        copy->used = bytes;
    }
    return left == 0;
}

bool
recorder_fork(void)
{
    if (options.recording[0] == '\0')
        return true;
    cohabit_recording_t *parents = file.head;
    int parents_fd = file.fd;
    uint64_t chunks = __atomic_load_n(&parents->chunks, __ATOMIC_ACQUIRE);
    if (!open_file())
        return false;
    bool fine = copy_definitions((const char *)parents, chunks);
    file.head->segments = file.segments;
    system_unmap(parents, FILE_SPACE);
    system_close(parents_fd);
    system_discard(file.writes, writes_bytes());
    /* Where the definitions lie has changed: they are found by comparing again, and the old numbers stay valid. */
    system_discard(file.interned, INTERN_SLOTS * sizeof(struct interned));
    return fine;
}

void
recorder_lost(void)
{
    __atomic_add_fetch(&file.head->lost, 1, __ATOMIC_RELAXED);
    part()->events_lost++;
}

static void
lost(void)
{
    recorder_lost();
    __atomic_or_fetch(&part()->flags, COHABIT_FLAG_NO_SPACE, __ATOMIC_RELAXED);
}

cohabit_chunk_t *
recorder_chunk(uint32_t kind, uint32_t task)
{
    cohabit_chunk_t *made = NULL;
    system_lock(&file.lock);
    uint64_t at = COHABIT_RECORDING_HEAD_BYTES + file.head->chunks * COHABIT_RECORDING_CHUNK_BYTES;
    uint64_t end = at + COHABIT_RECORDING_CHUNK_BYTES;
    if (end > file.reserved && end <= FILE_SPACE && system_fallocate(file.fd, file.reserved, GROWTH_BYTES) == 0)
        file.reserved += GROWTH_BYTES;
    if (end <= file.reserved) {
        made = (cohabit_chunk_t *)((char *)file.head + at);
        made->task = task;
        made->used = 0;
        __atomic_store_n(&made->kind, kind, __ATOMIC_RELEASE);
        __atomic_store_n(&file.head->chunks, file.head->chunks + 1, __ATOMIC_RELEASE);
    }
    system_unlock(&file.lock);
    if (made == NULL)
        lost();
    return made;
}

static uint64_t
hash_of(const void *data, uint32_t bytes, uint64_t hash)
{
    const uint8_t *at = data;
    for (uint32_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

static bool
same_bytes(const void *a, const void *b, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i])
            return false;
    }
    return true;
}

/* Room for a definition in the chunk of definitions under way. */
static uint8_t *
room_for(uint32_t bytes)
{
    uint32_t space = COHABIT_RECORDING_CHUNK_BYTES - (uint32_t)sizeof(cohabit_chunk_t);
    if (file.definitions == NULL || file.definitions->used + bytes > space)
        file.definitions = recorder_chunk(COHABIT_CHUNK_DEFINITIONS, 0);
    return file.definitions == NULL ? NULL : (uint8_t *)(file.definitions + 1) + file.definitions->used;
}

static uint32_t
intern_locked(const cohabit_segment_t *segment, const cohabit_recorded_access_t *accesses, const uint8_t *code)
{
    uint32_t of_accesses = bytes_of_accesses(segment), of_code = bytes_of_code(segment);
    uint32_t bytes = (uint32_t)sizeof(*segment) + of_accesses + of_code;
    uint64_t hash = hash_of(accesses, of_accesses, hash_of(segment, sizeof(*segment), 0xcbf29ce484222325ull));
    hash = hash_of(code, of_code, hash);
    uint32_t slot = (uint32_t)(hash % INTERN_SLOTS);
    for (; file.interned[slot].number != 0; slot = (slot + 1) % INTERN_SLOTS) {
        const uint8_t *known = (const uint8_t *)file.head + file.interned[slot].offset;
        if (file.interned[slot].hash == hash && same_bytes(known, segment, sizeof(*segment)) &&
            same_bytes(known + sizeof(*segment), accesses, of_accesses) &&
            same_bytes(known + sizeof(*segment) + of_accesses, code, of_code))
            return file.interned[slot].number - 1;
    }
    uint32_t number = (uint32_t)file.segments;
    uint8_t *to = number == COHABIT_RECORDING_MAX_SEGMENTS ? NULL : room_for(bytes);
    if (to == NULL) {
        lost();
        return COHABIT_RECORDING_MAX_SEGMENTS;
    }
    copy_bytes(to, segment, sizeof(*segment));
    copy_bytes(to + sizeof(*segment), accesses, of_accesses);
    copy_bytes(to + sizeof(*segment) + of_accesses, code, of_code);
    recorder_shapes[number] = (segment_shape_t) { (uint16_t)segment->anchors, (uint16_t)segment->accesses };
    file.interned[slot].hash = hash;
    file.interned[slot].offset = (uint64_t)(to - (uint8_t *)file.head);
    file.interned[slot].number = number + 1;
    __atomic_store_n(&file.definitions->used, file.definitions->used + bytes, __ATOMIC_RELEASE);
    file.head->segments = file.segments = number + 1;
    return number;
}

uint32_t
recorder_intern(const cohabit_segment_t *segment, const cohabit_recorded_access_t *accesses, const uint8_t *code)
{
    system_lock(&file.intern_lock);
    uint32_t number = intern_locked(segment, accesses, code);
    system_unlock(&file.intern_lock);
    return number;
}

void
recorder_begin_task(task_t *me)
{
    if (options.recording[0] == '\0')
        return;
    struct recorder *recorder = me->recorder;
    if (recorder == NULL) {
        recorder = me->recorder = system_map_private(sizeof(*recorder));
        recorder->buffer = system_map_private((BUFFER_WORDS + MARGIN_WORDS) * sizeof(uint64_t));
    } else { /* after fork: the parent's */
        coder_free(&recorder->coder);
    }
    if (recorder == NULL || recorder->buffer == NULL || !coder_init(&recorder->coder, me->id)) {
        dr_fprintf(STDERR, "cohabit: thread %u cannot be recorded: no memory\n", me->shared->tid);
        dr_abort_with_code(125);
    }
    recorder->next = (uint64_t **)slot_address(SLOT_RECORD);
    recorder->segment = (uint64_t **)slot_address(SLOT_SEGMENT);
    recorder->position = (uint64_t *)slot_address(SLOT_POSITION);
    *recorder->next = recorder->buffer;
    *recorder->segment = NULL;
    *recorder->position = 0;
    *slot_address(SLOT_RECORD_END) = recorder->buffer + BUFFER_WORDS;
    me->order = RECORDER_NO_ORDER;
    recorder->atomic_write = NULL;
    recorder->sending = NULL;
    recorder->polled_ns = 0;
    recorder_shared_task(me);
}

/* Codes what the buffer holds. No segment is under way, or all its anchors are there. */
static void
flush(struct recorder *recorder)
{
    coder_take(&recorder->coder, recorder->buffer, *recorder->next);
    /* What a fault keeps a segment from filling in shall be nothing rather than what was there before. */
    for (uint64_t *word = recorder->buffer; word < *recorder->next; word++)
        *word = 0;
    *recorder->next = recorder->buffer;
    *recorder->segment = NULL;
    if (recorder->coder.lost)
        lost();
    recorded(recorder->coder.task)->accesses = recorder->coder.position;
}

void
recorder_full(task_t *me, uint64_t address, uint64_t group)
{
    (void)address, (void)group;
    flush(me->recorder);
    recorder_shared_keep_step(me);
    /* Where tasks share cores, whoever has one would run on until its slice is over, and who was woken meanwhile would take
     * locks, and what is handed out, far later than with a core of its own. */
    system_yield();
}

/* What is private to it. */
static void
free_task(task_t *me)
{
    struct recorder *recorder = me->recorder;
    coder_free(&recorder->coder);
    system_unmap(recorder->buffer, (BUFFER_WORDS + MARGIN_WORDS) * sizeof(uint64_t));
    system_unmap(recorder, sizeof(*recorder));
    me->recorder = NULL;
}

void
recorder_forget_task(task_t *me)
{
    if (me->recorder != NULL)
        free_task(me);
}

void
recorder_end_task(task_t *me, bool itself)
{
    struct recorder *recorder = me->recorder;
    if (recorder == NULL)
        return;
    cohabit_recorded_task_t *shared = recorded(me->id);
    /* The kernel clears the word that whoever waits for the task's end looks at. */
    uint64_t cleared = itself ? system_cleared_at_end() : 0;
    recorder_channels_end(me);
    recorder->ending = true;
    if (cleared != 0)
        shadow_access(me, cleared, 4, ACCESS_WRITE);
    flush(recorder);
    shared->ended = 1;
    free_task(me);
}

void
recorder_add_event(task_t *me, uint32_t event, uint64_t first, const uint64_t *others, uint32_t count)
{
    struct recorder *recorder = me->recorder;
    if (recorder == NULL)
        return;
    if (me->order == RECORDER_NO_ORDER && *recorder->next + 1 + count > recorder->buffer + BUFFER_WORDS)
        flush(recorder);
    uint64_t *entry = *recorder->next;
    if (entry + 1 + count > recorder->buffer + BUFFER_WORDS + MARGIN_WORDS) {
        part()->events_lost++;
        return;
    }
    entry[0] = event | first << ENTRY_BITS;
    for (uint32_t i = 0; i < count; i++)
        entry[1 + i] = others[i];
    *recorder->next = entry + 1 + count;
}

void
recorder_uses_channel(uint64_t number)
{
    uint64_t most = __atomic_load_n(&file.head->channels, __ATOMIC_RELAXED);
    while (most < number &&
           !__atomic_compare_exchange_n(&file.head->channels, &most, number, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void
recorder_started(task_t *me, uint32_t task)
{
    if (me->recorder == NULL)
        return;
    cohabit_recorded_task_t *shared = recorded(task);
    shared->parent_position = *me->recorder->position;
    shared->parent = me->id + 1;
}

void
recorder_forked(task_t *me, uint32_t pid)
{
    if (me->recorder == NULL)
        return;
    uint64_t number = __atomic_fetch_add(&file.head->forks, 1, __ATOMIC_ACQ_REL);
    if (number >= COHABIT_RECORDING_MAX_FORKS)
        return;
    cohabit_recorded_fork_t *forks = (cohabit_recorded_fork_t *)((char *)file.head + COHABIT_RECORDING_FORKS_AT);
    forks[number] = (cohabit_recorded_fork_t) { pid, me->id, *me->recorder->position };
}

uint64_t
recorder_position(const task_t *me)
{
    const struct recorder *recorder = me->recorder;
    uint64_t position = *recorder->position;
    if (me->order == RECORDER_NO_ORDER || *recorder->segment == NULL)
        return position + recorder->ending;
    uint32_t segment = (uint32_t)(**recorder->segment >> ENTRY_BITS);
    return position - recorder_shapes[segment].accesses + me->order + 1;
}

uint64_t
recorder_order(const task_t *me)
{
    return me->order == RECORDER_NO_ORDER || *me->recorder->segment == NULL ? 0 : me->order + 1ull;
}

void
recorder_add_wait(task_t *me, uint32_t event, uint64_t write)
{
    uint64_t numbers[3] = { write >> POSITION_BITS, write & POSITION_MASK,
                            me->atomic ? COHABIT_WAIT_LOCK : COHABIT_WAIT_DATA };
    recorder_add_event(me, event, recorder_order(me), numbers, 3);
}

void
recorder_add_wait_of_call(task_t *me, uint32_t event, uint64_t write)
{
    uint64_t numbers[3] = { write >> POSITION_BITS, write & POSITION_MASK, COHABIT_WAIT_CALL };
    recorder_add_event(me, event, recorder_order(me), numbers, 3);
}

static uint64_t *
write_of(uint64_t block)
{
    return &file.writes[block];
}

void
recorder_writes(task_t *me, uint64_t block)
{
    if (me->recorder == NULL)
        return;
    uint64_t *write = write_of(block);
    uint64_t mark = (__atomic_load_n(write, __ATOMIC_RELAXED) & WAITED_AT) | (me->atomic ? WAITED_AT : 0);
    if (me->atomic) {
        me->recorder->atomic_write = write;
        me->recorder->atomic_shared = false;
        me->recorder->atomic_order = me->order;
    }
    /* Who wrote the block before comes first: what of it this task does not write it may read later, as if it were its
     * own value, and whoever waits for this task waits for all of them. */
    uint64_t own = (uint64_t)me->id << POSITION_BITS | mark | recorder_position(me);
    uint64_t before = __atomic_exchange_n(write, own, __ATOMIC_ACQ_REL);
    if ((before & ~WAITED_AT) != 0 && before >> POSITION_BITS != me->id)
        recorder_add_wait(me, COHABIT_EVENT_WAIT, before);
}

bool
recorder_waited_at(const task_t *me, uint64_t block)
{
    return me->recorder != NULL &&
        (me->atomic || (__atomic_load_n(write_of(block), __ATOMIC_RELAXED) & WAITED_AT) != 0);
}

void
recorder_reads(task_t *me, uint32_t writer, uint64_t block)
{
    if (me->recorder == NULL)
        return;
    uint64_t write = __atomic_load_n(write_of(block), __ATOMIC_ACQUIRE);
    if (write >> POSITION_BITS != writer || writer == me->id)
        return; /* somebody else took the block in between: whose value is read is not certain */
    recorder_add_wait(me, COHABIT_EVENT_WAIT, write);
}

void
recorder_behind_atomic(task_t *me, uint64_t address, uint64_t group)
{
    (void)address, (void)group;
    struct recorder *recorder = me->recorder;
    if (recorder == NULL || recorder->atomic_write == NULL)
        return;
    uint64_t write = __atomic_load_n(recorder->atomic_write, __ATOMIC_ACQUIRE);
    uint64_t other = write >> POSITION_BITS, mine = recorder->atomic_shared ? me->common : me->id;
    if (other != mine && recorder->atomic_order != RECORDER_NO_ORDER) {
        uint32_t event = recorder->atomic_shared ? COHABIT_EVENT_WAIT_IN_RUN : COHABIT_EVENT_WAIT;
        uint64_t numbers[3] = { other, write & POSITION_MASK, COHABIT_WAIT_LOCK };
        me->order = recorder->atomic_order;
        recorder_add_event(me, event, recorder->atomic_order + 2u, numbers, 3); /* before the access behind it */
        me->order = RECORDER_NO_ORDER;
    }
    recorder->atomic_write = NULL;
}

void
recorder_at_futex(task_t *me, bool at)
{
    if (me->recorder != NULL)
        me->recorder->at_futex = at;
}

void
recorder_access(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    if (me->recorder == NULL)
        return;
    uint64_t numbers[2] = { bytes, address };
    recorder_add_event(me, COHABIT_EVENT_ACCESS, kind | (me->recorder->at_futex ? COHABIT_RECORDED_ATOMIC : 0), numbers, 2);
    ++*me->recorder->position;
}

void
recorder_unmapped(uint64_t start, uint64_t bytes)
{
    if (options.recording[0] != '\0')
        recorder_add_event(slots_current_task(), COHABIT_EVENT_UNMAP, start, &bytes, 1);
}

void
recorder_idle(task_t *me, uint64_t ns)
{
    recorder_add_event(me, COHABIT_EVENT_IDLE, ns, NULL, 0);
}

void
recorder_phase(task_t *me, uint64_t number)
{
    recorder_add_event(me, COHABIT_EVENT_PHASE, number, NULL, 0);
}
