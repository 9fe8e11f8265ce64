/* What the places that MPI is called from stand for: a number each, which is found out at the first call from there.
 *
 * A call costs a look into a table of addresses, at most half of which is used. One thread at a time may use a table.
 */
#ifndef COHABIT_MPI_KNOWN_SITES_H
#define COHABIT_MPI_KNOWN_SITES_H

#include "library.h"

/* Of a place that stands for nothing, or for which there is no room. */
#define OF_NOTHING UINT32_MAX
/* Of an address in MPI's own Fortran layer: the place that called that one counts. */
#define BEHIND_MPI (UINT32_MAX - 1)

typedef struct {
    uintptr_t address; /* 0: empty */
    uint32_t number;
} known_site_t;

typedef struct {
    known_site_t *sites;
    size_t capacity; /* a power of two */
    uint32_t (*of_new)(uintptr_t address);
    uint32_t count;
} known_sites_t;

static inline known_site_t *
known_slot(known_sites_t *known, uintptr_t address)
{
    size_t mask = known->capacity - 1, slot = (address * 0x9e3779b97f4a7c15ull >> 32) & mask;
    while (known->sites[slot].address != address && known->sites[slot].address != 0)
        slot = (slot + 1) & mask;
    return &known->sites[slot];
}

static inline uint32_t
keep_known(known_sites_t *known, uintptr_t address, uint32_t number)
{
    known_site_t *slot = known_slot(known, address);
    if (known->count == known->capacity / 2)
        return OF_NOTHING;
    known->count += slot->address == 0;
    slot->number = number;
    slot->address = address;
    return number;
}

/* The number of the place that the call under way comes from. */
static inline uint32_t
known_site(known_sites_t *known)
{
    uintptr_t address = (uintptr_t)caller;
    known_site_t *slot = known_slot(known, address);
    uint32_t number = slot->number;
    if (__builtin_expect(slot->address == 0, 0))
        number = keep_known(known, address, site_anew() == address ? known->of_new(address) : BEHIND_MPI);
    if (__builtin_expect(number != BEHIND_MPI, 1))
        return number;
    address = site();
    slot = known_slot(known, address);
    if (slot->address == address)
        return slot->number;
    address = site_anew();
    return keep_known(known, address, known->of_new(address));
}

#endif
