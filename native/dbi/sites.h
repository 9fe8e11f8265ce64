/* The places in the program that write or read a followed block: a short list, the busiest kept (after the
 * space-saving algorithm of Metwally, Agrawal and El Abbadi, without its overestimates). */
#ifndef COHABIT_SITES_H
#define COHABIT_SITES_H

#include "part.h"

/* Sites are known by their place in the list + 1. */
#define SITE_NONE 0u
/* A site that the list had no room for. */
#define SITE_OTHER (COHABIT_HOT_SITES + 1u)

/* The site of the access under way, made where there is room for it; the task is noted there. */
uint32_t sites_find(cohabit_hot_site_t *sites, const task_t *me);

/* One more event at a site. */
void sites_event(cohabit_hot_site_t *sites, uint32_t site);

#endif
