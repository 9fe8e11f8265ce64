/* Code of a library that is loaded, used and unloaded again, three times over. */
#include "probe.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>

#define LINES 8
#define TIMES 3

static unsigned char *data;
static char library[PATH_MAX];

static uint64_t sum_by_library(void)
{
    void *handle = dlopen(library, RTLD_NOW);
    union {
        void *symbol;
        uint64_t (*call)(const volatile unsigned char *, size_t);
    } reader_sum = {handle ? dlsym(handle, "reader_sum") : NULL};
    if (!reader_sum.symbol) {
        fprintf(stderr, "%s\n", dlerror());
        probe_die(library);
    }
    uint64_t sum = reader_sum.call(data, LINES);
    dlclose(handle);
    return sum;
}

static void body(unsigned thread)
{
    for (unsigned time = 1; time <= TIMES; time++) {
        if (thread == 0)
            store_blocks(data, LINES, time);
        probe_barrier();
        if (thread == 1)
            probe_check(sum_by_library() == LINES * time, "the library's sum");
        probe_barrier();
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    snprintf(library, sizeof library, "%s/library_reader.so", dirname(argv[0]));
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, TIMES * LINES, TIMES * LINES * 8, (TIMES - 1) * LINES);
    return probe_finish("dlopen");
}
