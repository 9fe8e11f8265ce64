/* Which memory each system call reads and writes (Linux x86-64, from the manual pages of section 2). */
#ifndef COHABIT_SYSCALL_TABLE_H
#define COHABIT_SYSCALL_TABLE_H

#include <stdint.h>

typedef enum {
    SIZE_FIXED,     /* `a` bytes */
    SIZE_ARGUMENT,  /* argument `a`, times `b` bytes */
    SIZE_RESULT,    /* the result, times `b` bytes */
    SIZE_STRING,    /* up to and with the NUL */
    SIZE_POINTED,   /* the 32-bit length that argument `a` points to, after the call */
    SIZE_VECTOR,    /* an iovec array of argument `a` entries: the array is read, what it names is read or written, the
                       result's number of bytes at most */
    SIZE_MESSAGE,   /* a msghdr: its vector, name and control data */
    SIZE_MESSAGES,  /* argument `a` mmsghdr, of which the result's number were used */
    SIZE_SET,       /* an fd_set of argument `a` bits */
    SIZE_FUTEX,     /* a futex word, where the operation (argument 1) reads it */
    SIZE_FCNTL,     /* what the command (argument 1) of fcntl reads, or writes; nothing for most */
} effect_size_t;

typedef struct {
    uint16_t number;
    uint8_t argument; /* that points to the memory; 0xff: the call touches no memory of the program */
    uint8_t kind;     /* access_kind_t: the kernel's read is the task's read */
    uint8_t size;     /* effect_size_t */
    uint16_t a;
    uint16_t b;
} effect_t;

extern const effect_t syscall_effects[];
extern const uint32_t syscall_effect_count;

#endif
