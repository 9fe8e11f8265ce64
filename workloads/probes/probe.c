/* What the probes share; see probe.h. */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_THREADS 64
#define MOST_PAIRS 8192
#define MOST_RANGES 16
#define STACK_BYTES (256u << 10)

static struct pair {
    unsigned process, source, destination;
    uint64_t messages, bytes, invalidations;
} pairs[MOST_PAIRS];
static size_t pair_count;
static struct {
    void *address;
    size_t bytes;
} ranges[MOST_RANGES];
static size_t range_count;
static pthread_barrier_t barrier;
static void (*thread_body)(unsigned);
static atomic_bool failed;

unsigned char *probe_data(size_t blocks)
{
    size_t bytes = (blocks * BLOCK + 4095) / 4096 * 4096;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        probe_die("mmap");
    probe_only(data, bytes);
    return data;
}

void probe_only(void *address, size_t bytes)
{
    if (range_count == MOST_RANGES) {
        errno = ENOMEM;
        probe_die("ranges");
    }
    ranges[range_count].address = address;
    ranges[range_count++].bytes = bytes;
    cohabit_only(address, bytes);
}

static void *start(void *number)
{
    thread_body((unsigned)(uintptr_t)number);
    return NULL;
}

void probe_threads(unsigned count, void (*body)(unsigned thread))
{
    pthread_t threads[MOST_THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_barrier_init(&barrier, NULL, count);
    thread_body = body;
    for (unsigned thread = 1; thread < count; thread++)
        if ((errno = pthread_create(&threads[thread], &attributes, start, (void *)(uintptr_t)thread)))
            probe_die("pthread_create");
    body(0);
    for (unsigned thread = 1; thread < count; thread++)
        pthread_join(threads[thread], NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&barrier);
}

void probe_barrier(void)
{
    pthread_barrier_wait(&barrier);
}

void probe_expect_in(unsigned process, unsigned source, unsigned destination, uint64_t messages, uint64_t bytes,
                     uint64_t invalidations)
{
    size_t at = 0;
    while (at < pair_count && (pairs[at].process != process || pairs[at].source != source ||
                               pairs[at].destination != destination))
        at++;
    if (at == MOST_PAIRS) {
        errno = ENOMEM;
        probe_die("expected pairs");
    }
    if (at == pair_count)
        pairs[pair_count++] = (struct pair){process, source, destination, 0, 0, 0};
    pairs[at].messages += messages;
    pairs[at].bytes += bytes;
    pairs[at].invalidations += invalidations;
}

void probe_expect(unsigned source, unsigned destination, uint64_t messages, uint64_t bytes, uint64_t invalidations)
{
    probe_expect_in(0, source, destination, messages, bytes, invalidations);
}

void probe_check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: wrong: %s\n", program_invocation_short_name, what);
    failed = true;
}

bool probe_failed(void)
{
    return failed;
}

void probe_die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

void probe_skip(const char *reason)
{
    printf("# skip: %s\n", reason);
    exit(77);
}

int probe_finish(const char *name)
{
    printf("# cohabit truth, format 1\n# probe %s\n", name);
    for (size_t i = 0; i < range_count; i++)
        printf("# data 0x%llx %zu\n", (unsigned long long)(uintptr_t)ranges[i].address, ranges[i].bytes);
    printf("process,source,destination,messages,bytes,invalidations\n");
    for (const struct pair *pair = pairs; pair < pairs + pair_count; pair++)
        if (pair->messages || pair->invalidations)
            printf("%u,%u,%u,%llu,%llu,%llu\n", pair->process, pair->source, pair->destination,
                   (unsigned long long)pair->messages, (unsigned long long)pair->bytes,
                   (unsigned long long)pair->invalidations);
    return fflush(stdout) || failed;
}
