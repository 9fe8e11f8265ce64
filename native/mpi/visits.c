/* From where in the code the rank calls MPI, and when (abi.h): what a profile tells the beginnings of phases by.
 *
 * A call costs a look into a table of addresses and a time that is written down. Calls from one place are one visit as
 * long as no two of them are further apart than the gap, so that a loop is one visit however long it runs. Where there
 * are too many visits, the gap is doubled and those that are nearer are joined. All is called with the lock held.
 */
#include "known_sites.h"
#include <string.h>

/* Calls that are nearer are of one visit, at the beginning. */
#define GAPS_PER_SECOND 100
#define FIRST_SITES 16
#define FIRST_VISITS 128

static uint32_t new_site(uintptr_t address);
static known_site_t sites_of_calls[4 * COHABIT_MPI_MAX_CALL_SITES];
static known_sites_t known = { sites_of_calls, sizeof(sites_of_calls) / sizeof(known_site_t), new_site, 0 };
/* The newest visit of each site, plus 1. */
static uint32_t newest[COHABIT_MPI_MAX_CALL_SITES];
static uint32_t sites_capacity, visits_capacity, most_visits;
/* As the part has them, without a way to it. */
static cohabit_mpi_visit_t *all;
static uint64_t gap;

void
visits_begin(void)
{
    cohabit_mpi_part_t *head = part();
    gap = head->visit_gap_ticks = head->ticks_per_second / GAPS_PER_SECOND;
    library.visits = gap != 0;
    uint64_t share = COHABIT_MPI_VISITS_OF_WORLD / (uint64_t)library.size;
    /* Tables are doubled until they hold as many. */
    for (most_visits = COHABIT_MPI_MAX_VISITS; most_visits > share && most_visits > COHABIT_MPI_VISITS_LEAST;)
        most_visits /= 2;
}

/* A table of twice as many elements, or the first one; false where there is no room. */
static bool
grow(uint64_t *table, uint32_t count, uint32_t *capacity, uint32_t first, size_t element)
{
    uint32_t wanted = *capacity == 0 ? first : *capacity * 2;
    uint64_t at = part_allocate(wanted * element);
    if (at == 0)
        return false;
    memcpy(part_at(at), part_at(*table), count * element);
    __atomic_store_n(table, at, __ATOMIC_RELEASE);
    *capacity = wanted;
    return true;
}

static uint32_t
new_site(uintptr_t address)
{
    cohabit_mpi_part_t *head = part();
    uint64_t offset;
    const char *module = site_module(address, &offset);
    /* Code that is in no file is elsewhere in each run. */
    if (module == NULL)
        return OF_NOTHING;
    uint32_t number = 0;
    cohabit_mpi_call_site_t *sites = part_at(head->call_sites);
    while (number < head->call_site_count &&
           (sites[number].offset != offset || strncmp(sites[number].module, module, sizeof(sites->module) - 1) != 0))
        number++;
    if (number < head->call_site_count)
        return number;
    if (number == COHABIT_MPI_MAX_CALL_SITES ||
        (number == sites_capacity && !grow(&head->call_sites, number, &sites_capacity, FIRST_SITES, sizeof(*sites))))
        return OF_NOTHING;
    sites = part_at(head->call_sites);
    sites[number].offset = offset;
    strncpy(sites[number].module, module, sizeof(sites->module) - 1);
    __atomic_store_n(&head->call_site_count, number + 1, __ATOMIC_RELEASE);
    return number;
}

/* Joins visits of a site that are no further apart than twice the gap. */
static void
join(void)
{
    cohabit_mpi_part_t *head = part();
    uint32_t kept = 0;
    gap = head->visit_gap_ticks *= 2;
    memset(newest, 0, sizeof(newest));
    for (uint32_t i = 0; i < head->visit_count; i++) {
        cohabit_mpi_visit_t now = all[i], *last = newest[now.site] == 0 ? NULL : &all[newest[now.site] - 1];
        if (last != NULL && now.begin_ticks - last->end_ticks <= gap) {
            last->end_ticks = now.end_ticks;
            if (__builtin_add_overflow(last->calls, now.calls, &last->calls))
                last->calls = UINT32_MAX;
        } else {
            all[kept] = now;
            newest[now.site] = ++kept;
        }
    }
    head->visit_count = kept;
}

void
visit(void)
{
    uint32_t site_number = known_site(&known);
    if (site_number == OF_NOTHING)
        return;
    if (__builtin_expect(newest[site_number] != 0, 1)) {
        cohabit_mpi_visit_t *last = &all[newest[site_number] - 1];
        if (__builtin_expect(entered - last->end_ticks <= gap, 1)) {
            last->end_ticks = entered;
            last->calls += last->calls != UINT32_MAX;
            return;
        }
    }
    cohabit_mpi_part_t *head = part();
    if (head->visit_count == most_visits) {
        /* A quarter of them free, so that this is not done at every call. */
        while (head->visit_count > most_visits / 4 * 3)
            join();
        /* It may be of a visit that is there, now. */
        visit();
        return;
    }
    if (head->visit_count == visits_capacity) {
        if (!grow(&head->visits, head->visit_count, &visits_capacity, FIRST_VISITS, sizeof(cohabit_mpi_visit_t))) {
            library.visits = false;
            return;
        }
        all = part_at(head->visits);
    }
    all[head->visit_count] = (cohabit_mpi_visit_t) { entered, entered, site_number, 1 };
    newest[site_number] = head->visit_count + 1;
    __atomic_store_n(&head->visit_count, head->visit_count + 1, __ATOMIC_RELEASE);
}
