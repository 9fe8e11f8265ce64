/* Call stacks without unwind tables (callstack.h).
 *
 * Optimised code keeps no frame pointers, and its unwind tables are too slow to follow at each malloc. So the stack is
 * searched for return addresses: values that point behind a call instruction in some module. Old ones that lie about in
 * dead parts of frames are mostly told by where that call goes: a direct call must go to a function that the frame found
 * before may be in, which starts before it and not far off, or to a stub that jumps on to another module.
 * Frames beyond the first are therefore likely, not certain; functions that lie in between may be missing.
 */
#include "callstack.h"
#include "dr_api.h"
#include "modules.h"
#include <string.h>

#define SEARCHED_BYTES 2048
#define STEP_BYTES 256
/* The largest function we expect. */
#define FUNCTION_BYTES (256u << 10)

typedef enum { CALL_NONE, CALL_DIRECT, CALL_INDIRECT } call_t;

/* The call instruction that ends at `address`, and where a direct one goes. */
static call_t
call_before(uint64_t address, uint64_t *target)
{
    uint8_t code[7];
    if (!dr_safe_read((void *)(address - sizeof(code)), sizeof(code), code, NULL))
        return CALL_NONE;
    if (code[2] == 0xe8) { /* call rel32 */
        int32_t distance;
        memcpy(&distance, &code[3], sizeof(distance));
        *target = address + (uint64_t)(int64_t)distance;
        if (modules_contain(*target))
            return CALL_DIRECT;
    }
    /* call r/m64, ff /2: by a register; with no, 8 and 32 bits of displacement; with and without an index. */
    for (int at = 0; at < 6; at++) {
        if (code[at] != 0xff || (code[at + 1] >> 3 & 7) != 2)
            continue;
        int mode = code[at + 1] >> 6, rm = code[at + 1] & 7;
        int length = 2 + (mode != 3 && rm == 4) + (mode == 1 ? 1 : mode == 2 || (mode == 0 && rm == 5) ? 4 : 0);
        if (at + length == (int)sizeof(code))
            return CALL_INDIRECT;
    }
    return CALL_NONE;
}

/* Whether a stub of a procedure linkage table lies there: an indirect jump, perhaps behind endbr64 and a bnd prefix. */
static bool
is_stub(uint64_t address)
{
    uint8_t code[8];
    if (!dr_safe_read((void *)address, sizeof(code), code, NULL))
        return false;
    int at = code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e ? 4 : 0;
    at += code[at] == 0xf2;
    return code[at] == 0xff && code[at + 1] == 0x25;
}

static bool
may_return_to(uint64_t address, uint64_t inner)
{
    uint64_t target = 0;
    if (!modules_contain(address))
        return false;
    switch (call_before(address, &target)) {
    case CALL_DIRECT: return (target <= inner && inner - target < FUNCTION_BYTES) || is_stub(target);
    case CALL_INDIRECT: return true;
    default: return false;
    }
}

void
callstack_walk(uint64_t innermost, uint64_t stack, frames_t *frames)
{
    uint64_t words[STEP_BYTES / sizeof(uint64_t)];
    memset(frames, 0, sizeof(*frames));
    frames->frames[0] = innermost;
    uint32_t count = 1;
    for (uint64_t done = 0; done < SEARCHED_BYTES && count < COHABIT_HOT_STACK; done += sizeof(words)) {
        if (!dr_safe_read((void *)(stack + done), sizeof(words), words, NULL))
            return;
        for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]) && count < COHABIT_HOT_STACK; i++) {
            if (may_return_to(words[i], frames->frames[count - 1]))
                frames->frames[count++] = words[i];
        }
    }
}
