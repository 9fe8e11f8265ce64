/* Gathers the memory accesses of a basic block into spans.
 *
 * A later access may join the span of an earlier one, and so be checked before its time, only where that cannot change
 * what is counted: another task cannot come between without an atomic instruction or the end of the block (a program
 * without data races gives it no way to know), and within the task the order of a read and a write of one block must
 * hold. So a read never moves above a write, nor a write above a read, unless both are pieces of one span, whose pieces
 * the slow path takes in program order; and nothing moves across an atomic instruction or a fence.
 */
#include "plan.h"
#include "options.h"
#include "slots.h"
#include "special.h"
#include "spins.h"
#include "system.h"
#include "values.h"
#include "drmgr.h"
#include "drutil.h"

#define MAX_SPANS 256
#define MAX_PIECES_PER_SPAN 64
/* Accesses of a loop this far apart are checked ahead as one range. */
#define NEIGHBOURS 16

typedef struct {
    span_t span;
    address_t address; /* of the span's first byte */
    piece_t pieces[MAX_PIECES_PER_SPAN];
    uint32_t piece_count;
    values_t values;      /* of the registers before the first access */
    int32_t leader;       /* the earlier span it is checked together with; -1: none */
    uint32_t followers;
    bool reads_barred;    /* a write elsewhere came since: no read may join */
    bool writes_barred;
} open_span_t;

typedef struct {
    open_span_t *spans;
    uint32_t count;
    uint32_t first_open; /* spans before this one are closed */
    values_t values;
    plan_t *plan;
    /* within an unrolled loop */
    induction_t induction;
    loop_mark_t region;
    bool first_iteration;
    recorder_planner_t *recorder; /* NULL: nothing is recorded */
    uint32_t order; /* of the access under way, within its segment */
} planner_t;

bool
plan_counts(instr_t *instr)
{
    if (!instr_is_app(instr) || instr_is_nop(instr) || instr_is_prefetch(instr))
        return false;
    switch (instr_get_opcode(instr)) {
    case OP_lea:
    case OP_nop_modrm:
    case OP_clflush:
    case OP_clflushopt:
    case OP_clwb:
    case OP_invlpg:
    case OP_bndmov: return false;
    default: return instr_reads_memory(instr) || instr_writes_memory(instr);
    }
}

static bool
is_masked(instr_t *instr)
{
    switch (instr_get_opcode(instr)) {
    case OP_maskmovq:
    case OP_maskmovdqu:
    case OP_vmaskmovdqu:
    case OP_vmaskmovps:
    case OP_vmaskmovpd:
    case OP_vpmaskmovd:
    case OP_vpmaskmovq: return true;
    default: break;
    }
    if (instr_is_opmask(instr)) /* kmov and its kin move mask registers themselves: whole accesses */
        return false;
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t from = instr_get_src(instr, i);
        /* k0 as a mask means none. */
        if (opnd_is_reg(from) && reg_is_opmask(opnd_get_reg(from)) && opnd_get_reg(from) != DR_REG_K0)
            return true;
    }
    return false;
}

bool
plan_is_far_bit(instr_t *instr)
{
    switch (instr_get_opcode(instr)) {
    case OP_bt:
    case OP_bts:
    case OP_btr:
    case OP_btc: break;
    default: return false;
    }
    bool memory = false, offset = false;
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        memory |= opnd_is_memory_reference(instr_get_src(instr, i));
        offset |= opnd_is_reg(instr_get_src(instr, i));
    }
    return memory && offset;
}

bool
plan_is_special(instr_t *instr)
{
    int opcode = instr_get_opcode(instr);
    return special_is_string(opcode) || xstate_is(opcode) || instr_is_gather(instr) || instr_is_scatter(instr) ||
        is_masked(instr) || plan_is_far_bit(instr);
}

bool
plan_orders_memory(instr_t *instr)
{
    switch (instr_get_opcode(instr)) {
    case OP_mfence:
    case OP_lfence:
    case OP_sfence:
    case OP_cpuid:
    case OP_xchg: return true;
    default: return instr_get_prefix_flag(instr, PREFIX_LOCK);
    }
}

static void
bar_others(planner_t *planner, uint32_t own, uint32_t kind)
{
    for (uint32_t i = planner->first_open; i < planner->count; i++) {
        if (i == own)
            continue;
        planner->spans[i].reads_barred |= (kind & ACCESS_WRITE) != 0;
        /* Where waits are recorded a write may be one, and nobody must see before it what comes behind it. */
        planner->spans[i].writes_barred |= (kind & ACCESS_READ) != 0 || planner->recorder != NULL;
    }
}

static bool
written_before(const open_span_t *open, int64_t offset, uint32_t bytes)
{
    for (uint32_t i = 0; i < open->piece_count; i++) {
        const piece_t *piece = &open->pieces[i];
        if ((piece->kind & ACCESS_WRITE) && piece->offset <= offset && offset + bytes <= piece->offset + (int64_t)piece->bytes)
            return true;
    }
    return false;
}

static void
add_piece(const planner_t *planner, open_span_t *open, int64_t offset, uint32_t bytes, uint32_t kind, instr_t *instr)
{
    piece_t *piece = &open->pieces[open->piece_count++];
    *piece = (piece_t) { (int32_t)offset, bytes, kind, planner->order, 0 };
    if (options.hot)
        piece->pc = (uint64_t)(ptr_uint_t)instr_get_app_pc(instr);
}

/* Whether the access needs no check of its own after the span's: blocks once read here are read, blocks once written
 * are written, and what another task did meanwhile might as well have come later. */
static bool
covered(const open_span_t *open, int64_t offset, uint32_t bytes, uint32_t kind)
{
    if (offset < 0 || offset + bytes > open->span.bytes)
        return false;
    return (kind & ACCESS_WRITE) ? written_before(open, offset, bytes) : true;
}

/* Whether the access may become a piece of the span, whose range would then be [low, high). */
static bool
may_join(const open_span_t *open, bool stack, int64_t low, int64_t high, uint32_t kind)
{
    if (open->piece_count == MAX_PIECES_PER_SPAN || high - low > (1ll << shadow_block_shift))
        return false;
    if (((kind & ACCESS_READ) && open->reads_barred) || ((kind & ACCESS_WRITE) && open->writes_barred))
        return false;
    bool inside = low == 0 && high == open->span.bytes;
    bool alike = ((kind & ACCESS_WRITE) != 0) == open->span.writes;
    /* A read beside a write in one span asks for more than it needs: that the block is mine. Cheap on the own stack. */
    return alike || inside || stack;
}

/* Whether the operand's registers hold the same at both places. */
static bool
same_registers(const values_t *a, const values_t *b, opnd_t operand)
{
    for (int i = 0; i < opnd_num_regs_used(operand); i++) {
        int number = values_number(opnd_get_reg_used(operand, i));
        if (number < 0)
            continue; /* a segment register: its base is the thread's */
        if (a->registers[number].root != b->registers[number].root ||
            a->registers[number].offset != b->registers[number].offset)
            return false;
    }
    return true;
}

/* A read that may move to an earlier one, for the same reasons as within a span, is checked with it: one question for
 * the words of both. */
static void
bundle(planner_t *planner, uint32_t at)
{
    open_span_t *open = &planner->spans[at];
    for (uint32_t i = planner->first_open; i < at && !open->span.writes; i++) {
        open_span_t *leader = &planner->spans[i];
        if (leader->span.writes || leader->leader >= 0 || leader->reads_barred ||
            leader->followers + 1 == MAX_BUNDLE ||
            !same_registers(&leader->values, &open->values, open->span.operand))
            continue;
        open->leader = (int32_t)i;
        leader->followers++;
        return;
    }
}

/* A span that is to be written needs a check of its own, and so do those that were to be checked with it. */
static void
unbundle(planner_t *planner, uint32_t at)
{
    open_span_t *open = &planner->spans[at];
    if (open->leader >= 0)
        planner->spans[open->leader].followers--;
    open->leader = -1;
    for (uint32_t i = at + 1; i < planner->count && open->followers > 0; i++) {
        if (planner->spans[i].leader == (int32_t)at) {
            planner->spans[i].leader = -1;
            open->followers--;
        }
    }
}

static bool
join(planner_t *planner, uint32_t at, const address_t *address, uint32_t bytes, uint32_t kind, instr_t *instr)
{
    open_span_t *open = &planner->spans[at];
    if (!address_comparable(&open->address, address))
        return false;
    int64_t offset = address->offset - open->address.offset;
    if (offset > 4096 || offset < -4096)
        return false;
    bool moves = planner->recorder != NULL && (kind & ACCESS_WRITE) && open->writes_barred;
    if (!moves && covered(open, offset, bytes, kind)) {
        if (options.whole && open->piece_count < MAX_PIECES_PER_SPAN)
            add_piece(planner, open, offset, bytes, kind, instr);
        return true;
    }
    int64_t low = offset < 0 ? offset : 0;
    int64_t high = offset + bytes > open->span.bytes ? offset + bytes : open->span.bytes;
    bool stack = address->base_root == DR_REG_XSP - DR_REG_START_64 && address->index_root == ROOT_NONE;
    if (!may_join(open, stack, low, high, kind))
        return false;
    if (low < 0) {
        for (uint32_t i = 0; i < open->piece_count; i++)
            open->pieces[i].offset -= (int32_t)low;
        open->address.offset += low;
        open->span.delta += (int32_t)low;
    }
    open->span.bytes = (uint32_t)(high - low);
    /* Pieces of different sizes at one place are as good as the largest of them. */
    open->span.alone &= open->pieces[0].bytes == open->span.bytes && low == 0;
    if ((kind & ACCESS_WRITE) != 0 && !open->span.writes)
        unbundle(planner, at);
    open->span.writes |= (kind & ACCESS_WRITE) != 0;
    add_piece(planner, open, offset - low, bytes, kind, instr);
    bar_others(planner, at, kind);
    return true;
}

static void
start(planner_t *planner, instr_t *instr, opnd_t operand, const address_t *address, int32_t delta, uint32_t bytes,
      uint32_t kind)
{
    if (planner->count == MAX_SPANS) {
        /* A block of more spans than this does not exist (256 instructions); were there one, nothing is lost but
         * the joining: the oldest span is never touched again. */
        part()->events_lost++;
        return;
    }
    open_span_t *open = &planner->spans[planner->count++];
    open->piece_count = 0;
    open->reads_barred = open->writes_barred = false;
    open->values = planner->values;
    open->leader = -1;
    open->followers = 0;
    open->span = (span_t) { instr, operand, delta, bytes, true, (kind & ACCESS_WRITE) != 0, GROUPS_NONE, -1, false,
                            planner->recorder != NULL && plan_orders_memory(instr) };
    open->address = *address;
    add_piece(planner, open, 0, bytes, kind, instr);
    bundle(planner, planner->count - 1);
    bar_others(planner, planner->count - 1, kind);
}

/* Whether the check at the top of the loop covers the access; the first iteration says what that check is to cover. */
static bool
checked_ahead(planner_t *planner, opnd_t operand, const address_t *address, uint32_t bytes, uint32_t kind)
{
    plan_t *plan = planner->plan;
    bool writes = (kind & ACCESS_WRITE) != 0;
    int64_t stride, low = address->offset, high = low + bytes;
    if (!loops_checks_ahead(&planner->induction, address, operand, writes, &stride))
        return false;
    for (uint32_t i = 0; i < plan->ahead_count; i++) {
        ahead_t *ahead = &plan->ahead[i];
        if (!address_comparable(&ahead->address, address) || ahead->stride != stride)
            continue;
        if (low >= ahead->low && high <= ahead->high && (ahead->writes || !writes))
            return true;
        if (!planner->first_iteration || low > ahead->high + NEIGHBOURS || high < ahead->low - NEIGHBOURS)
            continue;
        ahead->low = low < ahead->low ? low : ahead->low;
        ahead->high = high > ahead->high ? high : ahead->high;
        ahead->writes |= writes;
        return true;
    }
    if (!planner->first_iteration || plan->ahead_count == MAX_AHEAD)
        return false;
    plan->ahead[plan->ahead_count++] = (ahead_t) { *address, stride, low, high, writes };
    return true;
}

/* One operand, in parts of at most a block: larger ones (vectors with small blocks) become several accesses. */
static void
plan_access(planner_t *planner, instr_t *instr, opnd_t operand, uint32_t bytes, uint32_t kind)
{
    address_t address = values_address(&planner->values, operand);
    if (planner->recorder != NULL)
        planner->order = recorder_plan_access(planner->recorder, instr, operand, &address, bytes, kind,
                                              plan_orders_memory(instr)) |
            (plan_orders_memory(instr) ? RECORDER_ATOMIC : 0);
    uint32_t block_bytes = 1u << shadow_block_shift;
    if (planner->region == LOOP_ITERATION && checked_ahead(planner, operand, &address, bytes, kind))
        return;
    for (uint32_t done = 0; done < bytes;) {
        uint32_t some = bytes - done < block_bytes ? bytes - done : block_bytes;
        address_t part_address = address;
        part_address.offset += done;
        bool joined = false;
        for (uint32_t i = planner->first_open; i < planner->count && !joined; i++)
            joined = join(planner, i, &part_address, some, kind, instr);
        if (!joined)
            start(planner, instr, operand, &part_address, (int32_t)done, some, kind);
        done += some;
    }
}

static bool
is_read_too(instr_t *instr, opnd_t written)
{
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        if (opnd_same(instr_get_src(instr, i), written))
            return true;
    }
    return false;
}

static bool
is_written_too(instr_t *instr, opnd_t read)
{
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        if (opnd_same(instr_get_dst(instr, i), read))
            return true;
    }
    return false;
}

static void
plan_instr(planner_t *planner, instr_t *instr)
{
    plan_t *plan = planner->plan;
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t from = instr_get_src(instr, i);
        if (!opnd_is_memory_reference(from))
            continue;
        uint32_t bytes = drutil_opnd_mem_size_in_bytes(from, instr);
        if (planner->region != LOOP_ITERATION) { /* the loop alone is counted: its iterations are copies of it */
            plan->loads++;
            plan->bytes += bytes;
        }
        if (!is_written_too(instr, from))
            plan_access(planner, instr, from, bytes, ACCESS_READ);
    }
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t to = instr_get_dst(instr, i);
        if (!opnd_is_memory_reference(to))
            continue;
        uint32_t bytes = drutil_opnd_mem_size_in_bytes(to, instr);
        if (planner->region != LOOP_ITERATION) {
            plan->stores++;
            plan->bytes += bytes;
        }
        plan_access(planner, instr, to, bytes, is_read_too(instr, to) ? ACCESS_READ_WRITE : ACCESS_WRITE);
    }
}

static void
close_all(planner_t *planner)
{
    planner->first_open = planner->count;
}

/* Each part of an unrolled loop begins with registers of its own. */
static void
enter_region(planner_t *planner, instr_t *label)
{
    loop_mark_t mark = loops_mark(label);
    if (mark == LOOP_NONE)
        return;
    planner->region = mark;
    planner->plan->unrolled = true;
    planner->first_iteration = mark == LOOP_ITERATION && loops_iterations(label) == 0;
    if (planner->first_iteration) {
        loops_induction(&planner->induction, instr_get_next(label));
        planner->plan->instructions = 1; /* the branch: of a loop's copies only it is made anew */
    }
    values_init(&planner->values);
    close_all(planner);
}

static void
link_bundles(plan_t *plan, const open_span_t *spans)
{
    for (uint32_t i = plan->span_count; i-- > 0;) {
        if (spans[i].leader < 0)
            continue;
        span_t *leader = &plan->spans[spans[i].leader];
        plan->spans[i].follows = true;
        plan->spans[i].next = leader->next;
        leader->next = (int32_t)i;
    }
}

/* Room for the spans of the block under way, kept by the task: half a megabyte, of which blocks touch a page or two. */
static open_span_t *
scratch_spans(void)
{
    task_t *me = slots_current_task();
    if (me->scratch == NULL)
        me->scratch = system_map_private(MAX_SPANS * sizeof(open_span_t));
    return me->scratch;
}

void
plan_free_scratch(task_t *task)
{
    if (task->scratch != NULL)
        system_unmap(task->scratch, MAX_SPANS * sizeof(open_span_t));
    task->scratch = NULL;
}

plan_t *
plan_create(void *drcontext, instrlist_t *block)
{
    planner_t planner = { 0 };
    planner.spans = scratch_spans();
    if (planner.spans == NULL)
        return NULL;
    planner.plan = dr_thread_alloc(drcontext, sizeof(plan_t));
    *planner.plan = (plan_t) { 0 };
    planner.plan->spins = spins_block(block);
    values_init(&planner.values);
    if (options.recording[0] != '\0')
        planner.recorder = recorder_plan_begin(drcontext);
    for (instr_t *instr = instrlist_first(block); instr != NULL; instr = instr_get_next(instr)) {
        enter_region(&planner, instr);
        if (!instr_is_app(instr))
            continue;
        if (planner.region == LOOP_NONE || planner.first_iteration)
            planner.plan->instructions++;
        if (plan_orders_memory(instr) || plan_is_special(instr))
            close_all(&planner);
        if (planner.recorder != NULL)
            recorder_plan_instr(planner.recorder, instr, plan_is_special(instr));
        if (plan_counts(instr) && !plan_is_special(instr))
            plan_instr(&planner, instr);
        if (plan_orders_memory(instr) || plan_is_special(instr))
            close_all(&planner);
        values_step(&planner.values, instr);
    }
    plan_t *plan = planner.plan;
    plan->span_count = planner.count;
    plan->spans = planner.count == 0 ? NULL : dr_thread_alloc(drcontext, planner.count * sizeof(span_t));
    for (uint32_t i = 0; i < planner.count; i++) {
        plan->spans[i] = planner.spans[i].span;
        plan->spans[i].group = groups_intern(planner.spans[i].pieces, planner.spans[i].piece_count);
    }
    link_bundles(plan, planner.spans);
    if (planner.recorder != NULL)
        plan->recording = recorder_plan_end(planner.recorder);
    return plan;
}

void
plan_destroy(void *drcontext, plan_t *plan)
{
    if (plan->recording != NULL)
        recorder_plan_free(drcontext, plan->recording);
    if (plan->spans != NULL)
        dr_thread_free(drcontext, plan->spans, plan->span_count * sizeof(span_t));
    dr_thread_free(drcontext, plan, sizeof(*plan));
}
