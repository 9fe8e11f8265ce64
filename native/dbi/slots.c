/* Thread-local slots and routines (slots.h). */
#include "slots.h"
#include "delivery.h"
#include "options.h"
#include "shadow.h"
#include "sharing.h"

#define ROUTINE_BYTES 4096

static reg_id_t tls_segment;
static uint tls_offset;

opnd_t
slot(void *drcontext, slot_t number)
{
    return dr_raw_tls_opnd(drcontext, tls_segment, tls_offset + (uint)number * sizeof(void *));
}

#define APPEND(instr) instrlist_meta_append(list, instr)

byte *
routine_make(routine_target_t *target, slot_t back)
{
    static const reg_id_t saved[] = { DR_REG_XAX, DR_REG_XCX, DR_REG_XDX, DR_REG_XSI, DR_REG_XDI,
                                      DR_REG_R8,  DR_REG_R9,  DR_REG_R10, DR_REG_R11 };
    const int count = sizeof(saved) / sizeof(saved[0]);
    void *dc = dr_get_current_drcontext();
    instrlist_t *list = instrlist_create(dc);
    opnd_t rsp = opnd_create_reg(DR_REG_XSP);
    instr_t *behind = INSTR_CREATE_label(dc);
    APPEND(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_STACK_POINTER), rsp));
    APPEND(INSTR_CREATE_mov_ld(dc, rsp, slot(dc, SLOT_STACK)));
    for (int i = 0; i < count; i++)
        APPEND(INSTR_CREATE_push(dc, opnd_create_reg(saved[i])));
    APPEND(INSTR_CREATE_lahf(dc));
    APPEND(INSTR_CREATE_setcc(dc, OP_seto, opnd_create_reg(DR_REG_AL)));
    APPEND(INSTR_CREATE_push(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XDI), slot(dc, SLOT_TASK)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XSI), slot(dc, SLOT_ADDRESS)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XDX), slot(dc, SLOT_GROUP)));
    APPEND(INSTR_CREATE_mov_imm(dc, opnd_create_reg(DR_REG_XAX), OPND_CREATE_INTPTR(target)));
    APPEND(INSTR_CREATE_call_ind(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XAX), slot(dc, SLOT_PENDING)));
    APPEND(INSTR_CREATE_cmp(dc, OPND_CREATE_MEM8(DR_REG_XAX, 0), OPND_CREATE_INT8(0)));
    APPEND(INSTR_CREATE_jcc(dc, OP_jle, opnd_create_instr(behind)));
    APPEND(INSTR_CREATE_mov_ld(dc, opnd_create_reg(DR_REG_XDI), slot(dc, back)));
    APPEND(INSTR_CREATE_mov_imm(dc, opnd_create_reg(DR_REG_XAX), OPND_CREATE_INTPTR(delivery_unlink)));
    APPEND(INSTR_CREATE_call_ind(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(behind);
    APPEND(INSTR_CREATE_pop(dc, opnd_create_reg(DR_REG_XAX)));
    APPEND(INSTR_CREATE_add(dc, opnd_create_reg(DR_REG_AL), OPND_CREATE_INT8(0x7f))); /* gives overflow back */
    APPEND(INSTR_CREATE_sahf(dc));
    for (int i = count - 1; i >= 0; i--)
        APPEND(INSTR_CREATE_pop(dc, opnd_create_reg(saved[i])));
    APPEND(INSTR_CREATE_mov_ld(dc, rsp, slot(dc, SLOT_STACK_POINTER)));
    APPEND(INSTR_CREATE_jmp_ind(dc, slot(dc, SLOT_RETURN)));
    byte *routine = dr_nonheap_alloc(ROUTINE_BYTES, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
    byte *end = instrlist_encode(dc, list, routine, true);
    instrlist_clear_and_destroy(dc, list);
    bool made = end != NULL && end < routine + ROUTINE_BYTES &&
        dr_memory_protect(routine, ROUTINE_BYTES, DR_MEMPROT_READ | DR_MEMPROT_EXEC);
    return made ? routine : NULL;
}

void
routine_free(byte *routine)
{
    dr_nonheap_free(routine, ROUTINE_BYTES);
}

bool
slots_init(void)
{
    return dr_raw_tls_calloc(&tls_segment, &tls_offset, SLOTS, 0);
}

void
slots_exit(void)
{
    dr_raw_tls_cfree(tls_offset, SLOTS);
}

void **
slot_address(slot_t number)
{
    return (void **)((byte *)dr_get_dr_segment_base(tls_segment) + tls_offset + (uint)number * sizeof(void *));
}

void
slots_settle(task_t *me)
{
    bool recorded = options.record[0] != '\0';
    *me->mask_slot = recorded ? ~0ull : me->read_mask;
    *me->exact_slot = recorded ? ~0ull : me->exact_word;
}

void
slots_init_thread(task_t *me)
{
    me->mask_slot = (uint64_t *)slot_address(SLOT_MASK);
    me->exact_slot = (uint64_t *)slot_address(SLOT_EXACT);
    slots_settle(me);
    *slot_address(SLOT_BIAS) = (void *)(shadow_base << (shadow_block_shift - 3));
    *slot_address(SLOT_SHARING) = (void *)sharing_mask(me);
    *slot_address(SLOT_COUNTERS) = part_at(me->shared->counters);
    *slot_address(SLOT_STACK) = (void *)me->stack_top;
    *slot_address(SLOT_TASK) = me;
    *slot_address(SLOT_PENDING) = (void *)(ptr_uint_t)delivery_pending(dr_get_current_drcontext());
}

/* Read through the segment register: asking for the segment's base may be a system call. */
task_t *
slots_current_task(void)
{
    task_t *me;
    uint64_t at = tls_offset + SLOT_TASK * sizeof(void *);
    if (tls_segment == DR_SEG_GS)
        __asm__ __volatile__("movq %%gs:(%1), %0" : "=r"(me) : "r"(at));
    else
        __asm__ __volatile__("movq %%fs:(%1), %0" : "=r"(me) : "r"(at));
    return me;
}
