/* The part file (abi.h): growth, tasks, cells and the series.
 *
 * Compiled without vector registers, like everything the slow path calls: the program's are live.
 */
#include "part.h"
#include "ticks.h"
#include "dr_api.h"
#include "system.h"

/* Address space for a part; pages come into being only where they are used. */
#define PART_SPACE (1ull << 38)

static struct {
    char directory[400];
    uint64_t ticks_per_second;
    uint64_t window_ns;
    uint64_t window_instructions;
    uint64_t series_bound;
    uint32_t block_bytes;
    int fd;
    cohabit_part_t *head;
    uint64_t reserved; /* bytes of the file that exist */
    int lock;
    /* Thread ids of live tasks to their slots: open addressing, grown by rebuilding. */
    struct {
        uint32_t tid;
        uint32_t id;
    } *live;
    uint32_t live_capacity;
    uint32_t live_count;
} state;

cohabit_part_t *
part(void)
{
    return state.head;
}

void *
part_at(uint64_t offset)
{
    return (char *)state.head + offset;
}

static bool
grow_to(uint64_t bytes)
{
    if (bytes <= state.reserved)
        return true;
    uint64_t wanted = (bytes + COHABIT_CHUNK_BYTES - 1) / COHABIT_CHUNK_BYTES * COHABIT_CHUNK_BYTES;
    if (wanted > PART_SPACE || system_fallocate(state.fd, state.reserved, wanted - state.reserved) != 0) {
        if (state.head != NULL)
            __atomic_or_fetch(&state.head->flags, COHABIT_FLAG_NO_SPACE, __ATOMIC_RELAXED);
        return false;
    }
    state.reserved = wanted;
    return true;
}

static uint64_t
alloc_locked(uint64_t bytes)
{
    bytes = (bytes + 63) & ~63ull;
    uint64_t at = state.head->used;
    if (!grow_to(at + bytes)) {
        state.head->events_lost++;
        return 0;
    }
    state.head->used = at + bytes;
    return at;
}

uint64_t
part_alloc(uint64_t bytes)
{
    system_lock(&state.lock);
    uint64_t at = alloc_locked(bytes);
    system_unlock(&state.lock);
    return at;
}

static bool
create(void)
{
    char path[512];
    uint64_t now = ticks_now();
    dr_snprintf(path, sizeof(path), "%s/%016llx-%u.part", state.directory, (unsigned long long)now,
                (unsigned)dr_get_process_id());
    state.fd = system_create(path);
    if (state.fd < 0) {
        /* EACCES: the directory is of whoever started the run. */
        if (state.fd == -13)
            dr_fprintf(STDERR,
                       "cohabit: process %u has become another user and cannot write to %s: it ends\n  profile it as "
                       "that user from the start\n",
                       (unsigned)dr_get_process_id(), state.directory);
        else
            dr_fprintf(STDERR, "cohabit: %s: cannot be created (error %d)\n", path, -state.fd);
        return false;
    }
    state.head = NULL;
    state.reserved = 0;
    if (!grow_to(sizeof(cohabit_part_t) + COHABIT_MAX_COUNTERS * sizeof(cohabit_shape_t))) {
        dr_fprintf(STDERR, "cohabit: %s: no space for the profile\n", path);
        return false;
    }
    cohabit_part_t *head = system_map_shared(state.fd, PART_SPACE);
    if (head == NULL) {
        dr_fprintf(STDERR, "cohabit: %s: cannot be mapped; is the address space limited (ulimit -v)?\n", path);
        return false;
    }
    state.head = head;
    head->version = COHABIT_PART_VERSION;
    head->pid = (uint32_t)dr_get_process_id();
    head->ppid = system_parent_pid();
    head->start_ns = system_monotonic_ns();
    head->start_ticks = now;
    head->born = system_process_start();
    head->ticks_per_second = state.ticks_per_second;
    head->window_ticks =
        (uint64_t)((unsigned __int128)state.window_ns * state.ticks_per_second / 1000000000u);
    if (state.window_instructions > 0) {
        head->window_ticks = state.window_instructions;
        head->flags |= COHABIT_FLAG_INSTRUCTIONS;
    }
    if (head->window_ticks == 0)
        head->window_ticks = 1;
    head->block_bytes = state.block_bytes;
    head->used = (sizeof(cohabit_part_t) + 63) & ~63ull;
    head->shapes_at = alloc_locked(COHABIT_MAX_COUNTERS * sizeof(cohabit_shape_t));
    head->shapes = COHABIT_FIRST_SHAPE;
    if (state.series_bound > 0)
        head->flags |= COHABIT_FLAG_SERIES;
    head->stack_top = system_stack_top();
    system_program_path(head->program, sizeof(head->program));
    /* Last, so that a reader never takes half a head for a whole one. */
    __atomic_store_n(&head->magic, COHABIT_PART_MAGIC, __ATOMIC_RELEASE);
    return true;
}

static bool
grow_live(void)
{
    uint32_t capacity = state.live_capacity == 0 ? 1024 : state.live_capacity * 2;
    void *old = state.live;
    uint32_t old_capacity = state.live_capacity;
    state.live = system_map_private(capacity * sizeof(*state.live));
    if (state.live == NULL)
        return false;
    state.live_capacity = capacity;
    state.live_count = 0;
    for (uint32_t i = 0; i < old_capacity; i++) {
        uint32_t tid = ((uint32_t *)old)[2 * i];
        uint32_t id = ((uint32_t *)old)[2 * i + 1];
        if (tid == 0 || (part_task(id)->ended && part_task(id)->parent != COHABIT_NO_TASK))
            continue;
        uint32_t at = (tid * 2654435761u) & (capacity - 1);
        while (state.live[at].tid != 0)
            at = (at + 1) & (capacity - 1);
        state.live[at].tid = tid;
        state.live[at].id = id;
        state.live_count++;
    }
    if (old != NULL)
        system_unmap(old, old_capacity * sizeof(*state.live));
    return true;
}

bool
part_open(const char *directory, uint64_t ticks_per_second, uint64_t window_ns, uint64_t window_instructions,
          uint32_t block_bytes, uint64_t series_bound)
{
    dr_snprintf(state.directory, sizeof(state.directory), "%s", directory);
    state.ticks_per_second = ticks_per_second;
    state.window_ns = window_ns;
    state.window_instructions = window_instructions;
    state.block_bytes = block_bytes;
    state.series_bound = series_bound;
    return grow_live() && create();
}

bool
part_reopen(void)
{
    system_unmap(state.head, PART_SPACE);
    system_close(state.fd);
    for (uint32_t i = 0; i < state.live_capacity; i++)
        state.live[i].tid = 0;
    state.live_count = 0;
    state.lock = 0;
    return create();
}

/* The slot in `live` of a thread id, or the free one where it would go. */
static uint32_t
find_live(uint32_t tid)
{
    uint32_t at = (tid * 2654435761u) & (state.live_capacity - 1);
    while (state.live[at].tid != 0 && state.live[at].tid != tid)
        at = (at + 1) & (state.live_capacity - 1);
    return at;
}

static uint32_t
new_task_locked(uint32_t tid, uint32_t parent)
{
    cohabit_part_t *head = state.head;
    uint32_t id = head->tasks;
    if (id >= COHABIT_MAX_TASKS) {
        head->flags |= COHABIT_FLAG_TASKS_LOST;
        return COHABIT_NO_TASK;
    }
    uint64_t *page = &head->task_pages[id / COHABIT_TASKS_PER_PAGE];
    if (*page == 0) {
        uint64_t at = alloc_locked(COHABIT_TASKS_PER_PAGE * sizeof(cohabit_task_t));
        if (at == 0)
            return COHABIT_NO_TASK;
        *page = at;
    }
    cohabit_task_t *task = part_task(id);
    task->tid = tid;
    task->parent = parent;
    __atomic_store_n(&head->tasks, id + 1, __ATOMIC_RELEASE);
    return id;
}

/* Whether the entry is the thread that is being registered: by its creator (who knows the parent) or by itself. A
 * thread may have ended before its creator gets here, and its number may be in use again. */
static bool
is_same_thread(uint32_t id, uint32_t parent)
{
    const cohabit_task_t *task = part_task(id);
    bool creator_seen = task->parent != COHABIT_NO_TASK || id == 0;
    return parent == COHABIT_NO_TASK ? !task->ended : !creator_seen || !task->ended;
}

uint32_t
part_register(uint32_t tid, uint32_t parent)
{
    system_lock(&state.lock);
    uint32_t at = find_live(tid);
    uint32_t id = COHABIT_NO_TASK;
    if (state.live[at].tid == tid && is_same_thread(state.live[at].id, parent)) {
        id = state.live[at].id;
        cohabit_task_t *task = part_task(id);
        if (task->parent == COHABIT_NO_TASK && id != 0)
            task->parent = parent;
    } else {
        id = new_task_locked(tid, parent);
        if (id != COHABIT_NO_TASK) {
            if (state.live[at].tid == 0)
                state.live_count++;
            state.live[at].tid = tid;
            state.live[at].id = id;
            if (state.live_count * 2 > state.live_capacity)
                grow_live();
        }
    }
    system_unlock(&state.lock);
    return id;
}

cohabit_task_t *
part_task(uint32_t id)
{
    if (id >= COHABIT_MAX_TASKS || state.head->task_pages[id / COHABIT_TASKS_PER_PAGE] == 0)
        return NULL;
    cohabit_task_t *page = part_at(state.head->task_pages[id / COHABIT_TASKS_PER_PAGE]);
    return &page[id % COHABIT_TASKS_PER_PAGE];
}

uint32_t
part_shape(uint32_t loads, uint32_t stores, uint32_t bytes, bool spins)
{
    cohabit_part_t *head = state.head;
    cohabit_shape_t *shapes = part_at(head->shapes_at);
    system_lock(&state.lock);
    uint32_t i = COHABIT_FIRST_SHAPE;
    while (i < head->shapes &&
           !(shapes[i].loads == loads && shapes[i].stores == stores && shapes[i].bytes == bytes && shapes[i].spins == spins))
        i++;
    if (i == head->shapes && i < COHABIT_MAX_COUNTERS) {
        shapes[i] = (cohabit_shape_t) { loads, stores, bytes, spins };
        head->shapes++;
    }
    system_unlock(&state.lock);
    return i == COHABIT_MAX_COUNTERS ? 0 : i;
}

static cohabit_cell_t *
new_row(task_t *me, uint32_t row)
{
    uint32_t directory = row / COHABIT_ROWS_PER_DIRECTORY;
    if (me->rows[directory] == NULL) {
        cohabit_cell_t **rows = system_map_private(COHABIT_ROWS_PER_DIRECTORY * sizeof(*rows));
        uint64_t at = part_alloc(sizeof(cohabit_directory_t));
        if (rows == NULL || at == 0)
            return NULL;
        me->rows[directory] = rows;
        me->shared->directories[directory] = at;
    }
    uint64_t at = part_alloc(COHABIT_CELLS_PER_ROW * sizeof(cohabit_cell_t));
    if (at == 0)
        return NULL;
    cohabit_directory_t *shared = part_at(me->shared->directories[directory]);
    shared->rows[row % COHABIT_ROWS_PER_DIRECTORY] = at;
    return me->rows[directory][row % COHABIT_ROWS_PER_DIRECTORY] = part_at(at);
}

cohabit_cell_t *
part_cell(task_t *me, uint32_t partner)
{
    uint32_t row = partner / COHABIT_CELLS_PER_ROW;
    cohabit_cell_t **rows = me->rows[row / COHABIT_ROWS_PER_DIRECTORY];
    cohabit_cell_t *cells = rows == NULL ? NULL : rows[row % COHABIT_ROWS_PER_DIRECTORY];
    if (__builtin_expect(cells == NULL, 0)) {
        cells = new_row(me, row);
        if (cells == NULL) {
            state.head->events_lost++;
            return NULL;
        }
    }
    return &cells[partner % COHABIT_CELLS_PER_ROW];
}

/* Doubles the windows of a task's series pages that are narrower than the rest by now, merging rows in place. */
static void
widen_page(cohabit_series_page_t *page, uint32_t shift)
{
    uint32_t by = shift - page->window_shift;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < page->count; i++) {
        cohabit_series_row_t row = page->rows[i];
        row.bin >>= by;
        uint32_t j = kept;
        /* Rows of one window stand together, since a task's windows are written in order. */
        while (j > 0 && page->rows[j - 1].bin == row.bin && page->rows[j - 1].writer != row.writer)
            j--;
        if (j > 0 && page->rows[j - 1].bin == row.bin) {
            page->rows[j - 1].messages += row.messages;
            page->rows[j - 1].bytes += row.bytes;
        } else {
            page->rows[kept++] = row;
        }
    }
    page->count = kept;
    page->window_shift = shift;
}

/* Adds a row to the newest page of the task's series; a page of another width is never mixed with ours. */
static void
append_row(task_t *me, uint64_t bin, uint32_t shift, uint32_t writer, const cohabit_cell_t *cell)
{
    cohabit_series_page_t *page = me->shared->series == 0 ? NULL : part_at(me->shared->series);
    if (page != NULL && page->window_shift < shift)
        widen_page(page, shift);
    if (page == NULL || page->count == COHABIT_SERIES_ROWS_PER_PAGE) {
        uint64_t at = part_alloc(sizeof(cohabit_series_page_t));
        if (at == 0)
            return;
        page = part_at(at);
        page->next = me->shared->series;
        page->window_shift = shift;
        __atomic_store_n(&me->shared->series, at, __ATOMIC_RELEASE);
        uint64_t rows = __atomic_add_fetch(&state.head->series_rows, COHABIT_SERIES_ROWS_PER_PAGE, __ATOMIC_RELAXED);
        /* Every time the bound is passed windows double from then on; older pages are merged when the part is read. */
        if (rows >> state.head->window_shift > state.series_bound)
            __atomic_add_fetch(&state.head->window_shift, 1, __ATOMIC_RELAXED);
    }
    cohabit_series_row_t *row = &page->rows[page->count];
    row->bin = bin;
    row->writer = writer;
    row->messages = cell->window_messages;
    row->bytes = cell->window_bytes;
    __atomic_store_n(&page->count, page->count + 1, __ATOMIC_RELEASE);
}

uint64_t
part_accessed_bytes(const task_t *me)
{
    const uint64_t *counters = part_at(me->shared->counters);
    const cohabit_shape_t *shapes = part_at(state.head->shapes_at);
    uint32_t count = __atomic_load_n(&state.head->shapes, __ATOMIC_ACQUIRE);
    uint64_t bytes = me->shared->accessed_bytes + counters[COHABIT_COUNTER_BYTES];
    for (uint32_t i = COHABIT_FIRST_SHAPE; i < count; i++)
        bytes += counters[i] * shapes[i].bytes;
    return bytes;
}

uint64_t *
part_instructions(const task_t *me)
{
    return (uint64_t *)part_at(me->shared->counters) + COHABIT_COUNTER_INSTRUCTIONS;
}

/* What windows are of, since they began: time since the image did, or instructions of the task. */
static uint64_t
now_of(const task_t *me)
{
    return state.window_instructions > 0 ? *part_instructions(me) : ticks_now() - state.head->start_ticks;
}

void
part_flush_window(task_t *me)
{
    uint64_t now = now_of(me);
    cohabit_part_t *head = state.head;
    uint32_t shift = head->window_shift;
    uint64_t width = head->window_ticks << shift;
    for (uint32_t i = 0; i < me->touched_count; i++) {
        cohabit_cell_t *cell = part_cell(me, me->touched[i]);
        append_row(me, me->shared->window >> (shift - me->shared->window_shift), shift, me->touched[i], cell);
        cell->window_messages = 0;
        cell->window_bytes = 0;
    }
    me->touched_count = 0;
    uint64_t bin = now / width;
    me->shared->window = bin;
    me->shared->window_shift = shift;
    me->window_end = (bin + 1) * width;
}

static void
touch(task_t *me, uint32_t writer)
{
    if (me->touched_count == me->touched_capacity) {
        uint32_t capacity = me->touched_capacity == 0 ? 1024 : me->touched_capacity * 4;
        uint32_t *grown = system_map_private(capacity * sizeof(uint32_t));
        if (grown == NULL) {
            part_flush_window(me);
            return;
        }
        for (uint32_t i = 0; i < me->touched_count; i++)
            grown[i] = me->touched[i];
        if (me->touched != NULL)
            system_unmap(me->touched, me->touched_capacity * sizeof(uint32_t));
        me->touched = grown;
        me->touched_capacity = capacity;
    }
    me->touched[me->touched_count++] = writer;
}

void
part_count_message(task_t *me, uint32_t writer, uint32_t bytes)
{
    cohabit_cell_t *cell = part_cell(me, writer);
    if (cell == NULL)
        return;
    cell->messages++;
    cell->bytes += bytes;
    if (state.series_bound == 0)
        return;
    if (now_of(me) >= me->window_end)
        part_flush_window(me);
    if (cell->window_messages == 0)
        touch(me, writer);
    cell->window_messages++;
    cell->window_bytes += bytes;
}

void
part_uncount_message(task_t *me, uint32_t writer, uint32_t bytes)
{
    cohabit_cell_t *cell = part_cell(me, writer);
    if (cell == NULL || cell->messages == 0)
        return;
    cell->messages--;
    cell->bytes -= bytes;
    if (cell->window_messages > 0) { /* else its window is over and in the series */
        cell->window_messages--;
        cell->window_bytes -= bytes;
    }
}
