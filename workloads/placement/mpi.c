/* mpi: each rank prints its affinity as it is after MPI_Init. */
#include "affinity.h"
#include <mpi.h>

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  cpu_set_t mask = own_affinity();
  print_affinity(rank, &mask);
  MPI_Finalize();
  return 0;
}
