/* Page faults of the followed tasks, who starts and ends (CDSM sections 2.3 and 4), and samples of what tasks do, as
 * eBPF programs on BTF tracepoints: no module, no kprobe. x86 and RISC-V: other architectures have no tracepoint for a
 * user's page fault.
 *
 * What is not needed in the fault is not done in it: names, mappings, slots and aging are user space's
 * (crates/online/src/faults).
 *
 * SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 */
#include "detect.h"
#include <asm-generic/errno-base.h>
#include <bpf/bpf_tracing.h>

#define CLOCK_MONOTONIC 1
/* Of Linux 6.7; not in older headers. */
#define BPF_F_TIMER_CPU_PIN (1 << 1)

/* Bits of an x86 page fault's error code: the page was there, and an instruction was fetched. */
#define WAS_PRESENT 0x01
#define FETCHED_INSTRUCTION 0x10

/* Set by user space while they run. */
volatile struct cohabit_fault_state state SEC(".data.user") = {0, 0, {0}};

/* The next slot that was never used, and how many have been taken out of `free_slots`. */
cohabit_u32 fresh_slot = 0;
cohabit_u32 slots_taken = 0;

/* The followed tasks: a thread's id to its slot. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, COHABIT_MAX_SLOTS);
    __type(key, cohabit_u32);
    __type(value, cohabit_u32);
} followed SEC(".maps");

/* What tasks reach into by process_vm_readv(2) and _writev: a thread's id to a process. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, COHABIT_MAX_SLOTS);
    __type(key, cohabit_u32);
    __type(value, cohabit_u32);
} reached SEC(".maps");

/* Slots to give out again, first in first out, once all have been used: a ring that user space fills. Not a queue map,
 * which programs that may sleep cannot use before Linux 6.7. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, COHABIT_FREE_SLOTS);
    __type(key, cohabit_u32);
    __type(value, cohabit_u32);
} free_slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} task_events SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1);
} samples SEC(".maps");

/* Of each PU. */
struct sampling {
    cohabit_u64 sample;  /* from when on the next sample may be taken */
    cohabit_u64 set;     /* from when on its timer may be set after a switch */
    cohabit_u64 due;     /* when that expires; 0 where it has, or was not set */
    cohabit_u32 delay;   /* for how long it was set */
    cohabit_u32 may_set; /* whether the next switch may set it */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, cohabit_u32);
    __type(value, struct sampling);
} sampling SEC(".maps");

struct pu_timer {
    struct bpf_timer timer;
};

/* A timer for each PU, by its number. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, cohabit_u32);
    __type(value, struct pu_timer);
} timers SEC(".maps");

/* The shared mappings of each process (thread group id), read from /proc by user space. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 4096);
    __type(key, cohabit_u32);
    __type(value, struct cohabit_ranges);
} shared SEC(".maps");

/* The key of an address in one of the process's shared mappings; 0 where it is in none. */
__attribute__((noinline)) cohabit_u64 shared_key(cohabit_u32 process, cohabit_u64 address, cohabit_u32 shift)
{
    struct cohabit_ranges *ranges = bpf_map_lookup_elem(&shared, &process);
    if (!ranges)
        return 0;
    /* How many ranges start at or before the address. Without branches, as in detect.h: the verifier follows every way
     * through a program, and with them there are so many that loading it took a second. */
    cohabit_u64 count = ranges->count, low = 0;
#pragma unroll
    for (int step = COHABIT_RANGES_LOG2; step >= 0; step--) {
        cohabit_u64 next = low + (1ull << step);
        cohabit_u64 start = ranges->range[(next - 1) & (COHABIT_MAX_RANGES - 1)].start;
        /* Addresses of user space, and the kernel's seen from them, are less than 2^63 apart. */
        cohabit_u64 too_far = is_less(count, next) | is_less(address, start);
        low += (too_far ^ 1) << step;
        /* The compiler would see that the index is in bounds and leave the mask out, which the verifier needs. */
        __asm__ __volatile__("" : "+r"(low));
    }
    if (low == 0 || low > COHABIT_MAX_RANGES)
        return 0;
    /* Within bounds in a way that the verifier of Linux 6.1 can follow, too: it makes nothing of `low` not being 0. */
    cohabit_u64 last = low - 1;
    __asm__ __volatile__("" : "+r"(last));
    struct cohabit_range *range = &ranges->range[last & (COHABIT_MAX_RANGES - 1)];
    if (address >= range->end)
        return 0;
    return key_of(range->object, address - range->start + range->offset, shift) | SHARED_KEY;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_fault, unsigned long address, void *registers, unsigned long error_code)
{
    cohabit_u64 ids = bpf_get_current_pid_tgid();
    cohabit_u32 tid = ids, process = ids >> 32;
    cohabit_u32 *slot = bpf_map_lookup_elem(&followed, &tid);
    if (!slot)
        return 0;
    count(COHABIT_COUNT_FAULTS, 1);
    if (error_code & FETCHED_INSTRUCTION) {
        count(COHABIT_COUNT_CODE, 1);
        return 0;
    }
    /* A page that is there was write-protected (detect.h): its key is the page's. */
    cohabit_u64 written = error_code & WAS_PRESENT;
    cohabit_u64 in_page = written & is_less(settings.block_shift, PAGE_SHIFT);
    cohabit_u64 block = chosen(in_page, 0, (address & ((1 << PAGE_SHIFT) - 1)) >> settings.block_shift);
    cohabit_u32 shift = chosen(in_page, settings.block_shift, PAGE_SHIFT);
    cohabit_u64 key = state.any_shared ? shared_key(process, address, shift) : 0;
    if (!key) {
        struct task_struct *task = (void *)bpf_get_current_task_btf();
        if (task->signal->nr_threads < 2) {
            count(COHABIT_COUNT_PRIVATE, 1);
            return 0;
        }
        key = key_of(mix(process), address, shift);
        key += key == 0;
    }
    /* Write protection shows who writes next, hint faults and first touches who uses the memory next. Each kind has a
     * history of its own: a pair of one and the other says more about who writes than about who shares. */
    touch(key | written * WRITTEN_KEY, block, *slot, written ? COHABIT_WRITTEN : COHABIT_USED);
    return 0;
}

/* A slot that no living task has, and that has been out of use for as long as possible: blocks remember tasks by it. */
static __always_inline int take_slot(cohabit_u32 *slot)
{
    if (fresh_slot < settings.most_slots) {
        *slot = __sync_fetch_and_add(&fresh_slot, 1);
        if (*slot < settings.most_slots)
            return 0;
    }
    for (int attempt = 0; attempt < 4; attempt++) {
        cohabit_u32 taken = slots_taken;
        if (taken == state.slots_given)
            return -1;
        cohabit_u32 index = taken & (COHABIT_FREE_SLOTS - 1);
        cohabit_u32 *value = bpf_map_lookup_elem(&free_slots, &index);
        if (!value)
            return -1;
        *slot = *value;
        if (__sync_val_compare_and_swap(&slots_taken, taken, taken + 1) == taken)
            return 0;
    }
    return -1;
}

static __always_inline struct cohabit_task_event *task_event(cohabit_u32 kind, cohabit_u32 slot)
{
    struct cohabit_task_event *event = bpf_ringbuf_reserve(&task_events, sizeof(*event), 0);
    if (event) {
        event->kind = kind;
        event->slot = slot;
        event->parent_slot = slot;
        event->former_tid = 0;
        event->time_ns = bpf_ktime_get_ns();
    }
    return event;
}

/* Follows a task from now on; `parent` is the slot of the one that created it. */
static __always_inline cohabit_u32 follow_task(cohabit_u32 tid, cohabit_u32 process, const cohabit_u32 *parent)
{
    cohabit_u32 slot;
    if (bpf_map_lookup_elem(&followed, &tid))
        return COHABIT_FOLLOWED_BEFORE;
    /* A slot is lost with the task where something fails. */
    if (take_slot(&slot))
        goto lost;
    struct cohabit_task_event *event = task_event(COHABIT_TASK_STARTED, slot);
    if (!event)
        goto lost;
    long refused = bpf_map_update_elem(&followed, &tid, &slot, BPF_NOEXIST);
    if (refused) {
        bpf_ringbuf_discard(event, 0);
        /* Its parent created it and user space listed it at the same moment; the slot is lost all the same. */
        if (refused == -EEXIST)
            return COHABIT_FOLLOWED_BEFORE;
        goto lost;
    }
    event->tid = tid;
    event->process = process;
    event->parent_slot = parent ? *parent : slot;
    bpf_ringbuf_submit(event, 0);
    return COHABIT_FOLLOWED;
lost:
    count(COHABIT_COUNT_TASKS_LOST, 1);
    return COHABIT_NOT_FOLLOWED;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    cohabit_u32 parent_tid = parent->pid;
    cohabit_u32 *parent_slot = bpf_map_lookup_elem(&followed, &parent_tid);
    if (!parent_slot)
        return 0;
    follow_task(child->pid, child->tgid, parent_slot);
    cohabit_u32 process = child->tgid, parent_process = parent->tgid;
    if (state.any_shared && process != parent_process) {
        /* A new process has the mappings of its parent; its first faults come before user space has read them. */
        struct cohabit_ranges *ranges = bpf_map_lookup_elem(&shared, &parent_process);
        if (ranges)
            bpf_map_update_elem(&shared, &process, ranges, BPF_ANY);
    }
    return 0;
}

/* Follows a task that user space names (BPF_PROG_TEST_RUN). */
SEC("syscall")
int follow(struct cohabit_follow *task)
{
    return follow_task(task->tid, task->process, 0);
}

/* Follows a task no longer, and tells so once. */
static __always_inline int end_task(cohabit_u32 tid, cohabit_u32 process)
{
    cohabit_u32 *found = bpf_map_lookup_elem(&followed, &tid);
    if (!found)
        return 0;
    cohabit_u32 slot = *found;
    if (bpf_map_delete_elem(&followed, &tid))
        return 0;
    bpf_map_delete_elem(&reached, &tid);
    struct cohabit_task_event *event = task_event(COHABIT_TASK_ENDED, slot);
    if (!event) {
        /* The slot is not given out again, so nothing is credited to the wrong task. */
        count(COHABIT_COUNT_ENDS_LOST, 1);
        return 0;
    }
    event->tid = tid;
    event->process = process;
    bpf_ringbuf_submit(event, 0);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
    return end_task(task->pid, task->tgid);
}

/* Ends a task that user space names: one that had ended, or was about to, when it was followed (BPF_PROG_TEST_RUN). */
SEC("syscall")
int unfollow(struct cohabit_follow *task)
{
    return end_task(task->tid, task->process);
}

/* Whose memory a system call is about. Its argument is an id in the caller's namespace; the kernel has found the task
 * here. */
SEC("?fentry/mm_access")
int BPF_PROG(on_reach, struct task_struct *task)
{
    cohabit_u32 tid = bpf_get_current_pid_tgid(), process = task->tgid;
    if (bpf_map_lookup_elem(&followed, &tid))
        bpf_map_update_elem(&reached, &tid, &process, BPF_ANY);
    return 0;
}

/* What a task has copied from or to another process, which touches no page that both map: MPI libraries pass large
 * messages so. Who of the other process the bytes are from is not known: its main thread is taken. */
static __always_inline int copied(long bytes)
{
    cohabit_u32 tid = bpf_get_current_pid_tgid();
    cohabit_u32 *slot = bpf_map_lookup_elem(&followed, &tid), *process = bpf_map_lookup_elem(&reached, &tid);
    if (bytes <= 0 || !slot || !process)
        return 0;
    cohabit_u32 *other = bpf_map_lookup_elem(&followed, process);
    if (!other || *other == *slot)
        return 0;
    count(COHABIT_COUNT_COPIED, bytes);
    credit(*slot, *other, COHABIT_COPIED, bytes);
    return 0;
}

SEC("?fexit/__x64_sys_process_vm_readv")
int BPF_PROG(on_read, const struct pt_regs *registers, long bytes)
{
    return copied(bytes);
}

SEC("?fexit/__x64_sys_process_vm_writev")
int BPF_PROG(on_write, const struct pt_regs *registers, long bytes)
{
    return copied(bytes);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
    cohabit_u32 tid = task->pid, former = old_pid, process = task->tgid;
    cohabit_u32 *found = bpf_map_lookup_elem(&followed, &former);
    if (!found)
        return 0;
    cohabit_u32 slot = *found;
    if (former != tid) {
        bpf_map_delete_elem(&followed, &former);
        bpf_map_update_elem(&followed, &tid, &slot, BPF_ANY);
    }
    bpf_map_delete_elem(&shared, &process);
    struct cohabit_task_event *event = task_event(COHABIT_TASK_EXEC, slot);
    if (event) {
        event->tid = tid;
        event->process = process;
        event->former_tid = former;
        bpf_ringbuf_submit(event, 0);
    }
    return 0;
}

/* What system calls leave in its place: the number of the call. Interrupts and exceptions leave this. */
#define NO_SYSTEM_CALL (~0ul)
/* The code segment of 64-bit programs (asm/segment.h). */
#define USER_CODE 0x33
#define CODE_SEGMENT_MASK 0xffff
/* A timer that was set for later is not taken for this interrupt. */
#define EARLY_NS 1000

/* Half of a time to one and a half times that, on average just that. Threads that take turns on a PU, a tick each,
 * would be met at the same place of their round again and again if samples came after equally many ticks: some of them
 * always, others never. */
static __always_inline cohabit_u64 about(cohabit_u64 nanoseconds, cohabit_u32 random)
{
    return (nanoseconds >> 1) + (nanoseconds >> 10) * (random >> 22);
}

/* The timer's interrupt, which comes HZ times a second on every PU that has something to do. It tells what a task is
 * about to do for next to nothing, as no interrupt is added, unless it was set after a switch. Which memory that is,
 * user space finds out. Not loaded unless it is wanted. */
SEC("?tp_btf/local_timer_entry")
int BPF_PROG(on_timer, int vector)
{
    cohabit_u32 tid = bpf_get_current_pid_tgid(), only = 0;
    struct sampling *pu = bpf_map_lookup_elem(&sampling, &only);
    if (!pu)
        return 0;
    cohabit_u64 now = bpf_ktime_get_ns();
    /* The interrupt may come a little before its time. */
    cohabit_u64 after_switch = pu->due && now + EARLY_NS >= pu->due;
    if (after_switch)
        pu->due = 0;
    pu->may_set = now >= pu->set;
    cohabit_u32 *slot = bpf_map_lookup_elem(&followed, &tid);
    if (!slot)
        return 0;
    struct task_struct *task = (void *)bpf_get_current_task_btf();
    if (task->signal->nr_threads < 2 && !state.any_shared)
        return 0;
    struct pt_regs *registers = (void *)bpf_task_pt_regs((void *)task);
    if (registers->orig_ax != NO_SYSTEM_CALL || (registers->cs & CODE_SEGMENT_MASK) != USER_CODE)
        return 0;
    if (!after_switch) {
        if (now < pu->sample)
            return 0;
        pu->sample = now + about(settings.sample_every_ns, bpf_get_prandom_u32());
    }
    struct cohabit_sample *sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
    if (!sample) {
        count(COHABIT_COUNT_SAMPLES_LOST, 1);
        return 0;
    }
    sample->time_ns = now;
    sample->slot = *slot;
    sample->process = task->tgid;
    sample->instruction = registers->ip;
    sample->registers[0] = registers->ax;
    sample->registers[1] = registers->cx;
    sample->registers[2] = registers->dx;
    sample->registers[3] = registers->bx;
    sample->registers[4] = registers->sp;
    sample->registers[5] = registers->bp;
    sample->registers[6] = registers->si;
    sample->registers[7] = registers->di;
    sample->registers[8] = registers->r8;
    sample->registers[9] = registers->r9;
    sample->registers[10] = registers->r10;
    sample->registers[11] = registers->r11;
    sample->registers[12] = registers->r12;
    sample->registers[13] = registers->r13;
    sample->registers[14] = registers->r14;
    sample->registers[15] = registers->r15;
    sample->code_start = sample->instruction - COHABIT_CODE_BYTES / 2;
    sample->code_bytes = COHABIT_CODE_BYTES;
    sample->delay = after_switch ? pu->delay : COHABIT_BY_TICK;
    if (bpf_probe_read_user(sample->code, COHABIT_CODE_BYTES, (void *)sample->code_start)) {
        sample->code_start = sample->instruction;
        sample->code_bytes = COHABIT_CODE_BYTES_AT_LEAST;
        if (bpf_probe_read_user(sample->code, COHABIT_CODE_BYTES_AT_LEAST, (void *)sample->code_start))
            sample->code_bytes = 0;
    }
    /* User space comes by itself; waking it would cost more than the sample. */
    bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
    return 0;
}

/* Its interrupt is all that is wanted of a timer: `on_timer` comes with it. */
static int expired(void *map, int *key, struct pu_timer *timer)
{
    return 0;
}

/* Makes a PU's timer ready (BPF_PROG_TEST_RUN): that takes memory, which cannot be had in a switch. */
SEC("?syscall")
int ready_timer(struct cohabit_timer *which)
{
    cohabit_u32 pu = which->pu;
    struct pu_timer *timer = bpf_map_lookup_elem(&timers, &pu);
    if (!timer || bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC))
        return COHABIT_NOT_READY;
    return bpf_timer_set_callback(&timer->timer, expired) ? COHABIT_NOT_READY : COHABIT_READY;
}

/* Sets the timer for shortly after a switch to a followed task. One that waits for others goes on as soon as it runs
 * again, so that this is when it uses what they have left, and the rest of its time it waits. Attached only where the
 * timer's other interrupts find tasks waiting. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch, int preempted, struct task_struct *previous, struct task_struct *next)
{
    cohabit_u32 only = 0;
    struct sampling *pu = bpf_map_lookup_elem(&sampling, &only);
    if (!pu || !pu->may_set)
        return 0;
    cohabit_u32 tid = next->pid, number = bpf_get_smp_processor_id();
    if (!bpf_map_lookup_elem(&followed, &tid))
        return 0;
    struct pu_timer *timer = bpf_map_lookup_elem(&timers, &number);
    if (!timer)
        return 0;
    cohabit_u32 random = bpf_get_prandom_u32();
    cohabit_u32 delay = state.delays[random & (COHABIT_DELAYS_DRAWN - 1)] & 15;
    cohabit_u64 shortest = 1024ull << delay, nanoseconds = shortest + (random >> 4 & (shortest - 1));
    cohabit_u64 now = bpf_ktime_get_ns();
    pu->set = now + about(settings.switch_every_ns, bpf_get_prandom_u32());
    pu->due = now + nanoseconds;
    pu->delay = delay;
    pu->may_set = 0;
    /* Of this PU: where that cannot be said (before Linux 6.7), it is so all the same as long as the PU is not idle. */
    if (bpf_timer_start(&timer->timer, nanoseconds, BPF_F_TIMER_CPU_PIN) && bpf_timer_start(&timer->timer, nanoseconds, 0))
        pu->due = 0;
    return 0;
}

/* Hands the detector one fault, so that a test can compare it with the one in Rust (BPF_PROG_TEST_RUN). Loaded for that
 * only. */
SEC("?syscall")
int replay(struct cohabit_replay *fault)
{
    touch(key_of(fault->memory, fault->byte, fault->shift & 31), fault->block, fault->slot, fault->kind);
    return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
