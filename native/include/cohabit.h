/* Markers by which a program tells cohabit what to look at. C and C++, x86-64; empty elsewhere.
 *
 * Each marker is one multi-byte NOP, `nopl MAGIC(%rax)` (bytes 0f 1f 80 and four of MAGIC, little-endian), which
 * touches neither memory, registers nor flags: outside cohabit it costs what a NOP costs, and nothing has to be linked.
 * The profiler recognises the displacement when it translates the code. Arguments travel in rdi and rsi.
 *
 *     #include <cohabit.h>
 *
 *     cohabit_only(grid, sizeof grid);   // look at the grid and at nothing else (optional)
 *     cohabit_roi_begin();               // with `cohabit profile --roi`: count from here ...
 *     solve(grid);
 *     cohabit_roi_end();                 // ... to here
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
}

#else

static inline void cohabit_roi_begin(void) {}
static inline void cohabit_roi_end(void) {}
static inline void cohabit_only(const volatile void *address, size_t bytes) { (void)address, (void)bytes; }
static inline void cohabit_phase(uint64_t number) { (void)number; }

#endif
#endif
