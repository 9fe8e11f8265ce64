/* fork from a program with threads; both processes go on with threads of their own. In the child the thread that forked
 * is the main thread (spawn index 0). */
#include "probe.h"

#include <sys/wait.h>
#include <unistd.h>

enum { BEFORE = 4, CHILD = 3, AFTER = 5 };

static unsigned char *data, *child_data;
static pid_t child;

static void child_body(unsigned thread)
{
    if (thread == 0)
        store_blocks(child_data, CHILD, 2);
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(child_data, CHILD, 2), "the child's lines");
}

_Noreturn static void child_main(void)
{
    child_data = probe_data(CHILD);
    probe_threads(2, child_body);
    _exit(probe_failed());
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, BEFORE, 1);
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data, BEFORE, 1), "the parent's lines before the fork");
    probe_barrier();
    if (thread == 0) {
        child = fork();
        if (child == 0)
            child_main();
        if (child < 0)
            probe_die("fork");
        store_blocks(data + BEFORE * BLOCK, AFTER, 3);
    }
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data + BEFORE * BLOCK, AFTER, 3), "the parent's lines after the fork");
}

int main(void)
{
    int status;
    data = probe_data(BEFORE + AFTER);
    probe_threads(2, body);
    probe_check(waitpid(child, &status, 0) == child && status == 0, "the child's status");
    probe_expect_in(0, 0, 1, BEFORE + AFTER, (BEFORE + AFTER) * 8, 0);
    probe_expect_in(1, 0, 1, CHILD, CHILD * 8, 0);
    return probe_finish("fork");
}
