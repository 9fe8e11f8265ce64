/* Transfers: a message shared out among all that hold the value when it is read, the writer and those that have read it
 * before. So readers that are together are worth something: the second finds the value where the first has brought it.
 */
#ifndef COHABIT_TRANSFERS_H
#define COHABIT_TRANSFERS_H

#include "part.h"

typedef struct {
    task_t *me;
    uint32_t first_partner; /* the partner that task 0 is */
    int32_t sign;
    uint32_t holders;
} transfers_t;

static inline transfers_t
transfers_of(task_t *me, uint32_t first_partner, int32_t sign)
{
    return (transfers_t){ me, first_partner, sign, 1 };
}

/* One more holder beside the writer: all of them first. */
static inline void
transfers_holder(void *transfers, uint32_t reader)
{
    (void)reader;
    ((transfers_t *)transfers)->holders++;
}

/* A holder's part. */
static inline void
transfers_add(void *transfers, uint32_t holder)
{
    const transfers_t *of = transfers;
    cohabit_cell_t *cell = part_cell(of->me, of->first_partner + holder);
    uint64_t parts = COHABIT_TRANSFER_PARTS / of->holders;
    if (cell != NULL)
        cell->transfers += of->sign < 0 ? -parts : parts;
}

#endif
