/* Repairs system calls that a flush interrupted (interrupted.h).
 *
 * To flush code, DynamoRIO stops all threads by a signal. The kernel restarts most system calls after that, but not
 * those that wait for a time (signal(7)): they say EINTR, to a program that may never have had a signal. These are made
 * again; one whose time was over by then ends as it would have. A wait may so take longer, by less than the time
 * between two flushes. pause and sigsuspend are left alone: they end by signals only, and who calls them looks why.
 */
#include "interrupted.h"
#include "counting.h"
#include "system.h"
#include "dr_api.h"
#include <asm/unistd.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/time.h>
#include <time.h>

typedef enum {
    TIME_NONE,    /* there is none, or it is absolute, or the kernel leaves what remains of it there */
    TIME_MS,      /* an int of milliseconds, negative: forever */
    TIME_POINTED, /* a timespec; none: forever */
} time_kind_t;

static const struct {
    int number;
    time_kind_t kind;
    int argument;
    int at_end; /* what the call returns when its time is over */
} waits[] = {
    { __NR_nanosleep, TIME_POINTED, 0, 0 },
    { __NR_clock_nanosleep, TIME_POINTED, 2, 0 },
    { __NR_poll, TIME_MS, 2, 0 },
    { __NR_ppoll, TIME_NONE, 0, 0 },
    { __NR_select, TIME_NONE, 0, 0 },
    { __NR_pselect6, TIME_NONE, 0, 0 },
    { __NR_epoll_wait, TIME_MS, 3, 0 },
    { __NR_epoll_pwait, TIME_MS, 3, 0 },
    { __NR_epoll_pwait2, TIME_POINTED, 3, 0 },
    { __NR_futex, TIME_POINTED, 3, -ETIMEDOUT },
    { __NR_rt_sigtimedwait, TIME_POINTED, 2, -EAGAIN },
    { __NR_semop, TIME_NONE, 0, 0 },
    { __NR_semtimedop, TIME_POINTED, 3, -EAGAIN },
    { __NR_msgrcv, TIME_NONE, 0, 0 },
    { __NR_msgsnd, TIME_NONE, 0, 0 },
    { __NR_io_getevents, TIME_POINTED, 4, 0 },
};

void
interrupted_before(task_t *me)
{
    me->flushes_seen = counting_flushes();
    if (!me->syscall_again)
        me->syscall_since_ns = system_monotonic_ns();
    me->syscall_again = false;
}

static bool
is_absolute(int number, const uint64_t *argument)
{
    if (number == __NR_clock_nanosleep)
        return argument[1] == TIMER_ABSTIME;
    return number == __NR_futex && (argument[1] & FUTEX_CMD_MASK) != FUTEX_WAIT;
}

/* The time the call was to wait at most, in ns; ~0: forever, or the kernel knows. */
static uint64_t
time_ns(uint32_t wait, const uint64_t *argument)
{
    uint64_t value = argument[waits[wait].argument];
    struct timespec time;
    if (waits[wait].kind == TIME_NONE || is_absolute(waits[wait].number, argument))
        return ~0ull;
    if (waits[wait].kind == TIME_MS)
        return (int)value < 0 ? ~0ull : value * 1000000u;
    if (value == 0 || !dr_safe_read((void *)value, sizeof(time), &time, NULL))
        return ~0ull;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool
interrupted_after(void *drcontext, task_t *me, int number, int64_t result)
{
    const uint32_t count = sizeof(waits) / sizeof(waits[0]);
    uint32_t wait = 0;
    if (result != -EINTR || counting_flushes() == me->flushes_seen)
        return false;
    while (wait < count && waits[wait].number != number)
        wait++;
    if (wait == count)
        return false;
    if (system_monotonic_ns() - me->syscall_since_ns >= time_ns(wait, me->syscall_args)) {
        dr_syscall_set_result(drcontext, (reg_t)(ptr_int_t)waits[wait].at_end);
        return true;
    }
    me->syscall_again = true; /* interrupted_before will be called for it too */
    dr_syscall_set_sysnum(drcontext, number);
    for (int i = 0; i < 6; i++)
        dr_syscall_set_param(drcontext, i, (reg_t)me->syscall_args[i]);
    dr_syscall_invoke_another(drcontext);
    return true;
}
