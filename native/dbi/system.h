/* The few kernel services the profiler needs, called directly: it runs beside a program whose C library is not ours. */
#ifndef COHABIT_SYSTEM_H
#define COHABIT_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new file, read and written, that the program cannot close by accident; negative errno on failure. */
int system_create(const char *path);
void system_close(int fd);
/* Makes bytes of a file exist, so that touching them through a mapping cannot fail. 0, or negative errno. */
int system_fallocate(int fd, uint64_t offset, uint64_t bytes);
/* Zeroed memory; NULL on failure. */
void *system_map_private(size_t bytes);
/* Address space that costs memory only where it is touched; NULL on failure. */
void *system_map_reserve(size_t bytes);
void *system_map_shared(int fd, size_t bytes);
/* Maps an existing file of at least so many bytes, shared; NULL on failure. */
void *system_map_file(const char *path, size_t bytes);
/* Makes the pages of a shared mapping exist. False where there is no space for them. */
bool system_populate(void *start, size_t bytes);
/* Gives pages of a mapped file back, for all who have it mapped: they read as zeroes again. False where the file system
 * cannot do that. */
bool system_remove(void *start, size_t bytes);
void system_unmap(void *start, size_t bytes);
/* Gives the pages of a private mapping back: they read as zeroes again. */
void system_discard(void *start, size_t bytes);
void system_yield(void);
/* Or until a signal comes. */
void system_sleep(uint64_t ns);

/* What a file descriptor stands for. */
typedef enum {
    FILE_OTHER,
    FILE_REGULAR,
    FILE_PIPE,
    FILE_SOCKET,
    FILE_ZERO, /* /dev/zero */
    FILE_WITHOUT_INODE, /* of its own: eventfd(2), epoll(7) and the like */
} file_kind_t;
typedef struct {
    file_kind_t kind;
    uint64_t device;
    uint64_t inode;
    uint64_t born_ns; /* tells an inode from a later one with its number; 0 where it is not known */
    uint64_t bytes;
} file_identity_t;
/* FILE_OTHER where it cannot be told. */
file_identity_t system_identify(int fd);
/* The same of a path. */
file_identity_t system_identify_path(const char *path);
/* What goes through a pipe, a connected socket or an eventfd, each direction by a number that is the same in all processes. */
typedef struct {
    uint64_t sends;
    uint64_t receives;
    bool messages; /* each is received by itself, else they are bytes one after another */
    bool counts; /* an eventfd(2): what is written is a number, and what is read is the sum of all since, or 1 of it */
} system_channel_t;
/* False where the descriptor is something else, or it cannot be told who is at the other end, or messages may be lost. */
bool system_channel(int fd, system_channel_t *channel);
/* Two UNIX sockets are connected: what system_channel else has to ask the kernel for. */
void system_channel_pair(int one, int other);
/* Bytes and creator of a System V segment. False where it cannot be told. */
bool system_segment(int id, uint64_t *bytes, uint64_t *creator);
uint64_t system_monotonic_ns(void);
uint32_t system_pid(void);
uint32_t system_parent_pid(void);
/* When the process was started, in clock ticks since the machine's start; 0 where it cannot be told. */
uint64_t system_process_start(void);
/* Copies those variables of the environment that the program was given whose names begin as one of `prefixes` (NULL
 * ends them): NAME=VALUE and a NUL each, as many as fit. */
void system_environment(const char *const *prefixes, char *to, size_t bytes);
uint32_t system_thread_id(void);
/* An address at the upper end of the stack that the kernel gave the program; 0 where it cannot be told. */
uint64_t system_stack_top(void);
void system_program_path(char *path, size_t bytes);
/* The address that the kernel clears when the calling thread ends; 0: none, or it cannot be told. */
uint64_t system_cleared_at_end(void);
/* The name the kernel has for the calling thread (comm), 16 bytes. */
void system_thread_name(char name[16]);

/* Sleeps while the word holds `value`, until it is woken, and at most so long. */
void system_wait(const int *word, int value, uint64_t ns);
void system_wake(const int *word);
/* A thread that nobody but the kernel knows of, with all signals blocked. It has no thread-local storage of its own and
 * must not use any. `tid` holds its id until it has ended. */
bool system_start_thread(void (*run)(void), void *stack_top, int *tid);

/* What the program may have of address space at most (RLIMIT_AS). */
uint64_t system_address_space_limit(void);
/* One more than the greatest number that a file descriptor may ever have. */
uint64_t system_descriptor_limit(void);
/* The greatest open file descriptor below that number; -1: none. Without /proc, the greatest there may be. */
int64_t system_last_descriptor(uint32_t below);
/* What /proc/self/fd says of a descriptor: false where it cannot be told. */
bool system_descriptor_path(int fd, char *path, size_t bytes);
/* Where the descriptor's file is read or written next; negative where it has no such place. */
int64_t system_file_position(int fd);

/* A lock for short sections, taken by threads that may be descheduled while they hold it. */
void system_lock(int *lock);
void system_unlock(int *lock);

#endif
