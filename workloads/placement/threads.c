/* threads N [wait]: N threads, the main one being 0, print their affinity. With `wait` they look only when standard
 * input ends; "ready" and the process id are written first, so that somebody can pin them meanwhile. */
#include "affinity.h"
#include <pthread.h>
#include <string.h>

static cpu_set_t seen[4096];
static pthread_barrier_t may_look;

static void *body(void *index) {
  pthread_barrier_wait(&may_look);
  *(cpu_set_t *)index = own_affinity();
  return NULL;
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 0;
  int wait = argc > 2 && strcmp(argv[2], "wait") == 0;
  pthread_t threads[4096];
  if (count < 1 || count > 4096) return 2;
  pthread_barrier_init(&may_look, NULL, count);
  for (int i = 1; i < count; i++)
    if (pthread_create(&threads[i], NULL, body, &seen[i]) != 0) return 3;
  if (wait) {
    printf("ready %d\n", getpid());
    fflush(stdout);
    while (getchar() != EOF) {}
  }
  body(&seen[0]);
  for (int i = 1; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < count; i++) print_affinity(i, &seen[i]);
  return 0;
}
