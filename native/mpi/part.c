/* The part file (abi.h): growth, cells, call sites and rounds, the series. Callers hold the library's lock where there
 * are threads.
 *
 * A part has to be whole at every moment, since the rank may be killed at any: what a reader follows is written first
 * and made reachable after.
 */
#include "part.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    char path[512];
    int fd;
    cohabit_mpi_part_t *head;
    uint64_t space;    /* mapped bytes */
    uint64_t reserved; /* bytes of the file that exist */
    uint64_t bound_rows;
    uint64_t zero_ticks;
    uint64_t window_end; /* ticks; UINT64_MAX without a series */
    uint64_t *touched;   /* keys + 1 of cells with counts in the window under way */
    uint64_t touched_count;
    uint64_t touched_capacity;
} state = { .fd = -1, .window_end = UINT64_MAX };

cohabit_mpi_part_t *
part(void)
{
    return state.head;
}

void *
part_at(uint64_t offset)
{
    return (char *)state.head + offset;
}

static bool
grow_to(uint64_t bytes)
{
    if (bytes <= state.reserved)
        return true;
    uint64_t wanted = (bytes + COHABIT_MPI_CHUNK_BYTES - 1) / COHABIT_MPI_CHUNK_BYTES * COHABIT_MPI_CHUNK_BYTES;
    /* Reserved before use, so that a full disk is an error here and not a SIGBUS in the program. */
    if (wanted > state.space || posix_fallocate(state.fd, state.reserved, wanted - state.reserved) != 0) {
        if (state.head != NULL)
            state.head->flags |= COHABIT_MPI_FLAG_NO_SPACE;
        return false;
    }
    state.reserved = wanted;
    return true;
}

uint64_t
part_allocate(uint64_t bytes)
{
    uint64_t at = state.head->used;
    bytes = (bytes + 63) & ~63ull;
    if (!grow_to(at + bytes))
        return 0;
    state.head->used = at + bytes;
    return at;
}

static bool
map(void)
{
    /* Address space only; smaller where that is limited. */
    for (state.space = 1ull << 36; state.space >= 1ull << 26; state.space >>= 2) {
        void *at = mmap(NULL, state.space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, state.fd, 0);
        if (at != MAP_FAILED) {
            state.head = at;
            return true;
        }
    }
    return false;
}

bool
part_create(const char *directory)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char host[64];
    gethostname(host, sizeof(host));
    host[sizeof(host) - 1] = '\0';
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        fprintf(stderr, "cohabit: %s: %s; this rank is not observed\n", directory, strerror(errno));
        return false;
    }
    snprintf(state.path, sizeof(state.path), "%s/%s-%u-%llx.mpi-part", directory, host, (unsigned)getpid(),
             (unsigned long long)now.tv_sec);
    state.fd = open(state.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    state.space = 1ull << 36;
    if (state.fd < 0 || !grow_to(sizeof(cohabit_mpi_part_t)) || !map()) {
        fprintf(stderr, "cohabit: %s: %s; this rank is not observed\n", state.path, strerror(errno));
        part_remove();
        return false;
    }
    state.head->version = COHABIT_MPI_VERSION;
    state.head->pid = (uint32_t)getpid();
    state.head->used = (sizeof(cohabit_mpi_part_t) + 63) & ~63ull;
    memcpy(state.head->host, host, sizeof(host));
    ssize_t length = readlink("/proc/self/exe", state.head->program, sizeof(state.head->program) - 1);
    state.head->program[length < 0 ? 0 : length] = '\0';
    return true;
}

void
part_remove(void)
{
    if (state.head != NULL)
        munmap(state.head, state.space);
    state.head = NULL;
    if (state.fd >= 0) {
        unlink(state.path);
        close(state.fd);
    }
    state.fd = -1;
    state.reserved = 0;
    state.touched_count = 0;
}

static inline uint64_t
hash(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15ull;
    return key ^ key >> 32;
}

/* Twice the cells (or the first ones): a new table is filled and then takes the old one's place. */
static bool
grow_cells(void)
{
    cohabit_mpi_part_t *head = state.head;
    uint64_t capacity = head->cell_capacity == 0 ? 256 : head->cell_capacity * 2;
    uint64_t at = part_allocate(capacity * sizeof(cohabit_mpi_cell_t));
    if (at == 0)
        return false;
    cohabit_mpi_cell_t *from = part_at(head->cells), *to = part_at(at);
    for (uint64_t i = 0; i < head->cell_capacity; i++) {
        if (from[i].key == 0)
            continue;
        uint64_t slot = hash(from[i].key) & (capacity - 1);
        while (to[slot].key != 0)
            slot = (slot + 1) & (capacity - 1);
        to[slot] = from[i];
    }
    uint64_t former = head->cell_capacity;
    /* A reader that finds the new table with the old capacity misses cells and reads none that is not there. */
    __atomic_store_n(&head->cells, at, __ATOMIC_RELEASE);
    __atomic_store_n(&head->cell_capacity, capacity, __ATOMIC_RELEASE);
    (void)former;
    return true;
}

static inline cohabit_mpi_cell_t *
find_cell(uint64_t key)
{
    cohabit_mpi_cell_t *cells = part_at(state.head->cells);
    uint64_t mask = state.head->cell_capacity - 1;
    uint64_t slot = hash(key + 1) & mask;
    while (cells[slot].key != key + 1 && cells[slot].key != 0)
        slot = (slot + 1) & mask;
    return &cells[slot];
}

static cohabit_mpi_cell_t *
new_cell(uint64_t key, uint32_t before)
{
    cohabit_mpi_part_t *head = state.head;
    if ((head->cell_count + 1) * 4 > head->cell_capacity * 3 && !grow_cells())
        return NULL;
    cohabit_mpi_cell_t *cell = find_cell(key);
    head->cell_count++;
    cell->before = before;
    __atomic_store_n(&cell->key, key + 1, __ATOMIC_RELEASE);
    return cell;
}

static bool
touch(uint64_t key)
{
    if (state.touched_count == state.touched_capacity) {
        uint64_t capacity = state.touched_capacity == 0 ? 512 : state.touched_capacity * 4;
        void *room = mmap(NULL, capacity * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED)
            return false;
        if (state.touched != NULL) {
            memcpy(room, state.touched, state.touched_count * 8);
            munmap(state.touched, state.touched_capacity * 8);
        }
        state.touched = room;
        state.touched_capacity = capacity;
    }
    state.touched[state.touched_count++] = key;
    return true;
}

void
part_start_series(uint64_t zero_ticks, uint64_t window_ticks, uint64_t bound_rows)
{
    state.zero_ticks = zero_ticks;
    state.bound_rows = bound_rows;
    state.head->window_ticks = window_ticks;
    state.window_end = window_ticks == 0 ? UINT64_MAX : 0;
}

static void
append_row(uint64_t bin, uint64_t key, const cohabit_mpi_cell_t *cell)
{
    cohabit_mpi_part_t *head = state.head;
    cohabit_mpi_page_t *page = head->pages == 0 ? NULL : part_at(head->pages);
    if (page == NULL || page->count == COHABIT_MPI_ROWS_PER_PAGE || page->window_shift != head->window_shift) {
        uint64_t at = part_allocate(sizeof(cohabit_mpi_page_t));
        if (at == 0)
            return;
        page = part_at(at);
        page->next = head->pages;
        page->window_shift = head->window_shift;
        __atomic_store_n(&head->pages, at, __ATOMIC_RELEASE);
        head->series_rows += COHABIT_MPI_ROWS_PER_PAGE;
    }
    page->rows[page->count] =
        (cohabit_mpi_row_t) { bin, key & ~127ull, cell->window_messages, cell->window_bytes };
    __atomic_store_n(&page->count, page->count + 1, __ATOMIC_RELEASE);
}

void
part_flush_window(uint64_t now)
{
    cohabit_mpi_part_t *head = state.head;
    if (head->window_ticks == 0)
        return;
    for (uint64_t i = 0; i < state.touched_count; i++) {
        cohabit_mpi_cell_t *cell = find_cell(state.touched[i]);
        append_row(head->window_bin, state.touched[i], cell);
        cell->window_messages = 0;
        cell->window_bytes = 0;
    }
    state.touched_count = 0;
    /* Every time the bound is passed windows double from then on; older pages are merged when the part is read. */
    if (head->series_rows >> head->window_shift > state.bound_rows)
        head->window_shift++;
    uint64_t width = head->window_ticks << head->window_shift;
    uint64_t since = now > state.zero_ticks ? now - state.zero_ticks : 0;
    head->window_bin = since / width;
    state.window_end = state.zero_ticks + (head->window_bin + 1) * width;
}

void
part_count(uint64_t key, uint64_t bytes, uint64_t messages, uint32_t before, uint64_t now)
{
    if (__builtin_expect(now >= state.window_end, 0))
        part_flush_window(now);
    key += bytes == 0 ? 0 : 64 - (unsigned)__builtin_clzll(bytes);
    cohabit_mpi_cell_t *cell = state.head->cell_capacity == 0 ? NULL : find_cell(key);
    if (__builtin_expect(cell == NULL || cell->key == 0, 0)) {
        cell = new_cell(key, before);
        if (cell == NULL) {
            state.head->events_lost += messages;
            return;
        }
    }
    cell->messages += messages;
    cell->bytes += bytes * messages;
    if (state.window_end == UINT64_MAX || (cell->window_messages == 0 && !touch(key)))
        return;
    cell->window_messages += messages;
    cell->window_bytes += bytes * messages;
}

static uint64_t
site_slot(const cohabit_mpi_site_t *sites, uint64_t capacity, uint64_t key, uint64_t address)
{
    uint64_t slot = hash(key + 1 + address * 31) & (capacity - 1);
    while (sites[slot].key != 0 && !(sites[slot].key == key + 1 && sites[slot].address == address))
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

static bool
grow_sites(void)
{
    cohabit_mpi_part_t *head = state.head;
    uint64_t capacity = head->site_capacity == 0 ? 64 : head->site_capacity * 2;
    uint64_t at = part_allocate(capacity * sizeof(cohabit_mpi_site_t));
    if (at == 0)
        return false;
    cohabit_mpi_site_t *from = part_at(head->sites), *to = part_at(at);
    for (uint64_t i = 0; i < head->site_capacity; i++)
        if (from[i].key != 0)
            to[site_slot(to, capacity, from[i].key - 1, from[i].address)] = from[i];
    __atomic_store_n(&head->sites, at, __ATOMIC_RELEASE);
    __atomic_store_n(&head->site_capacity, capacity, __ATOMIC_RELEASE);
    return true;
}

cohabit_mpi_site_t *
part_find_site(uint64_t key, uint64_t address)
{
    cohabit_mpi_part_t *head = state.head;
    if (head->site_capacity == 0)
        return NULL;
    cohabit_mpi_site_t *sites = part_at(head->sites);
    cohabit_mpi_site_t *site = &sites[site_slot(sites, head->site_capacity, key, address)];
    return site->key == 0 ? NULL : site;
}

/* A number that no round has yet; 0 where there are too many. */
static uint32_t
new_round(void)
{
    cohabit_mpi_part_t *head = state.head;
    if (head->rounds == 0) {
        head->rounds = part_allocate(COHABIT_MPI_MAX_ROUNDS * sizeof(uint32_t));
        head->round_count = 1;
    }
    if (head->rounds == 0 || head->round_count == COHABIT_MPI_MAX_ROUNDS)
        return 0;
    uint32_t round = (uint32_t)head->round_count;
    ((uint32_t *)part_at(head->rounds))[round] = round;
    __atomic_store_n(&head->round_count, round + 1u, __ATOMIC_RELEASE);
    return round;
}

cohabit_mpi_site_t *
part_new_site(uint64_t key, uint64_t address, uint64_t place, uint32_t round)
{
    cohabit_mpi_part_t *head = state.head;
    if (head->site_count == COHABIT_MPI_MAX_SITES ||
        ((head->site_count + 1) * 4 > head->site_capacity * 3 && !grow_sites()))
        return NULL;
    cohabit_mpi_site_t *sites = part_at(head->sites);
    cohabit_mpi_site_t *site = &sites[site_slot(sites, head->site_capacity, key, address)];
    site->address = address;
    site->place = place;
    site->order = (uint32_t)head->site_count++;
    site->round = round == 0 ? new_round() : round;
    __atomic_store_n(&site->key, key + 1, __ATOMIC_RELEASE);
    return site;
}

/* The round that a round is one with. */
static uint32_t
joined(uint32_t round)
{
    uint32_t *with = part_at(state.head->rounds);
    while (round != 0 && with[round] != round)
        round = with[round];
    return round;
}

uint32_t
part_join_rounds(uint32_t a, uint32_t b)
{
    a = joined(a);
    b = joined(b);
    if (a == 0 || b == 0 || a == b)
        return a == 0 ? b : a;
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    __atomic_store_n(&((uint32_t *)part_at(state.head->rounds))[high], low, __ATOMIC_RELEASE);
    return low;
}

void
part_keep_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return;
    char line[1024];
    uint64_t bytes = 0;
    while (fgets(line, sizeof(line), maps) != NULL)
        bytes += strchr(line, '/') != NULL ? strlen(line) : 0;
    /* Room for a few lines more: reading them may have mapped something. */
    uint64_t room = bytes + 4096, at = part_allocate(room), used = 0;
    rewind(maps);
    while (at != 0 && fgets(line, sizeof(line), maps) != NULL && used + strlen(line) <= room) {
        if (strchr(line, '/') == NULL)
            continue;
        memcpy((char *)part_at(at) + used, line, strlen(line));
        used += strlen(line);
    }
    fclose(maps);
    state.head->maps = at;
    state.head->maps_bytes = at == 0 ? 0 : used;
}
