/* Threads and children that the kernel refuses to make, by each of the calls that make them; then those that it makes,
 * signal handlers, and the end. */
#include "probe.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 5, TIMES = 3 };

static unsigned char *data;
static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled = 1;
}

static void be_refused(void)
{
    static unsigned char stack[65536];
    struct clone_args arguments = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = 1000};
    arguments.stack = (uintptr_t)stack;
    arguments.stack_size = sizeof stack;
    probe_check(syscall(SYS_clone3, &arguments, sizeof arguments) < 0, "clone3 with a signal that there is not");
    /* A thread must share signal handlers. */
    probe_check(syscall(SYS_clone, CLONE_VM | CLONE_THREAD, stack + sizeof stack, 0, 0, 0) < 0, "clone");
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, LINES, 1);
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data, LINES, 1), "the lines");
}

int main(void)
{
    for (int i = 0; i < TIMES; i++)
        be_refused();
    struct sigaction action = {.sa_handler = handler};
    int status = -1;
    probe_check(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && handled, "a handler");
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    probe_check(waitpid(child, &status, 0) == child && status == 0, "a child");
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, LINES, LINES * 8, 0);
    return probe_finish("refused_threads");
}
