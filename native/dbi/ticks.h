/* The time-stamp counter: the only clock cheap enough for the slow path. */
#ifndef COHABIT_TICKS_H
#define COHABIT_TICKS_H

#include <stdint.h>

static inline uint64_t
ticks_now(void)
{
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high));
    return ((uint64_t)high << 32) | low;
}

#endif
