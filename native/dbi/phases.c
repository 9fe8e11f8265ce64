/* Noting phases (phases.h). */
#include "phases.h"
#include "part.h"
#include "system.h"
#include "ticks.h"

void
phases_note(uint64_t number)
{
    static int lock;
    uint64_t now = ticks_now();
    cohabit_part_t *head = part();
    uint64_t at = head->phase_count < COHABIT_MAX_PHASES ? part_alloc(sizeof(cohabit_phase_t)) : 0;
    system_lock(&lock);
    head->phase_count++;
    if (at != 0) {
        cohabit_phase_t *phase = part_at(at);
        *phase = (cohabit_phase_t) { head->phases, number, now };
        __atomic_store_n(&head->phases, at, __ATOMIC_RELEASE);
    }
    system_unlock(&lock);
}
