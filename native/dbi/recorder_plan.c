/* Segments (recorder_plan.h). */
#include "recorder_plan.h"
#include "drmgr.h"
#include <string.h>

recorder_planner_t *
recorder_plan_begin(void *drcontext)
{
    recorder_planner_t *planner = dr_thread_alloc(drcontext, sizeof(*planner));
    planner->drcontext = drcontext;
    planner->plan = dr_thread_alloc(drcontext, sizeof(*planner->plan));
    *planner->plan = (recorder_plan_t) { 0 };
    planner->first = NULL;
    planner->instructions = 0;
    return planner;
}

static void
add_segment(recorder_planner_t *planner, uint32_t number)
{
    recorder_plan_t *plan = planner->plan;
    void *dc = planner->drcontext;
    if (plan->count == plan->capacity) {
        uint32_t capacity = plan->capacity == 0 ? 4 : plan->capacity * 2;
        planned_segment_t *more = dr_thread_alloc(dc, capacity * sizeof(*more));
        if (plan->count > 0) {
            memcpy(more, plan->segments, plan->count * sizeof(*more));
            dr_thread_free(dc, plan->segments, plan->capacity * sizeof(*more));
        }
        plan->segments = more;
        plan->capacity = capacity;
    }
    planned_segment_t *made = &plan->segments[plan->count++];
    uint32_t anchors = planner->segment.anchors;
    *made = (planned_segment_t) { planner->first, number, planner->segment.accesses, anchors, NULL };
    if (anchors > 0) {
        made->anchors = dr_thread_alloc(dc, anchors * sizeof(anchor_t));
        memcpy(made->anchors, planner->anchors, anchors * sizeof(anchor_t));
    }
}

static void
end_segment(recorder_planner_t *planner)
{
    if (planner->first == NULL)
        return;
    /* What comes behind the last access is counted with it. */
    if (planner->segment.accesses > 0)
        planner->accesses[planner->segment.accesses - 1].instructions += planner->instructions;
    planner->segment.behind = planner->instructions;
    memset(planner->code + planner->segment.code, 0, COHABIT_RECORDING_ALIGN);
    uint32_t number = recorder_intern(&planner->segment, planner->accesses, planner->code);
    if (number < COHABIT_RECORDING_MAX_SEGMENTS)
        add_segment(planner, number);
    planner->first = NULL;
    planner->instructions = 0;
}

static void
begin_segment(recorder_planner_t *planner, instr_t *instr)
{
    planner->first = instr;
    memset(&planner->segment, 0, sizeof(planner->segment));
    planner->segment.pc = (uint64_t)(ptr_uint_t)instr_get_app_pc(instr);
    planner->code_ends = false;
}

/* Keeps the bytes of an instruction, as the program has them. */
static void
keep_code(recorder_planner_t *planner, instr_t *instr)
{
    app_pc pc = instr_get_app_pc(instr);
    cohabit_segment_t *segment = &planner->segment;
    int length = 0;
    if (pc != NULL)
        length = instr_raw_bits_valid(instr) ? instr_length(planner->drcontext, instr)
                                             : decode_sizeof(planner->drcontext, pc, NULL, NULL);
    size_t got = 0;
    if (length <= 0 || segment->code + (uint32_t)length > SEGMENT_CODE)
        planner->code_ends = true;
    else if (!planner->code_ends && dr_safe_read(pc, (size_t)length, planner->code + segment->code, &got) &&
             got == (size_t)length)
        segment->code += (uint32_t)length;
    else
        planner->code_ends = true;
}

void
recorder_plan_instr(recorder_planner_t *planner, instr_t *instr, bool apart)
{
    if (planner->first != NULL && (apart || planner->segment.accesses > SEGMENT_ACCESSES - 8))
        end_segment(planner);
    if (planner->first == NULL)
        begin_segment(planner, instr);
    uint64_t end = (uint64_t)(ptr_uint_t)instr_get_app_pc(instr) + (uint64_t)instr_length(planner->drcontext, instr);
    if (end > planner->segment.pc + planner->segment.bytes && end - planner->segment.pc < 65536)
        planner->segment.bytes = (uint32_t)(end - planner->segment.pc);
    keep_code(planner, instr);
    planner->segment.instructions++;
    planner->instructions++;
    /* The accesses made apart come behind the segment that holds their instruction. */
    if (apart)
        end_segment(planner);
}

static uint32_t
anchor_of(recorder_planner_t *planner, instr_t *instr, opnd_t operand, const address_t *address)
{
    cohabit_segment_t *segment = &planner->segment;
    for (uint32_t i = 0; i < segment->anchors; i++) {
        int64_t offset = address->offset - planner->addresses[i].offset;
        if (address_comparable(&planner->addresses[i], address) && offset == (int32_t)offset)
            return i;
    }
    planner->anchors[segment->anchors] = (anchor_t) { instr, operand, segment->anchors };
    planner->addresses[segment->anchors] = *address;
    return segment->anchors++;
}

/* Whether an atomic instruction writes something whatever is there, and something that follows from that: it counts, but
 * takes no lock. */
static bool
is_unconditional(instr_t *instr)
{
    switch (instr_get_opcode(instr)) {
    case OP_xadd:
    case OP_add:
    case OP_sub:
    case OP_inc:
    case OP_dec:
    case OP_neg:
    case OP_and:
    case OP_or:
    case OP_xor:
    case OP_not: return true;
    default: return false;
    }
}

uint32_t
recorder_plan_access(recorder_planner_t *planner, instr_t *instr, opnd_t operand, const address_t *address,
                     uint32_t bytes, uint32_t kind, bool atomic)
{
    uint32_t number = planner->segment.accesses;
    if (planner->first == NULL || number == SEGMENT_ACCESSES)
        return RECORDER_NO_ORDER;
    uint32_t anchor = anchor_of(planner, instr, operand, address);
    cohabit_recorded_access_t *access = &planner->accesses[planner->segment.accesses++];
    memset(access, 0, sizeof(*access));
    access->offset = (int32_t)(address->offset - planner->addresses[anchor].offset);
    access->size = bytes;
    access->anchor = (uint16_t)anchor;
    access->kind = (uint16_t)(kind | (atomic ? COHABIT_RECORDED_ATOMIC : 0));
    if (atomic && is_unconditional(instr))
        access->kind |= COHABIT_RECORDED_UNCONDITIONAL;
    access->instructions = planner->instructions;
    planner->instructions = 0;
    return number;
}

recorder_plan_t *
recorder_plan_end(recorder_planner_t *planner)
{
    recorder_plan_t *plan = planner->plan;
    end_segment(planner);
    dr_thread_free(planner->drcontext, planner, sizeof(*planner));
    return plan;
}

void
recorder_plan_free(void *drcontext, recorder_plan_t *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->segments[i].anchor_count > 0)
            dr_thread_free(drcontext, plan->segments[i].anchors, plan->segments[i].anchor_count * sizeof(anchor_t));
    }
    if (plan->capacity > 0)
        dr_thread_free(drcontext, plan->segments, plan->capacity * sizeof(planned_segment_t));
    dr_thread_free(drcontext, plan, sizeof(*plan));
}
