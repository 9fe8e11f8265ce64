/* Children that have their parent's memory until they have a program of their own (vfork, posix_spawn), made by two
 * threads at a time while a third makes system calls. They read what that one has written before. */
#include "probe.h"

#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 20u
#define BLOCKS 10u

extern char **environ;
static unsigned char *data;
static unsigned left;

static int child(bool vforks)
{
    char *words[] = {"true", NULL};
    pid_t pid;
    if (vforks) {
        pid = vfork();
        if (pid == 0) {
            execve("/bin/true", words, environ);
            _exit(1);
        }
    } else if (posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ) != 0) {
        return -1;
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, BLOCKS, 7);
    probe_barrier();
    if (thread == 0) {
        while (__atomic_load_n(&left, __ATOMIC_ACQUIRE) > 0)
            syscall(SYS_getppid);
        return;
    }
    for (unsigned number = 0; number < CHILDREN; number++)
        probe_check(child(number % 2 == 0) == 0, "the child ends well");
    probe_check(load_blocks(data, BLOCKS, 7), "what was written is there");
    __atomic_sub_fetch(&left, 1, __ATOMIC_RELEASE);
}

int main(int count, char **words)
{
    (void)words;
    data = probe_data(BLOCKS);
    left = count > 1 ? 1 : 2; /* any word: by one thread */
    unsigned threads = 1 + left;
    probe_threads(threads, body);
    for (unsigned thread = 1; thread < threads; thread++)
        probe_expect(0, thread, BLOCKS, BLOCKS * 8, 0);
    return probe_finish("vforks");
}
