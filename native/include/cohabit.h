/* Markers by which a program tells cohabit what to look at. C and C++, x86-64; empty elsewhere.
 *
 * Each marker is one multi-byte NOP, `nopl MAGIC(%rax)` (bytes 0f 1f 80 and four of MAGIC, little-endian), which
 * touches neither memory, registers nor flags: outside cohabit it costs what a NOP costs, and nothing has to be linked.
 * The profiler recognises the displacement when it translates the code. Arguments travel in rdi and rsi.
 *
 * cohabit_phase also tells a `cohabit run --mapping` with a mapping for each phase that one begins, under Linux on any
 * processor. Elsewhere that costs a look at a variable. The protocol, for other languages: the environment variable
 * COHABIT_PHASES names a file, which is mapped shared (4,096 bytes). Of its 64-bit integers, in the machine's byte
 * order, the second takes the phase's number, then the first is increased by 1, atomically, and whoever waits for its
 * lower half is woken (futex(2), not FUTEX_PRIVATE_FLAG). Threads are moved a moment later, and the third is then what
 * the first was: a program that must know waits for that, and no longer than it can bear, as cohabit may be gone.
 * Without the variable, or where the file cannot be had, nothing happens.
 *
 *     #include <cohabit.h>
 *
 *     cohabit_only(grid, sizeof grid);   // look at the grid and at nothing else (optional)
 *     cohabit_roi_begin();               // with `cohabit profile --roi`: count from here ...
 *     solve(grid);
 *     cohabit_roi_end();                 // ... to here
 *     cohabit_phase(2);                  // another phase of the program begins
 *
 * Markers act on the whole process, whichever thread executes them. Put a barrier after cohabit_roi_begin and before
 * cohabit_roi_end where other threads must not run ahead of them.
 */
#ifndef COHABIT_H
#define COHABIT_H

#include <stddef.h>
#include <stdint.h>

#define COHABIT_MAGIC_ROI_BEGIN 0x0c0ab171
#define COHABIT_MAGIC_ROI_END 0x0c0ab172
#define COHABIT_MAGIC_ONLY 0x0c0ab173
#define COHABIT_MAGIC_PHASE 0x0c0ab174

#if defined(__linux__)

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef O_CLOEXEC /* with -std=c99 and the like */
#define O_CLOEXEC 0
#endif
#ifndef __cplusplus
extern long syscall(long, ...);
#endif

static inline uint64_t *cohabit_phases_open_(void)
{
    const char *path = getenv("COHABIT_PHASES");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return (uint64_t *)page;
}

static inline void cohabit_announce_(uint64_t number)
{
    static uint64_t *opened;
    uint64_t *words = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
    if (words == NULL) {
        /* Two threads may come here at once: both mappings are of the same page, and one of them is used no more. */
        words = cohabit_phases_open_();
        __atomic_store_n(&opened, words, __ATOMIC_RELEASE);
    }
    if (words == (uint64_t *)MAP_FAILED)
        return;
    __atomic_store_n(&words[1], number, __ATOMIC_RELAXED);
    __atomic_fetch_add(&words[0], 1, __ATOMIC_RELEASE);
    uint32_t *half = (uint32_t *)words;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    half++;
#endif
    syscall(SYS_futex, half, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
}

#else

static inline void cohabit_announce_(uint64_t number) { (void)number; }

#endif

#if defined(__x86_64__) && !defined(__ILP32__)

#define COHABIT_TEXT_(value) #value
#define COHABIT_TEXT(value) COHABIT_TEXT_(value)
#define COHABIT_NOP(magic) "nopl " COHABIT_TEXT(magic) "(%%rax)"
/* The memory clobbers below keep the compiler from moving loads and stores across a marker. */

/* Begin the region of interest. Counting starts from clean memory: what was written before is nobody's value. */
static inline void cohabit_roi_begin(void)
{
    __asm__ __volatile__(COHABIT_NOP(COHABIT_MAGIC_ROI_BEGIN) : : : "memory");
}

/* End it. It may begin again later. */
static inline void cohabit_roi_end(void)
{
    __asm__ __volatile__(COHABIT_NOP(COHABIT_MAGIC_ROI_END) : : : "memory");
}

/* Count only blocks that lie within [address, address + bytes). Each call adds a range; before the first one everything
 * is counted. Align ranges to the block size: a block that lies only partly in them is left out. */
static inline void cohabit_only(const volatile void *address, size_t bytes)
{
    __asm__ __volatile__(COHABIT_NOP(COHABIT_MAGIC_ONLY) : : "D"(address), "S"(bytes) : "memory");
}

/* Say that phase `number` of the program begins here. */
static inline void cohabit_phase(uint64_t number)
{
    __asm__ __volatile__(COHABIT_NOP(COHABIT_MAGIC_PHASE) : : "D"(number) : "memory");
    cohabit_announce_(number);
}

#else

static inline void cohabit_roi_begin(void) {}
static inline void cohabit_roi_end(void) {}
static inline void cohabit_only(const volatile void *address, size_t bytes) { (void)address, (void)bytes; }
static inline void cohabit_phase(uint64_t number) { cohabit_announce_(number); }

#endif
#endif
