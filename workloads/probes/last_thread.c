/* The first thread ends the moment that it has made another, which goes on and ends the program: no thread is counted
 * as the last one while another is on its way. */
#include "probe.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINES = 5 };

static unsigned char *data;

static void *rest(void *argument)
{
    probe_check(load_blocks(data, LINES, 1), "the lines");
    probe_expect(0, 1, LINES, LINES * 8, 0);
    exit(probe_finish("last_thread"));
    return argument;
}

int main(void)
{
    pthread_t thread;
    data = probe_data(LINES);
    store_blocks(data, LINES, 1);
    if (pthread_create(&thread, NULL, rest, NULL) != 0)
        probe_die("pthread_create");
    syscall(SYS_exit, 1);
    return 1;
}
