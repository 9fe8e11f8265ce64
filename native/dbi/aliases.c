/* Code that changes behind DynamoRIO's back (aliases.h). */
#include "aliases.h"
#include "mappings.h"
#include "system.h"
#include "vforks.h"
#include <asm/unistd.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define PROC "/proc/"

static uint64_t
digest(const uint8_t *bytes, uint32_t count)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    uint32_t i = 0;
    for (uint64_t word; i + sizeof(word) <= count; i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 32;
    }
    for (; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

/* On entering a block: where its code is no longer what was translated, it is translated again. */
static void
compare(void *tag, app_pc start, uint32_t bytes, uint64_t translated)
{
    if (digest(start, bytes) == translated)
        return;
    if (!vforks_flush(start, bytes))
        return;
    dr_mcontext_t mc = { sizeof(mc), DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    mc.pc = tag;
    dr_redirect_execution(&mc);
}

static void
insert_compare(void *dc, void *tag, instrlist_t *block, instr_t *where, app_pc start, app_pc end)
{
    dr_insert_clean_call_ex(dc, block, where, (void *)compare,
                            DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_WRITES_APP_CONTEXT, 4,
                            OPND_CREATE_INTPTR(tag), OPND_CREATE_INTPTR(start),
                            OPND_CREATE_INT32((int)(end - start)),
                            OPND_CREATE_INTPTR(digest(start, (uint32_t)(end - start))));
}

bool
aliases_possible(void *tag)
{
    return mappings_hold((uint64_t)(ptr_uint_t)tag);
}

void
aliases_insert(void *dc, void *tag, instrlist_t *block, instr_t *instr)
{
    if (!aliases_possible(tag))
        return;
    /* Mostly one piece; more where DynamoRIO has followed a jump. */
    app_pc start = NULL, end = NULL;
    for (instr_t *i = instrlist_first_app(block); i != NULL; i = instr_get_next_app(i)) {
        app_pc at = instr_get_app_pc(i);
        app_pc next = at == NULL ? NULL : decode_next_pc(dc, at);
        if (next == NULL)
            continue;
        if (at < start || at > end) {
            if (start != NULL)
                insert_compare(dc, tag, block, instr, start, end);
            start = at, end = at;
        }
        end = next > end ? next : end;
    }
    if (start != NULL)
        insert_compare(dc, tag, block, instr, start, end);
}

static void
written(uint64_t start, uint64_t bytes)
{
    if (bytes > 0)
        vforks_flush((void *)(ptr_uint_t)start, bytes);
}

static void
written_elsewhere(void)
{
    __atomic_or_fetch(&part()->flags, COHABIT_FLAG_STALE_CODE, __ATOMIC_RELAXED);
}

/* /proc/PID/mem was written to; the path is what the descriptor's link says. */
static void
memory_file_written(const char *path, uint64_t start, uint64_t bytes)
{
    uint32_t pid = 0;
    for (const char *at = path + sizeof(PROC) - 1; *at >= '0' && *at <= '9'; at++)
        pid = pid * 10 + (uint32_t)(*at - '0');
    if (pid == (uint32_t)dr_get_process_id())
        written(start, bytes);
    else
        written_elsewhere();
}

static bool
is_memory_file(int fd, char *path, size_t bytes)
{
    if (!system_descriptor_path(fd, path, bytes) || strncmp(path, PROC, sizeof(PROC) - 1) != 0)
        return false;
    const char *last = strstr(path, "/mem");
    return last != NULL && strlen(last) == 4;
}

static void
file_written(int fd, uint64_t start, bool at_position, uint64_t bytes)
{
    char path[64];
    if (!is_memory_file(fd, path, sizeof(path)))
        return;
    if (at_position)
        start = (uint64_t)system_file_position(fd) - bytes;
    memory_file_written(path, start, bytes);
}

static void
vector_written(const uint64_t *argument)
{
    for (uint64_t i = 0; i < argument[4] && i < 1024; i++) {
        struct iovec one;
        if (dr_safe_read((void *)(argument[3] + i * sizeof(one)), sizeof(one), &one, NULL))
            written((uint64_t)(ptr_uint_t)one.iov_base, one.iov_len);
    }
}

/* The memory of a process has been opened as a file. */
static int memory_opened;

static void
opened(int fd)
{
    char path[64];
    if (is_memory_file(fd, path, sizeof(path)))
        __atomic_store_n(&memory_opened, 1, __ATOMIC_RELAXED);
}

void
aliases_syscall(int number, const uint64_t *argument, uint64_t result)
{
    bool files = __atomic_load_n(&memory_opened, __ATOMIC_RELAXED) != 0;
    switch (number) {
    case __NR_open:
    case __NR_openat:
    case __NR_openat2: opened((int)result); break;
    case __NR_write:
    case __NR_writev:
        if (files)
            file_written((int)argument[0], 0, true, result);
        break;
    case __NR_pwrite64:
    case __NR_pwritev:
        if (files)
            file_written((int)argument[0], argument[3], false, result);
        break;
    case __NR_process_vm_writev:
        if (argument[0] == (uint64_t)dr_get_process_id())
            vector_written(argument);
        else
            written_elsewhere();
        break;
    case __NR_ptrace:
        if (argument[0] == PTRACE_POKETEXT || argument[0] == PTRACE_POKEDATA)
            written_elsewhere();
        break;
    default: break;
    }
}
