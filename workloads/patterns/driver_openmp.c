/* The patterns on OpenMP. In libgomp and libomp the caller is thread 0 and the others are created in the order of their
 * numbers, as long as OMP_PROC_BIND and OMP_PLACES are left alone. */
#include "run.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>

const char driver_name[] = "openmp";

void driver_run(unsigned count, void (*body)(unsigned thread))
{
    omp_set_dynamic(0);
#pragma omp parallel num_threads((int)count)
    {
        if ((unsigned)omp_get_num_threads() != count) {
#pragma omp single
            {
                fprintf(stderr, "%s: OpenMP gave %d threads of %u: see OMP_THREAD_LIMIT\n",
                        program_invocation_short_name, omp_get_num_threads(), count);
                exit(1);
            }
        }
        body((unsigned)omp_get_thread_num());
    }
}

void driver_barrier(void)
{
#pragma omp barrier
}
