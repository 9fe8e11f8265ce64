/* 4,096 threads in all, up to 32 alive at a time. Each reads what its predecessor wrote, and one line that the main
 * thread wrote at the start and that every one of them, long dead or not, reads for the first time. */
#include "probe.h"

#include <errno.h>
#include <pthread.h>

#define THREADS 4096u
#define ALIVE 32u
#define STACK_BYTES (64u << 10)

static unsigned char *data; /* line t is thread t's; the last one is everybody's */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;
static unsigned turn = 1;

static void *body(void *number)
{
    unsigned thread = (unsigned)(uintptr_t)number;
    pthread_mutex_lock(&mutex);
    while (turn != thread)
        pthread_cond_wait(&next, &mutex);
    pthread_mutex_unlock(&mutex);
    probe_check(load8(data + (thread - 1) * BLOCK) == thread, "the predecessor's line");
    probe_check(load8(data + (THREADS + 1) * BLOCK) == 7, "everybody's line");
    store8(data + thread * BLOCK, thread + 1);
    pthread_mutex_lock(&mutex);
    turn++;
    pthread_cond_broadcast(&next);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void)
{
    pthread_t threads[ALIVE];
    pthread_attr_t attributes;
    data = probe_data(THREADS + 2);
    store8(data, 1);
    store8(data + (THREADS + 1) * BLOCK, 7);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (unsigned thread = 1; thread <= THREADS; thread++) {
        pthread_t *slot = &threads[thread % ALIVE];
        if (thread > ALIVE)
            pthread_join(*slot, NULL);
        if ((errno = pthread_create(slot, &attributes, body, (void *)(uintptr_t)thread)))
            probe_die("pthread_create");
        probe_expect(thread - 1, thread, 1, 8, 0);
        probe_expect(0, thread, 1, 8, 0);
    }
    for (unsigned last = 0; last < ALIVE; last++)
        pthread_join(threads[last], NULL);
    return probe_finish("churn");
}
