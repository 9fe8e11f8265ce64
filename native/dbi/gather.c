/* Gathers and scatters: an access a lane whose mask is on. The instruction itself runs as it is; taking it apart
 * (drx_expand_scatter_gather) was seen to give wrong values for some AVX-512 scatters, and a count is not worth that.
 */
#include "special.h"
#include "delivery.h"
#include "shadow.h"
#include "slots.h"
#include <string.h>

typedef struct {
    opnd_t operand; /* base, vector of indices, scale, displacement */
    reg_id_t mask;
    uint32_t index_bytes;
    uint32_t data_bytes;
    uint32_t lanes;
    uint32_t kind;
} site_t;

static bool
lane_is_on(const site_t *site, dr_mcontext_t *mc, const byte *mask, uint32_t lane)
{
    if (reg_is_opmask(site->mask))
        return (mc->opmask[site->mask - DR_REG_START_OPMASK] >> lane & 1) != 0;
    return mask[(lane + 1) * site->data_bytes - 1] >> 7 != 0;
}

static int64_t
index_of(const site_t *site, const byte *indices, uint32_t lane)
{
    int64_t wide;
    int32_t narrow;
    if (site->index_bytes == 8) {
        memcpy(&wide, indices + lane * 8, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, indices + lane * 4, sizeof(narrow));
    return narrow;
}

static void
before(void *about)
{
    site_t *site = about;
    task_t *me = slots_current_task();
    dr_mcontext_t mc = { sizeof(mc), DR_MC_ALL };
    byte indices[64], mask[64];
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    reg_id_t base = opnd_get_base(site->operand);
    uint64_t start = (base == DR_REG_NULL ? 0 : reg_get_value(base, &mc)) + (uint64_t)(int64_t)opnd_get_disp(site->operand);
    /* Nobody gathers relative to a thread-local segment; were there one, it is not counted, and that is said. */
    if (opnd_is_far_base_disp(site->operand) || !reg_get_value_ex(opnd_get_index(site->operand), &mc, indices) ||
        (!reg_is_opmask(site->mask) && !reg_get_value_ex(site->mask, &mc, mask))) {
        part()->events_lost++;
        return;
    }
    for (uint32_t lane = 0; lane < site->lanes; lane++) {
        if (!lane_is_on(site, &mc, mask, lane))
            continue;
        me->shared->loads += site->kind == ACCESS_READ;
        me->shared->stores += site->kind == ACCESS_WRITE;
        me->shared->accessed_bytes += site->data_bytes;
        uint64_t offset = (uint64_t)index_of(site, indices, lane) * (uint64_t)opnd_get_scale(site->operand);
        shadow_access(me, start + offset, site->data_bytes, (access_kind_t)site->kind);
    }
}

static uint32_t
vector_bytes(reg_id_t reg)
{
    return reg_is_strictly_zmm(reg) ? 64 : reg_is_strictly_ymm(reg) ? 32 : 16;
}

/* The mnemonic says what the lanes are: gather or scatter, d or q for the index, then d, q, ps or pd for the data. */
static bool
read_name(instr_t *instr, site_t *site)
{
    const char *name = decode_opcode_name(instr_get_opcode(instr));
    const char *behind = strstr(name, "gather");
    site->kind = behind != NULL ? ACCESS_READ : ACCESS_WRITE;
    if (behind == NULL)
        behind = strstr(name, "scatter");
    if (behind == NULL)
        return false;
    behind += site->kind == ACCESS_READ ? strlen("gather") : strlen("scatter");
    site->index_bytes = behind[0] == 'q' ? 8 : 4;
    site->data_bytes = strcmp(behind + 1, "q") == 0 || strcmp(behind + 1, "pd") == 0 ? 8 : 4;
    return true;
}

static void
find_operands(instr_t *instr, site_t *site)
{
    reg_id_t data = DR_REG_NULL;
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t from = instr_get_src(instr, i);
        if (opnd_is_memory_reference(from))
            site->operand = from;
        else if (opnd_is_reg(from) && reg_is_opmask(opnd_get_reg(from)))
            site->mask = opnd_get_reg(from);
        else if (opnd_is_reg(from) && reg_is_simd(opnd_get_reg(from)))
            data = opnd_get_reg(from);
    }
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t to = instr_get_dst(instr, i);
        if (opnd_is_memory_reference(to))
            site->operand = to;
    }
    if (site->mask == DR_REG_NULL) /* AVX2: the vector among the sources is the mask, as large as the data */
        site->mask = data;
    if (site->kind == ACCESS_READ && instr_num_dsts(instr) > 0 && opnd_is_reg(instr_get_dst(instr, 0)) &&
        reg_is_simd(opnd_get_reg(instr_get_dst(instr, 0))))
        data = opnd_get_reg(instr_get_dst(instr, 0));
    uint32_t by_data = vector_bytes(data) / site->data_bytes;
    uint32_t by_index = vector_bytes(opnd_get_index(site->operand)) / site->index_bytes;
    site->lanes = by_data < by_index ? by_data : by_index;
}

bool
gather_insert(void *dc, instrlist_t *block, instr_t *instr)
{
    site_t *site = dr_global_alloc(sizeof(*site)); /* never freed, as in special.c */
    *site = (site_t) { .operand = opnd_create_null() };
    if (!read_name(instr, site)) {
        dr_global_free(site, sizeof(*site));
        return false;
    }
    find_operands(instr, site);
    delivery_insert_call(dc, block, instr, before, site);
    return true;
}
