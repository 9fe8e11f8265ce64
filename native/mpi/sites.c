/* From which place in the code a message comes, and in which round (abi.h). */
#include "library.h"
#include <dlfcn.h>
#include <string.h>
#include <unwind.h>

/* How the program's return address is found: it is the caller's, or, where MPI's own Fortran or C++ layer is between,
 * lies on the stack at a distance from our frame that is the same for each call from there. Found by unwinding once. */
enum { UNKNOWN, OWN, ON_STACK, VARIES };
typedef struct {
    void *caller;
    int how;
    ptrdiff_t distance;
} way_t;
#define WAYS 256
static way_t ways[WAYS];

/* Whether an address is in MPI's own Fortran layer, whose caller is the one that is meant. */
static bool
in_mpi(uintptr_t address)
{
    Dl_info info;
    if (dladdr((void *)address, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *name = strrchr(info.dli_fname, '/');
    name = name == NULL ? info.dli_fname : name + 1;
    return strncmp(name, "libmpi", 6) == 0 || strncmp(name, "libcohabit-mpi", 14) == 0;
}

typedef struct {
    uintptr_t address;
    uintptr_t slot; /* where it lies; 0: not known */
    int left;
} walk_t;

static _Unwind_Reason_Code
step(struct _Unwind_Context *context, void *argument)
{
    walk_t *walk = argument;
    uintptr_t address = _Unwind_GetIP(context);
    if (walk->left-- == 0)
        return _URC_END_OF_STACK;
    if (in_mpi(address))
        return _URC_NO_REASON;
    walk->address = address;
#if defined(__x86_64__)
    /* The call has pushed it just below what the caller's stack pointer is when the call is over. */
    uintptr_t slot = _Unwind_GetCFA(context) - sizeof(uintptr_t);
    walk->slot = *(uintptr_t *)slot == address ? slot : 0;
#endif
    return _URC_END_OF_STACK;
}

static walk_t
walk(void)
{
    walk_t found = { (uintptr_t)caller, 0, 16 };
    _Unwind_Backtrace(step, &found);
    return found;
}

static way_t *
way_of(void *address)
{
    way_t *way = &ways[((uintptr_t)address * 0x9e3779b97f4a7c15ull >> 40) % WAYS];
    if (__builtin_expect(way->caller != address, 0))
        *way = (way_t) { address, UNKNOWN, 0 };
    return way;
}

/* Looks where the address lies, and says what it is. */
static uintptr_t
look(way_t *way)
{
    if (!in_mpi((uintptr_t)caller)) {
        way->how = OWN;
        return (uintptr_t)caller;
    }
    walk_t found = walk();
    ptrdiff_t distance = (ptrdiff_t)(found.slot - (uintptr_t)frame);
    bool differs = way->how == ON_STACK && way->distance != distance;
    way->how = found.slot == 0 || differs || way->how == VARIES ? VARIES : ON_STACK;
    way->distance = distance;
    return found.address;
}

uintptr_t
site(void)
{
    way_t *way = way_of(caller);
    switch (way->how) {
    case OWN: return (uintptr_t)caller;
    case ON_STACK: return *(uintptr_t *)((char *)frame + way->distance);
    case VARIES: return library.sites ? walk().address : (uintptr_t)caller;
    default: return look(way);
    }
}

uintptr_t
site_anew(void)
{
    return way_of(caller)->how == ON_STACK ? look(way_of(caller)) : site();
}

const char *
site_module(uintptr_t address, uint64_t *offset)
{
    Dl_info info;
    if (dladdr((void *)address, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    const char *name = strrchr(info.dli_fname, '/');
    *offset = address - (uintptr_t)info.dli_fbase;
    return name == NULL ? info.dli_fname : name + 1;
}

/* The same number for the same place in all processes of a program, wherever it is loaded. Code that is in no file, as
 * what is compiled while the program runs, is elsewhere in each process: all of it is one place. */
static uint64_t
place_of(uintptr_t address)
{
    uint64_t offset, hash = 0xcbf29ce484222325ull;
    const char *name = site_module(address, &offset);
    if (name == NULL)
        return 0;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash ^ offset * 0x9e3779b97f4a7c15ull;
}

static bool
is_collective(uint64_t key)
{
    return (key >> COHABIT_MPI_KEY_KIND_SHIFT & 7) == COHABIT_MPI_KIND_COLLECTIVE;
}

void
count_site(uint64_t key, uint64_t bytes, uint64_t messages)
{
    if (is_collective(key) && !library.sites)
        key &= (1u << COHABIT_MPI_KEY_WORLD_SHIFT) - 1;
    key += bytes == 0 ? 0 : 64 - (unsigned)__builtin_clzll(bytes);
    uintptr_t address = site();
    cohabit_mpi_site_t *row = part_find_site(key, address);
    if (__builtin_expect(row == NULL, 0)) {
        /* Something new: look whether what was taken from the stack is what unwinding finds. */
        address = site_anew();
        row = part_find_site(key, address);
        if (row == NULL)
            row = part_new_site(key, address, place_of(address), current_round);
        if (row == NULL)
            return;
    }
    row->messages += messages;
    row->bytes += bytes * messages;
    if (__builtin_expect(current_round != row->round, 0))
        row->round = current_round = part_join_rounds(current_round, row->round);
}
