/* Pages that a SIGSEGV handler makes writable when they are written to, as a garbage collector's write barrier does:
 * threads fault on the same page at the same time, and the one whose fault is looked at last finds it writable. Each
 * counts in blocks of its own; thread 0 reads all of them at the end. */
#include "probe.h"

#include <signal.h>
#include <sys/mman.h>

#define PAGE 4096u
#define PAGES 64u
#define THREADS 3u
#define ROUNDS 60u
#define SWEEPS 3u

static unsigned char *data;

static void make_writable(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
    if (mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE) != 0)
        probe_die("mprotect in the handler");
}

static void body(unsigned thread)
{
    unsigned char *begin = data + thread * BLOCK, *end = begin + PAGES * PAGE;
    for (unsigned round = 0; round < ROUNDS; round++) {
        probe_barrier();
        if (thread == 0 && mprotect(data, PAGES * PAGE, PROT_READ) != 0)
            probe_die("mprotect");
        probe_barrier();
        for (unsigned sweep = 0; sweep < SWEEPS; sweep++)
            for (unsigned char *at = begin; at != end; at += PAGE)
                ++*(uint64_t *)at;
    }
    probe_barrier();
    bool right = true;
    for (unsigned other = 0; thread == 0 && other < THREADS; other++)
        for (unsigned page = 0; page < PAGES; page++)
            right &= load8(data + page * PAGE + other * BLOCK) == ROUNDS * SWEEPS;
    probe_check(right, "no count was lost");
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = make_writable, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, &action, NULL) != 0)
        probe_die("sigaction");
    data = probe_data(PAGES * PAGE / BLOCK);
    probe_threads(THREADS, body);
    for (unsigned other = 1; other < THREADS; other++)
        probe_expect(other, 0, PAGES, PAGES * 8, 0);
    return probe_finish("write_barrier");
}
