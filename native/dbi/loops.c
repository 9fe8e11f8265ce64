/* Unrolled loops (loops.h). */
#include "loops.h"
#include "codewrites.h"
#include "counting.h"
#include "markers.h"
#include "options.h"
#include "plan.h"
#include "shadow.h"
#include "slots.h"
#include "drmgr.h"
#include "drutil.h"

/* More code than this an unrolled loop does not become: it has to stay in the instruction cache. */
#define MAX_INSTRUCTIONS 160
#define MAX_ITERATIONS 8
#define FURTHEST (1ll << 28)

static ptr_uint_t notes;

bool
loops_init(void)
{
    notes = drmgr_reserve_note_range(LOOP_MARKS);
    return notes != DRMGR_NOTE_NONE;
}

loop_mark_t
loops_mark(instr_t *instr)
{
    if (!instr_is_label(instr))
        return LOOP_NONE;
    ptr_uint_t note = (ptr_uint_t)instr_get_note(instr);
    return note > notes && note < notes + LOOP_MARKS ? (loop_mark_t)(note - notes) : LOOP_NONE;
}

static instr_t *
mark(void *dc, loop_mark_t kind, uint32_t iterations, instr_t *alone)
{
    instr_t *label = INSTR_CREATE_label(dc);
    instr_set_note(label, (void *)(notes + kind));
    dr_instr_label_data_t *data = instr_get_label_data_area(label);
    data->data[0] = iterations;
    data->data[1] = (ptr_uint_t)alone;
    return label;
}

uint32_t
loops_iterations(instr_t *mark)
{
    return (uint32_t)instr_get_label_data_area(mark)->data[0];
}

instr_t *
loops_alone(instr_t *top)
{
    return (instr_t *)instr_get_label_data_area(top)->data[1];
}

void
loops_induction(induction_t *induction, instr_t *first)
{
    values_t values;
    values_init(&values);
    for (instr_t *instr = first; instr != NULL && !instr_is_cti(instr); instr = instr_get_next(instr)) {
        if (instr_is_app(instr))
            values_step(&values, instr);
    }
    for (int i = 0; i < 16; i++) {
        induction->regular[i] = values.registers[i].root == i;
        induction->step[i] = values.registers[i].offset;
    }
}

/* Reading what nobody can write needs no question in between. */
static bool
is_read_only(const address_t *address, bool writes)
{
    uint protection;
    return !writes && address->base_root == ROOT_NONE && address->index_root == ROOT_NONE &&
        address->segment == DR_REG_NULL &&
        dr_query_memory((byte *)(ptr_int_t)address->offset, NULL, NULL, &protection) &&
        (protection & DR_MEMPROT_WRITE) == 0;
}

/* The registers of an address, all 64 bits of each. */
static bool
is_plain(opnd_t operand)
{
    for (int i = 0; i < opnd_num_regs_used(operand); i++) {
        reg_id_t reg = opnd_get_reg_used(operand, i);
        if (!reg_is_gpr(reg) || !reg_is_64bit(reg))
            return false;
    }
    return !opnd_is_far_base_disp(operand);
}

bool
loops_checks_ahead(const induction_t *induction, const address_t *address, opnd_t operand, bool writes,
                   int64_t *stride)
{
    *stride = 0;
    if (!is_plain(operand))
        return false;
    if (address->base_root == ROOT_NONE && address->index_root == ROOT_NONE)
        return is_read_only(address, writes);
    if (address->base_root != ROOT_NONE) {
        if (address->base_root >= 16 || !induction->regular[address->base_root])
            return false;
        *stride += induction->step[address->base_root];
    }
    if (address->index_root != ROOT_NONE) {
        if (address->index_root >= 16 || !induction->regular[address->index_root])
            return false;
        *stride += induction->step[address->index_root] * address->scale;
    }
    return *stride != 0 && *stride < FURTHEST && *stride > -FURTHEST && address->offset < FURTHEST &&
        address->offset > -FURTHEST;
}

/* A conditional jump as its long form; OP_INVALID for a branch of another kind. */
static int
condition(instr_t *instr)
{
    int opcode = instr_get_opcode(instr);
    if (opcode >= OP_jo_short && opcode <= OP_jnle_short)
        return opcode - OP_jo_short + OP_jo;
    return opcode >= OP_jo && opcode <= OP_jnle ? opcode : OP_INVALID;
}

/* The opposite condition: opcodes come in pairs. */
static int
opposite(int opcode)
{
    return ((opcode - OP_jo) ^ 1) + OP_jo;
}

/* Whether the arithmetic flags are written before they are read from here on. */
static bool
flags_are_dead(instr_t *instr)
{
    uint written = 0;
    for (; instr != NULL; instr = instr_get_next(instr)) {
        uint flags = instr_get_arith_flags(instr, DR_QUERY_DEFAULT);
        uint read = instr_get_arith_flags(instr, DR_QUERY_INCLUDE_ALL) & EFLAGS_READ_ARITH;
        if ((EFLAGS_READ_TO_WRITE(read) & ~written) != 0)
            return false;
        written |= flags & EFLAGS_WRITE_ARITH;
        if (written == EFLAGS_WRITE_ARITH)
            return true;
    }
    return false;
}

static bool
may_repeat(instr_t *instr)
{
    return instr_is_app(instr) && !instr_is_cti(instr) && !instr_is_syscall(instr) && !instr_is_interrupt(instr) &&
        !plan_is_special(instr) && !plan_orders_memory(instr) && marker_of(instr) == 0;
}

/* The number of instructions of a loop of this one block; 0 where it is none. */
static uint32_t
length_of_loop(instrlist_t *block)
{
    instr_t *first = instrlist_first(block), *last = instrlist_last(block);
    if (first == NULL || first == last || !instr_is_app(last) || condition(last) == OP_INVALID ||
        !opnd_is_pc(instr_get_target(last)) || opnd_get_pc(instr_get_target(last)) != instr_get_app_pc(first))
        return 0;
    uint32_t length = 1;
    for (instr_t *instr = first; instr != last; instr = instr_get_next(instr), length++) {
        if (!may_repeat(instr))
            return 0;
    }
    return flags_are_dead(first) ? length : 0;
}

/* How many words the accesses ask of the shadow in so many iterations: ahead, and one by one. */
typedef struct {
    const induction_t *induction;
    uint32_t iterations;
    uint64_t ahead;
    uint64_t alone;
} gain_t;

static void
weigh(gain_t *gain, const values_t *values, opnd_t operand, uint32_t bytes, bool writes)
{
    int64_t stride;
    address_t address = values_address(values, operand);
    if (!loops_checks_ahead(gain->induction, &address, operand, writes, &stride) || stride == 0)
        return;
    uint64_t length = bytes + (uint64_t)(stride < 0 ? -stride : stride) * (gain->iterations - 1);
    gain->ahead += 2 + (length >> shadow_block_shift);
    gain->alone += gain->iterations;
}

static bool
gains(instr_t *first, instr_t *last, const induction_t *induction, uint32_t iterations)
{
    gain_t gain = { induction, iterations, 0, 0 };
    values_t values;
    values_init(&values);
    for (instr_t *instr = first; instr != last; instr = instr_get_next(instr)) {
        for (int i = 0; plan_counts(instr) && i < instr_num_srcs(instr); i++) {
            opnd_t from = instr_get_src(instr, i);
            if (opnd_is_memory_reference(from))
                weigh(&gain, &values, from, drutil_opnd_mem_size_in_bytes(from, instr), false);
        }
        for (int i = 0; plan_counts(instr) && i < instr_num_dsts(instr); i++) {
            opnd_t to = instr_get_dst(instr, i);
            if (opnd_is_memory_reference(to))
                weigh(&gain, &values, to, drutil_opnd_mem_size_in_bytes(to, instr), true);
        }
        values_step(&values, instr);
    }
    return gain.ahead * 5 < gain.alone * 4;
}

#define META(instr) instrlist_meta_preinsert(block, where, instr)

static void
leave(void *dc, instrlist_t *block, instr_t *where, app_pc to, app_pc translation)
{
    instr_t *jump = INSTR_CREATE_jmp(dc, opnd_create_pc(to));
    instr_set_translation(jump, translation);
    instrlist_preinsert(block, where, jump);
}

static void
unroll(void *dc, instrlist_t *block, uint32_t iterations)
{
    instr_t *first = instrlist_first(block), *last = instrlist_last(block);
    app_pc top = instr_get_app_pc(first), branch = instr_get_app_pc(last), behind = decode_next_pc(dc, branch);
    int ends = opposite(condition(last));
    instr_t *where = first;
    instr_t *alone = INSTR_CREATE_label(dc), *body = mark(dc, LOOP_ALONE, 0, NULL), *out = INSTR_CREATE_label(dc);
    instr_t *exits[MAX_ITERATIONS];
    META(mark(dc, LOOP_TOP, iterations, alone));
    for (uint32_t k = 0; k < iterations; k++) {
        exits[k] = mark(dc, LOOP_EXIT, iterations - 1 - k, NULL);
        META(mark(dc, LOOP_ITERATION, k, NULL));
        for (instr_t *instr = first; instr != last; instr = instr_get_next(instr))
            instrlist_preinsert(block, where, instr_clone(dc, instr));
        META(INSTR_CREATE_jcc(dc, ends, opnd_create_instr(exits[k])));
    }
    leave(dc, block, where, top, branch);
    for (uint32_t k = 0; k < iterations; k++) {
        META(exits[k]);
        leave(dc, block, where, behind, branch);
    }
    META(alone);
    META(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_ITERATIONS), OPND_CREATE_INT32((int)iterations)));
    META(body);
    where = last;
    META(INSTR_CREATE_jcc(dc, ends, opnd_create_instr(out)));
    /* A signal handler that runs a loop of this kind changes the slot: then it is a few iterations more or less. */
    META(INSTR_CREATE_sub(dc, slot(dc, SLOT_ITERATIONS), OPND_CREATE_INT8(1)));
    META(INSTR_CREATE_jcc(dc, OP_jnle, opnd_create_instr(body)));
    leave(dc, block, where, top, branch);
    META(out);
    leave(dc, block, where, behind, branch);
    instrlist_remove(block, last);
    instr_destroy(dc, last);
}

void
loops_unroll(void *dc, instrlist_t *block)
{
    if (options.sharing || options.hot || options.whole || options.record[0] != '\0' || !counting_on() ||
        codewrites_possible())
        return;
    uint32_t length = length_of_loop(block);
    if (length == 0)
        return;
    induction_t induction;
    loops_induction(&induction, instrlist_first(block));
    for (uint32_t iterations = MAX_ITERATIONS; iterations > 1; iterations /= 2) {
        if (length * iterations <= MAX_INSTRUCTIONS &&
            gains(instrlist_first(block), instrlist_last(block), &induction, iterations)) {
            unroll(dc, block, iterations);
            return;
        }
    }
}
