/* The patterns on POSIX threads. */
#include "run.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Enough for the loops here and for a profiler's signal frames, and little enough for thousands of threads. */
#define STACK_BYTES (128u << 10)

const char driver_name[] = "pthreads";

static pthread_barrier_t barrier;
static void (*thread_body)(unsigned);

static void check(int status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(status));
        exit(1);
    }
}

static void *start(void *number)
{
    thread_body((unsigned)(uintptr_t)number);
    return NULL;
}

void driver_run(unsigned count, void (*body)(unsigned thread))
{
    pthread_attr_t attributes;
    pthread_t *threads = calloc(count, sizeof *threads);
    check(threads ? 0 : ENOMEM, "threads");
    check(pthread_attr_init(&attributes), "pthread_attr_init");
    check(pthread_attr_setstacksize(&attributes, STACK_BYTES), "pthread_attr_setstacksize");
    check(pthread_barrier_init(&barrier, NULL, count), "pthread_barrier_init");
    thread_body = body;
    for (unsigned thread = 1; thread < count; thread++)
        check(pthread_create(&threads[thread], &attributes, start, (void *)(uintptr_t)thread), "pthread_create");
    body(0);
    for (unsigned thread = 1; thread < count; thread++)
        check(pthread_join(threads[thread], NULL), "pthread_join");
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&barrier);
    free(threads);
}

void driver_barrier(void)
{
    pthread_barrier_wait(&barrier);
}
