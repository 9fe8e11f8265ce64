/* Forks while another thread works: in the child that thread is gone, and what it has counted until then stays its own. Thread 0
 * writes a line before each fork, and thread 1, which reads it, never stops meanwhile. */
#include "probe.h"

#include <sys/wait.h>
#include <unistd.h>

#define FORKS 20
#define WORK 20000u

static unsigned char *data;
static volatile unsigned line_written, sum;

static void body(unsigned thread)
{
    probe_barrier();
    for (unsigned line = 0; line < FORKS; line++) {
        if (thread == 0) {
            store8(data + line * BLOCK, line + 1);
            line_written = line + 1;
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            int status = 1;
            probe_check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child");
        } else {
            do {
                for (unsigned i = 0; i < WORK; i++)
                    sum += i;
            } while (line_written <= line);
            probe_check(load8(data + line * BLOCK) == line + 1, "the line");
        }
        probe_barrier();
    }
}

int main(void)
{
    data = probe_data(FORKS);
    probe_threads(2, body);
    probe_expect(0, 1, FORKS, FORKS * 8, 0);
    return probe_finish("fork_beside");
}
