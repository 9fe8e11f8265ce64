/* Programs ask for Valgrind by a sequence of instructions that does nothing elsewhere, and run otherwise under it
 * (hwloc, allocators, spin locks): the question must get the answer it gets natively. */
#include "probe.h"

#define RUNNING_ON_VALGRIND 0x1001

static unsigned char *data;

/* A client request as valgrind.h has it on x86-64: rax points to the request, rdx has what it yields elsewhere. */
static uint64_t client_request(uint64_t request, uint64_t elsewhere)
{
    volatile uint64_t arguments[6] = { request };
    uint64_t result = elsewhere;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(arguments)
                     : "cc", "memory");
    return result;
}

static void body(unsigned thread)
{
    if (thread == 0)
        store8(data, client_request(RUNNING_ON_VALGRIND, 7));
    probe_barrier();
    if (thread == 1)
        probe_check(load8(data) == 7, "whether this is Valgrind");
    probe_barrier();
}

int main(void)
{
    data = probe_data(1);
    probe_threads(2, body);
    probe_expect(0, 1, 1, 8, 0);
    return probe_finish("client_request");
}
