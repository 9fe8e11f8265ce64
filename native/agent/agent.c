/* The agent: a library that `cohabit run` preloads, so that a program's memory can be made to fault again from outside. It
 * leaves what the program computes as it is, and starts no thread: it opens a userfaultfd with asynchronous write protection
 * (userfaultfd(2), UFFD_FEATURE_WP_ASYNC, Linux 6.7), hands it to cohabit over a socket and keeps nothing. A write to a
 * page that cohabit has protected is a fault that the kernel settles by itself: nobody has to answer it, and when cohabit
 * is gone, so is the protection.
 *
 * Whatever fails is left: the program runs on without. Only system calls are made after fork.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Newer than the headers of Debian 12. */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* Names the abstract socket of the cohabit that started the program. */
#define SOCKET_VARIABLE "COHABIT_AGENT"

static struct sockaddr_un address;
static socklen_t address_length;

static int open_userfaultfd(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Whether the socket's other end is this user's or root's: anybody may have bound the name. */
static int is_trusted(int socket)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* Hands a userfaultfd of this process to cohabit. The receiver learns the process id from the socket. Nothing is waited
 * for: where cohabit is stopped, or others crowd its socket, this process goes on without. */
static void announce(void)
{
    int fd = open_userfaultfd();
    int channel = fd < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (channel >= 0 && connect(channel, (struct sockaddr *)&address, address_length) == 0 && is_trusted(channel)) {
        char byte = 1;
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof fd)];
        } control;
        memset(&control, 0, sizeof control);
        struct iovec content = {&byte, 1};
        struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        (void)!sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (channel >= 0)
        close(channel);
    if (fd >= 0)
        close(fd);
}

/* Forks that announce their children: so many at once, and so many a second. Children of programs that fork faster live
 * too short for anything to be seen of them, and announcing each would take longer than the fork. */
#define FORKS_AT_ONCE 128
#define FORKS_PER_SECOND 32

static int64_t forks_left = FORKS_AT_ONCE;
static int64_t forks_counted; /* when they were last counted, in seconds */
static int is_announced;      /* whether the child of the fork under way is */

/* Before a fork, in the parent. Threads that fork at once may count one too few or too many. */
static void count_fork(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t passed = forks_counted ? now.tv_sec - forks_counted : 0;
    forks_counted = now.tv_sec;
    forks_left += passed * FORKS_PER_SECOND;
    if (forks_left > FORKS_AT_ONCE)
        forks_left = FORKS_AT_ONCE;
    is_announced = forks_left > 0;
    if (is_announced)
        forks_left--;
}

static void announce_child(void)
{
    if (is_announced)
        announce();
}

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv(SOCKET_VARIABLE);
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length + 1 > sizeof address.sun_path)
        return;
    address.sun_family = AF_UNIX;
    /* A zero byte first: an abstract name, which leaves no file behind. */
    memcpy(address.sun_path + 1, name, length);
    address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    announce();
    pthread_atfork(count_fork, NULL, announce_child);
}
