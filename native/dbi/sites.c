/* Sites of followed blocks (sites.h). Compiled without vector registers; the block's lock is held. */
#include "sites.h"

static void
note_task(cohabit_hot_site_t *site, uint32_t task)
{
    for (uint32_t i = 0; i < site->task_count; i++) {
        if (site->tasks[i] == task)
            return;
    }
    if (site->task_count < COHABIT_HOT_TASKS)
        site->tasks[site->task_count++] = task;
}

uint32_t
sites_find(cohabit_hot_site_t *sites, const task_t *me)
{
    uint32_t idle = COHABIT_HOT_SITES;
    for (uint32_t i = 0; i < COHABIT_HOT_SITES; i++) {
        if (sites[i].pc == me->pc && (sites[i].task_count != 0 || sites[i].events != 0)) {
            note_task(&sites[i], me->id);
            return i + 1;
        }
        if (sites[i].events == 0 && (idle == COHABIT_HOT_SITES || sites[i].task_count == 0))
            idle = i;
    }
    if (idle == COHABIT_HOT_SITES)
        return SITE_OTHER;
    /* One that never had an event, such as the code that set the block up, makes room. */
    sites[idle].pc = me->pc;
    sites[idle].task_count = 0;
    note_task(&sites[idle], me->id);
    return idle + 1;
}

void
sites_event(cohabit_hot_site_t *sites, uint32_t site)
{
    if (site != SITE_NONE && site != SITE_OTHER)
        sites[site - 1].events++;
}
