/* The symbols of data in modules (statics.h). Compiled without vector registers: they are looked up from the slow path.
 *
 * Only the modules' segments that are mapped for writing count: what nobody can write communicates nothing. Symbols are
 * those of the file's symbol table (ELF; .symtab, or .dynsym in a stripped file). Names are looked for later, by
 * address.
 */
#include "statics.h"
#include "system.h"
#include <elf.h>

typedef struct {
    uint64_t start;
    uint64_t bytes;
} symbol_t;

typedef struct {
    uint64_t start;
    uint64_t end; /* 0: it is gone */
    uint32_t first; /* of its module's symbols */
    uint32_t count;
} segment_t;

static symbol_t *symbols; /* a module's are sorted by where they start */
static uint32_t symbol_count;
static segment_t *segments;
static uint32_t segment_count;
static int lock;

bool
statics_init(void)
{
    symbols = system_map_reserve(STATIC_SYMBOLS * sizeof(*symbols));
    segments = system_map_reserve(STATIC_SEGMENTS * sizeof(*segments));
    return symbols != NULL && segments != NULL;
}

void
statics_fork(void)
{
    lock = 0;
}

/* A file, or a part of one, whose bytes are not to be trusted. */
typedef struct {
    const uint8_t *bytes;
    uint64_t length;
} bytes_t;

/* `count` records of `size` bytes; NULL where they are not all there. */
static const void *
records(const bytes_t *file, uint64_t offset, uint64_t count, uint64_t size)
{
    bool inside = offset <= file->length && count <= (file->length - offset) / size;
    return inside && offset % 8 == 0 ? file->bytes + offset : NULL;
}

/* The symbol table; the number of its symbols, 0 where there is none. */
static uint64_t
symbol_table(const bytes_t *file, const Elf64_Sym **table)
{
    const Elf64_Ehdr *head = records(file, 0, 1, sizeof(*head));
    if (head == NULL || head->e_ident[0] != 0x7f || head->e_ident[1] != 'E' || head->e_ident[4] != ELFCLASS64 ||
        head->e_shentsize != sizeof(Elf64_Shdr))
        return 0;
    const Elf64_Shdr *sections = records(file, head->e_shoff, head->e_shnum, sizeof(*sections));
    uint64_t count = 0;
    for (uint32_t i = 0; sections != NULL && i < head->e_shnum; i++) {
        bool dynamic = sections[i].sh_type == SHT_DYNSYM && count == 0;
        uint64_t entries = sections[i].sh_size / sizeof(**table);
        const Elf64_Sym *found = sections[i].sh_type == SHT_SYMTAB || dynamic
            ? records(file, sections[i].sh_offset, entries, sizeof(**table))
            : NULL;
        if (found != NULL) {
            *table = found;
            count = entries;
            if (!dynamic)
                break;
        }
    }
    return count;
}

/* Shell's sort, by Knuth's steps: few symbols are out of order. */
static void
sort(symbol_t *these, uint32_t count)
{
    uint32_t step = 1;
    while (step < count / 3)
        step = 3 * step + 1;
    for (; step > 0; step /= 3) {
        for (uint32_t i = step; i < count; i++) {
            symbol_t one = these[i];
            uint32_t at = i;
            for (; at >= step && these[at - step].start > one.start; at -= step)
                these[at] = these[at - step];
            these[at] = one;
        }
    }
}

/* Adds the symbols of data, moved by so much; how many they are. */
static uint32_t
add_symbols(const Elf64_Sym *table, uint64_t count, uint64_t moved)
{
    uint32_t before = symbol_count;
    for (uint64_t i = 0; i < count && symbol_count < STATIC_SYMBOLS; i++) {
        uint32_t type = ELF64_ST_TYPE(table[i].st_info);
        if ((type == STT_OBJECT || type == STT_COMMON) && table[i].st_size > 0 && table[i].st_shndx != SHN_UNDEF)
            symbols[symbol_count++] = (symbol_t) { table[i].st_value + moved, table[i].st_size };
    }
    sort(&symbols[before], symbol_count - before);
    return symbol_count - before;
}

static uint32_t
read_symbols(const module_data_t *module)
{
    uint32_t count = 0;
    file_t file = module->full_path == NULL ? INVALID_FILE : dr_open_file(module->full_path, DR_FILE_READ);
    uint64 length = 0;
    if (file == INVALID_FILE)
        return 0;
    size_t mapped = dr_file_size(file, &length) ? length : 0;
    void *bytes = mapped == 0 ? NULL : dr_map_file(file, &mapped, 0, NULL, DR_MEMPROT_READ, DR_MAP_PRIVATE);
    if (bytes != NULL) {
        const Elf64_Sym *table = NULL;
        uint64_t found = symbol_table(&(bytes_t) { bytes, length }, &table);
        count = add_symbols(table, found, (uint64_t)module->start - (uint64_t)module->preferred_base);
        dr_unmap_file(bytes, mapped);
    }
    dr_close_file(file);
    return count;
}

/* The place of a segment that is gone, or a new one. */
static void
add_segment(const segment_t *segment)
{
    uint32_t i = 0;
    while (i < segment_count && segments[i].end != 0)
        i++;
    if (i == STATIC_SEGMENTS)
        return;
    segments[i].start = segment->start;
    segments[i].first = segment->first;
    segments[i].count = segment->count;
    __atomic_store_n(&segments[i].end, segment->end, __ATOMIC_RELEASE);
    if (i == segment_count)
        __atomic_store_n(&segment_count, i + 1, __ATOMIC_RELEASE);
}

void
statics_loaded(const module_data_t *module)
{
    statics_unmapped((uint64_t)module->start, (uint64_t)(module->end - module->start));
    system_lock(&lock);
    uint32_t first = symbol_count, count = read_symbols(module);
    for (uint32_t i = 0; i < module->num_segments; i++) {
        const module_segment_data_t *segment = &module->segments[i];
        if (segment->prot & DR_MEMPROT_WRITE)
            add_segment(&(segment_t) { (uint64_t)segment->start, (uint64_t)segment->end, first, count });
    }
    system_unlock(&lock);
}

void
statics_unmapped(uint64_t start, uint64_t bytes)
{
    for (uint32_t i = 0; i < __atomic_load_n(&segment_count, __ATOMIC_ACQUIRE); i++) {
        if (segments[i].start >= start && segments[i].start - start < bytes)
            __atomic_store_n(&segments[i].end, 0, __ATOMIC_RELEASE);
    }
}

/* The number of the symbol that holds the address; that of the segment behind all symbols where none does. */
static void
describe(const segment_t *segment, uint64_t address, static_t *found)
{
    uint32_t low = segment->first, high = segment->first + segment->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (symbols[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    /* One that ends before it may begin behind one around it. */
    for (uint32_t i = low; i > segment->first && i + 8 > low; i--) {
        const symbol_t *symbol = &symbols[i - 1];
        if (address - symbol->start < symbol->bytes) {
            *found = (static_t) { symbol->start, symbol->bytes, i - 1, true };
            return;
        }
    }
    *found = (static_t) { segment->start, segment->end - segment->start,
                          STATIC_SYMBOLS + (uint32_t)(segment - segments), false };
}

bool
statics_find(uint64_t address, static_t *found)
{
    for (uint32_t i = 0; i < __atomic_load_n(&segment_count, __ATOMIC_ACQUIRE); i++) {
        if (address >= segments[i].start && address < __atomic_load_n(&segments[i].end, __ATOMIC_ACQUIRE)) {
            describe(&segments[i], address, found);
            return true;
        }
    }
    return false;
}
