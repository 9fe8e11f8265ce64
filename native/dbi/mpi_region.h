/* What an MPI program does between MPI_Init and MPI_Finalize as the region of interest: it begins where the one returns
 * to its caller, and ends where the other is called. The functions are found by the names that libraries export. */
#ifndef COHABIT_MPI_REGION_H
#define COHABIT_MPI_REGION_H

#include "dr_api.h"

/* Looks for the functions in a module. */
void mpi_region_loaded(const module_data_t *module);
/* At the begin of a block: what is to be done there, if anything. */
void mpi_region_insert(void *drcontext, void *tag, instrlist_t *block, instr_t *first);

#endif
