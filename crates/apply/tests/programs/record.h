/* What the test programs share: a thread's affinity and PU as it sees them itself, written as lines of a file. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct seen {
  cpu_set_t mask;
  int cpu;
};

static inline struct seen see(void) {
  struct seen seen;
  seen.cpu = sched_getcpu();
  sched_getaffinity(0, sizeof seen.mask, &seen.mask);
  return seen;
}

/* "label pu[,pu...] cpu" */
static inline void write_line(const char *file, const char *label, struct seen seen) {
  char line[8192];
  int at = snprintf(line, sizeof line, "%s ", label);
  for (int pu = 0, first = 1; pu < CPU_SETSIZE; pu++)
    if (CPU_ISSET(pu, &seen.mask)) {
      at += snprintf(line + at, sizeof line - at, "%s%d", first ? "" : ",", pu);
      first = 0;
    }
  at += snprintf(line + at, sizeof line - at, " %d\n", seen.cpu);
  FILE *out = fopen(file, "a");
  if (out == NULL || fwrite(line, 1, at, out) != (size_t)at || fclose(out) != 0) abort();
}
