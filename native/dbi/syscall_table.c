/* The table of syscall_table.h: a row for each pointer of each call, in any order. */
#include "syscall_table.h"
#include "shadow.h"
#include <asm/unistd.h>

#define R ACCESS_READ
#define W ACCESS_WRITE
#define RW ACCESS_READ_WRITE
#define FIXED(call, argument, kind, bytes) { __NR_##call, argument, kind, SIZE_FIXED, bytes, 0 }
#define BY_ARGUMENT(call, argument, kind, length, times) { __NR_##call, argument, kind, SIZE_ARGUMENT, length, times }
#define BY_RESULT(call, argument, kind, times) { __NR_##call, argument, kind, SIZE_RESULT, 0, times }
#define STRING(call, argument) { __NR_##call, argument, R, SIZE_STRING, 0, 0 }
#define POINTED(call, argument, kind, length) { __NR_##call, argument, kind, SIZE_POINTED, length, 0 }
#define VECTOR(call, argument, kind, count) { __NR_##call, argument, kind, SIZE_VECTOR, count, 0 }
#define MESSAGE(call, argument, kind) { __NR_##call, argument, kind, SIZE_MESSAGE, 0, 0 }
#define MESSAGES(call, argument, kind, count) { __NR_##call, argument, kind, SIZE_MESSAGES, count, 0 }
#define SET(call, argument) { __NR_##call, argument, RW, SIZE_SET, 0, 0 }
#define NOTHING(call) { __NR_##call, 0xff, 0, SIZE_FIXED, 0, 0 }

const effect_t syscall_effects[] = {
    /* Files: data */
    BY_RESULT(read, 1, W, 1), BY_RESULT(pread64, 1, W, 1), BY_RESULT(write, 1, R, 1), BY_RESULT(pwrite64, 1, R, 1),
    VECTOR(readv, 1, W, 2), VECTOR(preadv, 1, W, 2), VECTOR(preadv2, 1, W, 2), VECTOR(writev, 1, R, 2),
    VECTOR(pwritev, 1, R, 2), VECTOR(pwritev2, 1, R, 2), VECTOR(vmsplice, 1, R, 2),
    FIXED(sendfile, 2, RW, 8), FIXED(copy_file_range, 1, RW, 8), FIXED(copy_file_range, 3, RW, 8),
    FIXED(splice, 1, RW, 8), FIXED(splice, 3, RW, 8),
    VECTOR(process_vm_readv, 1, W, 2), BY_ARGUMENT(process_vm_readv, 3, R, 4, 16),
    VECTOR(process_vm_writev, 1, R, 2), BY_ARGUMENT(process_vm_writev, 3, R, 4, 16),
    /* Files: names and status */
    STRING(open, 0), STRING(openat, 1), STRING(openat2, 1), BY_ARGUMENT(openat2, 2, R, 3, 1), STRING(creat, 0),
    STRING(access, 0), STRING(faccessat, 1), STRING(faccessat2, 1), STRING(stat, 0), FIXED(stat, 1, W, 144),
    STRING(lstat, 0), FIXED(lstat, 1, W, 144), FIXED(fstat, 1, W, 144), STRING(newfstatat, 1),
    FIXED(newfstatat, 2, W, 144), STRING(statx, 1), FIXED(statx, 4, W, 256), STRING(statfs, 0), FIXED(statfs, 1, W, 120),
    FIXED(fstatfs, 1, W, 120), STRING(readlink, 0), BY_RESULT(readlink, 1, W, 1), STRING(readlinkat, 1),
    BY_RESULT(readlinkat, 2, W, 1), BY_RESULT(getcwd, 0, W, 1), STRING(chdir, 0), STRING(mkdir, 0), STRING(mkdirat, 1),
    STRING(rmdir, 0), STRING(unlink, 0), STRING(unlinkat, 1), STRING(rename, 0), STRING(rename, 1), STRING(renameat, 1),
    STRING(renameat, 3), STRING(renameat2, 1), STRING(renameat2, 3), STRING(link, 0), STRING(link, 1), STRING(symlink, 0),
    STRING(symlink, 1), STRING(chmod, 0), STRING(fchmodat, 1), STRING(chown, 0), STRING(truncate, 0), STRING(mknod, 0),
    FIXED(utimensat, 2, R, 32), STRING(memfd_create, 0), BY_RESULT(getdents64, 1, W, 1), BY_RESULT(getdents, 1, W, 1),
    STRING(getxattr, 0), STRING(getxattr, 1), BY_RESULT(getxattr, 2, W, 1), STRING(fgetxattr, 1),
    BY_RESULT(fgetxattr, 2, W, 1),
    { __NR_fcntl, 2, R, SIZE_FCNTL, 0, 0 }, { __NR_fcntl, 2, W, SIZE_FCNTL, 0, 0 }, NOTHING(close), NOTHING(close_range), NOTHING(lseek), NOTHING(dup), NOTHING(dup2), NOTHING(dup3), NOTHING(fsync),
    NOTHING(fdatasync), NOTHING(ftruncate), NOTHING(fallocate), NOTHING(fchdir), NOTHING(fchmod), NOTHING(fchown),
    NOTHING(flock), NOTHING(umask), NOTHING(sync), NOTHING(fadvise64), NOTHING(readahead), NOTHING(sync_file_range),
    FIXED(pipe, 0, W, 8), FIXED(pipe2, 0, W, 8), NOTHING(inotify_init1), STRING(inotify_add_watch, 1),
    /* Waiting */
    BY_ARGUMENT(poll, 0, RW, 1, 8), BY_ARGUMENT(ppoll, 0, RW, 1, 8), FIXED(ppoll, 2, R, 16), BY_ARGUMENT(ppoll, 3, R, 4, 1),
    SET(select, 1), SET(select, 2), SET(select, 3), FIXED(select, 4, RW, 16), SET(pselect6, 1), SET(pselect6, 2),
    SET(pselect6, 3), FIXED(pselect6, 4, RW, 16), FIXED(pselect6, 5, R, 16), NOTHING(epoll_create),
    NOTHING(epoll_create1), FIXED(epoll_ctl, 3, R, 12), BY_RESULT(epoll_wait, 1, W, 12), BY_RESULT(epoll_pwait, 1, W, 12),
    BY_RESULT(epoll_pwait2, 1, W, 12), NOTHING(eventfd), NOTHING(eventfd2), NOTHING(timerfd_create),
    FIXED(timerfd_settime, 2, R, 32), FIXED(timerfd_settime, 3, W, 32), FIXED(timerfd_gettime, 1, W, 32),
    { __NR_futex, 0, R, SIZE_FUTEX, 0, 0 }, FIXED(nanosleep, 0, R, 16), FIXED(clock_nanosleep, 2, R, 16),
    NOTHING(pause), NOTHING(sched_yield),
    /* Sockets */
    NOTHING(socket), FIXED(socketpair, 3, W, 8), BY_ARGUMENT(bind, 1, R, 2, 1), NOTHING(listen), NOTHING(shutdown),
    BY_ARGUMENT(connect, 1, R, 2, 1), POINTED(accept, 1, W, 2), FIXED(accept, 2, RW, 4), POINTED(accept4, 1, W, 2),
    FIXED(accept4, 2, RW, 4), POINTED(getsockname, 1, W, 2), FIXED(getsockname, 2, RW, 4), POINTED(getpeername, 1, W, 2),
    FIXED(getpeername, 2, RW, 4), BY_ARGUMENT(setsockopt, 3, R, 4, 1), POINTED(getsockopt, 3, W, 4),
    FIXED(getsockopt, 4, RW, 4), BY_RESULT(sendto, 1, R, 1), BY_ARGUMENT(sendto, 4, R, 5, 1), BY_RESULT(recvfrom, 1, W, 1),
    POINTED(recvfrom, 4, W, 5), FIXED(recvfrom, 5, RW, 4), MESSAGE(sendmsg, 1, R), MESSAGE(recvmsg, 1, W),
    MESSAGES(sendmmsg, 1, R, 2), MESSAGES(recvmmsg, 1, W, 2),
    /* Time */
    FIXED(clock_gettime, 1, W, 16), FIXED(clock_getres, 1, W, 16), FIXED(clock_settime, 1, R, 16),
    FIXED(gettimeofday, 0, W, 16), FIXED(gettimeofday, 1, W, 8), FIXED(time, 0, W, 8), FIXED(times, 0, W, 32),
    FIXED(getitimer, 1, W, 32), FIXED(setitimer, 1, R, 32), FIXED(setitimer, 2, W, 32), FIXED(timer_create, 1, R, 64),
    FIXED(timer_create, 2, W, 4), FIXED(timer_settime, 2, R, 32), FIXED(timer_settime, 3, W, 32),
    FIXED(timer_gettime, 1, W, 32), NOTHING(timer_delete), NOTHING(timer_getoverrun), NOTHING(alarm),
    /* Processes, threads, scheduling */
    NOTHING(getpid), NOTHING(getppid), NOTHING(gettid), NOTHING(getuid), NOTHING(geteuid), NOTHING(getgid),
    NOTHING(getegid), NOTHING(getpgid), NOTHING(getpgrp), NOTHING(setpgid), NOTHING(getsid), NOTHING(setsid),
    NOTHING(setuid), NOTHING(setgid), NOTHING(exit), NOTHING(exit_group), NOTHING(fork), NOTHING(vfork), NOTHING(kill),
    NOTHING(tkill), NOTHING(tgkill), FIXED(wait4, 1, W, 4), FIXED(wait4, 3, W, 144), FIXED(waitid, 2, W, 128),
    FIXED(clone, 2, W, 4), FIXED(clone, 3, W, 4), BY_ARGUMENT(clone3, 0, R, 1, 1), STRING(execve, 0),
    STRING(execveat, 1), NOTHING(arch_prctl), NOTHING(set_tid_address), NOTHING(set_robust_list), FIXED(get_robust_list, 1, W, 8),
    FIXED(get_robust_list, 2, W, 8), NOTHING(rseq), NOTHING(membarrier), NOTHING(personality), NOTHING(prctl),
    BY_ARGUMENT(sched_setaffinity, 2, R, 1, 1), BY_RESULT(sched_getaffinity, 2, W, 1), FIXED(sched_getparam, 1, W, 4),
    FIXED(sched_setparam, 1, R, 4), NOTHING(sched_getscheduler), FIXED(sched_setscheduler, 2, R, 4),
    NOTHING(sched_get_priority_max), NOTHING(sched_get_priority_min), FIXED(getcpu, 0, W, 4), FIXED(getcpu, 1, W, 4),
    NOTHING(getpriority), NOTHING(setpriority), NOTHING(ioprio_set), NOTHING(ioprio_get), FIXED(getrusage, 1, W, 144),
    FIXED(getrlimit, 1, W, 16), FIXED(setrlimit, 1, R, 16), FIXED(prlimit64, 2, R, 16), FIXED(prlimit64, 3, W, 16),
    FIXED(sysinfo, 0, W, 112), FIXED(uname, 0, W, 390), BY_RESULT(getgroups, 1, W, 4), BY_RESULT(getrandom, 0, W, 1),
    FIXED(getresuid, 0, W, 4), FIXED(getresuid, 1, W, 4), FIXED(getresuid, 2, W, 4), FIXED(getresgid, 0, W, 4),
    FIXED(getresgid, 1, W, 4), FIXED(getresgid, 2, W, 4), NOTHING(pidfd_open), NOTHING(ptrace), NOTHING(seccomp),
    FIXED(capget, 0, R, 8), FIXED(capget, 1, W, 24),
    /* Signals */
    FIXED(rt_sigaction, 1, R, 32), FIXED(rt_sigaction, 2, W, 32), BY_ARGUMENT(rt_sigprocmask, 1, R, 3, 1),
    BY_ARGUMENT(rt_sigprocmask, 2, W, 3, 1), NOTHING(rt_sigreturn), FIXED(sigaltstack, 0, R, 24), FIXED(sigaltstack, 1, W, 24),
    BY_ARGUMENT(rt_sigpending, 0, W, 1, 1), BY_ARGUMENT(rt_sigsuspend, 0, R, 1, 1), BY_ARGUMENT(rt_sigtimedwait, 0, R, 3, 1),
    FIXED(rt_sigtimedwait, 1, W, 128), FIXED(rt_sigtimedwait, 2, R, 16), FIXED(rt_sigqueueinfo, 2, R, 128),
    BY_ARGUMENT(signalfd4, 1, R, 2, 1),
    /* Memory: what they unmap is in syscalls.c */
    NOTHING(mmap), NOTHING(munmap), NOTHING(mremap), NOTHING(mprotect), NOTHING(pkey_mprotect), NOTHING(brk),
    NOTHING(madvise), NOTHING(msync), NOTHING(mlock), NOTHING(mlock2), NOTHING(munlock), NOTHING(mlockall),
    NOTHING(munlockall), BY_ARGUMENT(mincore, 2, W, 1, 0), NOTHING(mbind), NOTHING(set_mempolicy), FIXED(get_mempolicy, 0, W, 4),
    NOTHING(shmget), NOTHING(shmat), NOTHING(shmdt), FIXED(shmctl, 2, W, 112), NOTHING(semget),
    BY_ARGUMENT(semop, 1, R, 2, 6), NOTHING(msgget), BY_ARGUMENT(msgsnd, 1, R, 2, 1), BY_RESULT(msgrcv, 1, W, 1),
};

const uint32_t syscall_effect_count = sizeof(syscall_effects) / sizeof(syscall_effects[0]);
