/* Unwinding by call frame information (unwind.h): DWARF 5, section 6.4; .eh_frame and .eh_frame_hdr as in the Linux
 * Standard Base Core 5.0, chapter 10.6.
 *
 * Of all registers only those are followed that compilers compute the frame's address from, rsp and rbp. What the table
 * says of a return address never changes, so it is kept in a small cache.
 */
#include "unwind.h"
#include "system.h"
#include "drmgr.h"
#include <elf.h>
#include <string.h>

enum { REGISTER_BP = 6, REGISTER_SP = 7, REGISTER_PC = 16 }; /* System V ABI, AMD64 supplement, figure 3.36 */
#define STATES 8
#define CACHE (1u << 14)
#define MAX_TABLES 1024u

/* How the frame's address comes about, and where the caller's rbp is. */
typedef enum { FRAME_UNKNOWN, FRAME_SP, FRAME_BP, FRAME_AT_BP /* it lies in memory there */ } frame_t;
typedef enum { BP_SAME, BP_IN_FRAME, BP_AT_BP } bp_t;
typedef struct {
    frame_t frame;
    bp_t bp;
    int32_t frame_offset;
    int32_t bp_offset;
} rule_t;

/* A table of contents of unwind tables: one a module. */
typedef struct {
    uint64_t start;
    uint64_t end;
    const uint8_t *head; /* .eh_frame_hdr */
} table_t;

static table_t tables[MAX_TABLES];
static uint32_t table_count;
static uint64_t generation;
static int lock;
/* `check` is the address exclusive-or the rule, so that what two threads write at once is not taken for a rule. */
static struct {
    uint64_t check;
    uint64_t rule;
} cache[CACHE];

/* Bytes of a table that is read, the first and the last. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
} cursor_t;

static uint64_t
fixed(cursor_t *from, uint32_t bytes)
{
    uint64_t value = 0;
    if (from->bad || (uint64_t)(from->end - from->at) < bytes) {
        from->bad = true;
        return 0;
    }
    memcpy(&value, from->at, bytes);
    from->at += bytes;
    return value;
}

static uint64_t
uleb(cursor_t *from)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        uint64_t byte = fixed(from, 1);
        value |= (byte & 127) << shift;
        if (!(byte & 128))
            break;
    }
    return value;
}

static int64_t
sleb(cursor_t *from)
{
    uint64_t value = 0, byte = 0;
    uint32_t shift = 0;
    do {
        byte = fixed(from, 1);
        value |= (byte & 127) << shift;
        shift += 7;
    } while ((byte & 128) && shift < 63);
    return (int64_t)((byte & 64) ? value | ~0ull << shift : value);
}

/* A pointer in one of the encodings that linkers use here: absolute or relative to itself, of 4 or 8 bytes. */
static uint64_t
encoded(cursor_t *from, uint8_t encoding)
{
    uint64_t place = (uint64_t)(ptr_uint_t)from->at, value;
    switch (encoding & 15) {
    case 0x00: /* DW_EH_PE_absptr */
    case 0x04:
    case 0x0c: value = fixed(from, 8); break;
    case 0x03: value = fixed(from, 4); break;
    case 0x0b: value = (uint64_t)(int64_t)(int32_t)fixed(from, 4); break;
    default: from->bad = true; return 0;
    }
    switch (encoding & 0x70) {
    case 0x00: return value;
    case 0x10: return place + value;
    default: from->bad = true; return 0;
    }
}

static void
skip(cursor_t *from, uint64_t bytes)
{
    if ((uint64_t)(from->end - from->at) < bytes)
        from->bad = true;
    else
        from->at += bytes;
}

typedef struct {
    uint64_t code_factor;
    int64_t data_factor;
    uint8_t encoding;
    bool augmented;
    cursor_t program;
} common_t;

/* A common information entry; false where it is of a kind that is not understood, or of a signal handler's return. */
static bool
read_common(const uint8_t *at, const uint8_t *end, common_t *common)
{
    cursor_t from = { at, end, false };
    uint64_t length = fixed(&from, 4);
    if (length == 0xffffffffu || length > (uint64_t)(from.end - from.at))
        return false;
    from.end = from.at + length;
    uint64_t id = fixed(&from, 4), version = fixed(&from, 1);
    const char *augmentation = (const char *)from.at;
    while (fixed(&from, 1) != 0)
        ;
    common->code_factor = uleb(&from);
    common->data_factor = sleb(&from);
    uint64_t column = version == 1 ? fixed(&from, 1) : uleb(&from);
    common->encoding = 0;
    common->augmented = !from.bad && augmentation[0] == 'z';
    if (from.bad || id != 0 || column != REGISTER_PC || (augmentation[0] != '\0' && !common->augmented))
        return false;
    cursor_t data = from;
    if (common->augmented) {
        uint64_t bytes = uleb(&from);
        data = from;
        skip(&from, bytes);
    }
    for (const char *letter = augmentation + common->augmented; *letter != '\0'; letter++) {
        if (*letter == 'R')
            common->encoding = (uint8_t)fixed(&data, 1);
        else if (*letter == 'L')
            fixed(&data, 1);
        else if (*letter == 'P')
            encoded(&data, (uint8_t)fixed(&data, 1) & 0x7f);
        else if (*letter != 'B')
            return false;
    }
    common->program = from;
    return !from.bad && !data.bad;
}

/* What a program of call frame instructions has come to. */
typedef struct {
    rule_t now, initial, kept[STATES];
    uint32_t kept_count;
    bool caller_unknown; /* it ends here: the first function of a thread */
} frame_state_t;

static void
define_frame(frame_state_t *state, uint64_t reg, int64_t offset)
{
    state->now.frame = reg == REGISTER_SP ? FRAME_SP : reg == REGISTER_BP ? FRAME_BP : FRAME_UNKNOWN;
    state->now.frame_offset = (int32_t)offset;
}

/* An expression: rbp plus an offset, and perhaps what lies there. False for all others. */
static bool
simple_expression(cursor_t *from, int64_t *offset, bool *memory)
{
    uint64_t length = uleb(from);
    cursor_t inside = *from;
    skip(from, length);
    if (from->bad)
        return false;
    inside.end = from->at;
    if (fixed(&inside, 1) != 0x70 + REGISTER_BP) /* DW_OP_breg6 */
        return false;
    *offset = sleb(&inside);
    *memory = inside.at < inside.end && *inside.at == 0x06; /* DW_OP_deref */
    inside.at += *memory;
    return !inside.bad && inside.at == inside.end;
}

static void
saved(frame_state_t *state, uint64_t reg, int64_t offset)
{
    if (reg == REGISTER_BP) {
        state->now.bp = BP_IN_FRAME;
        state->now.bp_offset = (int32_t)offset;
    }
}

/* The extended instructions, whose number is the whole byte. False where one is not understood. */
static bool
run_extended(cursor_t *from, uint8_t code, const common_t *common, frame_state_t *state)
{
    int64_t offset;
    uint64_t reg;
    bool memory;
    switch (code) {
    case 0x00: return true;                                                              /* nop */
    case 0x05: reg = uleb(from); saved(state, reg, (int64_t)uleb(from) * common->data_factor); return true;
    case 0x11: reg = uleb(from); saved(state, reg, sleb(from) * common->data_factor); return true;
    case 0x06: /* restore_extended */
    case 0x08: /* same_value */
        if (uleb(from) == REGISTER_BP)
            state->now.bp = BP_SAME;
        return true;
    case 0x07: state->caller_unknown |= uleb(from) == REGISTER_PC; return true;          /* undefined */
    case 0x09: reg = uleb(from); uleb(from); return reg != REGISTER_BP;                  /* register */
    case 0x0a: /* remember_state */
        if (state->kept_count == STATES)
            return false;
        state->kept[state->kept_count++] = state->now;
        return true;
    case 0x0b: /* restore_state */
        if (state->kept_count == 0)
            return false;
        state->now = state->kept[--state->kept_count];
        return true;
    case 0x0c: reg = uleb(from); define_frame(state, reg, (int64_t)uleb(from)); return true;
    case 0x12: reg = uleb(from); define_frame(state, reg, sleb(from) * common->data_factor); return true;
    case 0x0d: define_frame(state, uleb(from), state->now.frame_offset); return true;
    case 0x0e: state->now.frame_offset = (int32_t)uleb(from); return true;
    case 0x13: state->now.frame_offset = (int32_t)(sleb(from) * common->data_factor); return true;
    case 0x0f: /* def_cfa_expression */
        if (!simple_expression(from, &offset, &memory) || !memory) {
            state->now.frame = FRAME_UNKNOWN;
            return !from->bad;
        }
        state->now.frame = FRAME_AT_BP;
        state->now.frame_offset = (int32_t)offset;
        return true;
    case 0x10: /* expression */
    case 0x16: /* val_expression */
        reg = uleb(from);
        if (reg == REGISTER_BP) {
            state->now.bp = BP_AT_BP;
            bool known = simple_expression(from, &offset, &memory) && !memory && code == 0x10;
            state->now.bp_offset = (int32_t)offset;
            return known;
        }
        skip(from, uleb(from));
        return reg != REGISTER_PC;
    case 0x14: reg = uleb(from); uleb(from); return reg != REGISTER_BP;                  /* val_offset */
    case 0x15: reg = uleb(from); sleb(from); return reg != REGISTER_BP;
    case 0x2e: uleb(from); return true;                                                  /* GNU_args_size */
    default: return false;
    }
}

/* Runs instructions until those that hold at `pc` have run. `location` is where the first hold. */
static bool
run(cursor_t from, uint64_t location, uint64_t pc, const common_t *common, frame_state_t *state)
{
    while (from.at < from.end && !from.bad) {
        uint8_t code = (uint8_t)fixed(&from, 1), low = code & 0x3f;
        switch (code & 0xc0) {
        case 0x40: location += low * common->code_factor; break;
        case 0x80: saved(state, low, (int64_t)uleb(&from) * common->data_factor); break;
        case 0xc0:
            if (low == REGISTER_BP) {
                state->now.bp = state->initial.bp;
                state->now.bp_offset = state->initial.bp_offset;
            }
            break;
        default:
            if (code >= 0x02 && code <= 0x04)
                location += fixed(&from, 1u << (code - 2)) * common->code_factor;
            else if (!run_extended(&from, code, common, state))
                return false;
        }
        if (location > pc)
            break;
    }
    return !from.bad;
}

/* The rule that holds at `pc` by a frame description entry. */
static rule_t
rule_of_entry(const uint8_t *entry, const table_t *table, uint64_t pc)
{
    const rule_t unknown = { FRAME_UNKNOWN, BP_SAME, 0, 0 };
    const uint8_t *end = (const uint8_t *)(ptr_uint_t)table->end;
    cursor_t from = { entry, end, false };
    uint64_t length = fixed(&from, 4);
    if (from.bad || length == 0xffffffffu || length > (uint64_t)(from.end - from.at))
        return unknown;
    from.end = from.at + length;
    const uint8_t *field = from.at;
    uint64_t back = fixed(&from, 4);
    common_t common;
    if (back == 0 || back > (uint64_t)(ptr_uint_t)field - table->start || !read_common(field - back, end, &common))
        return unknown;
    uint64_t start = encoded(&from, common.encoding), bytes = encoded(&from, common.encoding & 15);
    if (common.augmented)
        skip(&from, uleb(&from));
    if (from.bad || pc - start >= bytes)
        return unknown;
    frame_state_t state = { unknown, unknown, { unknown }, 0, false };
    if (!run(common.program, 0, 0, &common, &state))
        return unknown;
    state.initial = state.now;
    bool known = run(from, start, pc, &common, &state);
    return known && !state.caller_unknown ? state.now : unknown;
}

/* The rule that holds at `pc`, found through the sorted table of all entries. */
static rule_t
rule_in(const table_t *table, uint64_t pc)
{
    const rule_t unknown = { FRAME_UNKNOWN, BP_SAME, 0, 0 };
    cursor_t from = { table->head, (const uint8_t *)(ptr_uint_t)table->end, false };
    uint64_t version = fixed(&from, 1), pointer = fixed(&from, 1), count_encoding = fixed(&from, 1),
             entry_encoding = fixed(&from, 1);
    if (version != 1 || count_encoding != 0x03 || entry_encoding != 0x3b) /* udata4; datarel, sdata4 */
        return unknown;
    encoded(&from, (uint8_t)pointer);
    uint64_t count = fixed(&from, 4), low = 0, high = count;
    if (from.bad || count > (uint64_t)(from.end - from.at) / 8)
        return unknown;
    const uint8_t *entries = from.at;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int32_t start;
        memcpy(&start, entries + 8 * middle, sizeof(start));
        if ((uint64_t)(ptr_uint_t)table->head + (uint64_t)(int64_t)start <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return unknown;
    int32_t entry;
    memcpy(&entry, entries + 8 * (low - 1) + 4, sizeof(entry));
    uint64_t at = (uint64_t)(ptr_uint_t)table->head + (uint64_t)(int64_t)entry;
    return at >= table->start && at < table->end ? rule_of_entry((const uint8_t *)(ptr_uint_t)at, table, pc) : unknown;
}

static rule_t
find_rule(uint64_t pc)
{
    rule_t rule = { FRAME_UNKNOWN, BP_SAME, 0, 0 };
    table_t table = { 0, 0, NULL };
    system_lock(&lock);
    for (uint32_t i = 0; i < table_count; i++) {
        if (pc >= tables[i].start && pc < tables[i].end)
            table = tables[i];
    }
    system_unlock(&lock);
    if (table.head == NULL)
        return rule;
    void *drcontext = dr_get_current_drcontext();
    volatile bool whole = false;
    /* A module whose file was cut short, or that is unmapped meanwhile. */
    DR_TRY_EXCEPT(drcontext, { rule = rule_in(&table, pc); whole = true; }, { });
    return whole ? rule : (rule_t) { FRAME_UNKNOWN, BP_SAME, 0, 0 };
}

/* Offsets of frames are small, and multiples of 4. */
#define OFFSET_BITS 30

static bool
fits(int32_t offset)
{
    return offset >= -(1 << (OFFSET_BITS - 1)) && offset < 1 << (OFFSET_BITS - 1);
}

static uint64_t
packed(rule_t rule)
{
    if (!fits(rule.frame_offset) || !fits(rule.bp_offset))
        return 0;
    const uint64_t mask = (1ull << OFFSET_BITS) - 1;
    return (uint64_t)rule.frame | (uint64_t)rule.bp << 2 | ((uint64_t)(uint32_t)rule.frame_offset & mask) << 4 |
        ((uint64_t)(uint32_t)rule.bp_offset & mask) << (4 + OFFSET_BITS);
}

static rule_t
unpacked(uint64_t rule)
{
    int32_t frame_offset = (int32_t)((int64_t)(rule << OFFSET_BITS) >> (64 - OFFSET_BITS));
    int32_t bp_offset = (int32_t)((int64_t)rule >> (4 + OFFSET_BITS));
    return (rule_t) { (frame_t)(rule & 3), (bp_t)(rule >> 2 & 3), frame_offset, bp_offset };
}

static rule_t
rule_at(uint64_t pc)
{
    uint64_t key = pc ^ __atomic_load_n(&generation, __ATOMIC_ACQUIRE) << 48;
    uint32_t slot = (uint32_t)(pc * 0x9e3779b97f4a7c15ull >> 40) % CACHE;
    uint64_t rule = __atomic_load_n(&cache[slot].rule, __ATOMIC_RELAXED);
    if ((__atomic_load_n(&cache[slot].check, __ATOMIC_RELAXED) ^ rule) == key)
        return unpacked(rule);
    rule = packed(find_rule(pc));
    __atomic_store_n(&cache[slot].rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&cache[slot].check, key ^ rule, __ATOMIC_RELAXED);
    return unpacked(rule);
}

static bool
read_word(uint64_t address, uint64_t *word)
{
    return dr_safe_read((void *)(ptr_uint_t)address, sizeof(*word), word, NULL);
}

bool
unwind_step(registers_t *at)
{
    /* A return address lies behind its call, which may be the last instruction of its function. */
    rule_t rule = rule_at(at->pc - 1);
    uint64_t frame = (rule.frame == FRAME_SP ? at->sp : at->bp) + (uint64_t)(int64_t)rule.frame_offset;
    if (rule.frame == FRAME_UNKNOWN || (rule.frame == FRAME_AT_BP && !read_word(frame, &frame)))
        return false;
    registers_t caller = { 0, frame, at->bp };
    if (rule.bp != BP_SAME &&
        !read_word((rule.bp == BP_IN_FRAME ? frame : at->bp) + (uint64_t)(int64_t)rule.bp_offset, &caller.bp))
        return false;
    if (!read_word(frame - sizeof(uint64_t), &caller.pc))
        return false;
    *at = caller;
    return true;
}

/* Where .eh_frame_hdr is in a module, by its program headers; NULL where it has none. */
static const uint8_t *
find_head(const module_data_t *module)
{
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    if (!dr_safe_read(module->start, sizeof(head), &head, NULL) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof(segment))
        return NULL;
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        const uint8_t *at = module->start + head.e_phoff + i * sizeof(segment);
        if (!dr_safe_read(at, sizeof(segment), &segment, NULL))
            return NULL;
        const uint8_t *found = module->start + (segment.p_vaddr - (uint64_t)(ptr_uint_t)module->preferred_base);
        if (segment.p_type == PT_GNU_EH_FRAME && found >= module->start && found < module->end)
            return found;
    }
    return NULL;
}

void
unwind_fork(void)
{
    lock = 0;
}

void
unwind_loaded(const module_data_t *module)
{
    table_t table = { (uint64_t)(ptr_uint_t)module->start, (uint64_t)(ptr_uint_t)module->end, find_head(module) };
    system_lock(&lock);
    uint32_t i = 0;
    while (i < table_count && (tables[i].end <= table.start || tables[i].start >= table.end))
        i++;
    if (i < MAX_TABLES) {
        tables[i] = table;
        table_count += i == table_count;
    }
    __atomic_store_n(&generation, generation + 1, __ATOMIC_RELEASE);
    system_unlock(&lock);
}
