/* The few fields of kernel structures that are read, by CO-RE (preserve_access_index: libbpf finds their offsets in the
 * running kernel's own BTF). Instead of a vmlinux.h, which is megabytes and needs bpftool.
 *
 * SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 */
#ifndef COHABIT_BPF_KERNEL_H
#define COHABIT_BPF_KERNEL_H

#include <linux/bpf.h>

struct signal_struct {
    int nr_threads;
} __attribute__((preserve_access_index));

struct task_struct {
    int pid;
    int tgid;
    struct signal_struct *signal;
} __attribute__((preserve_access_index));

/* x86-64's. */
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp;
} __attribute__((preserve_access_index));

#endif
