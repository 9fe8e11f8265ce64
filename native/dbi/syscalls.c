/* System calls (syscalls.h): their memory effects by table, memory that comes and goes, and threads being created. */
#include "syscalls.h"
#include "aliases.h"
#include "channels.h"
#include "codewrites.h"
#include "clock.h"
#include "counting.h"
#include "descriptors.h"
#include "shadow.h"
#include "slots.h"
#include "heap.h"
#include "interrupted.h"
#include "mappings.h"
#include "options.h"
#include "recorder_channels.h"
#include "recorder_shared.h"
#include "syscall_table.h"
#include "system.h"
#include "tasks.h"
#include "vectors.h"
#include "vforks.h"
#include "drmgr.h"
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SYSCALLS 512
/* First row of each call in the table sorted by call, + 1; 0: the call is not modelled. */
static uint16_t first_row[SYSCALLS + 1];
static effect_t rows[1024];

static void
sort_table(void)
{
    uint32_t count = 0;
    for (uint32_t number = 0; number < SYSCALLS; number++) {
        first_row[number] = 0;
        for (uint32_t i = 0; i < syscall_effect_count; i++) {
            if (syscall_effects[i].number != number)
                continue;
            if (first_row[number] == 0)
                first_row[number] = (uint16_t)(count + 1);
            rows[count++] = syscall_effects[i];
        }
    }
    rows[count].number = 0xffff;
}

static void
touch(task_t *me, uint64_t address, uint64_t bytes, uint32_t kind)
{
    if (address == 0 || bytes == 0 || !counting_on())
        return;
    me->shared->loads += (kind & ACCESS_READ) != 0;
    me->shared->stores += (kind & ACCESS_WRITE) != 0;
    me->shared->accessed_bytes += bytes;
    shadow_access(me, address, bytes, (access_kind_t)kind);
}

static uint64_t
string_bytes(uint64_t address)
{
    char some[64];
    for (uint64_t length = 0; length < 4096;) {
        size_t got = 0;
        /* Never past the page: the next one may not exist. */
        size_t wanted = 64 - (address + length) % 64;
        if (!dr_safe_read((void *)(address + length), wanted, some, &got) || got != wanted)
            return length;
        for (size_t i = 0; i < got; i++) {
            if (some[i] == '\0')
                return length + i + 1;
        }
        length += got;
    }
    return 4096;
}

static void
touch_vector(task_t *me, uint64_t address, uint64_t count, uint64_t bytes, uint32_t kind)
{
    touch(me, address, count * sizeof(struct iovec), ACCESS_READ);
    for (uint64_t i = 0; i < count && i < 1024 && bytes > 0; i++) {
        struct iovec one;
        if (!dr_safe_read((void *)(address + i * sizeof(one)), sizeof(one), &one, NULL))
            return;
        uint64_t some = one.iov_len < bytes ? one.iov_len : bytes;
        touch(me, (uint64_t)one.iov_base, some, kind);
        bytes -= some;
    }
}

static void
touch_message(task_t *me, uint64_t address, uint64_t bytes, uint32_t kind)
{
    struct msghdr message;
    if (!dr_safe_read((void *)address, sizeof(message), &message, NULL))
        return;
    touch(me, address, sizeof(message), kind == ACCESS_WRITE ? ACCESS_READ_WRITE : ACCESS_READ);
    touch(me, (uint64_t)message.msg_name, message.msg_namelen, kind);
    touch(me, (uint64_t)message.msg_control, message.msg_controllen, kind);
    touch_vector(me, (uint64_t)message.msg_iov, message.msg_iovlen, bytes, kind);
}

static bool
futex_reads(uint64_t operation)
{
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAKE:
    case FUTEX_REQUEUE:
    case FUTEX_WAKE_BITSET: return false;
    default: return true;
    }
}

/* The locks of fcntl are a struct flock; owners and hints are 8 bytes (fcntl(2)). */
static uint64_t
fcntl_bytes(uint64_t command, access_kind_t kind)
{
    bool writes = kind == ACCESS_WRITE;
    switch (command) {
    case F_GETLK:
    case F_OFD_GETLK: return sizeof(struct flock);
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return writes ? 0 : sizeof(struct flock);
    case F_SETOWN_EX:
    case F_SET_RW_HINT:
    case F_SET_FILE_RW_HINT: return writes ? 0 : 8;
    case F_GETOWN_EX:
    case F_GET_RW_HINT:
    case F_GET_FILE_RW_HINT: return writes ? 8 : 0;
    default: return 0;
    }
}

static void
apply(task_t *me, const effect_t *effect, uint64_t result)
{
    const uint64_t *argument = me->syscall_args;
    uint64_t address = argument[effect->argument];
    uint32_t length32 = 0;
    switch ((effect_size_t)effect->size) {
    case SIZE_FIXED: touch(me, address, effect->a, effect->kind); break;
    case SIZE_ARGUMENT: touch(me, address, argument[effect->a] * effect->b, effect->kind); break;
    case SIZE_RESULT: touch(me, address, result * effect->b, effect->kind); break;
    case SIZE_STRING: touch(me, address, address == 0 ? 0 : string_bytes(address), effect->kind); break;
    case SIZE_POINTED:
        if (argument[effect->a] != 0 && dr_safe_read((void *)argument[effect->a], sizeof(length32), &length32, NULL))
            touch(me, address, length32, effect->kind);
        break;
    case SIZE_VECTOR: touch_vector(me, address, argument[effect->a], result, effect->kind); break;
    case SIZE_MESSAGE: touch_message(me, address, result, effect->kind); break;
    case SIZE_MESSAGES:
        for (uint64_t i = 0; i < result; i++) {
            struct mmsghdr one;
            uint64_t at = address + i * sizeof(one);
            if (dr_safe_read((void *)at, sizeof(one), &one, NULL))
                touch_message(me, at, one.msg_len, effect->kind);
        }
        break;
    case SIZE_SET: touch(me, address, (argument[effect->a] + 63) / 64 * 8, effect->kind); break;
    case SIZE_FUTEX:
        recorder_at_futex(me, true);
        if (futex_reads(argument[1]))
            touch(me, address, 4, effect->kind);
        recorder_at_futex(me, false);
        break;
    case SIZE_FCNTL:
        touch(me, address, fcntl_bytes(argument[1], (access_kind_t)effect->kind), effect->kind);
        break;
    }
}

static void
memory_came(uint64_t start, uint64_t bytes)
{
    shadow_clear(start, bytes);
    if (options.hot)
        heap_mapped(start, bytes);
}

static void
memory_went(uint64_t start, uint64_t bytes)
{
    shadow_clear(start, bytes);
    if (options.hot)
        heap_unmapped(start, bytes);
}

/* Memory that is unmapped, remapped or mapped again starts clean. */
static void
memory_changed(int number, const uint64_t *argument, uint64_t result)
{
    switch (number) {
    case __NR_mmap: memory_came(result, argument[1]); break;
    case __NR_munmap: memory_went(argument[0], argument[1]); break;
    case __NR_mremap:
        if (result != argument[0]) {
            memory_went(argument[0], argument[1]);
            memory_came(result, argument[2]);
        } else if (argument[2] < argument[1]) {
            shadow_clear(argument[0] + argument[2], argument[1] - argument[2]);
        } else {
            shadow_clear(argument[0] + argument[1], argument[2] - argument[1]);
        }
        break;
    case __NR_madvise:
        if (argument[2] == 4 /* MADV_DONTNEED */ || argument[2] == 9 /* MADV_REMOVE */)
            shadow_clear(argument[0], argument[1]);
        break;
    case __NR_brk: {
        static uint64_t top; /* of this address space; a forked child inherits it */
        uint64_t old = top;
        top = result;
        if (old != 0 && result < old)
            shadow_clear(result, old - result);
        if (options.hot)
            heap_moved_top(result);
        break;
    }
    default: break;
    }
}

static uint64_t
clone_flags(int number, const uint64_t *argument)
{
    uint64_t flags = argument[0];
    if (number == __NR_clone3 && !dr_safe_read((void *)argument[0], sizeof(flags), &flags, NULL))
        return 0;
    return flags;
}

/* Whether the call lends the memory to a child (vforks.h). `me->clone_flags` are a clone3's. */
static bool
lends(const task_t *me, int number)
{
    switch (number) {
    case __NR_vfork: return true;
    case __NR_clone: return (me->syscall_args[0] & CLONE_VFORK) != 0;
    case __NR_clone3: return (me->clone_flags & CLONE_VFORK) != 0;
    default: return false;
    }
}

static bool
event_filter(void *drcontext, int number)
{
    (void)drcontext, (void)number;
    return true;
}

static uint64_t
program_counter(void *drcontext)
{
    dr_mcontext_t mc = { sizeof(mc), DR_MC_CONTROL };
    dr_get_mcontext(drcontext, &mc);
    return (uint64_t)(ptr_uint_t)mc.pc;
}

/* Whether the call waits for a time or a device: what tasks wait for one another for is seen in memory. */
static bool
is_idle(int number)
{
    switch (number) {
    case __NR_nanosleep:
    case __NR_clock_nanosleep:
    case __NR_poll:
    case __NR_ppoll:
    case __NR_select:
    case __NR_pselect6:
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2:
    case __NR_rt_sigtimedwait: return true;
    default: return false;
    }
}

/* Whether several descriptors are waited for, and whoever made one of them ready. */
static bool
waits_for_descriptors(int number)
{
    return is_idle(number) && number != __NR_nanosleep && number != __NR_clock_nanosleep &&
        number != __NR_rt_sigtimedwait;
}

/* Whether the task may sleep in it for long; one that only looks does not. */
static bool
may_sleep(int number, const uint64_t *argument)
{
    switch (number) {
    case __NR_poll: return argument[2] != 0;
    case __NR_epoll_wait:
    case __NR_epoll_pwait: return argument[3] != 0;
    case __NR_futex:
    case __NR_read:
    case __NR_readv:
    case __NR_write:
    case __NR_writev:
    case __NR_recvfrom:
    case __NR_recvmsg:
    case __NR_sendto:
    case __NR_sendmsg:
    case __NR_connect:
    case __NR_accept:
    case __NR_accept4:
    case __NR_wait4:
    case __NR_waitid:
    case __NR_pause:
    case __NR_rt_sigsuspend:
    case __NR_semop:
    case __NR_semtimedop:
    case __NR_msgrcv:
    case __NR_msgsnd:
    case __NR_flock:
    case __NR_fcntl:
    case __NR_execve:
    case __NR_execveat:
    case __NR_exit:
    case __NR_exit_group: return true;
    default: return is_idle(number);
    }
}

/* DynamoRIO ends a program that cannot have the address space it needs, with a line that says neither why nor what to
 * do. */
static void
warn_of_limit(const char *path)
{
    uint64_t bytes = system_address_space_limit();
    if (bytes < shadow_space_bytes && system_identify_path(path).kind == FILE_REGULAR)
        dr_fprintf(STDERR,
                   "cohabit: process %d starts a program under ulimit -v (%llu KiB), in which the profiler has no room: it ends\n"
                   "  leave the limit out where you profile\n",
                   (int)dr_get_process_id(), (unsigned long long)(bytes / 1024));
}

static bool
event_before(void *drcontext, int number)
{
    task_t *me = slots_current_task();
    clock_start();
    counting_poll();
    shadow_settle_undo(me); /* the protection of memory changes by system calls */
    if (counting_partly())
        interrupted_before(me);
    if (options.hot)
        me->syscall_pc = program_counter(drcontext);
    for (int i = 0; i < 6; i++)
        me->syscall_args[i] = dr_syscall_get_param(drcontext, i);
    mappings_before(me, number, me->syscall_args);
    recorder_shared_position(me);
    recorder_shared_away(me, may_sleep(number, me->syscall_args));
    recorder_channels_before(me, number);
    if (me->recorder != NULL && is_idle(number))
        me->idle_since_ns = system_monotonic_ns();
    if (number == __NR_clone3)
        me->clone_flags = clone_flags(number, me->syscall_args);
    if (number == __NR_clone || number == __NR_clone3 || number == __NR_fork || number == __NR_vfork)
        tasks_makes(me, (clone_flags(number, me->syscall_args) & CLONE_THREAD) != 0);
    if (lends(me, number))
        vforks_begin(drcontext);
    if (number == __NR_close_range)
        descriptors_before(drcontext, me);
    if (number == __NR_exit)
        tasks_wait_begun();
    if (number == __NR_execve || number == __NR_execveat) {
        warn_of_limit((const char *)me->syscall_args[number == __NR_execve ? 0 : 1]);
        part_flush_window(me);
        counting_account();
        part()->end = COHABIT_END_EXEC;
    }
    return true;
}

static void
event_after(void *drcontext, int number)
{
    task_t *me = slots_current_task();
    vectors_suspect(me);
    recorder_shared_away(me, false);
    dr_syscall_result_info_t info = { sizeof(info) };
    dr_syscall_get_result_ex(drcontext, &info);
    int64_t result = (int64_t)info.value;
    if (result != 0 && lends(me, number))
        vforks_end(); /* the child has a program of its own, or there is none */
    if (me->recorder != NULL && counting_on() && is_idle(number) && may_sleep(number, me->syscall_args))
        recorder_channels_polled(me, system_monotonic_ns() - me->idle_since_ns, !waits_for_descriptors(number) || result == 0);
    recorder_channels_after(me, number, result < 0 && result > -4096 ? -1 : result);
    if (counting_partly() && interrupted_after(drcontext, me, number, result))
        return;
    if (number == __NR_close_range)
        descriptors_after(drcontext, me, result);
    if (number == __NR_execve || number == __NR_execveat)
        part()->end = COHABIT_END_RUNNING; /* it failed: the image goes on */
    if (result < 0 && result > -4096) {
        mappings_failed(me, number, me->syscall_args);
        return;
    }
    if (number == __NR_vfork)
        tasks_made();
    if (number == __NR_clone || number == __NR_clone3) {
        uint64_t flags = number == __NR_clone ? me->syscall_args[0] : me->clone_flags;
        if ((flags & CLONE_VM) != 0)
            tasks_made();
        uint32_t made = (flags & CLONE_THREAD) != 0 ? part_register((uint32_t)result, me->id) : COHABIT_NO_TASK;
        if (made != COHABIT_NO_TASK)
            recorder_started(me, made);
        else if ((flags & CLONE_THREAD) == 0)
            recorder_forked(me, (uint32_t)result);
        if (made != COHABIT_NO_TASK)
            part_task(made)->of_mpi = me->in_mpi || me->shared->of_mpi;
    }
    memory_changed(number, me->syscall_args, (uint64_t)result);
    mappings_after(me, number, me->syscall_args, (uint64_t)result);
    aliases_syscall(number, me->syscall_args, (uint64_t)result);
    channels_syscall(number, me->syscall_args, (uint64_t)result);
    me->pc = me->syscall_pc;
    if (number == __NR_mmap || number == __NR_mprotect || number == __NR_pkey_mprotect)
        codewrites_mapped(me->syscall_args[2]);
    if (number < 0 || number >= SYSCALLS)
        return;
    uint32_t row = first_row[number];
    if (row == 0) {
        __atomic_or_fetch(&part()->unknown_syscalls[number / 64], 1ull << number % 64, __ATOMIC_RELAXED);
        return;
    }
    if (number == __NR_process_vm_readv && counting_on())
        recorder_copied(me, me->syscall_args, (uint64_t)result, false);
    for (row--; rows[row].number == number; row++) {
        if (rows[row].argument != 0xff)
            apply(me, &rows[row], (uint64_t)result);
    }
    if (number == __NR_process_vm_writev && counting_on())
        recorder_copied(me, me->syscall_args, (uint64_t)result, true);
}

void
syscalls_init(void)
{
    sort_table();
    descriptors_init();
    dr_register_filter_syscall_event(event_filter);
    drmgr_register_pre_syscall_event(event_before);
    drmgr_register_post_syscall_event(event_after);
}

void
syscalls_exit(void)
{
    drmgr_unregister_pre_syscall_event(event_before);
    drmgr_unregister_post_syscall_event(event_after);
}
