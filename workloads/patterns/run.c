/* What the threads do: the plan of their role, round after round. */
#include "run.h"

#include <cohabit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
        exit(1);
    }
    return memory;
}

/* splitmix64, by Sebastiano Vigna (public domain). */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void deal_roles(struct run *run)
{
    unsigned roles = run->options.shape.roles;
    run->thread_of_role = allocate(roles, sizeof *run->thread_of_role);
    run->role_of_thread = allocate(roles, sizeof *run->role_of_thread);
    for (unsigned role = 0; role < roles; role++)
        run->thread_of_role[role] = role;
    uint64_t state = run->options.seed;
    for (unsigned left = roles; run->options.seed != 0 && left > 1; left--) {
        unsigned pick = (unsigned)(random_next(&state) % left), swap = run->thread_of_role[left - 1];
        run->thread_of_role[left - 1] = run->thread_of_role[pick];
        run->thread_of_role[pick] = swap;
    }
    for (unsigned role = 0; role < roles; role++)
        run->role_of_thread[run->thread_of_role[role]] = role;
}

struct run run_prepare(const struct options *options)
{
    struct run run = {.options = *options};
    const struct shape *shape = &options->shape;
    size_t bytes = pattern_items(options->pattern, shape) * shape->blocks * shape->block_bytes;
    run.data_bytes = (bytes + 4095) / 4096 * 4096;
    void *data = mmap(NULL, run.data_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        fprintf(stderr, "%s: %zu bytes of data: %s\n", program_invocation_short_name, run.data_bytes, strerror(errno));
        exit(1);
    }
    run.data = data;
    deal_roles(&run);
    return run;
}

/* The plan of one role in one segment: the actions of step k are actions[first[k] .. first[k + 1]). */
struct plan {
    struct action *actions;
    size_t *first;
};

static struct plan plan_segment(const struct run *run, unsigned segment, unsigned role, unsigned steps)
{
    const struct shape *shape = &run->options.shape;
    struct action *scratch = allocate(shape->roles + 1, sizeof *scratch);
    struct plan plan = {NULL, allocate(steps + 1, sizeof *plan.first)};
    for (int fill = 0; fill < 2; fill++) {
        size_t count = 0;
        for (unsigned step = 0; step < steps; step++) {
            plan.first[step] = count;
            size_t more = pattern_plan(run->options.pattern, shape, segment, role, step, scratch);
            if (fill)
                memcpy(plan.actions + count, scratch, more * sizeof *scratch);
            count += more;
        }
        plan.first[steps] = count;
        if (!fill)
            plan.actions = allocate(count + 1, sizeof *plan.actions);
    }
    free(scratch);
    return plan;
}

/* The value written in the given half of an item's blocks at a time, counted in steps from 1. Never 0. */
static uint64_t stamp(const struct action *action, uint64_t time)
{
    return time << 32 | (uint64_t)action->item << 1 | action->half;
}

static uint64_t stamp_to_find(const struct action *action, uint64_t time)
{
    return action->age >= time ? 0 : stamp(action, time - action->age);
}

static volatile uint64_t *first_word(const struct run *run, const struct action *action, size_t block)
{
    const struct shape *shape = &run->options.shape;
    size_t offset = (action->item * shape->blocks + block) * shape->block_bytes;
    return (volatile uint64_t *)(run->data + offset + action->half * shape->block_bytes / 2);
}

static uint64_t act(const struct run *run, const struct action *action, uint64_t time, uint64_t *wrong)
{
    const struct shape *shape = &run->options.shape;
    uint64_t value = action->kind == WRITE ? stamp(action, time) : stamp_to_find(action, time);
    for (size_t block = 0; block < shape->blocks; block++) {
        volatile uint64_t *word = first_word(run, action, block);
        for (unsigned i = 0; i < shape->words; i++) {
            if (action->kind == WRITE)
                word[i] = value;
            else
                *wrong += word[i] != value;
        }
    }
    return action->kind == READ ? shape->blocks * shape->words : 0;
}

uint64_t run_thread(const struct run *run, unsigned thread, uint64_t *wrong)
{
    const struct options *options = &run->options;
    unsigned steps = pattern_steps(options->pattern, &options->shape);
    uint64_t time = 0, words_read = 0;
    for (unsigned segment = 0; segment < pattern_segments(options->pattern); segment++) {
        struct plan plan = plan_segment(run, segment, run->role_of_thread[thread], steps);
        unsigned warmup = segment == 0 ? options->warmup : 0;
        for (unsigned round = 0; round < warmup + options->shape.rounds; round++) {
            if (round == warmup) {
                driver_barrier();
                if (thread == 0 && segment == 0)
                    cohabit_roi_begin();
                if (thread == 0)
                    cohabit_phase(segment);
                driver_barrier();
            }
            for (unsigned step = 0; step < steps; step++) {
                time++;
                for (size_t i = plan.first[step]; i < plan.first[step + 1]; i++)
                    words_read += act(run, &plan.actions[i], time, wrong);
                driver_barrier();
            }
        }
        free(plan.actions);
        free(plan.first);
    }
    if (thread == 0)
        cohabit_roi_end();
    return words_read;
}

static void stream_action(const struct run *run, unsigned thread, const struct action *action, FILE *file)
{
    for (size_t block = 0; block < run->options.shape.blocks; block++) {
        for (unsigned i = 0; i < run->options.shape.words; i++) {
            size_t offset = (uintptr_t)(first_word(run, action, block) + i) - (uintptr_t)run->data;
            fprintf(file, "%u,%s,%zu,8\n", thread, action->kind == WRITE ? "write" : "read", offset);
        }
    }
}

void run_write_stream(const struct run *run, FILE *file)
{
    const struct options *options = &run->options;
    const struct shape *shape = &options->shape;
    unsigned steps = pattern_steps(options->pattern, shape);
    struct action *actions = allocate(shape->roles + 1, sizeof *actions);
    fprintf(file, "thread,kind,address,bytes\n");
    for (unsigned segment = 0; segment < pattern_segments(options->pattern); segment++)
        for (uint64_t at = 0; at < (uint64_t)shape->rounds * steps; at++)
            for (unsigned thread = 0; thread < shape->roles; thread++) {
                unsigned role = run->role_of_thread[thread], step = (unsigned)(at % steps);
                size_t count = pattern_plan(options->pattern, shape, segment, role, step, actions);
                for (size_t i = 0; i < count; i++)
                    stream_action(run, thread, &actions[i], file);
            }
    free(actions);
}

void run_write_truth(const struct run *run, FILE *file)
{
    const struct shape *shape = &run->options.shape;
    fprintf(file, "# cohabit truth, format 1\n");
    fprintf(file, "# %s (%s), threads %u, rounds %u, seed %llu, block %zu, blocks %zu, words %u\n",
            run->options.pattern->name, driver_name, shape->roles, shape->rounds, (unsigned long long)run->options.seed,
            shape->block_bytes, shape->blocks, shape->words);
    fprintf(file, "# data 0x%llx %zu\n", (unsigned long long)(uintptr_t)run->data, run->data_bytes);
    fprintf(file, "process,source,destination,messages,bytes,invalidations\n");
    for (unsigned source = 0; source < shape->roles; source++)
        for (unsigned destination = 0; destination < shape->roles; destination++) {
            struct known known = pattern_known(run->options.pattern, shape, run->role_of_thread[source],
                                               run->role_of_thread[destination]);
            unsigned long long messages = known.messages * shape->blocks;
            unsigned long long invalidations = known.invalidations * shape->blocks;
            if (messages || invalidations)
                fprintf(file, "0,%u,%u,%llu,%llu,%llu\n", source, destination, messages, 8 * messages, invalidations);
        }
}
