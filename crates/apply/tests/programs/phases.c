/* FILE N PHASE...: N threads with the main one, which announces these phases one after the other. In each, once it has
 * been carried out, every thread looks at itself: lines "PLACE:THREAD", PLACE being which of the phases it is. */
#include "record.h"
#include <cohabit.h>

static pthread_barrier_t begins, ends;
static struct seen seen[64];
static int phases;

static void *body(void *index) {
  for (int phase = 0; phase < phases; phase++) {
    pthread_barrier_wait(&begins);
    *(struct seen *)index = see();
    pthread_barrier_wait(&ends);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int count = argc > 2 ? atoi(argv[2]) : 0;
  pthread_t threads[64];
  char label[64];
  if (count < 1 || count > 64) return 2;
  phases = argc - 3;
  pthread_barrier_init(&begins, NULL, count);
  pthread_barrier_init(&ends, NULL, count);
  for (int i = 1; i < count; i++)
    if (pthread_create(&threads[i], NULL, body, &seen[i]) != 0) return 3;
  const uint64_t *words = cohabit_phases_open_();
  for (int phase = 0; phase < phases; phase++) {
    cohabit_phase(strtoull(argv[3 + phase], NULL, 10));
    for (int ms = 0; words != MAP_FAILED && __atomic_load_n(&words[2], __ATOMIC_ACQUIRE) != words[0]; ms++) {
      if (ms == 60000) return 4;
      usleep(1000);
    }
    pthread_barrier_wait(&begins);
    seen[0] = see();
    pthread_barrier_wait(&ends);
    for (int i = 0; i < count; i++) {
      snprintf(label, sizeof label, "%d:%d", phase, i);
      write_line(argv[1], label, seen[i]);
    }
  }
  for (int i = 1; i < count; i++) pthread_join(threads[i], NULL);
  return 0;
}
