/* Symbolic register values within a block (values.h). */
#include "values.h"

void
values_init(values_t *values)
{
    for (int i = 0; i < 16; i++)
        values->registers[i] = (value_t) { i, 0 };
    values->next_root = 16;
}

int
values_number(reg_id_t reg)
{
    return reg_is_gpr(reg) ? (int)(reg_to_pointer_sized(reg) - DR_REG_START_64) : -1;
}

static value_t
value_of(const values_t *values, reg_id_t reg)
{
    int number = values_number(reg);
    return number < 0 || number > 15 ? (value_t) { ROOT_NONE, 0 } : values->registers[number];
}

address_t
values_address(const values_t *values, opnd_t operand)
{
    address_t address = { ROOT_NONE, ROOT_NONE, 0, DR_REG_NULL, 0 };
    if (opnd_is_near_rel_addr(operand) || opnd_is_near_abs_addr(operand)) {
        address.offset = (int64_t)(ptr_int_t)opnd_get_addr(operand);
        return address;
    }
    if (opnd_is_far_base_disp(operand))
        address.segment = opnd_get_segment(operand);
    value_t base = value_of(values, opnd_get_base(operand));
    value_t index = value_of(values, opnd_get_index(operand));
    address.base_root = base.root;
    address.index_root = index.root;
    address.scale = index.root == ROOT_NONE ? 0 : opnd_get_scale(operand);
    address.offset = base.offset + index.offset * address.scale + opnd_get_disp(operand);
    return address;
}

bool
address_comparable(const address_t *a, const address_t *b)
{
    return a->base_root == b->base_root && a->index_root == b->index_root && a->scale == b->scale &&
        a->segment == b->segment;
}

/* The value of a register after an instruction that adds a constant to one it read; false for all others. */
static bool
constant_step(const values_t *values, instr_t *instr, reg_id_t written, value_t *result)
{
    int64_t add;
    opnd_t source;
    switch (instr_get_opcode(instr)) {
    case OP_lea: {
        opnd_t from = instr_get_src(instr, 0);
        if (!opnd_is_near_base_disp(from) || opnd_get_index(from) != DR_REG_NULL)
            return false;
        *result = value_of(values, opnd_get_base(from));
        result->offset += opnd_get_disp(from);
        return result->root != ROOT_NONE && reg_is_64bit(opnd_get_base(from));
    }
    case OP_mov_ld:
    case OP_mov_st:
        source = instr_get_src(instr, 0);
        if (!opnd_is_reg(source) || !reg_is_gpr(opnd_get_reg(source)) || !reg_is_64bit(opnd_get_reg(source)))
            return false;
        *result = value_of(values, opnd_get_reg(source));
        return true;
    case OP_add:
    case OP_sub:
        source = instr_get_src(instr, 0);
        if (!opnd_is_immed_int(source))
            return false;
        add = opnd_get_immed_int(source);
        if (instr_get_opcode(instr) == OP_sub)
            add = -add;
        break;
    case OP_inc: add = 1; break;
    case OP_dec: add = -1; break;
    case OP_push:
    case OP_push_imm:
    case OP_call:
    case OP_call_ind: add = -8; break;
    case OP_pop:
    case OP_ret: add = 8; break;
    default: return false;
    }
    *result = value_of(values, written);
    result->offset += add;
    return true;
}

/* push, pop and their kin move the stack pointer by the size of their operand, which is 8 for all but odd code. */
static bool
moves_stack_pointer(instr_t *instr)
{
    switch (instr_get_opcode(instr)) {
    case OP_push:
    case OP_push_imm:
    case OP_call:
    case OP_call_ind:
    case OP_pop:
    case OP_ret: return true;
    default: return false;
    }
}

static uint
memory_bytes(instr_t *instr)
{
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        if (opnd_is_memory_reference(instr_get_dst(instr, i)))
            return opnd_size_in_bytes(opnd_get_size(instr_get_dst(instr, i)));
    }
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        if (opnd_is_memory_reference(instr_get_src(instr, i)))
            return opnd_size_in_bytes(opnd_get_size(instr_get_src(instr, i)));
    }
    return 0;
}

static void
step_register(values_t *values, instr_t *instr, reg_id_t written)
{
    int number = values_number(written);
    if (number < 0 || number > 15)
        return;
    value_t result;
    bool stack = written == DR_REG_XSP && moves_stack_pointer(instr);
    bool known = reg_is_64bit(written) && !instr_is_predicated(instr) &&
        (stack || !moves_stack_pointer(instr)) && constant_step(values, instr, written, &result);
    if (known && stack)
        known = memory_bytes(instr) == 8 && !(instr_get_opcode(instr) == OP_ret && instr_num_srcs(instr) > 2) &&
            !opnd_is_memory_reference(instr_get_src(instr, 0) /* push [m], call [m]: two operands in memory */) ;
    if (known)
        values->registers[number] = result;
    else
        values->registers[number] = (value_t) { values->next_root++, 0 };
}

void
values_step(values_t *values, instr_t *instr)
{
    values_t before = *values;
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t to = instr_get_dst(instr, i);
        if (!opnd_is_reg(to))
            continue;
        values_t after = before;
        after.next_root = values->next_root;
        step_register(&after, instr, opnd_get_reg(to));
        int number = values_number(opnd_get_reg(to));
        if (number >= 0 && number < 16)
            values->registers[number] = after.registers[number];
        values->next_root = after.next_root;
    }
}
