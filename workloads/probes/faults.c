/* Accesses that fault. A load that a SIGSEGV handler repairs happens once, one that it jumps away from never. A store
 * that faults for good never happened: the value remains its old writer's. */
#include "probe.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#define PAGE 4096

static unsigned char *repaired, *refused, *hidden;
static sigjmp_buf escape;

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    unsigned char *address = info->si_addr;
    if ((address >= refused && address < refused + PAGE) || (address >= hidden && address < hidden + PAGE))
        siglongjmp(escape, 1);
    /* Any other address would fault again and again. */
    if (address < repaired || address >= repaired + PAGE || mprotect(repaired, PAGE, PROT_READ))
        probe_die("a fault that was not asked for");
}

static void body(unsigned thread)
{
    if (thread == 0) {
        store8(repaired, 5);
        store8(refused, 5);
        store8(hidden, 5);
        if (mprotect(repaired, PAGE, PROT_NONE) || mprotect(refused, PAGE, PROT_READ) ||
            mprotect(hidden, PAGE, PROT_NONE))
            probe_die("mprotect");
    }
    probe_barrier();
    if (thread == 1) {
        probe_check(load8(repaired) == 5, "a load that was repaired");
        if (sigsetjmp(escape, 1) == 0)
            store8(refused, 6);
        if (sigsetjmp(escape, 1) == 0)
            probe_check(load8(hidden) == 0 && false, "a load that never happened");
    }
    probe_barrier();
    if (thread == 2)
        probe_check(load8(refused) == 5, "a store that never happened");
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    repaired = probe_data(PAGE / BLOCK);
    refused = probe_data(PAGE / BLOCK);
    hidden = probe_data(PAGE / BLOCK);
    if (sigaction(SIGSEGV, &action, NULL))
        probe_die("sigaction");
    probe_threads(3, body);
    probe_expect(0, 1, 1, 8, 0);
    probe_expect(0, 2, 1, 8, 0);
    return probe_finish("faults");
}
