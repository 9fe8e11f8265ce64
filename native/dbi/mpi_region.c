/* The region between MPI_Init and MPI_Finalize (mpi_region.h). */
#include "mpi_region.h"
#include "counting.h"
#include "markers.h"
#include "options.h"

/* A tool's library may have functions of these names around those of MPI's. */
#define MAX_FUNCTIONS 32

static struct {
    app_pc at;
    bool ends;
} functions[MAX_FUNCTIONS];
static uint32_t function_count;
static app_pc returns_to; /* where the first call of MPI_Init returns to: in code that has not run before */

static void
add(app_pc at, bool ends)
{
    for (uint32_t i = 0; i < function_count; i++) {
        if (functions[i].at == at)
            return;
    }
    if (at == NULL || function_count == MAX_FUNCTIONS)
        return;
    functions[function_count].at = at;
    functions[function_count].ends = ends;
    __atomic_store_n(&function_count, function_count + 1, __ATOMIC_RELEASE);
}

void
mpi_region_loaded(const module_data_t *module)
{
    static const char *const begin[] = { "MPI_Init", "PMPI_Init", "MPI_Init_thread", "PMPI_Init_thread" };
    static const char *const end[] = { "MPI_Finalize", "PMPI_Finalize" };
    for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
        add((app_pc)dr_get_proc_address(module->handle, begin[i]), false);
    for (size_t i = 0; i < sizeof(end) / sizeof(end[0]); i++)
        add((app_pc)dr_get_proc_address(module->handle, end[i]), true);
}

static void
initializes(void)
{
    if (returns_to != NULL || counting_on())
        return;
    dr_mcontext_t mc = { sizeof(mc), DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    app_pc caller;
    if (dr_safe_read((void *)mc.xsp, sizeof(caller), &caller, NULL))
        __atomic_store_n(&returns_to, caller, __ATOMIC_RELEASE);
}

void
mpi_region_insert(void *drcontext, void *tag, instrlist_t *block, instr_t *first)
{
    if (!options.region_of_mpi)
        return;
    app_pc at = dr_fragment_app_pc(tag);
    if (at == __atomic_load_n(&returns_to, __ATOMIC_ACQUIRE)) {
        marker_insert_region(drcontext, block, first, at, true);
        return;
    }
    for (uint32_t i = 0; i < __atomic_load_n(&function_count, __ATOMIC_ACQUIRE); i++) {
        if (functions[i].at != at)
            continue;
        if (functions[i].ends)
            marker_insert_region(drcontext, block, first, at, false);
        else
            dr_insert_clean_call_ex(drcontext, block, first, (void *)initializes, DR_CLEANCALL_READS_APP_CONTEXT, 0);
        return;
    }
}
