/* Channels that are no memory (channels.h). What counts is that one is made or opened within the run: a standard output
 * that is a pipe to somebody else's program connects no tasks of this one. */
#include "channels.h"
#include "part.h"
#include "system.h"
#include <asm/unistd.h>
#include <fcntl.h>

static void
note(uint32_t flag)
{
    if ((__atomic_load_n(&part()->flags, __ATOMIC_RELAXED) & flag) == 0)
        __atomic_or_fetch(&part()->flags, flag, __ATOMIC_RELAXED);
}

static void
opened(uint64_t how, uint64_t fd)
{
    switch (system_identify((int)fd).kind) {
    case FILE_PIPE: note(COHABIT_FLAG_PIPES); break;
    case FILE_REGULAR:
        if ((how & O_ACCMODE) != O_RDONLY)
            note(COHABIT_FLAG_FILES);
        break;
    default: break;
    }
}

void
channels_syscall(int number, const uint64_t *argument, uint64_t result)
{
    const uint32_t known = COHABIT_FLAG_PIPES | COHABIT_FLAG_FILES;
    bool unknown = (__atomic_load_n(&part()->flags, __ATOMIC_RELAXED) & known) != known;
    switch (number) {
    case __NR_pipe:
    case __NR_pipe2:
    case __NR_msgget:
    case __NR_mq_open: note(COHABIT_FLAG_PIPES); break;
    case __NR_socketpair:
    case __NR_connect:
    case __NR_bind: note(COHABIT_FLAG_SOCKETS); break;
    case __NR_creat: note(COHABIT_FLAG_FILES); break;
    case __NR_open:
        if (unknown)
            opened(argument[1], result);
        break;
    case __NR_openat:
        if (unknown)
            opened(argument[2], result);
        break;
    default: break;
    }
}
