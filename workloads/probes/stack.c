/* Communication through a stack: one thread pushes and calls on a stack that another one pops and returns from. */
#include "probe.h"

#define LINES 4

static unsigned char *data;
static unsigned char *top;

/* Pushes 16 words (two lines), then calls: the return address goes to the third line. */
static void push_and_call(void)
{
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %0, %%rsp\n\t"
                     ".rept 16\n\tpushq $7\n\t.endr\n\t"
                     "call 1f\n\t"
                     "1: movq %%rbx, %%rsp"
                     :
                     : "r"(top)
                     : "rbx", "memory");
}

/* Pops what the call pushed, then the words; returns their sum. */
static uint64_t pop(void)
{
    uint64_t sum = 0, address;
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "leaq -136(%[top]), %%rsp\n\t"
                     "popq %[address]\n\t"
                     ".rept 16\n\tpopq %%rcx\n\taddq %%rcx, %[sum]\n\t.endr\n\t"
                     "movq %%rbx, %%rsp"
                     : [sum] "+r"(sum), [address] "=&r"(address)
                     : [top] "r"(top)
                     : "rbx", "rcx", "memory", "cc");
    probe_check(address != 0, "return address popped");
    return sum;
}

/* Writes a return address for the other thread into the fourth line. */
static void leave_return_address(void)
{
    __asm__ volatile("leaq 2f(%%rip), %%rax\n\tmovq %%rax, (%0)\n\tjmp 3f\n\t"
                     "2: movq %%rbx, %%rsp\n\tmovl $1, %%eax\n\tjmp 4f\n\t"
                     "3: xorl %%eax, %%eax\n\t4: testl %%eax, %%eax\n\tjz 5f\n\tjmp *%%rdx\n\t5:"
                     :
                     : "r"(data)
                     : "rax", "memory", "cc");
}

/* Returns to it: `ret` reads the line. rdx says where to go on. */
static void return_through(void)
{
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "leaq 6f(%%rip), %%rdx\n\t"
                     "movq %0, %%rsp\n\t"
                     "ret\n\t"
                     "6:"
                     :
                     : "r"(data)
                     : "rax", "rbx", "rdx", "memory", "cc");
}

static void body(unsigned thread)
{
    if (thread == 0) {
        push_and_call();
        leave_return_address();
    }
    probe_barrier();
    if (thread == 1) {
        probe_check(pop() == 16 * 7, "words popped");
        return_through();
    }
}

int main(void)
{
    data = probe_data(LINES);
    top = data + LINES * BLOCK;
    probe_threads(2, body);
    probe_expect(0, 1, 4, 4 * 8, 0);
    return probe_finish("stack");
}
