/* rank: prints its affinity under the number that the launcher gave it in its environment; no MPI library. */
#include "affinity.h"

int main(void) {
  const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i]) != NULL) {
      cpu_set_t mask = own_affinity();
      print_affinity(atoi(getenv(names[i])), &mask);
      return 0;
    }
  fputs("no launcher has numbered this process\n", stderr);
  return 1;
}
