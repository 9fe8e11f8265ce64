/* The command line. */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static void usage(FILE *to)
{
    fprintf(to,
            "usage: %s PATTERN [options]\n"
            "  --threads N   threads, 2 to 65536 (default 4)\n"
            "  --rounds R    rounds (default 100)\n"
            "  --seed S      deal the roles to threads at random; 0: role i to thread i (default 0)\n"
            "  --block B     bytes of a block, a power of two from 16 to 4096 (default 64)\n"
            "  --blocks K    blocks in an item (default 4)\n"
            "  --words W     words touched in each block, at most B/16 (default 1)\n"
            "  --groups G    groups of the pipeline (default 4)\n"
            "  --warmup W    rounds before cohabit_roi_begin(), counted by nobody (default 0)\n"
            "  --expect F    write the known matrix to F (default: standard output)\n"
            "  --stream F    write the accesses to F and the known matrix, and run no thread\n"
            "  --everywhere  leave cohabit_only() out: what barriers and the rest of the program communicate is seen, too\n"
            "  --verify      say how many words were read and found right\n"
            "  --list        name the patterns\n",
            program_invocation_short_name);
}

static void list(void)
{
    for (const struct pattern *const *row = patterns; *row; row++)
        printf("%-14s %s\n", (*row)->name, (*row)->summary);
}

static void wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, value);
    usage(stderr);
    exit(2);
}

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (end == text || *end || *text == '-' || value < least || value > most)
        wrong_usage(name, text);
    return value;
}

enum {
    THREADS = 1, ROUNDS, SEED, BLOCK, BLOCKS, WORDS, GROUPS, WARMUP, EXPECT, STREAM, EVERYWHERE, VERIFY, LIST, HELP
};

static const struct option long_options[] = {
    {"threads", required_argument, NULL, THREADS}, {"rounds", required_argument, NULL, ROUNDS},
    {"seed", required_argument, NULL, SEED},       {"block", required_argument, NULL, BLOCK},
    {"blocks", required_argument, NULL, BLOCKS},   {"words", required_argument, NULL, WORDS},
    {"groups", required_argument, NULL, GROUPS},   {"warmup", required_argument, NULL, WARMUP},
    {"expect", required_argument, NULL, EXPECT},   {"stream", required_argument, NULL, STREAM},
    {"everywhere", no_argument, NULL, EVERYWHERE}, {"verify", no_argument, NULL, VERIFY},         {"list", no_argument, NULL, LIST},
    {"help", no_argument, NULL, HELP},             {NULL, 0, NULL, 0}};

static void take(struct options *options, int option, const char *value)
{
    struct shape *shape = &options->shape;
    switch (option) {
    case THREADS: shape->roles = (unsigned)number("--threads", value, 2, 65536); break;
    case ROUNDS: shape->rounds = (unsigned)number("--rounds", value, 1, 1000000); break;
    case SEED: options->seed = number("--seed", value, 0, UINT64_MAX); break;
    case BLOCK: shape->block_bytes = number("--block", value, 16, 4096); break;
    case BLOCKS: shape->blocks = number("--blocks", value, 1, 1u << 20); break;
    case WORDS: shape->words = (unsigned)number("--words", value, 1, 256); break;
    case GROUPS: shape->groups = (unsigned)number("--groups", value, 2, 65536); break;
    case WARMUP: options->warmup = (unsigned)number("--warmup", value, 0, 1000000); break;
    case EXPECT: options->expect = value; break;
    case STREAM: options->stream = value; break;
    case EVERYWHERE: options->everywhere = true; break;
    case VERIFY: options->verify = true; break;
    case LIST: list(); exit(0);
    case HELP: usage(stdout); exit(0);
    default: usage(stderr); exit(2);
    }
}

struct options options_parse(int argc, char **argv)
{
    struct options options = {
        .shape = {.roles = 4, .rounds = 100, .groups = 4, .words = 1, .blocks = 4, .block_bytes = 64}};
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;)
        take(&options, option, optarg);
    if (optind + 1 != argc)
        wrong_usage("one PATTERN is needed", optind < argc ? argv[optind + 1] : "none given");
    options.pattern = pattern_find(argv[optind]);
    if (!options.pattern)
        wrong_usage("no such pattern (see --list)", argv[optind]);
    size_t block = options.shape.block_bytes;
    if (block & (block - 1))
        wrong_usage("--block", "not a power of two");
    if (options.shape.words > block / 16)
        wrong_usage("--words", "more than half a block");
    return options;
}
