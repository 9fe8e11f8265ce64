/* Repeated string instructions, masked vector accesses and far bits (special.h): by a clean call, since they are rare
 * and the first move kilobytes at a time.
 *
 * An element is an access of its own: `bytes` of a message is the size of the element that read first. Compares and
 * scans stop early, so they are counted once they are over.
 */
#include "special.h"
#include "delivery.h"
#include "plan.h"
#include "shadow.h"
#include "slots.h"
#include "system.h"
#include <string.h>

typedef struct {
    int opcode;
    uint64_t pc;
    uint32_t element_bytes;
    uint32_t operand_bytes;
    uint32_t kind;
    opnd_t operand;
    reg_id_t mask;   /* a mask register, a vector whose elements' top bits are the mask, or the offset of a bit */
    bool contiguous; /* compress and expand: as many elements as the mask has bits, side by side */
} site_t;

static void
count(task_t *me, uint64_t loads, uint64_t stores, uint64_t bytes)
{
    me->shared->loads += loads;
    me->shared->stores += stores;
    me->shared->accessed_bytes += bytes;
}

/* Elements side by side: the first to touch a block is the access that counts there. */
static void
access_elements(task_t *me, uint64_t start, uint64_t elements, uint32_t bytes, access_kind_t kind)
{
    if (start % bytes != 0) {
        for (uint64_t i = 0; i < elements; i++)
            shadow_access(me, start + i * bytes, bytes, kind);
        return;
    }
    uint64_t end = start + elements * bytes;
    for (uint64_t at = start; at < end; at = ((at >> shadow_block_shift) + 1) << shadow_block_shift)
        shadow_access(me, at, bytes, kind);
}

static void
access_string(task_t *me, int opcode, uint64_t from, uint64_t to, uint64_t elements, uint32_t bytes, bool backwards)
{
    bool reads_from = opcode != OP_rep_stos && opcode != OP_rep_scas && opcode != OP_repne_scas;
    bool writes_to = opcode == OP_rep_movs || opcode == OP_rep_stos;
    bool reads_to = !writes_to && opcode != OP_rep_lods;
    count(me, elements * ((uint64_t)reads_from + reads_to), writes_to ? elements : 0,
          elements * bytes * ((uint64_t)reads_from + (writes_to || reads_to)));
    uint64_t length = elements * bytes;
    uint64_t first_from = backwards ? from - length + bytes : from;
    uint64_t first_to = backwards ? to - length + bytes : to;
    uint64_t apart = from > to ? from - to : to - from;
    if (opcode == OP_rep_movs && apart < length + (1ull << shadow_block_shift)) {
        /* Overlapping: element by element, since a write may come before the read of the same block. */
        for (uint64_t i = 0; i < elements; i++) {
            int64_t offset = (int64_t)(i * bytes) * (backwards ? -1 : 1);
            shadow_access(me, from + (uint64_t)offset, bytes, ACCESS_READ);
            shadow_access(me, to + (uint64_t)offset, bytes, ACCESS_WRITE);
        }
        return;
    }
    if (reads_from)
        access_elements(me, first_from, elements, bytes, ACCESS_READ);
    if (reads_to || writes_to)
        access_elements(me, first_to, elements, bytes, writes_to ? ACCESS_WRITE : ACCESS_READ);
}

static bool
stops_early(int opcode)
{
    return opcode != OP_rep_movs && opcode != OP_rep_stos && opcode != OP_rep_lods;
}

#define FLAG_DIRECTION (1u << 10)

static void
before_string(void *about)
{
    site_t *site = about;
    task_t *me = slots_current_task();
    me->pc = site->pc;
    dr_mcontext_t mc = { sizeof(mc), DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    if (stops_early(site->opcode)) {
        me->string_from = mc.xsi;
        me->string_to = mc.xdi;
        me->string_count = mc.xcx;
        return;
    }
    access_string(me, site->opcode, mc.xsi, mc.xdi, mc.xcx, site->element_bytes, (mc.xflags & FLAG_DIRECTION) != 0);
}

static void
after_string(void *about)
{
    site_t *site = about;
    task_t *me = slots_current_task();
    me->pc = site->pc;
    dr_mcontext_t mc = { sizeof(mc), DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    access_string(me, site->opcode, me->string_from, me->string_to, me->string_count - mc.xcx, site->element_bytes,
                  (mc.xflags & FLAG_DIRECTION) != 0);
}

/* One bit an element. */
static uint64_t
mask_of(const site_t *site, const dr_mcontext_t *mc)
{
    uint32_t elements = site->operand_bytes / site->element_bytes;
    if (reg_is_opmask(site->mask)) {
        uint64_t mask = mc->opmask[site->mask - DR_REG_START_OPMASK];
        return elements >= 64 ? mask : mask & ((1ull << elements) - 1);
    }
    byte vector[64];
    uint64_t mask = 0;
    if (!reg_get_value_ex(site->mask, (dr_mcontext_t *)mc, vector))
        return 0;
    for (uint32_t i = 0; i < elements; i++)
        mask |= (uint64_t)(vector[(i + 1) * site->element_bytes - 1] >> 7) << i;
    return mask;
}

static void
before_masked(void *about)
{
    site_t *site = about;
    task_t *me = slots_current_task();
    me->pc = site->pc;
    dr_mcontext_t mc = { sizeof(mc), DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    uint64_t address = (uint64_t)(ptr_uint_t)opnd_compute_address(site->operand, &mc);
    uint64_t mask = mask_of(site, &mc);
    uint64_t elements = (uint64_t)__builtin_popcountll(mask);
    if (elements == 0)
        return;
    count(me, site->kind & ACCESS_READ ? 1 : 0, site->kind & ACCESS_WRITE ? 1 : 0, elements * site->element_bytes);
    if (site->contiguous) {
        shadow_access(me, address, elements * site->element_bytes, (access_kind_t)site->kind);
        return;
    }
    /* Runs of elements side by side are one access: what the hardware makes of them. */
    for (uint32_t i = 0; mask >> i != 0;) {
        uint32_t first = i + (uint32_t)__builtin_ctzll(mask >> i);
        for (i = first; i < 64 && (mask >> i & 1) != 0; i++)
            ;
        shadow_access(me, address + first * site->element_bytes, (i - first) * site->element_bytes,
                      (access_kind_t)site->kind);
        if (i == 64)
            break;
    }
}

/* The size of a masked instruction's elements is in its name: the last letters of its mnemonic say it. */
static uint32_t
element_bytes(instr_t *instr)
{
    static const struct {
        const char *suffix;
        uint32_t bytes;
    } table[] = { { "pressd", 4 }, { "ps", 4 }, { "pd", 8 }, { "ss", 4 },  { "sd", 8 },  { "32", 4 }, { "64", 8 }, { "16", 2 },
                  { "u8", 1 }, { "ph", 2 }, { "qu", 1 },  { "vq", 1 },  { "q", 8 },  { "d", 4 },  { "w", 2 },
                  { "b", 1 } };
    const char *name = decode_opcode_name(instr_get_opcode(instr));
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t suffix = strlen(table[i].suffix);
        if (length > suffix && strcmp(name + length - suffix, table[i].suffix) == 0)
            return table[i].bytes;
    }
    return 4;
}

/* An AVX-512 mask register, else the vector whose elements' top bits say which to move: beside the data, it comes first
 * among the sources of a load and last among those of a store. */
static reg_id_t
mask_register(instr_t *instr, uint32_t kind)
{
    reg_id_t vector = DR_REG_NULL;
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t from = instr_get_src(instr, i);
        if (opnd_is_reg(from) && reg_is_opmask(opnd_get_reg(from)))
            return opnd_get_reg(from);
    }
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t from = instr_get_src(instr, i);
        if (opnd_is_reg(from) && reg_is_simd(opnd_get_reg(from)) && (vector == DR_REG_NULL || kind == ACCESS_WRITE))
            vector = opnd_get_reg(from);
    }
    return vector;
}

/* bt, bts, btr, btc with an offset in a register reach as far from their operand as the offset says. */
static void
before_bit(void *about)
{
    site_t *site = about;
    task_t *me = slots_current_task();
    dr_mcontext_t mc = { sizeof(mc), DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    uint32_t bytes = site->operand_bytes;
    uint64_t raw = reg_get_value(reg_to_pointer_sized(site->mask), &mc);
    int64_t bit = bytes == 8 ? (int64_t)raw : bytes == 4 ? (int32_t)raw : (int16_t)raw;
    int64_t bits = (int64_t)bytes * 8;
    int64_t element = (bit - ((bit % bits) + bits) % bits) / bits;
    uint64_t address = (uint64_t)(ptr_uint_t)opnd_compute_address(site->operand, &mc) + (uint64_t)(element * bytes);
    bool writes = (site->kind & ACCESS_WRITE) != 0;
    count(me, 1, writes, bytes * (1u + writes));
    shadow_access(me, address, bytes, (access_kind_t)site->kind);
}

bool
special_is_string(int opcode)
{
    switch (opcode) {
    case OP_rep_movs:
    case OP_rep_stos:
    case OP_rep_lods:
    case OP_rep_cmps:
    case OP_repne_cmps:
    case OP_rep_scas:
    case OP_repne_scas: return true;
    default: return false;
    }
}

static void
insert_string(void *dc, instrlist_t *block, instr_t *instr, site_t *site)
{
    opnd_t operand = opnd_create_null();
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        if (opnd_is_memory_reference(instr_get_src(instr, i)))
            operand = instr_get_src(instr, i);
    }
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        if (opnd_is_memory_reference(instr_get_dst(instr, i)))
            operand = instr_get_dst(instr, i);
    }
    site->element_bytes = opnd_size_in_bytes(opnd_get_size(operand));
    delivery_insert_call(dc, block, instr, before_string, site);
    if (stops_early(site->opcode))
        delivery_insert_call(dc, block, instr_get_next(instr), after_string, site);
}

static void
insert_masked(void *dc, instrlist_t *block, instr_t *instr, site_t *site, opnd_t operand, uint32_t kind)
{
    const char *name = decode_opcode_name(site->opcode);
    site->operand = operand;
    site->operand_bytes = opnd_size_in_bytes(opnd_get_size(operand));
    site->element_bytes = element_bytes(instr);
    if (site->operand_bytes < site->element_bytes)
        site->element_bytes = site->operand_bytes;
    site->mask = mask_register(instr, kind);
    site->kind = kind;
    site->contiguous = strstr(name, "compress") != NULL || strstr(name, "expand") != NULL;
    delivery_insert_call(dc, block, instr, before_masked, site);
}

static void
insert_bit(void *dc, instrlist_t *block, instr_t *instr, site_t *site)
{
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t from = instr_get_src(instr, i);
        if (opnd_is_memory_reference(from))
            site->operand = from;
        else if (opnd_is_reg(from))
            site->mask = opnd_get_reg(from);
    }
    site->operand_bytes = opnd_size_in_bytes(opnd_get_size(site->operand));
    site->kind = site->opcode == OP_bt ? ACCESS_READ : ACCESS_READ_WRITE;
    delivery_insert_call(dc, block, instr, before_bit, site);
}

void
special_insert(void *dc, instrlist_t *block, instr_t *instr)
{
    if (gather_insert(dc, block, instr) || xstate_insert(dc, block, instr))
        return;
    /* Never freed: code may be translated from it at any time, and there are few such places. */
    site_t *site = dr_global_alloc(sizeof(*site));
    *site = (site_t) { .opcode = instr_get_opcode(instr), .pc = (uint64_t)(ptr_uint_t)instr_get_app_pc(instr) };
    if (special_is_string(site->opcode)) {
        insert_string(dc, block, instr, site);
        return;
    }
    if (plan_is_far_bit(instr)) {
        insert_bit(dc, block, instr, site);
        return;
    }
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        if (opnd_is_memory_reference(instr_get_src(instr, i))) {
            insert_masked(dc, block, instr, site, instr_get_src(instr, i), ACCESS_READ);
            return;
        }
    }
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        if (opnd_is_memory_reference(instr_get_dst(instr, i))) {
            insert_masked(dc, block, instr, site, instr_get_dst(instr, i), ACCESS_WRITE);
            return;
        }
    }
    dr_global_free(site, sizeof(*site));
}
