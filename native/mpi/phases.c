/* A mapping that changes from phase to phase: the rank moves itself when it comes to a call site at which a phase
 * begins (`cohabit run` of a mapping made by `cohabit map --per-phase=calls`).
 *
 * COHABIT_MPI_PHASES names a file of lines: `phase NUMBER` begins one, `site OFFSET MODULE` is where ranks come to in
 * it, `rank RANK PU PU ...` the PUs (OS indices) of a rank in it. A call costs a look into a table of addresses, with no
 * lock and no system call; the first one from each place finds out which that is. So that only one thread uses the
 * table, it is the one that called MPI_Init whose calls begin phases. The threads that have the affinity that the rank
 * was given move, others have been put elsewhere by the program and stay.
 *
 * A rank that came to phases in quick succession would only move: it stays where it is for LEAST_NS, and then moves at
 * its next call.
 */
#include "known_sites.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NO_PHASE OF_NOTHING
/* Twenty times what a move is taken to cost (crates/model/src/cost.rs). */
#define LEAST_NS 10000000
#define MASK_WORDS 16

typedef struct {
    uint32_t phase;
    uint64_t offset;
    char *module;
} begins_t;

static struct {
    uint32_t phase_count;
    struct phase {
        uint64_t number;
        uint64_t cpus[MASK_WORDS];
    } *phases;
    uint32_t site_count;
    begins_t *sites;
    uint32_t phase; /* that the rank is in */
    uint64_t changed_ns;
    uint64_t cpus[MASK_WORDS]; /* that it was given */
} plan = { .phase = NO_PHASE };

/* Which phase begins at an address. What else calls begins none. */
static uint32_t begins_at(uintptr_t address);
static known_site_t places[4096];
static known_sites_t known = { places, sizeof(places) / sizeof(places[0]), begins_at, 0 };

static void *
one_more(void *list, uint32_t count, size_t element)
{
    char *grown = realloc(list, (count + 1) * element);
    if (grown == NULL)
        abort();
    memset(grown + count * element, 0, element);
    return grown;
}

static void
read_line(char *line)
{
    struct phase *phase = plan.phase_count == 0 ? NULL : &plan.phases[plan.phase_count - 1];
    char *end;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "phase ", 6) == 0) {
        plan.phases = one_more(plan.phases, plan.phase_count, sizeof(*plan.phases));
        plan.phases[plan.phase_count++].number = strtoull(line + 6, NULL, 10);
    } else if (strncmp(line, "site ", 5) == 0 && phase != NULL) {
        uint64_t offset = strtoull(line + 5, &end, 10);
        plan.sites = one_more(plan.sites, plan.site_count, sizeof(*plan.sites));
        plan.sites[plan.site_count++] = (begins_t) { plan.phase_count - 1, offset, strdup(*end == ' ' ? end + 1 : end) };
    } else if (strncmp(line, "rank ", 5) == 0 && phase != NULL && strtol(line + 5, &end, 10) == library.rank) {
        for (char *at = end; (end = at, true); at = end) {
            unsigned long pu = strtoul(at, &end, 10);
            if (end == at)
                break;
            if (pu < MASK_WORDS * 64)
                phase->cpus[pu / 64] |= 1ull << pu % 64;
        }
    }
}

void
phases_begin(bool spawned)
{
    const char *path = getenv("COHABIT_MPI_PHASES");
    /* The file is about the ranks of the first world. */
    if (path == NULL || spawned)
        return;
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    if (file == NULL) {
        fprintf(stderr, "cohabit: %s: %s; rank %d stays where it is in all phases\n", path, strerror(errno),
                library.rank);
        return;
    }
    while (getline(&line, &room, file) >= 0)
        read_line(line);
    free(line);
    fclose(file);
    cohabit_mpi_part_t *head = part();
    memcpy(plan.cpus, head->cpus, sizeof(plan.cpus));
    head->phases = plan.phase_count == 0 ? 0 : part_allocate(plan.phase_count * sizeof(cohabit_mpi_phase_t));
    if (head->phases == 0)
        return;
    cohabit_mpi_phase_t *kept = part_at(head->phases);
    for (uint32_t i = 0; i < plan.phase_count; i++)
        kept[i].number = plan.phases[i].number;
    head->phase_count = plan.phase_count;
    follows = true;
}

/* Moves the threads that are where the rank was put. */
static void
move(const uint64_t cpus[MASK_WORDS])
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return;
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        pid_t tid = (pid_t)strtol(task->d_name, NULL, 10);
        uint64_t has[MASK_WORDS] = { 0 };
        if (tid > 0 && sched_getaffinity(tid, sizeof(has), (cpu_set_t *)has) == 0 &&
            memcmp(has, plan.cpus, sizeof(has)) == 0)
            sched_setaffinity(tid, sizeof(has), (const cpu_set_t *)cpus);
    }
    closedir(tasks);
    memcpy(plan.cpus, cpus, sizeof(plan.cpus));
}

static void
change(uint32_t phase)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t now = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    if (plan.phase != NO_PHASE && now - plan.changed_ns < LEAST_NS)
        return;
    int before = errno;
    cohabit_mpi_phase_t *kept = (cohabit_mpi_phase_t *)part_at(part()->phases) + phase;
    if (memcmp(plan.cpus, plan.phases[phase].cpus, sizeof(plan.cpus)) != 0)
        move(plan.phases[phase].cpus);
    plan.phase = phase;
    plan.changed_ns = now;
    kept->times++;
    sched_getaffinity(0, sizeof(kept->cpus), (cpu_set_t *)kept->cpus);
    errno = before;
}

static uint32_t
begins_at(uintptr_t address)
{
    uint64_t offset;
    const char *module = site_module(address, &offset);
    for (uint32_t i = 0; module != NULL && i < plan.site_count; i++)
        if (plan.sites[i].offset == offset &&
            strncmp(plan.sites[i].module, module, sizeof(((cohabit_mpi_call_site_t *)0)->module) - 1) == 0)
            return plan.sites[i].phase;
    return NO_PHASE;
}

void
phases_call(void *return_address, void *own_frame)
{
    if (depth != 0)
        return;
    caller = return_address;
    frame = own_frame;
    uint32_t phase = known_site(&known);
    if (__builtin_expect(phase != plan.phase, 0) && phase != NO_PHASE)
        change(phase);
}

void
phases_end(void)
{
    follows = false;
}
