/* A program that starts itself once more (posix_spawn) and then becomes itself once more (exec). What exec makes of a
 * process is that process still: its main thread goes on as task 0, and its next thread is the process's next task. */
#include "probe.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 2, SPAWNED = 3, SECOND = 4 };

extern char **environ;
static unsigned char *data;
static size_t lines;

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, lines, 1);
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data, lines, 1), "the lines");
}

static void exchange(size_t count)
{
    lines = count;
    data = probe_data(count);
    probe_threads(2, body);
}

static void spawn_and_exec(char *program)
{
    pid_t child;
    int status;
    if ((errno = posix_spawn(&child, program, NULL, NULL, (char *[]){program, "spawned", NULL}, environ)))
        probe_die("posix_spawn");
    probe_check(waitpid(child, &status, 0) == child && status == 0, "the spawned image's status");
    execve(program, (char *[]){program, "second", NULL}, environ);
    probe_die("execve");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        exchange(FIRST);
        spawn_and_exec(argv[0]);
    }
    if (strcmp(argv[1], "spawned") == 0) {
        exchange(SPAWNED);
        return probe_failed();
    }
    exchange(SECOND);
    probe_expect_in(0, 0, 1, FIRST, FIRST * 8, 0);
    probe_expect_in(1, 0, 1, SPAWNED, SPAWNED * 8, 0);
    probe_expect_in(0, 0, 2, SECOND, SECOND * 8, 0);
    return probe_finish("exec");
}
