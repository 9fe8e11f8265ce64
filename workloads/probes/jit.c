/* Code written by the program itself, called, changed in place and called again. */
#include "probe.h"

#include <string.h>
#include <sys/mman.h>

#define LINES 100

static unsigned char *data, *code;

/* movabs imm64, %rax; mov (%rax), %rax; ret */
static void emit_load(const void *address)
{
    unsigned char text[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x8b, 0x00, 0xc3};
    memcpy(text + 2, &address, sizeof address);
    memcpy(code, text, sizeof text);
}

static uint64_t call_code(void)
{
    union {
        void *text;
        uint64_t (*call)(void);
    } function = {code};
    return function.call();
}

static void body(unsigned thread)
{
    for (unsigned line = 0; thread == 0 && line < LINES; line++)
        store8(data + line * BLOCK, line + 1);
    probe_barrier();
    for (unsigned line = 0; thread == 1 && line < LINES; line++) {
        emit_load(data + line * BLOCK);
        probe_check(call_code() == line + 1, "what the emitted code loaded");
    }
}

int main(void)
{
    data = probe_data(LINES);
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        probe_skip("memory that is writable and executable is refused here");
    probe_threads(2, body);
    probe_expect(0, 1, LINES, LINES * 8, 0);
    return probe_finish("jit");
}
