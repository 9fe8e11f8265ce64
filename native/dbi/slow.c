/* The slow path: what a failed check calls (slow.h). Compiled without vector registers. */
#include "slow.h"
#include "groups.h"
#include "recorder.h"
#include "sharing.h"
#include "vectors.h"

/* Often enough to be soon, seldom enough to cost nothing. */
#define SLOW_CALLS_BETWEEN_LOOKS 4096

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
    if (++me->shared->slow_calls % SLOW_CALLS_BETWEEN_LOOKS == 0 || me->suspect)
        vectors_clean(me);
    for (uint32_t i = 0; i < count; i++) {
        me->pc = pieces[i].pc;
        me->order = pieces[i].order & ~RECORDER_ATOMIC;
        me->atomic = (pieces[i].order & RECORDER_ATOMIC) != 0;
        shadow_access(me, address + (uint64_t)(int64_t)pieces[i].offset, pieces[i].bytes, (access_kind_t)pieces[i].kind);
    }
    me->order = RECORDER_NO_ORDER;
    me->atomic = false;
}
