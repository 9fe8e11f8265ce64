/* FILE: creates one thread, and waits until it has its PU. That thread then creates another and a process: both begin
 * with
   the affinity that the main thread began with. One more pins itself and keeps that. Nothing here depends on how long anything
   takes. With a second argument those that come late wait for their affinity: nobody traces. */
#include "record.h"

static cpu_set_t original;
static const char *file;

static int waits;
static pthread_barrier_t placed, pinned, looked;

/* Waits, for 20 s at most, until the calling thread's affinity is as wide as asked. */
static struct seen wait_until(int wide) {
  struct seen seen = see();
  int wanted = wide ? CPU_COUNT(&original) : 1;
  for (int ms = 0; ms < 20000 && CPU_COUNT(&seen.mask) != wanted; ms++) {
    usleep(1000);
    seen = see();
  }
  return seen;
}

static void *late(void *unused) {
  (void)unused;
  write_line(file, "late", waits ? wait_until(1) : see());
  return NULL;
}

static void *planned(void *unused) {
  (void)unused;
  write_line(file, "planned", see());
  wait_until(0);
  pthread_barrier_wait(&placed);
  pthread_barrier_wait(&pinned);
  pthread_t thread;
  pthread_create(&thread, NULL, late, NULL);
  pthread_join(thread, NULL);
  if (fork() == 0) {
    write_line(file, "forked", waits ? wait_until(1) : see());
    _exit(0);
  }
  wait(NULL);
  pthread_barrier_wait(&looked);
  return NULL;
}

static void *own(void *unused) {
  (void)unused;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int pu = 0; pu < CPU_SETSIZE; pu++)
    if (CPU_ISSET(pu, &original)) {
      CPU_SET(pu, &mine);
      break;
    }
  sched_setaffinity(0, sizeof mine, &mine);
  pthread_barrier_wait(&pinned);
  pthread_barrier_wait(&looked);
  write_line(file, "own", see());
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  file = argv[1];
  waits = argc > 2;
  original = see().mask;
  pthread_barrier_init(&placed, NULL, 2);
  pthread_barrier_init(&pinned, NULL, 3);
  pthread_barrier_init(&looked, NULL, 3);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, planned, NULL);
  pthread_barrier_wait(&placed);
  write_line(file, "main", wait_until(0));
  pthread_create(&threads[1], NULL, own, NULL);
  /* The main thread takes back what was set. */
  sched_setaffinity(0, sizeof original, &original);
  pthread_barrier_wait(&pinned);
  pthread_barrier_wait(&looked);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
