/* The end of close_range's range (descriptors.h). */
#include "descriptors.h"
#include "system.h"
#include "dr_api.h"

/* DynamoRIO keeps the greatest numbers for its own files (-steal_fds), and never closes these. */
#define DYNAMORIO_KEEPS 96u

static uint32_t own_from; /* the first of these */

void
descriptors_init(void)
{
    uint64_t limit = system_descriptor_limit();
    own_from = limit > DYNAMORIO_KEEPS && limit < INT32_MAX ? (uint32_t)limit - DYNAMORIO_KEEPS : INT32_MAX;
}

void
descriptors_before(void *drcontext, task_t *me)
{
    uint32_t first = (uint32_t)me->syscall_args[0], last = (uint32_t)me->syscall_args[1];
    if (first > last) /* an error, and DynamoRIO says so */
        return;
    int64_t open = system_last_descriptor(last < own_from ? last + 1 : own_from);
    if (open < last) /* an empty range is none: the first number is left, which is not open */
        dr_syscall_set_param(drcontext, 1, open > first ? (reg_t)open : first);
}

void
descriptors_after(void *drcontext, const task_t *me, int64_t result)
{
    dr_syscall_set_param(drcontext, 1, (reg_t)me->syscall_args[1]);
    if (result > 0) /* DynamoRIO's idea of an error number */
        dr_syscall_set_result(drcontext, (reg_t)-result);
}
