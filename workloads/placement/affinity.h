/* What the placement programs print: a task and the PUs it may run on as it sees them itself, `3 0,4`. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline cpu_set_t own_affinity(void) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) abort();
  return mask;
}

/* One write a line: those of several processes do not mix. */
static inline void print_affinity(int task, const cpu_set_t *mask) {
  char line[8192];
  int at = snprintf(line, sizeof line, "%d ", task);
  for (int pu = 0, first = 1; pu < CPU_SETSIZE; pu++)
    if (CPU_ISSET(pu, mask)) {
      at += snprintf(line + at, sizeof line - at, "%s%d", first ? "" : ",", pu);
      first = 0;
    }
  line[at++] = '\n';
  if (write(STDOUT_FILENO, line, at) != at) abort();
}
