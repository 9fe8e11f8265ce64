/* FILE: creates one thread, waits until nobody traces it any more, then creates another and a process: both see their
   affinity become what the main thread began with. A third pins itself and keeps that. */
#include "record.h"

static cpu_set_t original;
static const char *file;

static int tracer(void) {
  char line[256];
  int pid = -1;
  FILE *in = fopen("/proc/thread-self/status", "r");
  while (fgets(line, sizeof line, in) != NULL)
    if (sscanf(line, "TracerPid: %d", &pid) == 1) break;
  fclose(in);
  return pid;
}

static void *planned(void *unused) {
  (void)unused;
  write_line(file, "planned", see());
  while (tracer() != 0) usleep(1000);
  pause();
  return NULL;
}

static void wait_until_wide(const char *label) {
  struct seen seen = see();
  for (int ms = 0; ms < 20000 && !CPU_EQUAL(&seen.mask, &original); ms++) {
    usleep(1000);
    seen = see();
  }
  write_line(file, label, seen);
}

static void *late(void *unused) {
  (void)unused;
  wait_until_wide("late");
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
  usleep(300000);
  write_line(file, "own", see());
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  file = argv[1];
  original = see().mask;
  pthread_t threads[3];
  pthread_create(&threads[0], NULL, planned, NULL);
  while (tracer() != 0) usleep(1000);
  write_line(file, "untraced", see());
  pthread_create(&threads[1], NULL, late, NULL);
  pthread_join(threads[1], NULL);
  if (fork() == 0) {
    wait_until_wide("forked");
    _exit(0);
  }
  wait(NULL);
  pthread_create(&threads[2], NULL, own, NULL);
  pthread_join(threads[2], NULL);
  /* The main thread takes back what was set. */
  sched_setaffinity(0, sizeof original, &original);
  usleep(50000);
  return 0;
}
