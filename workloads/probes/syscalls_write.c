/* What system calls write in user memory counts for the thread that calls: thread 0 has the kernel fill buffers, thread
 * 1 reads one word of each line. A call that fails writes nothing, and one that gives less than was asked, only
 * that. */
#include "probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static unsigned char *data;
static unsigned lines_used, lines_written;

/* The next `lines` lines, of which the kernel will write the first `written` and no others. */
static unsigned char *buffer(unsigned lines, unsigned written)
{
    unsigned char *at = data + lines_used * BLOCK;
    lines_used += lines;
    lines_written += written;
    return at;
}

static unsigned lines_of(size_t bytes)
{
    return (unsigned)((bytes + BLOCK - 1) / BLOCK);
}

static void streams(void)
{
    static const char source[4 * BLOCK] = "from the kernel";
    int ends[2], sockets[2], file = memfd_create("probe", 0);
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) || file < 0)
        probe_die("pipe, socketpair, memfd_create");
    bool fed = write(ends[1], source, 2 * BLOCK) > 0 && write(file, source, sizeof source) > 0;
    probe_check(fed && syscall(SYS_read, ends[0], buffer(2, 2), 2 * BLOCK) == 2 * BLOCK, "read");
    fed = write(ends[1], source, BLOCK) > 0;
    probe_check(fed && syscall(SYS_read, ends[0], buffer(4, 1), 4 * BLOCK) == BLOCK, "read of less");
    fed = write(ends[1], source, BLOCK + 32) > 0;
    struct iovec parts[2] = {{buffer(1, 1), BLOCK}, {buffer(2, 1), 2 * BLOCK}};
    probe_check(fed && syscall(SYS_readv, ends[0], parts, 2) == BLOCK + 32, "readv");
    probe_check(syscall(SYS_pread64, file, buffer(3, 3), 3 * BLOCK, 8) == 3 * BLOCK, "pread64");
    probe_check(syscall(SYS_pread64, file, buffer(1, 0), BLOCK, 1 << 20) == 0, "pread64 at the end");
    fed = write(sockets[1], source, 2 * BLOCK) > 0 && write(sockets[1], source, BLOCK) > 0;
    probe_check(fed && syscall(SYS_recvfrom, sockets[0], buffer(2, 2), 2 * BLOCK, 0, NULL, NULL) > 0, "recvfrom");
    struct iovec message_part = {buffer(2, 1), 2 * BLOCK};
    struct msghdr message = {.msg_iov = &message_part, .msg_iovlen = 1};
    probe_check(syscall(SYS_recvmsg, sockets[0], &message, 0) == BLOCK, "recvmsg");
    probe_check(syscall(SYS_fstat, file, buffer(4, lines_of(sizeof(struct stat)))) == 0, "fstat");
    probe_check(syscall(SYS_fcntl, file, F_GETOWN_EX, buffer(1, 1)) == 0, "fcntl that writes an owner");
    probe_check(syscall(SYS_fcntl, file, F_GETFL, buffer(1, 0)) >= 0, "fcntl that writes nothing");
    probe_check(syscall(SYS_read, -1, buffer(1, 0), BLOCK) == -1, "read that fails");
    int all[] = {ends[0], ends[1], sockets[0], sockets[1], file};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        close(all[i]);
}

static void queries(void)
{
    probe_check(syscall(SYS_getrandom, buffer(2, 2), 2 * BLOCK, 0) == 2 * BLOCK, "getrandom");
    probe_check(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, buffer(1, 1)) == 0, "clock_gettime");
    probe_check(syscall(SYS_gettimeofday, buffer(1, 1), NULL) == 0, "gettimeofday");
    probe_check(syscall(SYS_uname, buffer(8, lines_of(sizeof(struct utsname)))) == 0, "uname");
    probe_check(syscall(SYS_getrusage, RUSAGE_SELF, buffer(4, lines_of(sizeof(struct rusage)))) == 0, "getrusage");
    probe_check(syscall(SYS_getrlimit, RLIMIT_NOFILE, buffer(1, 1)) == 0, "getrlimit");
    int *ends = (int *)buffer(1, 1);
    probe_check(syscall(SYS_pipe2, ends, 0) == 0, "pipe2");
    close(*(volatile int *)&ends[0]);
    close(*(volatile int *)&ends[1]);
}

static void body(unsigned thread)
{
    if (thread == 0) {
        streams();
        queries();
    }
    probe_barrier();
    for (unsigned line = 0; thread == 1 && line < lines_used; line++)
        load8(data + line * BLOCK);
}

int main(void)
{
    data = probe_data(64);
    probe_threads(2, body);
    probe_expect(0, 1, lines_written, 8ull * lines_written, 0);
    return probe_finish("syscalls_write");
}
