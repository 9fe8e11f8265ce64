/* xsave and xrstor (special.h): which bytes of the save area they touch is a matter of what the program asks for and
 * of what is in use, so their operand's size, that of the largest area, says too much: the area of a lazily bound call
 * early in a thread would reach beyond the end of its stack. Intel SDM volume 1, sections 13.4 to 13.11.
 */
#include "special.h"
#include "delivery.h"
#include "plan.h"
#include "shadow.h"
#include "slots.h"
#include <cpuid.h>

#define COMPONENTS 63
#define X87 0
#define SSE 1
#define AVX 2
#define COMPACTED (1ull << 63)
#define HEADER 512

typedef struct {
    int opcode;
    uint64_t pc;
    opnd_t operand;
} site_t;

static struct {
    uint32_t bytes;
    uint32_t standard; /* offset */
    bool aligned;      /* in the compacted form, to 64 bytes */
} components[COMPONENTS];
static bool tells_use; /* xgetbv tells which components are in use */

bool
xstate_is(int opcode)
{
    switch (opcode) {
    case OP_xsave32:
    case OP_xsave64:
    case OP_xsaveopt32:
    case OP_xsaveopt64:
    case OP_xsavec32:
    case OP_xsavec64:
    case OP_xrstor32:
    case OP_xrstor64: return true;
    default: return false;
    }
}

void
xstate_init(void)
{
    uint32_t a, b, c, d;
    for (uint32_t i = AVX; i < COMPONENTS; i++) {
        if (__get_cpuid_count(0xd, i, &a, &b, &c, &d) && a != 0) {
            components[i].bytes = a;
            components[i].standard = b;
            components[i].aligned = (c & 2) != 0;
        }
    }
    tells_use = __get_cpuid_count(0xd, 1, &a, &b, &c, &d) && (a & 4) != 0;
}

static uint64_t
xgetbv(uint32_t number)
{
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(number));
    return (uint64_t)high << 32 | low;
}

static void
touch(task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind)
{
    me->shared->accessed_bytes += bytes;
    shadow_access(me, address, bytes, kind);
}

/* The extended components of `which`, which lie where the form says: each at its own offset, or one behind the other
 * for those of `present`. */
static void
touch_extended(task_t *me, uint64_t area, uint64_t which, uint64_t present, bool compacted, access_kind_t kind)
{
    uint64_t next = HEADER + 64;
    for (uint32_t i = AVX; i < COMPONENTS; i++) {
        if (components[i].bytes == 0 || (compacted && !(present >> i & 1)))
            continue;
        if (compacted && components[i].aligned)
            next = (next + 63) / 64 * 64;
        if (which >> i & 1)
            touch(me, area + (compacted ? next : components[i].standard), components[i].bytes, kind);
        next += components[i].bytes;
    }
}

static void
touch_legacy(task_t *me, uint64_t area, uint64_t which, uint64_t asked, access_kind_t kind)
{
    if (which >> X87 & 1) {
        touch(me, area, 24, kind);
        touch(me, area + 32, 128, kind);
    }
    if ((asked >> SSE & 1) || (asked >> AVX & 1))
        touch(me, area + 24, 8, kind); /* MXCSR and its mask */
    if (which >> SSE & 1)
        touch(me, area + 160, 256, kind);
}

static void
before_xsave(task_t *me, const site_t *site, uint64_t area, uint64_t asked)
{
    bool compacted = site->opcode == OP_xsavec32 || site->opcode == OP_xsavec64;
    bool all = site->opcode == OP_xsave32 || site->opcode == OP_xsave64;
    uint64_t written = all || !tells_use ? asked : asked & xgetbv(1);
    me->shared->stores++;
    touch_legacy(me, area, written, asked, ACCESS_WRITE);
    touch(me, area + HEADER, compacted ? 16 : 8, ACCESS_WRITE);
    touch_extended(me, area, written, asked, compacted, ACCESS_WRITE);
}

static void
before_xrstor(task_t *me, uint64_t area, uint64_t asked)
{
    uint64_t header[2];
    if (!dr_safe_read((void *)(ptr_uint_t)(area + HEADER), sizeof(header), header, NULL))
        return;
    bool compacted = (header[1] & COMPACTED) != 0;
    me->shared->loads++;
    touch(me, area + HEADER, 64, ACCESS_READ);
    touch_legacy(me, area, asked & header[0], compacted ? asked & header[0] : asked, ACCESS_READ);
    touch_extended(me, area, asked & header[0], header[1], compacted, ACCESS_READ);
}

static void
before(void *about)
{
    site_t *site = about;
    task_t *me = slots_current_task();
    me->pc = site->pc;
    dr_mcontext_t mc = { sizeof(mc), DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    uint64_t area = (uint64_t)(ptr_uint_t)opnd_compute_address(site->operand, &mc);
    uint64_t asked = ((mc.xdx << 32) | (uint32_t)mc.xax) & xgetbv(0);
    if (site->opcode == OP_xrstor32 || site->opcode == OP_xrstor64)
        before_xrstor(me, area, asked);
    else
        before_xsave(me, site, area, asked);
}

static bool
find_operand(instr_t *instr, opnd_t *operand)
{
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        if (opnd_is_memory_reference(*operand = instr_get_src(instr, i)))
            return true;
    }
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        if (opnd_is_memory_reference(*operand = instr_get_dst(instr, i)))
            return true;
    }
    return false;
}

bool
xstate_insert(void *dc, instrlist_t *block, instr_t *instr)
{
    opnd_t operand;
    if (!xstate_is(instr_get_opcode(instr)) || !find_operand(instr, &operand))
        return false;
    site_t *site = dr_global_alloc(sizeof(*site)); /* never freed, as in special.c */
    *site = (site_t) { instr_get_opcode(instr), (uint64_t)(ptr_uint_t)instr_get_app_pc(instr), operand };
    delivery_insert_call(dc, block, instr, before, site);
    return true;
}
