/* The DynamoRIO client: which events are watched, and who answers them. */
#include "aliases.h"
#include "codewrites.h"
#include "clock.h"
#include "cold.h"
#include "common.h"
#include "counting.h"
#include "emit.h"
#include "heap.h"
#include "loops.h"
#include "loop_emit.h"
#include "mappings.h"
#include "markers.h"
#include "modes.h"
#include "modules.h"
#include "mpi_region.h"
#include "options.h"
#include "plan.h"
#include "recorder_emit.h"
#include "slots.h"
#include "system.h"
#include "tasks.h"
#include "syscalls.h"
#include "sharing_emit.h"
#include "special.h"
#include "vectors.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"

static dr_emit_flags_t
event_app2app(void *drcontext, void *tag, instrlist_t *block, bool for_trace, bool translating)
{
    (void)tag, (void)for_trace, (void)translating;
    instr_t *before = instrlist_first(block);
    if (options.recording[0] == '\0') /* what is recorded is the program's own iterations */
        loops_unroll(drcontext, block);
    /* Made again later, the memory a loop reads may have another protection, and the block another form. */
    return instrlist_first(block) == before ? DR_EMIT_DEFAULT : DR_EMIT_STORE_TRANSLATIONS;
}

static dr_emit_flags_t
event_analysis(void *drcontext, void *tag, instrlist_t *block, bool for_trace, bool translating, void **user_data)
{
    (void)for_trace, (void)translating;
    codewrites_block(tag);
    vectors_suspect(slots_current_task());
    bool on = counting_on();
    *user_data = on ? plan_create(drcontext, block) : NULL;
    if (on && *user_data == NULL)
        part()->events_lost++;
    /* Made again later, for a fault in old code, the block might come out as the other kind, or of other code. */
    return counting_partly() || aliases_possible(tag) ? DR_EMIT_STORE_TRANSLATIONS : DR_EMIT_DEFAULT;
}

static void
insert_checks(void *drcontext, instrlist_t *block, instr_t *instr, const plan_t *plan, const span_t *span)
{
    emit_check(drcontext, block, instr, plan, span);
    if (options.sharing && options.record[0] == '\0') /* where accesses are recorded, none passes the first check */
        sharing_emit(drcontext, block, instr, span);
}

static dr_emit_flags_t
event_insert(void *drcontext, void *tag, instrlist_t *block, instr_t *instr, bool for_trace, bool translating,
             void *user_data)
{
    (void)for_trace, (void)translating;
    plan_t *plan = user_data;
    if (drmgr_is_first_instr(drcontext, instr)) {
        aliases_insert(drcontext, tag, block, instr);
        mpi_region_insert(drcontext, tag, block, instr);
    }
    if (instr_is_app(instr) && marker_of(instr) != 0)
        marker_insert(drcontext, block, instr);
    if (plan == NULL)
        return DR_EMIT_DEFAULT;
    if (plan->unrolled && instr_is_meta(instr) && instr_is_cti(instr)) {
        /* A branch within the loop: where it leads, every register is the program's (the one the flags were kept in
         * would be given back only behind the branch). */
        drreg_restore_all(drcontext, block, instr);
    }
    if (loops_mark(instr) != LOOP_NONE)
        loop_emit(drcontext, block, instr, plan);
    else if (drmgr_is_first_instr(drcontext, instr) && !plan->unrolled)
        emit_count(drcontext, block, instr, plan);
    if (plan->recording != NULL && instr_is_app(instr)) {
        instr_t *before = instr_get_prev_app(instr);
        if (before != NULL && plan_orders_memory(before) && plan_counts(before))
            recorder_emit_behind_atomic(drcontext, block, instr);
        recorder_emit(drcontext, block, instr, plan->recording);
    }
    for (uint32_t i = 0; i < plan->span_count; i++) {
        if (plan->spans[i].where == instr)
            insert_checks(drcontext, block, instr, plan, &plan->spans[i]);
    }
    if (instr_is_app(instr) && plan_is_special(instr))
        special_insert(drcontext, block, instr);
    codewrites_insert(drcontext, block, instr);
    if (drmgr_is_last_instr(drcontext, instr))
        plan_destroy(drcontext, plan);
    return DR_EMIT_DEFAULT;
}

static void
event_exit(void)
{
    cohabit_part_t *head = part();
    clock_stop();
    counting_account();
    head->end_ns = system_monotonic_ns();
    head->end = COHABIT_END_EXIT;
    syscalls_exit();
    modules_exit();
    if (options.hot)
        heap_exit();
    drmgr_unregister_bb_app2app_event(event_app2app);
    drmgr_unregister_bb_instrumentation_event(event_analysis);
    drutil_exit();
    drreg_exit();
    cold_exit();
    slots_exit();
    drmgr_exit();
}

/* The program does not run unobserved: it ends before its first instruction, with the status of a profiler that
 * failed. */
static void
fail(const char *why)
{
    if (why != NULL) /* else it was said already */
        dr_fprintf(STDERR, "cohabit: the profiler cannot start in process %d: %s\n", (int)dr_get_process_id(), why);
    dr_abort_with_code(125);
}

static void
init_extensions(void)
{
    drreg_options_t registers = { .struct_size = sizeof(registers), .num_spill_slots = 12 };
    if (!drmgr_init() || drreg_init(&registers) != DRREG_SUCCESS || !drutil_init())
        fail("DynamoRIO's extensions cannot be set up");
}

static void
init_state(void)
{
    if (!shadow_init(options.block_bytes) || !groups_init() || !mappings_init())
        fail("no address space for its shadow memory; lift ulimit -v and, where vm.overcommit_memory is 2, set it to 0");
    if (!part_open(options.directory, options.ticks_per_second, options.window_ns, options.window_instructions,
                   options.block_bytes, options.series_bound) ||
        !common_open(options.directory) || !modes_init() || !recorder_init())
        fail(NULL);
    if (!slots_init() || !cold_init() || !recorder_emit_init())
        fail("no thread-local slots or no memory for its routines");
}

static void
module_loaded(const module_data_t *module)
{
    if (options.hot)
        heap_module_loaded(module);
    if (options.region_of_mpi)
        mpi_region_loaded(module);
}

static void
watch_events(void)
{
    drmgr_priority_t priority = { sizeof(priority), "cohabit", NULL, NULL, 0 };
    tasks_init();
    syscalls_init();
    dr_register_exit_event(event_exit);
    if ((options.hot && !heap_init()) || !modules_init(options.hot || options.region_of_mpi ? module_loaded : NULL) || !counting_init() ||
        !loops_init() || !drmgr_register_bb_app2app_event(event_app2app, &priority) ||
        !drmgr_register_bb_instrumentation_event(event_analysis, event_insert, &priority))
        fail("its events cannot be registered with DynamoRIO");
}

DR_EXPORT void
dr_client_main(client_id_t id, int argc, const char *argv[])
{
    (void)id;
    dr_set_client_name("cohabit", "https://github.com/cohabit");
    if (!options_parse(argc, argv))
        fail(NULL);
    init_extensions();
    init_state();
    vectors_init();
    xstate_init();
    watch_events();
}
