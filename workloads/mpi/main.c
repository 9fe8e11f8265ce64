/* MPI programs whose messages are known exactly: `patterns NAME [--rounds N] [--expect FILE] [--elements N]`.
 *
 * Each rank writes what it sends, by its own arithmetic, to FILE.RANK before MPI_Finalize. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int me, ranks, elements;

static char *rows;
static size_t length, capacity;

static void
add(const char *text)
{
    size_t more = strlen(text);
    if (length + more + 1 > capacity) {
        capacity = 2 * (length + more) + 4096;
        rows = realloc(rows, capacity);
        if (rows == NULL)
            abort();
    }
    memcpy(rows + length, text, more + 1);
    length += more;
}

void
sends(int to, long messages, long bytes_each)
{
    char row[128];
    snprintf(row, sizeof(row), "%d %d %ld %ld\n", me, to, messages, messages * bytes_each);
    add(row);
}

void
fetches(int from, long messages, long bytes_each)
{
    char row[128];
    snprintf(row, sizeof(row), "%d %d %ld %ld\n", from, me, messages, messages * bytes_each);
    add(row);
}

void
sends_between(int from_world, int from, int to_world, int to, long messages, long bytes_each)
{
    char row[128];
    snprintf(row, sizeof(row), "w%d:%d w%d:%d %ld %ld\n", from_world, from, to_world, to, messages,
             messages * bytes_each);
    add(row);
}

void
write_expected(const char *path, const char *suffix)
{
    char name[4096];
    if (path == NULL)
        return;
    snprintf(name, sizeof(name), "%s.%s%d", path, suffix, me);
    FILE *file = fopen(name, "w");
    if (file == NULL || fwrite(rows == NULL ? "" : rows, 1, length, file) != length || fclose(file) != 0) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static const pattern_t *
find(const char *name)
{
#ifdef SPAWNING
    const pattern_t *const tables[] = { spawn_table };
#else
    const pattern_t *const tables[] = { messages_table, groups_table, collectives_table };
#endif
    for (unsigned table = 0; table < sizeof(tables) / sizeof(tables[0]); table++)
        for (const pattern_t *pattern = tables[table]; pattern->name != NULL; pattern++)
            if (name == NULL)
                printf("%s %d\n", pattern->name, pattern->minimum);
            else if (strcmp(pattern->name, name) == 0)
                return pattern;
    return NULL;
}

int
main(int argc, char **argv)
{
    const char *expect = NULL;
    int rounds = 3, level = MPI_THREAD_SINGLE;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--expect") == 0)
            expect = argv[i + 1];
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--elements") == 0)
            elements = atoi(argv[i + 1]);
    }
    if (argc < 2 || strcmp(argv[1], "--list") == 0) {
        find(NULL);
        return argc < 2;
    }
    const pattern_t *pattern = find(argv[1]);
    if (pattern == NULL) {
        fprintf(stderr, "there is no pattern %s\n", argv[1]);
        return 2;
    }
    bool threads = strncmp(pattern->name, "threads", 7) == 0;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (threads && level != MPI_THREAD_MULTIPLE) {
        if (me == 0)
            puts("# skip: this MPI has no MPI_THREAD_MULTIPLE");
        MPI_Finalize();
        return 77;
    }
    if (ranks < pattern->minimum) {
        fprintf(stderr, "%s needs %d ranks\n", pattern->name, pattern->minimum);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    pattern->run(rounds);
    write_expected(expect, parent == MPI_COMM_NULL ? "" : "spawned.");
    MPI_Finalize();
    return 0;
}
