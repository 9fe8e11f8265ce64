/* A hash of two numbers: the finalizer of splitmix64. Never 0, which is a free place in tables. */
#ifndef COHABIT_MIX_H
#define COHABIT_MIX_H

#include <stdint.h>

static inline uint64_t
mix(uint64_t a, uint64_t b)
{
    uint64_t hash = (a ^ (b + 1) * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    hash = (hash ^ hash >> 31) * 0x94d049bb133111ebull;
    return (hash ^ hash >> 29) | 1;
}

#endif
