/* General registers and arithmetic flags stay what they were across loads and stores that communicate: carries that
 * wait for the next addition, comparisons decided several accesses later, counts in rcx, a full set of registers. How
 * much its threads communicate depends on their timing: no matrix is stated. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define LIMBS 64
#define ROUNDS 200

static unsigned char *data; /* lines 0-7 the numbers' first, 8-15 their second, 16-23 the sum */
/* Named in assembly, where the compiler does not look. */
static uint64_t before[16] __attribute__((aligned(64), used)), after[16] __attribute__((aligned(64), used));

static uint64_t *number(unsigned which)
{
    return (uint64_t *)(data + which * 8 * BLOCK);
}

static uint64_t limb(unsigned round, unsigned i)
{
    uint64_t z = (round * 64 + i + 1) * 0x9e3779b97f4a7c15u;
    /* Many limbs of ones, so that carries travel far. */
    return z >> 62 ? UINT64_MAX : z;
}

/* sum = a + b, 64 limbs: the carry lives in the flags across every load, store and count. */
static unsigned add_limbs(uint64_t *sum, const uint64_t *a, const uint64_t *b)
{
    uint64_t count = LIMBS, at = 0, scratch;
    unsigned char carry;
    __asm__ volatile("clc\n"
                     "1:\n\t"
                     "movq (%[a],%[at],8), %[scratch]\n\t"
                     "adcq (%[b],%[at],8), %[scratch]\n\t"
                     "movq %[scratch], (%[sum],%[at],8)\n\t"
                     "leaq 1(%[at]), %[at]\n\t"
                     "leaq -1(%%rcx), %%rcx\n\t"
                     "jrcxz 2f\n\t"
                     "jmp 1b\n"
                     "2:\n\tsetc %[carry]"
                     : [at] "+r"(at), "+c"(count), [scratch] "=&r"(scratch), [carry] "=&q"(carry)
                     : [sum] "r"(sum), [a] "r"(a), [b] "r"(b)
                     : "memory", "cc");
    return carry;
}

static unsigned add_limbs_slowly(uint64_t *sum, unsigned round)
{
    unsigned carry = 0;
    for (unsigned i = 0; i < LIMBS; i++) {
        unsigned __int128 wide = (unsigned __int128)limb(round, i) + limb(round + 1, i) + carry;
        sum[i] = (uint64_t)wide;
        carry = (unsigned)(wide >> 64);
    }
    return carry;
}

/* All six arithmetic flags set or clear as `flags` says, kept across loads and stores, read by lahf and seto. */
static uint16_t keep_flags(uint8_t flags, uint8_t overflow, unsigned char *line)
{
    uint64_t result = flags;
    __asm__ volatile("movb %b[result], %%ah\n\t"
                     "movb %[overflow], %%al\n\t"
                     "addb $0x7f, %%al\n\t" /* sets OF when al was not 0 */
                     "sahf\n\t"             /* sets the other five, leaves OF */
                     "movq (%[line]), %%rcx\n\t"
                     "movq %%rcx, 64(%[line])\n\t"
                     "movzbl 128(%[line]), %%ecx\n\t"
                     "movq %%rcx, 192(%[line])\n\t"
                     "lahf\n\t"
                     "seto %%al\n\t"
                     "movzwl %%ax, %k[result]"
                     : [result] "+&Q"(result) /* ah goes with registers that have a byte name of old */
                     : [overflow] "r"(overflow), [line] "r"(line)
                     : "rax", "rcx", "memory", "cc");
    return (uint16_t)result;
}

/* A comparison made, then loads and stores, then the jump it decides. */
static bool less_after_accesses(int64_t a, int64_t b, unsigned char *line)
{
    unsigned char less;
    __asm__ volatile("cmpq %[b], %[a]\n\t"
                     "movq (%[line]), %%rcx\n\t"
                     "movq %%rcx, 256(%[line])\n\t"
                     "movq 320(%[line]), %%rdx\n\t"
                     "movq %%rdx, (%[line])\n\t"
                     "jl 1f\n\tmovb $0, %[less]\n\tjmp 2f\n1:\tmovb $1, %[less]\n2:"
                     : [less] "=&q"(less)
                     : [a] "r"(a), [b] "r"(b), [line] "r"(line)
                     : "rcx", "rdx", "memory", "cc");
    return less;
}

#define EACH(M)                                                                                                        \
    M("rax", 0) M("rbx", 1) M("rcx", 2) M("rdx", 3) M("rsi", 4) M("rdi", 5) M("rbp", 6) M("r8", 7) M("r9", 8)          \
    M("r10", 9) M("r11", 10) M("r12", 11) M("r13", 12) M("r14", 13) M("r15", 14)
#define FETCH(name, slot) "movq before+8*" #slot "(%%rip), %%" name "\n\t"
#define KEEP(name, slot) "movq %%" name ", after+8*" #slot "(%%rip)\n\t"

/* Fills every register but rsp, then loads and stores through three of them and lets the others lie. */
__attribute__((noinline)) static void keep_registers(void)
{
    __asm__ volatile("addq $-128, %%rsp\n\tpushq %%rbx\n\tpushq %%rbp\n\t" EACH(FETCH)
                     /* rdi, r8 and r13 point into the data; see fill_registers. */
                     "movups (%%rdi), %%xmm0\n\t"
                     "movups %%xmm0, 64(%%r8)\n\t"
                     "movups 128(%%r13), %%xmm0\n\t"
                     "movups %%xmm0, 192(%%rdi)\n\t"
                     "addq $0, 256(%%r8)\n\t"
                     "jmp 1f\n1:\t"
                     "movups 320(%%r13), %%xmm0\n\t" EACH(KEEP) "popq %%rbp\n\tpopq %%rbx\n\tsubq $-128, %%rsp"
                     :
                     :
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
                       "memory", "cc");
}

static void fill_registers(unsigned round)
{
    for (unsigned slot = 0; slot < 15; slot++)
        before[slot] = limb(round, slot);
    before[5] = before[7] = before[12] = (uint64_t)(data + 32 * BLOCK);
}

/* Another thread keeps the lines changing hands, so that the accesses above take every path there is. */
static void disturb(void)
{
    for (unsigned i = 0; i < ROUNDS * LIMBS; i++) {
        unsigned char *line = data + (24 + i % 24) * BLOCK;
        store8(line + 32, load8(line + 40) + i);
    }
}

static void compute(void)
{
    uint64_t right[LIMBS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < LIMBS; i++) {
            number(0)[i] = limb(round, i);
            number(1)[i] = limb(round + 1, i);
        }
        unsigned carry = add_limbs(number(2), number(0), number(1));
        probe_check(carry == add_limbs_slowly(right, round), "the last carry");
        probe_check(memcmp(number(2), right, sizeof right) == 0, "a sum of 64 limbs");
        uint8_t flags = (uint8_t)((limb(round, 0) & 0xd5) | 2);
        unsigned char *lines = data + 24 * BLOCK;
        probe_check(keep_flags(flags, round & 1, lines) == (flags << 8 | (round & 1)), "arithmetic flags");
        int64_t a = (int64_t)limb(round, 1), b = (int64_t)limb(round, 2);
        probe_check(less_after_accesses(a, b, lines) == (a < b), "a comparison");
        fill_registers(round);
        keep_registers();
        probe_check(memcmp(before, after, 15 * 8) == 0, "general registers");
    }
}

static void body(unsigned thread)
{
    if (thread == 0)
        compute();
    else
        disturb();
}

int main(void)
{
    data = probe_data(64);
    probe_threads(3, body);
    printf("# %s\n", probe_failed() ? "wrong" : "ok");
    return probe_failed();
}
