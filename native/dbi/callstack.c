/* Call stacks (callstack.h). They end early rather than to guess: at code that has no unwind table, as code written at
 * run time. */
#include "callstack.h"
#include "modules.h"
#include <string.h>

void
callstack_walk(registers_t innermost, frames_t *frames)
{
    registers_t at = innermost;
    memset(frames, 0, sizeof(*frames));
    frames->frames[0] = innermost.pc;
    for (uint32_t count = 1; count < COHABIT_HOT_STACK; count++) {
        uint64_t stack = at.sp;
        if (!unwind_step(&at) || at.sp <= stack || !modules_contain(at.pc))
            return;
        frames->frames[count] = at.pc;
    }
}
