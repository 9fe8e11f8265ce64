/* Loops that wait (spins.h). */
#include "spins.h"
#include "loops.h"
#include "values.h"

/* Whether PAUSE is the instruction at an address. */
static bool
pauses_at(app_pc at)
{
    unsigned char code[2];
    return dr_safe_read(at, sizeof(code), code, NULL) && code[0] == 0xf3 && code[1] == 0x90;
}

/* Whether a root has the same value in each iteration. */
static bool
stays(const induction_t *induction, int32_t root)
{
    return root == ROOT_NONE || (root < 16 && induction->regular[root] && induction->step[root] == 0);
}

bool
spins_block(instrlist_t *block)
{
    instr_t *first = instrlist_first_app(block), *last = instrlist_last_app(block);
    if (first == NULL || !instr_is_cbr(last) || !opnd_is_pc(instr_get_target(last)))
        return false;
    induction_t induction;
    values_t values;
    loops_induction(&induction, first);
    values_init(&values);
    bool reads = false, moves = false, pauses = false;
    for (instr_t *instr = first; instr != NULL; instr = instr_get_next_app(instr)) {
        if (instr_writes_memory(instr) || instr_is_syscall(instr))
            return false;
        pauses |= instr_get_opcode(instr) == OP_pause;
        for (int i = 0; i < instr_num_srcs(instr); i++) {
            opnd_t from = instr_get_src(instr, i);
            if (!opnd_is_memory_reference(from) || opnd_is_vsib(from))
                continue;
            address_t address = values_address(&values, from);
            reads = true;
            moves |= !stays(&induction, address.base_root) || !stays(&induction, address.index_root);
        }
        values_step(&values, instr);
    }
    for (int i = 0; i < 16; i++)
        moves |= induction.regular[i] && induction.step[i] != 0; /* it counts: something else ends it */
    app_pc target = opnd_get_pc(instr_get_target(last));
    app_pc behind = instr_get_app_pc(last) + instr_length(dr_get_current_drcontext(), last);
    bool is_loop = target == instr_get_app_pc(first) && !moves;
    return reads && (is_loop || pauses || pauses_at(target) || pauses_at(behind));
}
