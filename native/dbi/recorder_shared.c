/* Recording what processes share (recorder_shared.h). Compiled without vector registers. */
#include "recorder_shared.h"
#include "common.h"
#include "dr_api.h"
#include "options.h"
#include "recorder_state.h"
#include "system.h"
#include <sys/uio.h>

/* Processes by their number, in a table that is sought through from pid % IMAGES on; and the number of images, before
 * it. */
typedef struct {
    uint64_t pid_and_number; /* pid << 32 | number of its image + 1; 0: free */
    uint64_t mappings;       /* the version of its mappings */
} image_t;
#define IMAGES (COMMON_IMAGES_BYTES / sizeof(image_t) - 1)
#define TRIES 4096u

/* A task, by its number in the run. */
typedef struct {
    uint64_t image; /* its number, + 1 */
    uint64_t position; /* when it made its last system call */
    uint64_t step;     /* its position, now and then */
    uint64_t stands;   /* the step at which somebody found that it does not go on */
    uint64_t away;     /* it may sleep */
} in_run_t;
/* Accesses that a task may be ahead of others, and how long one that does not go on is waited for: it was killed, or
 * what it waits for is no system call. */
#define AHEAD 4096u
#define PATIENCE_NS 1000000000u
#define LOOK_AGAIN_NS 50000u

static image_t *own;
static uint32_t own_number;
static cohabit_chunk_t *changes;

static image_t *
image_of(uint32_t pid, bool make)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        image_t *at = common_room(COMMON_IMAGES_AT + (1 + (pid + tries) % IMAGES) * sizeof(image_t));
        if (at == NULL)
            return NULL;
        uint64_t found = __atomic_load_n(&at->pid_and_number, __ATOMIC_ACQUIRE);
        if (found == 0 && !make)
            return NULL;
        uint64_t mine = (uint64_t)pid << 32;
        if (found == 0 && __atomic_compare_exchange_n(&at->pid_and_number, &found, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return at;
        if (found >> 32 == pid)
            return at;
    }
    return NULL;
}

uint32_t
recorder_shared_image(void)
{
    uint64_t *count = common_there() ? common_room(COMMON_IMAGES_AT) : NULL;
    own = count == NULL ? NULL : image_of(part()->pid, true);
    own_number = 0;
    changes = NULL;
    if (own == NULL)
        return 0;
    own_number = (uint32_t)__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&own->mappings, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&own->pid_and_number, (uint64_t)part()->pid << 32 | own_number, __ATOMIC_RELEASE);
    return own_number;
}

uint32_t
recorder_shared_number(void)
{
    return own_number;
}

void
recorder_shared_task(task_t *me)
{
    me->mappings_seen = 0;
    me->recorder->in_run = NULL;
    if (own_number == 0 || !common_number(me))
        return;
    in_run_t *task = common_room(COMMON_TASKS_AT + me->common * sizeof(*task));
    if (task == NULL)
        return;
    __atomic_store_n(&task->step, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&task->stands, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&task->away, 0, __ATOMIC_RELAXED);
    me->recorder->in_run = &task->position;
    __atomic_store_n(&task->image, own_number, __ATOMIC_RELEASE);
}

void
recorder_shared_position(task_t *me)
{
    if (me->recorder != NULL && me->recorder->in_run != NULL)
        __atomic_store_n(me->recorder->in_run, *me->recorder->position, __ATOMIC_RELEASE);
}

/* The task of another process that has done least, of those that go on; NULL: none of them has done less than
 * `step`. */
static in_run_t *
slowest(const task_t *me, uint64_t step)
{
    in_run_t *found = NULL;
    for (uint32_t number = 0, count = common_tasks(); number < count; number++) {
        in_run_t *task = common_room(COMMON_TASKS_AT + number * sizeof(*task));
        if (task == NULL || number == me->common || __atomic_load_n(&task->image, __ATOMIC_ACQUIRE) == own_number)
            continue;
        uint64_t other = __atomic_load_n(&task->step, __ATOMIC_ACQUIRE);
        bool goes_on = other != __atomic_load_n(&task->stands, __ATOMIC_RELAXED) && !__atomic_load_n(&task->away, __ATOMIC_RELAXED);
        if (other < step && goes_on) {
            step = other;
            found = task;
        }
    }
    return found;
}

static in_run_t *
in_run(const task_t *me)
{
    return me->recorder == NULL || me->recorder->in_run == NULL
        ? NULL
        : (in_run_t *)((char *)me->recorder->in_run - offsetof(in_run_t, position));
}

void
recorder_shared_away(task_t *me, bool away)
{
    in_run_t *mine = in_run(me);
    if (mine != NULL)
        __atomic_store_n(&mine->away, away, __ATOMIC_RELEASE);
}

void
recorder_shared_keep_step(task_t *me)
{
    in_run_t *mine = in_run(me);
    if (mine == NULL)
        return;
    uint64_t step = *me->recorder->position, last = 0, since = 0;
    __atomic_store_n(&mine->step, step, __ATOMIC_RELEASE);
    in_run_t *of = NULL, *other;
    while (step > AHEAD && (other = slowest(me, step - AHEAD)) != NULL) {
        uint64_t now = system_monotonic_ns(), there = __atomic_load_n(&other->step, __ATOMIC_ACQUIRE);
        if (other != of || there != last) {
            of = other;
            last = there;
            since = now;
        } else if (now - since > PATIENCE_NS) {
            __atomic_store_n(&other->stands, there, __ATOMIC_RELAXED);
        }
        system_sleep(LOOK_AGAIN_NS);
    }
}

void
recorder_writes_shared(task_t *me, const word_t *at)
{
    uint64_t *write = common_position(at);
    if (write == NULL)
        return;
    if (me->atomic) {
        me->recorder->atomic_write = write;
        me->recorder->atomic_shared = true;
        me->recorder->atomic_order = me->order;
    }
    uint64_t mine = (uint64_t)me->common << POSITION_BITS | recorder_position(me);
    uint64_t before = __atomic_exchange_n(write, mine, __ATOMIC_ACQ_REL);
    if (before != 0 && before >> POSITION_BITS != me->common)
        recorder_add_wait(me, COHABIT_EVENT_WAIT_IN_RUN, before);
}

/* Who else wrote in between has waited for whom the value was of. */
void
recorder_reads_shared(task_t *me, const word_t *at)
{
    uint64_t *position = common_position(at);
    if (position == NULL)
        return;
    uint64_t write = __atomic_load_n(position, __ATOMIC_ACQUIRE);
    if (write != 0 && write >> POSITION_BITS != me->common)
        recorder_add_wait(me, COHABIT_EVENT_WAIT_IN_RUN, write);
}

void
recorder_mapping(const cohabit_mapping_t *change)
{
    if (own == NULL)
        return;
    const uint32_t space = COHABIT_RECORDING_CHUNK_BYTES - (uint32_t)sizeof(cohabit_chunk_t);
    if (changes == NULL || changes->used + sizeof(*change) > space)
        changes = recorder_chunk(COHABIT_CHUNK_MAPPINGS, 0);
    if (changes == NULL)
        return;
    *(cohabit_mapping_t *)((char *)(changes + 1) + changes->used) = *change;
    __atomic_store_n(&changes->used, changes->used + (uint32_t)sizeof(*change), __ATOMIC_RELEASE);
    __atomic_store_n(&own->mappings, change->version, __ATOMIC_RELEASE);
}

void
recorder_mappings(task_t *me, uint64_t version)
{
    me->mappings_seen = version;
    recorder_add_event(me, COHABIT_EVENT_MAPPINGS, recorder_order(me), &version, 1);
}

void
recorder_cleared(task_t *me, uint64_t object, uint64_t start, uint64_t end)
{
    uint64_t numbers[2] = { object, end - start };
    if (me->recorder != NULL && start < end)
        recorder_add_event(me, COHABIT_EVENT_CLEAR, start, numbers, 2);
}

/* What the tasks of an image did before their last system calls has been done: one of them told this task, through
 * whatever channel, that the memory is ready. Where that channel is memory, what it did since is waited for too,
 * there. */
static void
wait_for_image(task_t *me, uint32_t image)
{
    for (uint32_t number = 0, count = common_tasks(); number < count; number++) {
        in_run_t *task = common_room(COMMON_TASKS_AT + number * sizeof(*task));
        if (task == NULL || number == me->common || __atomic_load_n(&task->image, __ATOMIC_ACQUIRE) != image)
            continue;
        uint64_t position = __atomic_load_n(&task->position, __ATOMIC_ACQUIRE);
        if (position > 0)
            recorder_add_wait_of_call(me, COHABIT_EVENT_WAIT_IN_RUN, (uint64_t)number << POSITION_BITS | position);
    }
}

void
recorder_wait_for_process(task_t *me, uint32_t pid)
{
    image_t *other = me->recorder == NULL || own == NULL ? NULL : image_of(pid, false);
    uint32_t number = other == NULL ? 0 : (uint32_t)__atomic_load_n(&other->pid_and_number, __ATOMIC_ACQUIRE);
    if (number != 0 && number != own_number)
        wait_for_image(me, number);
}

bool
recorder_copied(task_t *me, const uint64_t *argument, uint64_t bytes, bool writes)
{
    if (me->recorder == NULL || own == NULL || argument[0] == part()->pid)
        return false;
    image_t *other = image_of((uint32_t)argument[0], false);
    uint32_t number = other == NULL ? 0 : (uint32_t)__atomic_load_n(&other->pid_and_number, __ATOMIC_ACQUIRE);
    if (number == 0)
        return false;
    uint64_t version = __atomic_load_n(&other->mappings, __ATOMIC_ACQUIRE);
    wait_for_image(me, number);
    for (uint64_t i = 0; i < argument[4] && i < 1024 && bytes > 0; i++) {
        struct iovec one;
        if (!dr_safe_read((void *)(argument[3] + i * sizeof(one)), sizeof(one), &one, NULL))
            break;
        uint64_t some = one.iov_len < bytes ? one.iov_len : bytes;
        if (some == 0)
            continue;
        uint64_t numbers[4] = { number - 1, version, some, (uint64_t)one.iov_base };
        recorder_add_event(me, COHABIT_EVENT_REMOTE, writes ? ACCESS_WRITE : ACCESS_READ, numbers, 4);
        ++*me->recorder->position;
        bytes -= some;
    }
    return true;
}
