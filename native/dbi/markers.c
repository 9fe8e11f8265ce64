/* Markers (markers.h): one NOP each, with the number in its displacement. */
#include "markers.h"
#include "counting.h"
#include "phases.h"
#include "recorder.h"
#include "shadow.h"
#include "slots.h"
#include "../include/cohabit.h"
#include "../mpi/abi.h"

uint32_t
marker_of(instr_t *instr)
{
    if (instr_get_opcode(instr) != OP_nop_modrm || instr_num_srcs(instr) < 1)
        return 0;
    opnd_t operand = instr_get_src(instr, 0);
    if (!opnd_is_base_disp(operand))
        return 0;
    uint32_t number = (uint32_t)opnd_get_disp(operand);
    return number >= COHABIT_MAGIC_ROI_BEGIN && number <= COHABIT_MPI_MARK_END ? number : 0;
}

static void
only(void)
{
    dr_mcontext_t mc = { sizeof(mc), DR_MC_INTEGER };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    shadow_only(mc.xdi, mc.xsi);
}

static void
phase(void)
{
    dr_mcontext_t mc = { sizeof(mc), DR_MC_INTEGER };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    phases_note(mc.xdi);
    recorder_phase(slots_current_task(), mc.xdi);
}

static void
mpi_call(uint32_t begins)
{
    slots_current_task()->in_mpi = begins != 0;
}

static void
region(app_pc next, uint32_t begins)
{
    if (!counting_region(begins != 0))
        return;
    /* Code translated for the other state was flushed, this block with it: go on behind the marker in new code. */
    dr_mcontext_t mc = { sizeof(mc), DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    mc.pc = next;
    dr_redirect_execution(&mc);
}

void
marker_insert_region(void *dc, instrlist_t *block, instr_t *instr, app_pc next, bool begins)
{
    dr_insert_clean_call_ex(dc, block, instr, (void *)region,
                            DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_WRITES_APP_CONTEXT, 2,
                            OPND_CREATE_INTPTR(next), OPND_CREATE_INT32(begins));
}

void
marker_insert(void *dc, instrlist_t *block, instr_t *instr)
{
    uint32_t number = marker_of(instr);
    app_pc next = instr_get_app_pc(instr) + instr_length(dc, instr);
    if (number == COHABIT_MAGIC_ONLY) {
        dr_insert_clean_call_ex(dc, block, instr, (void *)only, DR_CLEANCALL_READS_APP_CONTEXT, 0);
    } else if (number == COHABIT_MAGIC_PHASE) {
        dr_insert_clean_call_ex(dc, block, instr, (void *)phase, DR_CLEANCALL_READS_APP_CONTEXT, 0);
    } else if (number == COHABIT_MPI_MARK_BEGIN || number == COHABIT_MPI_MARK_END) {
        dr_insert_clean_call_ex(dc, block, instr, (void *)mpi_call, 0, 1,
                                OPND_CREATE_INT32(number == COHABIT_MPI_MARK_BEGIN));
    } else {
        marker_insert_region(dc, block, instr, next, number == COHABIT_MAGIC_ROI_BEGIN);
    }
}
