/* openmp N: a team of N threads prints the affinity of each, by thread number. */
#include "affinity.h"
#include <omp.h>

static cpu_set_t seen[4096];

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 0;
  if (count < 1 || count > 4096) return 2;
  omp_set_dynamic(0);
#pragma omp parallel num_threads(count)
  seen[omp_get_thread_num()] = own_affinity();
  for (int i = 0; i < count; i++) print_affinity(i, &seen[i]);
  return 0;
}
