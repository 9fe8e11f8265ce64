/* The list of modules (modules.h). */
#include "modules.h"
#include "part.h"
#include "system.h"
#include "drmgr.h"

/* Modules of which addresses are recognised at once; of later ones they are not, which only shortens call stacks. */
#define MAX_RANGES 1024

static struct {
    uint64_t start;
    uint64_t end;
} ranges[MAX_RANGES];
static uint32_t range_count;
static int lock;
static void (*on_load)(const module_data_t *module);

static void
list(const module_data_t *module)
{
    uint64_t at = part_alloc(sizeof(cohabit_module_t));
    if (at == 0)
        return;
    cohabit_module_t *entry = part_at(at);
    entry->start = (uint64_t)(ptr_uint_t)module->start;
    entry->end = (uint64_t)(ptr_uint_t)module->end;
    entry->preferred = (uint64_t)(ptr_uint_t)module->preferred_base;
    dr_snprintf(entry->path, sizeof(entry->path) - 1, "%s", module->full_path == NULL ? "" : module->full_path);
    system_lock(&lock);
    entry->next = part()->modules;
    __atomic_store_n(&part()->modules, at, __ATOMIC_RELEASE);
    system_unlock(&lock);
}

static void
event_load(void *drcontext, const module_data_t *module, bool loaded)
{
    (void)drcontext, (void)loaded;
    list(module);
    system_lock(&lock);
    uint32_t i = 0;
    while (i < range_count && ranges[i].end != 0)
        i++;
    if (i < MAX_RANGES) {
        ranges[i].start = (uint64_t)(ptr_uint_t)module->start;
        __atomic_store_n(&ranges[i].end, (uint64_t)(ptr_uint_t)module->end, __ATOMIC_RELEASE);
        if (i == range_count)
            __atomic_store_n(&range_count, i + 1, __ATOMIC_RELEASE);
    }
    system_unlock(&lock);
    if (on_load != NULL)
        on_load(module);
}

static void
event_unload(void *drcontext, const module_data_t *module)
{
    (void)drcontext;
    uint64_t start = (uint64_t)(ptr_uint_t)module->start;
    system_lock(&lock);
    for (uint64_t at = part()->modules; at != 0;) {
        cohabit_module_t *entry = part_at(at);
        if (entry->start == start)
            entry->unloaded = 1;
        at = entry->next;
    }
    for (uint32_t i = 0; i < range_count; i++) {
        if (ranges[i].start == start)
            __atomic_store_n(&ranges[i].end, 0, __ATOMIC_RELEASE);
    }
    system_unlock(&lock);
}

bool
modules_init(void (*loaded)(const module_data_t *module))
{
    on_load = loaded;
    return drmgr_register_module_load_event(event_load) && drmgr_register_module_unload_event(event_unload);
}

void
modules_fork(void)
{
    lock = 0;
    dr_module_iterator_t *modules = dr_module_iterator_start();
    while (dr_module_iterator_hasnext(modules)) {
        module_data_t *module = dr_module_iterator_next(modules);
        list(module);
        dr_free_module_data(module);
    }
    dr_module_iterator_stop(modules);
}

void
modules_exit(void)
{
    drmgr_unregister_module_load_event(event_load);
    drmgr_unregister_module_unload_event(event_unload);
}

bool
modules_contain(uint64_t address)
{
    for (uint32_t i = 0; i < __atomic_load_n(&range_count, __ATOMIC_ACQUIRE); i++) {
        if (address >= ranges[i].start && address < __atomic_load_n(&ranges[i].end, __ATOMIC_ACQUIRE))
            return true;
    }
    return false;
}
