/* Kernel services (system.h), by the syscall instruction itself. */
#include "system.h"
#include "dr_api.h"
#include "mix.h"
#include <asm/unistd.h>
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/stat.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long
call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
}

static void *
map(size_t bytes, int flags, int fd)
{
    long at = call6(__NR_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

int
system_create(const char *path)
{
    file_t file = dr_open_file(path, DR_FILE_READ | DR_FILE_WRITE_REQUIRE_NEW | DR_FILE_CLOSE_ON_FORK);
    return file == INVALID_FILE ? -EACCES : (int)file;
}

void
system_close(int fd)
{
    dr_close_file(fd);
}

int
system_fallocate(int fd, uint64_t offset, uint64_t bytes)
{
    long result;
    do {
        result = call6(__NR_fallocate, fd, 0, (long)offset, (long)bytes, 0, 0);
    } while (result == -EINTR);
    if (result == -EOPNOTSUPP) /* the file then only grows; a full disk shows as a signal there */
        result = call6(__NR_ftruncate, fd, (long)(offset + bytes), 0, 0, 0, 0);
    return (int)result;
}

void *
system_map_private(size_t bytes)
{
    return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

void *
system_map_reserve(size_t bytes)
{
    return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

void *
system_map_shared(int fd, size_t bytes)
{
    return map(bytes, MAP_SHARED | MAP_NORESERVE, fd);
}

void *
system_map_file(const char *path, size_t bytes)
{
    long fd = call6(__NR_open, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return NULL;
    void *at = system_identify((int)fd).bytes < bytes ? NULL : system_map_shared((int)fd, bytes);
    if (at != NULL)
        call6(__NR_madvise, (long)at, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
    call6(__NR_close, fd, 0, 0, 0, 0, 0);
    return at;
}

bool
system_populate(void *start, size_t bytes)
{
    long result;
    do {
        result = call6(__NR_madvise, (long)start, (long)bytes, 23 /* MADV_POPULATE_WRITE */, 0, 0, 0);
    } while (result == -EINTR || result == -EAGAIN);
    return result == 0 || result == -EINVAL; /* before Linux 5.14: a full disk shows as a signal there */
}

bool
system_remove(void *start, size_t bytes)
{
    return call6(__NR_madvise, (long)start, (long)bytes, MADV_REMOVE, 0, 0, 0) == 0;
}

static file_identity_t
identify(long fd, const char *path, long flags)
{
    struct statx found;
    file_identity_t file = { FILE_OTHER, 0, 0, 0, 0 };
    long mask = STATX_TYPE | STATX_INO | STATX_SIZE | STATX_BTIME;
    if (call6(__NR_statx, fd, (long)path, flags, mask, (long)&found, 0) != 0)
        return file;
    if ((found.stx_mode & S_IFMT) == 0)
        file.kind = FILE_WITHOUT_INODE;
    else if ((found.stx_mode & S_IFMT) == S_IFREG)
        file.kind = FILE_REGULAR;
    else if ((found.stx_mode & S_IFMT) == S_IFIFO)
        file.kind = FILE_PIPE;
    else if ((found.stx_mode & S_IFMT) == S_IFSOCK)
        file.kind = FILE_SOCKET;
    else if ((found.stx_mode & S_IFMT) == S_IFCHR && found.stx_rdev_major == 1 && found.stx_rdev_minor == 5)
        file.kind = FILE_ZERO;
    file.device = (uint64_t)found.stx_dev_major << 32 | found.stx_dev_minor;
    file.inode = found.stx_ino;
    if ((found.stx_mask & STATX_BTIME) != 0)
        file.born_ns = (uint64_t)found.stx_btime.tv_sec * 1000000000u + found.stx_btime.tv_nsec;
    file.bytes = found.stx_size;
    return file;
}

file_identity_t
system_identify(int fd)
{
    return identify(fd, "", AT_EMPTY_PATH);
}

file_identity_t
system_identify_path(const char *path)
{
    return identify(AT_FDCWD, path, 0);
}

/* UNIX sockets that are known to be connected, by inode. Lookups race with changes only over sockets that are no
 * longer, or not yet, the program's. */
#define PEERS 256u
static struct {
    uint64_t own;
    uint64_t other;
} peers[PEERS];

static uint64_t
known_peer(uint64_t inode)
{
    uint64_t other = __atomic_load_n(&peers[inode % PEERS].other, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&peers[inode % PEERS].own, __ATOMIC_ACQUIRE) == inode ? other : 0;
}

static void
remember_peer(uint64_t inode, uint64_t other)
{
    __atomic_store_n(&peers[inode % PEERS].own, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&peers[inode % PEERS].other, other, __ATOMIC_RELEASE);
    __atomic_store_n(&peers[inode % PEERS].own, inode, __ATOMIC_RELEASE);
}

/* Who the socket is connected to: its inode, or 0 (sock_diag(7)). */
static uint64_t
ask_for_peer(uint64_t inode)
{
    struct {
        struct nlmsghdr head;
        struct unix_diag_req request;
    } question = { { sizeof(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0 },
                   { AF_UNIX, 0, 0, ~0u, (uint32_t)inode, UDIAG_SHOW_PEER, { ~0u, ~0u } } };
    char answer[512] __attribute__((aligned(8)));
    long fd = call6(__NR_socket, AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG, 0, 0, 0);
    if (fd < 0)
        return 0;
    long got = call6(__NR_sendto, fd, (long)&question, sizeof(question), 0, 0, 0);
    if (got > 0)
        got = call6(__NR_recvfrom, fd, (long)answer, sizeof(answer), 0, 0, 0);
    call6(__NR_close, fd, 0, 0, 0, 0, 0);
    const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
    const long fixed = NLMSG_LENGTH(sizeof(struct unix_diag_msg));
    if (got < fixed || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return 0;
    const char *end = answer + (got < (long)head->nlmsg_len ? got : (long)head->nlmsg_len);
    for (const char *at = answer + NLMSG_ALIGN(fixed); at + RTA_LENGTH(4) <= end;) {
        const struct rtattr *attribute = (const struct rtattr *)at;
        if (attribute->rta_type == UNIX_DIAG_PEER && attribute->rta_len >= RTA_LENGTH(4))
            return *(const uint32_t *)RTA_DATA(attribute);
        if (attribute->rta_len < RTA_LENGTH(0))
            break;
        at += RTA_ALIGN(attribute->rta_len);
    }
    return 0;
}

static uint64_t
peer_of(uint64_t inode)
{
    uint64_t other = known_peer(inode);
    if (other == 0 && (other = ask_for_peer(inode)) != 0)
        remember_peer(inode, other);
    return other;
}

void
system_channel_pair(int one, int other)
{
    file_identity_t first = system_identify(one), second = system_identify(other);
    if (first.kind == FILE_SOCKET && second.kind == FILE_SOCKET) {
        remember_peer(first.inode, second.inode);
        remember_peer(second.inode, first.inode);
    }
}

static int
socket_option(int fd, int option)
{
    int value = -1;
    socklen_t length = sizeof(value);
    return call6(__NR_getsockopt, fd, SOL_SOCKET, option, (long)&value, (long)&length, 0) == 0 ? value : -1;
}

/* The address that a socket of TCP has, or that it is connected to. 0: none. */
static uint64_t
address_of(int fd, long call)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } name;
    socklen_t length = sizeof(name);
    if (call6(call, fd, (long)&name, (long)&length, 0, 0, 0) != 0)
        return 0;
    if (name.any.sa_family == AF_INET)
        return mix(name.four.sin_addr.s_addr, name.four.sin_port);
    if (name.any.sa_family != AF_INET6)
        return 0;
    const uint32_t *word = (const uint32_t *)&name.six.sin6_addr;
    if (word[0] == 0 && word[1] == 0 && word[2] == htonl(0xffff)) /* an IPv4 address */
        return mix(word[3], name.six.sin6_port);
    return mix(mix((uint64_t)word[0] << 32 | word[1], (uint64_t)word[2] << 32 | word[3]), name.six.sin6_port);
}

/* The number of an eventfd(2) among those of the machine, + 1 (proc_pid_fdinfo(5)); 0: it is none, or the kernel is
 * older than 5.2. */
static uint64_t
event_number(int fd)
{
    static const char name[] = "eventfd-id:";
    char path[40] = "/proc/self/fdinfo/", digits[12], text[512];
    uint32_t count = 0, length = (uint32_t)strlen(path);
    do {
        digits[count++] = (char)('0' + fd % 10);
        fd /= 10;
    } while (fd > 0);
    while (count > 0)
        path[length++] = digits[--count];
    path[length] = 0;
    long file = call6(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (file < 0)
        return 0;
    long got = call6(__NR_read, file, (long)text, sizeof(text), 0, 0, 0);
    call6(__NR_close, file, 0, 0, 0, 0, 0);
    for (long at = 0; at + (long)sizeof(name) < got; at++) {
        if (memcmp(text + at, name, sizeof(name) - 1) != 0)
            continue;
        uint64_t number = 0;
        for (at += sizeof(name) - 1; at < got && (text[at] == ' ' || text[at] == '\t'); at++)
            ;
        for (; at < got && text[at] >= '0' && text[at] <= '9'; at++)
            number = number * 10 + (uint64_t)(text[at] - '0');
        return number + 1;
    }
    return 0;
}

bool
system_channel(int fd, system_channel_t *channel)
{
    file_identity_t file = system_identify(fd);
    channel->messages = channel->counts = false;
    if (file.kind == FILE_WITHOUT_INODE) {
        uint64_t number = event_number(fd);
        channel->sends = channel->receives = mix(mix(4, file.device), number);
        channel->counts = true;
        return number != 0;
    }
    if (file.kind == FILE_PIPE) {
        channel->sends = channel->receives = mix(mix(1, file.device), file.inode);
        return true;
    }
    if (file.kind != FILE_SOCKET)
        return false;
    int family = socket_option(fd, SO_DOMAIN), type = socket_option(fd, SO_TYPE);
    uint64_t own, other;
    if (family == AF_UNIX) {
        own = file.inode;
        other = peer_of(own);
        channel->messages = type != SOCK_STREAM;
    } else if ((family == AF_INET || family == AF_INET6) && type == SOCK_STREAM) {
        own = address_of(fd, __NR_getsockname);
        other = address_of(fd, __NR_getpeername);
    } else {
        return false;
    }
    channel->sends = mix(mix(family == AF_UNIX ? 2 : 3, own), other);
    channel->receives = mix(mix(family == AF_UNIX ? 2 : 3, other), own);
    return own != 0 && other != 0;
}

bool
system_segment(int id, uint64_t *bytes, uint64_t *creator)
{
    struct shmid_ds found;
    if (call6(__NR_shmctl, id, IPC_STAT, (long)&found, 0, 0, 0) < 0)
        return false;
    *bytes = found.shm_segsz;
    *creator = (uint64_t)found.shm_cpid;
    return true;
}

void
system_unmap(void *start, size_t bytes)
{
    call6(__NR_munmap, (long)start, (long)bytes, 0, 0, 0, 0);
}

void
system_discard(void *start, size_t bytes)
{
    call6(__NR_madvise, (long)start, (long)bytes, MADV_DONTNEED, 0, 0, 0);
}

void
system_yield(void)
{
    call6(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

void
system_sleep(uint64_t ns)
{
    struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    call6(__NR_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

uint64_t
system_monotonic_ns(void)
{
    struct timespec now;
    call6(__NR_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t
system_pid(void)
{
    return (uint32_t)call6(__NR_getpid, 0, 0, 0, 0, 0, 0);
}

uint32_t
system_parent_pid(void)
{
    return (uint32_t)call6(__NR_getppid, 0, 0, 0, 0, 0, 0);
}

uint32_t
system_thread_id(void)
{
    return (uint32_t)call6(__NR_gettid, 0, 0, 0, 0, 0, 0);
}

uint64_t
system_process_start(void)
{
    char line[1024]; /* the name has 64 bytes at most, and 19 numbers follow it up to the one wanted */
    long fd = call6(__NR_open, (long)"/proc/self/stat", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return 0;
    long bytes = call6(__NR_read, fd, (long)line, sizeof(line), 0, 0, 0);
    call6(__NR_close, fd, 0, 0, 0, 0, 0);
    /* The name, in brackets, may hold anything, brackets and spaces too: the fields from 3 on stand behind the last
     * bracket. */
    long at = bytes - 1;
    while (at >= 0 && line[at] != ')')
        at--;
    uint64_t start = 0;
    for (int field = 2; at >= 0 && at < bytes && field <= 22; at++) {
        if (line[at] == ' ')
            field++;
        else if (field == 22)
            start = start * 10 + (uint64_t)(line[at] - '0');
    }
    return start;
}

static bool
begins_with(const char *text, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++) {
        uint32_t i = 0;
        while ((*prefixes)[i] != '\0' && text[i] == (*prefixes)[i])
            i++;
        if ((*prefixes)[i] == '\0')
            return true;
    }
    return false;
}

void
system_environment(const char *const *prefixes, char *to, size_t bytes)
{
    char some[1024], one[256];
    uint32_t length = 0;
    size_t used = 0;
    long got, fd = call6(__NR_open, (long)"/proc/self/environ", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return;
    while ((got = call6(__NR_read, fd, (long)some, sizeof(some), 0, 0, 0)) > 0) {
        for (long i = 0; i < got; i++) {
            if (length < sizeof(one)) /* a longer one is none of these */
                one[length] = some[i];
            length++;
            if (some[i] != '\0')
                continue;
            bool taken = length <= sizeof(one) && begins_with(one, prefixes) && used + length <= bytes;
            for (uint32_t k = 0; taken && k < length; k++)
                to[used++] = one[k];
            length = 0;
        }
    }
    call6(__NR_close, fd, 0, 0, 0, 0, 0);
}

uint64_t
system_stack_top(void)
{
    Elf64_auxv_t vector[64];
    long fd = call6(__NR_open, (long)"/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return 0;
    long bytes = call6(__NR_read, fd, (long)vector, sizeof(vector), 0, 0, 0);
    call6(__NR_close, fd, 0, 0, 0, 0, 0);
    for (long i = 0; i < bytes / (long)sizeof(vector[0]); i++) {
        if (vector[i].a_type == AT_RANDOM) /* the kernel puts these bytes above the first frame */
            return vector[i].a_un.a_val;
    }
    return 0;
}

void
system_program_path(char *path, size_t bytes)
{
    const module_data_t *main_module = dr_get_main_module();
    dr_snprintf(path, bytes, "%s", main_module != NULL && main_module->full_path != NULL ? main_module->full_path : "");
    path[bytes - 1] = '\0';
    if (main_module != NULL)
        dr_free_module_data((module_data_t *)main_module);
}

uint64_t
system_cleared_at_end(void)
{
    uint64_t address = 0;
    return call6(__NR_prctl, PR_GET_TID_ADDRESS, (long)&address, 0, 0, 0, 0) == 0 ? address : 0;
}

void
system_thread_name(char name[16])
{
    call6(__NR_prctl, PR_GET_NAME, (long)name, 0, 0, 0, 0);
}

void
system_wait(const int *word, int value, uint64_t ns)
{
    struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    /* Not private: that is how the kernel wakes who waits for the end of a thread. */
    call6(__NR_futex, (long)word, FUTEX_WAIT, value, (long)&time, 0, 0);
}

void
system_wake(const int *word)
{
    call6(__NR_futex, (long)word, FUTEX_WAKE, 1, 0, 0, 0);
}

static long
clone_thread(void (*run)(void), void *stack_top, int *tid)
{
    const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
        CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    long result;
    register long child_tid __asm__("r10") = (long)tid;
    register long tls __asm__("r8") = 0;
    register void (*body)(void) __asm__("r12") = run;
    __asm__ __volatile__("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t" /* the outermost frame */
                         "call *%%r12\n\t"
                         "xor %%edi, %%edi\n\t"
                         "mov %[exit], %%eax\n\t"
                         "syscall\n"
                         "1:"
                         : "=a"(result)
                         : "a"(__NR_clone), "D"(flags), "S"(stack_top), "d"(tid), "r"(child_tid), "r"(tls), "r"(body),
                           [exit] "i"(__NR_exit)
                         : "rcx", "r11", "memory");
    return result;
}

bool
system_start_thread(void (*run)(void), void *stack_top, int *tid)
{
    uint64_t all = ~0ull, before;
    call6(__NR_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all), 0, 0);
    long result = clone_thread(run, stack_top, tid);
    call6(__NR_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
    return result > 0;
}

static struct rlimit64
limit_of(int resource)
{
    struct rlimit64 limit = { ~0ull, ~0ull };
    call6(__NR_prlimit64, 0, resource, 0, (long)&limit, 0, 0);
    return limit;
}

uint64_t
system_address_space_limit(void)
{
    return limit_of(RLIMIT_AS).rlim_cur;
}

uint64_t
system_descriptor_limit(void)
{
    return limit_of(RLIMIT_NOFILE).rlim_max;
}

static int64_t
number_in(const char *text)
{
    int64_t value = *text >= '0' && *text <= '9' ? 0 : -1;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (*text - '0');
    return value;
}

int64_t
system_last_descriptor(uint32_t below)
{
    struct entry { /* getdents64(2) */
        uint64_t inode;
        int64_t next;
        uint16_t bytes;
        uint8_t kind;
        char name[];
    };
    const uint32_t most = 1u << 20; /* the kernel's default of fs.nr_open */
    char entries[1024];
    int64_t last = -1;
    long got, fd = call6(__NR_open, (long)"/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return (below < most ? below : most) - 1;
    while ((got = call6(__NR_getdents64, fd, (long)entries, sizeof(entries), 0, 0, 0)) > 0) {
        for (long at = 0; at < got; at += ((struct entry *)(entries + at))->bytes) {
            int64_t number = number_in(((struct entry *)(entries + at))->name);
            if (number > last && number < below && number != fd)
                last = number;
        }
    }
    call6(__NR_close, fd, 0, 0, 0, 0, 0);
    return last;
}

bool
system_descriptor_path(int fd, char *path, size_t bytes)
{
    char name[32];
    dr_snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    long length = call6(__NR_readlink, (long)name, (long)path, (long)bytes - 1, 0, 0, 0);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

int64_t
system_file_position(int fd)
{
    return call6(__NR_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
}

void
system_lock(int *lock)
{
    for (int tries = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0; tries++) {
        if (tries < 64)
            __builtin_ia32_pause();
        else
            system_yield();
    }
}

void
system_unlock(int *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}
