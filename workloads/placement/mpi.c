/* mpi [N]: each rank prints its affinity as it is after MPI_Init; with N threads a rank, each thread prints its own,
 * under the number rank * N + thread. */
#include "affinity.h"
#include <mpi.h>
#include <pthread.h>

static cpu_set_t seen[64];
static pthread_barrier_t all;

static void *body(void *index) {
  pthread_barrier_wait(&all);
  *(cpu_set_t *)index = own_affinity();
  pthread_barrier_wait(&all);
  return NULL;
}

int main(int argc, char **argv) {
  int rank, count = argc > 1 ? atoi(argv[1]) : 1, level;
  pthread_t threads[64];
  if (count < 1 || count > 64) return 2;
  /* With threads Open MPI uses CMPXCHG16B, which the emulated machine of the tests does not have. */
  if (count > 1)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  else
    MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pthread_barrier_init(&all, NULL, (unsigned)count);
  for (int i = 1; i < count; i++)
    if (pthread_create(&threads[i], NULL, body, &seen[i]) != 0) return 3;
  body(&seen[0]);
  for (int i = 0; i < count; i++) print_affinity(rank * count + i, &seen[i]);
  MPI_Finalize();
  for (int i = 1; i < count; i++) pthread_join(threads[i], NULL);
  return 0;
}
