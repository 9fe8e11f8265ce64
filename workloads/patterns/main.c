/* One pattern, run and checked: `patterns-DRIVER PATTERN --threads N --rounds R --seed S ...`. */
#include "run.h"

#include <cohabit.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct run run;
static atomic_ullong words_read, words_wrong;

static void body(unsigned thread)
{
    uint64_t wrong = 0, read = run_thread(&run, thread, &wrong);
    words_read += read;
    words_wrong += wrong;
}

static void fail(const char *path)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(errno));
    exit(1);
}

static void write_file(const char *path, void (*write)(const struct run *, FILE *))
{
    FILE *file = path && strcmp(path, "-") != 0 ? fopen(path, "w") : stdout;
    if (!file)
        fail(path);
    write(&run, file);
    if (fflush(file) || ferror(file) || (file != stdout && fclose(file)))
        fail(path ? path : "standard output");
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    run = run_prepare(&options);
    if (options.stream) {
        write_file(options.stream, run_write_stream);
    } else {
        if (!options.everywhere)
            cohabit_only(run.data, run.data_bytes);
        driver_run(options.shape.roles, body);
    }
    write_file(options.expect, run_write_truth);
    if (words_wrong) {
        fprintf(stderr, "%s: %llu of %llu words read were wrong\n", program_invocation_short_name,
                (unsigned long long)words_wrong, (unsigned long long)words_read);
        return 1;
    }
    if (options.verify)
        fprintf(stderr, "%s: all %llu words read were right\n", program_invocation_short_name,
                (unsigned long long)words_read);
    return 0;
}
