/* Code written by the program itself, called, and rewritten by another way than a store to where it lies: through a
 * second mapping of the memory, and through /proc/self/mem. */
#include "probe.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINES 50

static unsigned char *data, *code, *alias, *other_code;
static int memory;

/* movabs imm64, %rax; mov (%rax), %rax; ret */
static void load_of(const void *address, unsigned char text[14])
{
    static const unsigned char load[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x8b, 0x00, 0xc3};
    memcpy(text, load, sizeof load);
    memcpy(text + 2, &address, sizeof address);
}

static uint64_t call(unsigned char *text)
{
    union {
        void *text;
        uint64_t (*call)(void);
    } function = {text};
    return function.call();
}

static void body(unsigned thread)
{
    unsigned char text[14];
    for (unsigned line = 0; thread == 0 && line < 2 * LINES; line++)
        store8(data + line * BLOCK, line + 1);
    probe_barrier();
    for (unsigned line = 0; thread == 1 && line < LINES; line++) {
        load_of(data + line * BLOCK, text);
        memcpy(alias, text, sizeof text);
        probe_check(call(code) == line + 1, "what code written through a second mapping loaded");
    }
    for (unsigned line = LINES; thread == 1 && line < 2 * LINES; line++) {
        load_of(data + line * BLOCK, text);
        if (pwrite(memory, text, sizeof text, (off_t)(uintptr_t)other_code) != sizeof text)
            probe_die("/proc/self/mem");
        probe_check(call(other_code) == line + 1, "what code written through /proc/self/mem loaded");
    }
}

int main(void)
{
    data = probe_data(2 * LINES);
    int file = memfd_create("code", 0);
    if (file < 0 || ftruncate(file, 4096) != 0)
        probe_die("memfd_create");
    code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    alias = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    other_code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = open("/proc/self/mem", O_RDWR);
    if (code == MAP_FAILED || alias == MAP_FAILED || other_code == MAP_FAILED)
        probe_skip("memory that is executable is refused here");
    if (memory < 0 || pwrite(memory, "\xc3", 1, (off_t)(uintptr_t)other_code) != 1)
        probe_skip("/proc/self/mem is refused here");
    probe_threads(2, body);
    probe_expect(0, 1, 2 * LINES, 2 * LINES * 8, 0);
    return probe_finish("aliases");
}
