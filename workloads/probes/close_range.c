/* close_range to the greatest number there is, as closefrom(3) and whoever starts other programs call it; a part of the
 * numbers; and what it refuses. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINES = 5, LOW = 20, HIGH = 900 };

static unsigned char *data;

static bool is_open(int file)
{
    return fcntl(file, F_GETFD) >= 0;
}

static void close_some(void)
{
    if (dup2(2, LOW) < 0 || dup2(2, LOW + 1) < 0 || dup2(2, HIGH) < 0)
        probe_die("dup2");
    errno = 0;
    probe_check(syscall(SYS_close_range, LOW, ~0u, 1u << 31) == -1 && errno == EINVAL, "flags that there are not");
    errno = 0;
    probe_check(syscall(SYS_close_range, 5, 4, 0) == -1 && errno == EINVAL, "a range that ends before it begins");
    probe_check(syscall(SYS_close_range, LOW, LOW, 0) == 0 && !is_open(LOW) && is_open(LOW + 1), "one number");
    probe_check(syscall(SYS_close_range, LOW + 2, HIGH - 1, 0) == 0 && is_open(LOW + 1) && is_open(HIGH), "none");
    probe_check(syscall(SYS_close_range, LOW, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) == 0 &&
                    fcntl(HIGH, F_GETFD) == FD_CLOEXEC && fcntl(1, F_GETFD) == 0, "closed on exec");
    /* The registers of the arguments are the caller's. */
    long result = SYS_close_range, last = 0xffffffff;
    __asm__ volatile("syscall" : "+a"(result), "+S"(last) : "D"(3), "d"(0) : "rcx", "r11", "memory");
    probe_check(result == 0 && last == 0xffffffff && !is_open(LOW + 1) && !is_open(HIGH), "all from 3 on");
    probe_check(is_open(0) && is_open(1) && is_open(2), "those below");
}

static void body(unsigned thread)
{
    if (thread == 0)
        close_some();
    if (thread == 0)
        store_blocks(data, LINES, 1);
    probe_barrier();
    if (thread == 1)
        probe_check(load_blocks(data, LINES, 1), "the lines");
}

int main(void)
{
    if (syscall(SYS_close_range, 1000, 1000, 0) != 0 && errno == ENOSYS)
        probe_skip("no close_range before Linux 5.9");
    if (syscall(SYS_close_range, 1000, 1000, 4) != 0)
        probe_skip("no CLOSE_RANGE_CLOEXEC before Linux 5.11");
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, LINES, LINES * 8, 0);
    return probe_finish("close_range");
}
