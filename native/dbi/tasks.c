/* Threads as tasks (tasks.h). */
#include "tasks.h"
#include "clock.h"
#include "common.h"
#include "counting.h"
#include "slots.h"
#include "mappings.h"
#include "modes.h"
#include "modules.h"
#include "plan.h"
#include "recorder.h"
#include "shadow.h"
#include "system.h"
#include "ticks.h"
#include "vectors.h"
#include "vforks.h"
#include "drmgr.h"
#include <signal.h>
#include <string.h>

#define STACK_BYTES (32 * 1024)

static int field; /* of DynamoRIO's thread contexts: the thread's task */

/* Threads that were made and have not begun; below 0 for a moment, where one begins before its maker has returned. */
static int beginning = 1; /* the first thread: nobody makes it */
/* What the last task that made one had done by then: from there the new one's instructions are counted. */
static uint64_t made_at;

static void
begin_task(void *drcontext, task_t *task)
{
    uint32_t tid = (uint32_t)dr_get_thread_id(drcontext);
    task->id = part_register(tid, COHABIT_NO_TASK);
    task->shared = part_task(task->id);
    uint64_t counters = task->shared == NULL ? 0 : part_alloc(COHABIT_MAX_COUNTERS * sizeof(uint64_t));
    if (counters == 0) {
        dr_fprintf(STDERR, "cohabit: thread %u cannot be followed: no room left for the profile\n", tid);
        dr_abort_with_code(125);
    }
    task->shared->counters = counters;
    *part_instructions(task) = __atomic_load_n(&made_at, __ATOMIC_RELAXED);
    system_thread_name(task->shared->name);
    task->window_end = 0;
    task->common_mask = task->common_exact = 0;
    shadow_init_task(task);
    part_flush_window(task);
    slots_init_thread(task);
    recorder_begin_task(task);
    vectors_suspect(task);
}


void
tasks_makes(const task_t *me, bool thread)
{
    if (thread && part()->tasks == 1)
        me->shared->alone_bytes = part_accessed_bytes(me);
    __atomic_store_n(&made_at, *part_instructions(me), __ATOMIC_RELAXED);
}

void
tasks_made(void)
{
    __atomic_add_fetch(&beginning, 1, __ATOMIC_RELEASE);
}

void
tasks_wait_begun(void)
{
    const uint64_t step_ns = 1000000, most_steps = 5000; /* a child may have been killed before it began */
    for (uint64_t steps = 0; steps < most_steps; steps++) {
        int value = __atomic_load_n(&beginning, __ATOMIC_ACQUIRE);
        if (value <= 0)
            return;
        system_wait(&beginning, value, step_ns);
    }
}

static void
event_thread_init(void *drcontext)
{
    __atomic_sub_fetch(&beginning, 1, __ATOMIC_RELEASE);
    task_t *task = system_map_private(sizeof(task_t));
    task->stack = system_map_private(STACK_BYTES);
    task->stack_top = (uint64_t)task->stack + STACK_BYTES;
    drmgr_set_tls_field(drcontext, field, task);
    begin_task(drcontext, task);
}

static void
free_private(task_t *task)
{
    for (uint32_t i = 0; i < COHABIT_DIRECTORIES; i++) {
        if (task->rows[i] != NULL)
            system_unmap(task->rows[i], COHABIT_ROWS_PER_DIRECTORY * sizeof(*task->rows[i]));
        task->rows[i] = NULL;
    }
    if (task->touched != NULL)
        system_unmap(task->touched, task->touched_capacity * sizeof(uint32_t));
    task->touched = NULL;
    task->touched_count = task->touched_capacity = 0;
}

/* Called by the thread itself or, when the process ends, by the one that ends it. */
static void
event_thread_exit(void *drcontext)
{
    task_t *task = drmgr_get_tls_field(drcontext, field);
    bool itself = drcontext == dr_get_current_drcontext();
    /* In the child of a fork the parent's other threads end here. What they have counted is theirs, and they go on. */
    if (itself || system_pid() == part()->pid) {
        part_flush_window(task);
        if (itself)
            system_thread_name(task->shared->name);
        task->shared->ended = 1;
        recorder_end_task(task, itself);
    } else {
        recorder_forget_task(task);
    }
    free_private(task);
    plan_free_scratch(task);
    system_unmap(task->stack, STACK_BYTES);
    system_unmap(task, sizeof(task_t));
}

/* The child of a fork is another process: its memory is a copy, so nothing in it was communicated to it. */
static void
event_fork(void *drcontext)
{
    task_t *task = slots_current_task();
    if (!part_reopen() || !modes_fork() || !recorder_fork())
        dr_abort_with_code(125);
    common_fork();
    mappings_fork();
    counting_fork();
    vforks_fork();
    clock_fork();
    modules_fork();
    shadow_clear_all();
    free_private(task);
    __atomic_store_n(&beginning, 0, __ATOMIC_RELEASE);
    begin_task(drcontext, task);
}

/* Checks come before accesses: one that faults was counted, and has not happened. */
static void
undo_access(void *drcontext, const dr_siginfo_t *info)
{
    task_t *me = drmgr_get_tls_field(drcontext, field);
    uint64_t address = (uint64_t)(ptr_uint_t)info->access_address;
    instr_t instr;
    instr_init(drcontext, &instr);
    bool known = decode(drcontext, info->mcontext->pc, &instr) != NULL;
    if (!known || instr_writes_memory(&instr))
        shadow_undo_write(me, address);
    if (known && instr_reads_memory(&instr))
        shadow_undo_read(me, address);
    instr_free(drcontext, &instr);
}

static dr_signal_action_t
event_signal(void *drcontext, dr_siginfo_t *info)
{
    if ((info->sig == SIGSEGV || info->sig == SIGBUS) && info->raw_mcontext_valid)
        undo_access(drcontext, info);
    return DR_SIGNAL_DELIVER;
}

void
tasks_init(void)
{
    drmgr_register_signal_event(event_signal);
    field = drmgr_register_tls_field();
    drmgr_register_thread_init_event(event_thread_init);
    drmgr_register_thread_exit_event(event_thread_exit);
    dr_register_fork_init_event(event_fork);
}
