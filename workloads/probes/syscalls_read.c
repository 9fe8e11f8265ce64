/* What system calls read in user memory counts for the thread that calls: thread 0 writes buffers, thread 1 gives them
 * to the kernel. One call is one access of as many bytes as the kernel took. */
#include "probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 0, ACROSS = 4, WRITEV = 6, PWRITE = 9, SENDTO = 11, SENDMSG = 13, PATH = 15, SLEEP = 16, FAILED = 17, LOCK = 18, LINES = 19 };

static unsigned char *data;

static unsigned char *line(unsigned number)
{
    return data + number * BLOCK;
}

static void write_all(void)
{
    store_blocks(data, LINES, 0);
    /* "/dev/null" and its end, in two words. */
    store8(line(PATH), 0x6c756e2f7665642f);
    store8(line(PATH) + 8, 0x6c);
    /* A struct flock that unlocks a whole file. */
    store8(line(LOCK), F_UNLCK);
    for (unsigned word = 1; word < 4; word++)
        store8(line(LOCK) + 8 * word, 0);
}

static void call_all(void)
{
    int pipe_ends[2], sockets[2], file = memfd_create("probe", 0);
    if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) || file < 0)
        probe_die("pipe, socketpair, memfd_create");
    probe_check(syscall(SYS_write, pipe_ends[1], line(WRITE), 4 * BLOCK) == 4 * BLOCK, "write");
    probe_check(syscall(SYS_write, pipe_ends[1], line(ACROSS) + 32, BLOCK) == BLOCK, "write across two lines");
    struct iovec parts[2] = {{line(WRITEV), BLOCK}, {line(WRITEV + 1), 2 * BLOCK}};
    probe_check(syscall(SYS_writev, pipe_ends[1], parts, 2) == 3 * BLOCK, "writev");
    probe_check(syscall(SYS_pwrite64, file, line(PWRITE), 2 * BLOCK, 0) == 2 * BLOCK, "pwrite64");
    probe_check(syscall(SYS_sendto, sockets[0], line(SENDTO), 2 * BLOCK, 0, NULL, 0) == 2 * BLOCK, "sendto");
    struct iovec message_part = {line(SENDMSG), 2 * BLOCK};
    struct msghdr message = {.msg_iov = &message_part, .msg_iovlen = 1};
    probe_check(syscall(SYS_sendmsg, sockets[0], &message, 0) == 2 * BLOCK, "sendmsg");
    int null = (int)syscall(SYS_openat, AT_FDCWD, line(PATH), O_RDONLY);
    probe_check(null >= 0, "openat");
    probe_check(syscall(SYS_nanosleep, line(SLEEP), NULL) == 0, "nanosleep");
    probe_check(syscall(SYS_fcntl, file, F_SETLK, line(LOCK)) == 0, "fcntl");
    probe_check(syscall(SYS_write, -1, line(FAILED), BLOCK) == -1, "write that fails");
    int ends[] = {pipe_ends[0], pipe_ends[1], sockets[0], sockets[1], file, null};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        close(ends[i]);
}

static void body(unsigned thread)
{
    if (thread == 0)
        write_all();
    probe_barrier();
    if (thread == 1)
        call_all();
}

int main(void)
{
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, 4, 4 * BLOCK, 0); /* write */
    probe_expect(0, 1, 2, BLOCK, 0);     /* write across two lines */
    probe_expect(0, 1, 3, 3 * BLOCK, 0); /* writev */
    probe_expect(0, 1, 2, 2 * BLOCK, 0); /* pwrite64 */
    probe_expect(0, 1, 2, 2 * BLOCK, 0); /* sendto */
    probe_expect(0, 1, 2, 2 * BLOCK, 0); /* sendmsg */
    probe_expect(0, 1, 1, 10, 0);        /* openat: the path and its end */
    probe_expect(0, 1, 1, 16, 0);        /* nanosleep: struct timespec */
    probe_expect(0, 1, 1, 32, 0);        /* fcntl: struct flock */
    return probe_finish("syscalls_read");
}
