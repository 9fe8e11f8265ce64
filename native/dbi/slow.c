/* The slow path: what a failed check calls (slow.h). Compiled without vector registers. */
#include "slow.h"
#include "groups.h"
#include "sharing.h"

void
slow_path(task_t *me, uint64_t address, uint64_t group)
{
    uint32_t count;
    const piece_t *pieces = groups_at((uint32_t)group & ~SLOW_SHARING, &count);
    if (__builtin_expect((group & SLOW_SHARING) != 0, 0)) {
        for (uint32_t i = 0; i < count; i++)
            sharing_access(me, address + (uint64_t)(int64_t)pieces[i].offset, pieces[i].bytes);
        return;
    }
    me->shared->slow_calls++;
    for (uint32_t i = 0; i < count; i++) {
        me->pc = pieces[i].pc;
        shadow_access(me, address + (uint64_t)(int64_t)pieces[i].offset, pieces[i].bytes, (access_kind_t)pieces[i].kind);
    }
}
