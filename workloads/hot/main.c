/* Two threads communicate through data of one kind, as often as known and in a known way: what `cohabit profile --hot`
 * is held against. They take turns, so that nothing depends on time.
 *
 *     hot STORAGE PATTERN [--lines L] [--rounds R]
 *
 * STORAGE: heap, global, stack, mapping, nodes (each allocated by the first thread and freed by the second, as in a
 * channel; needed only), symbols (a byte and the counters, two symbols in one line: one line whatever L is; counters
 * only). PATTERN, of each line in each round, the first thread before the second:
 *     needed    the first writes a word, the second reads it
 *     counters  each adds to a word of its own
 *     constant  the first writes a word, the second reads another, which nobody writes
 *     padded    each adds to a word of its own, in lines of its own
 *
 * Writes to standard output `object,messages,sharing`: what the name of the object begins with, how many messages go
 * through it, and whether that is `true` or `false` sharing, or `none` where it is no message at all.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE 64u
#define MOST_LINES 4096u
#define NEVER_INLINED __attribute__((noinline, noclone, noipa))

typedef struct {
    _Alignas(LINE) volatile uint64_t first; /* of the first thread */
    volatile uint64_t second;
    volatile uint64_t constant;
} line_t;

static line_t grid[MOST_LINES];
static _Alignas(LINE) struct {
    sem_t of_first;
    _Alignas(LINE) sem_t of_second;
} turns;

/* A byte that nobody touches before counters that lie in its line, as two symbols. */
__asm__(".pushsection .data\n"
        ".balign 64\n"
        ".type first_byte, @object\n.size first_byte, 1\nfirst_byte: .byte 1\n"
        ".balign 8\n"
        ".type beside_it, @object\n.size beside_it, 24\nbeside_it: .zero 24\n"
        ".balign 64\n"
        ".popsection\n");
extern volatile uint64_t beside_it[3];

static uint32_t line_count = 256, rounds = 20;
static const char *pattern;
static line_t **lines;
static uint64_t wrong;

/* Leaves addresses of calls on the stack that are long over. */
static NEVER_INLINED uint64_t
leave_traces(uint32_t depth)
{
    volatile char room[96];
    room[0] = (char)depth;
    return depth == 0 ? (uint64_t)room[0] : leave_traces(depth - 1) + (uint64_t)room[0];
}

static NEVER_INLINED void *
innermost(size_t bytes)
{
    void *made = aligned_alloc(LINE, bytes);
    __asm__ volatile("" : "+r"(made));
    return made;
}

/* Its frame is full of what was on the stack before. */
static NEVER_INLINED void *
middle(size_t bytes)
{
    volatile char room[1600];
    room[0] = 1;
    void *made = innermost(bytes);
    __asm__ volatile("" : "+r"(made));
    return room[0] == 1 ? made : NULL;
}

static NEVER_INLINED void *
outermost(size_t bytes)
{
    leave_traces(30);
    void *made = middle(bytes);
    __asm__ volatile("" : "+r"(made));
    return made;
}

static NEVER_INLINED void *
map_lines(size_t bytes)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return made == MAP_FAILED ? NULL : made;
}

/* What a thread does with a line in a round. */
static void
work(line_t *line, bool second, uint64_t round)
{
    if (strcmp(pattern, "needed") == 0) {
        if (!second)
            line->first = round;
        else
            wrong += line->first != round;
    } else if (strcmp(pattern, "constant") == 0) {
        if (!second)
            line->first = round;
        else
            wrong += line->constant != 0;
    } else if (second) {
        line->second = line->second + 1;
    } else {
        line->first = line->first + 1;
    }
}

static NEVER_INLINED line_t *
make_node(void)
{
    line_t *made = aligned_alloc(LINE, sizeof(line_t));
    memset((void *)made, 0, sizeof(*made));
    return made;
}

static void
take_turn(bool second, bool nodes, uint64_t round)
{
    for (uint32_t i = 0; i < line_count; i++) {
        bool padded = strcmp(pattern, "padded") == 0;
        if (padded && (i % 2 == 0) == second)
            continue;
        if (nodes && !second)
            lines[i] = make_node();
        work(lines[i], second, round);
        if (nodes && second)
            free(lines[i]);
    }
}

static bool of_nodes;

static void *
second_thread(void *unused)
{
    for (uint32_t round = 1; round <= rounds; round++) {
        sem_wait(&turns.of_second);
        take_turn(true, of_nodes, round);
        sem_post(&turns.of_first);
    }
    return unused;
}

static void
first_thread(void)
{
    pthread_t second;
    sem_init(&turns.of_first, 0, 1);
    sem_init(&turns.of_second, 0, 0);
    pthread_create(&second, NULL, second_thread, NULL);
    for (uint32_t round = 1; round <= rounds; round++) {
        sem_wait(&turns.of_first);
        take_turn(false, of_nodes, round);
        sem_post(&turns.of_second);
    }
    pthread_join(second, NULL);
}

/* The object's name, and its lines; NULL for a storage that is none. */
static const char *
choose(const char *storage, line_t *on_stack)
{
    line_t *from = NULL;
    const char *name = NULL;
    size_t bytes = line_count * sizeof(line_t);
    if (strcmp(storage, "heap") == 0) {
        from = outermost(bytes);
        memset((void *)from, 0, bytes);
        name = "heap block allocated in innermost";
    } else if (strcmp(storage, "global") == 0) {
        from = grid;
        name = "grid in hot";
    } else if (strcmp(storage, "stack") == 0) {
        from = on_stack;
        name = "stack of the process's first thread";
    } else if (strcmp(storage, "mapping") == 0) {
        from = map_lines(bytes);
        name = "mapping allocated in ";
    } else if (strcmp(storage, "symbols") == 0) {
        line_count = 1;
        from = (line_t *)(uintptr_t)beside_it;
        name = "beside_it in hot";
    } else if (strcmp(storage, "nodes") == 0) {
        of_nodes = true;
        name = "heap block allocated in make_node";
    }
    for (uint32_t i = 0; from != NULL && i < line_count; i++)
        lines[i] = &from[i];
    return name;
}

static uint64_t
messages(void)
{
    uint64_t all = (uint64_t)line_count * rounds;
    if (strcmp(pattern, "needed") == 0 || strcmp(pattern, "constant") == 0)
        return all;
    if (strcmp(pattern, "padded") == 0)
        return 0;
    /* What the first thread finds in the first round nobody else wrote. */
    return 2 * all - line_count;
}

static int
usage(void)
{
    fprintf(stderr, "usage: hot heap|global|stack|mapping|nodes|symbols needed|counters|constant|padded "
                    "[--lines L] [--rounds R]\n");
    return 2;
}

int
main(int count, char **arguments)
{
    if (count < 3)
        return usage();
    pattern = arguments[2];
    for (int i = 3; i + 1 < count; i += 2) {
        uint32_t *value = strcmp(arguments[i], "--lines") == 0 ? &line_count : &rounds;
        *value = (uint32_t)strtoul(arguments[i + 1], NULL, 10);
    }
    if (line_count == 0 || line_count > MOST_LINES || rounds == 0)
        return usage();
    line_t on_stack[line_count];
    memset((void *)on_stack, 0, sizeof(on_stack));
    lines = calloc(MOST_LINES, sizeof(*lines));
    const char *name = choose(arguments[1], on_stack);
    bool counters = strcmp(pattern, "counters") == 0, needed = strcmp(pattern, "needed") == 0;
    if (name == NULL || (of_nodes && !needed) || (strcmp(arguments[1], "symbols") == 0 && !counters))
        return usage();
    first_thread();
    bool none = strcmp(pattern, "padded") == 0;
    printf("%s,%llu,%s\n", name, (unsigned long long)messages(), none ? "none" : needed ? "true" : "false");
    if (wrong > 0)
        fprintf(stderr, "hot: %llu values were wrong\n", (unsigned long long)wrong);
    return wrong > 0;
}
