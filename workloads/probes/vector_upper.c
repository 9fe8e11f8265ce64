/* Vector registers keep their upper parts across legacy SSE code, whatever comes in between: calls, system calls,
 * signals, thread switches, freshly written code, loads and stores that communicate. Legacy SSE instructions leave the
 * upper parts alone by definition, so a profiler that clears them for speed must know they are clear already. How much
 * its threads communicate depends on their timing: no matrix is stated. */
#include "probe.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#define THREADS 4
#define ROUNDS 300
#define WIDE 64      /* bytes of the widest register */
#define REGISTERS 32 /* of AVX-512; AVX has 16 */

static unsigned char *shared; /* lines that all threads load and store meanwhile */
static bool has_avx512;

struct state {
    unsigned char vector[REGISTERS][WIDE];
} __attribute__((aligned(64)));

#define R16(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
#define R32(M)                                                                                                         \
    R16(M) M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31)
#define LOAD_YMM(n) "vmovdqu 64*" #n "(%[in]), %%ymm" #n "\n\t"
#define STORE_YMM(n) "vmovdqu %%ymm" #n ", 64*" #n "(%[out])\n\t"
#define LOAD_ZMM(n) "vmovdqu64 64*" #n "(%[in]), %%zmm" #n "\n\t"
#define STORE_ZMM(n) "vmovdqu64 %%zmm" #n ", 64*" #n "(%[out])\n\t"
/* Legacy SSE on every register that it can name; each in a basic block of its own, since a jump ends one. */
#define LEGACY(n)                                                                                                      \
    "movsd (%[shared]), %%xmm" #n "\n\taddsd 64(%[shared]), %%xmm" #n "\n\tmovaps %%xmm" #n ", %%xmm" #n               \
    "\n\tmovsd %%xmm" #n ", 128(%[own])\n\tjmp 7" #n "f\n\t7" #n ":\n\t"
/* A loop of legacy SSE, a call of fresh code (legacy SSE itself), and two system calls: sched_yield and getppid. */
#define WORK                                                                                                           \
    "movl $20, %%r12d\n\t8:\n\t" R16(LEGACY) "decl %%r12d\n\tjnz 8b\n\t"                                               \
    "call *%[code]\n\t"                                                                                                \
    "movl $24, %%eax\n\tsyscall\n\tmovl $110, %%eax\n\tsyscall\n\t" R16(LEGACY)
#define CLOBBERS "rax", "rcx", "r11", "r12", "memory", "cc"

struct work {
    const struct state *in;
    struct state *out;
    unsigned char *shared, *own;
    void *code;
};

#define OPERANDS(w)                                                                                                    \
    [in] "r"((w)->in), [out] "r"((w)->out), [shared] "r"((w)->shared), [own] "r"((w)->own), [code] "r"((w)->code)

/* The stack below the red zone: the call pushes there. */
#define BELOW_RED_ZONE "addq $-128, %%rsp\n\t"
#define BACK "subq $-128, %%rsp\n\t"

__attribute__((noinline)) static void work_avx(const struct work *work)
{
    __asm__ volatile(BELOW_RED_ZONE R16(LOAD_YMM) WORK R16(STORE_YMM) "vzeroupper\n\t" BACK
                     :
                     : OPERANDS(work)
                     : CLOBBERS);
}

__attribute__((noinline)) static void work_avx512(const struct work *work)
{
    __asm__ volatile(BELOW_RED_ZONE "movl $0x5a5a, %%eax\n\tkmovw %%eax, %%k1\n\tnotl %%eax\n\tkmovw %%eax, %%k7\n\t" R32(
                         LOAD_ZMM) WORK R32(STORE_ZMM)
                     /* Mask registers go where the lower part of register 0 was, which is not compared. */
                     "kmovw %%k1, %%eax\n\tmovl %%eax, (%[out])\n\tkmovw %%k7, %%eax\n\tmovl %%eax, 4(%[out])\n\t"
                     "vzeroupper\n\t" BACK
                     :
                     : OPERANDS(work)
                     : CLOBBERS);
}

/* Writes `movabs $address, %rax; movsd (%rax), %xmm3; addsd %xmm3, %xmm4; ret`, legacy SSE, with NOPs in front whose
 * number changes with `round`, so that many rounds run code never seen before. */
enum { VARIANTS = 64 };
static void emit(unsigned char *code, unsigned round, const unsigned char *address)
{
    static const unsigned char load[] = {0xf2, 0x0f, 0x10, 0x18, 0xf2, 0x0f, 0x58, 0xe3, 0xc3};
    unsigned pad = round % VARIANTS;
    memset(code, 0x90, pad);
    code[pad] = 0x48, code[pad + 1] = 0xb8; /* movabs address, %rax */
    memcpy(code + pad + 2, &address, sizeof address);
    memcpy(code + pad + 10, load, sizeof load);
}

/* Disturbs all vector registers; the kernel puts the interrupted ones back. */
__attribute__((target("avx"))) static void handler(int signal)
{
    (void)signal;
    __asm__ volatile("vxorps %%ymm0, %%ymm0, %%ymm0\n\tvmovaps %%ymm0, %%ymm5\n\tvmovaps %%ymm0, %%ymm15\n\tvzeroall"
                     :
                     :
                     : "memory");
    store8(shared + 2 * BLOCK, load8(shared + 2 * BLOCK) + 1);
}

static void compare(const struct state *in, const struct state *out, unsigned thread, bool wide)
{
    for (unsigned number = 0; number < (wide ? REGISTERS : 16u); number++) {
        /* Legacy SSE changes the lower 16 bytes of the first 16 registers. */
        size_t from = number < 16 ? 16 : 0, to = wide ? WIDE : 32;
        if (memcmp(in->vector[number] + from, out->vector[number] + from, to - from) != 0) {
            char what[80];
            snprintf(what, sizeof what, "upper part of %cmm%u in thread %u", wide ? 'z' : 'y', number, thread);
            probe_check(false, what);
        }
    }
}

static void body(unsigned thread)
{
    struct state in, out;
    /* All variants are written first, and executable then: rewriting code is another probe's business (jit). */
    unsigned char *code = mmap(NULL, VARIANTS * 128, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        probe_die("memory");
    for (unsigned variant = 0; variant < VARIANTS; variant++)
        emit(code + variant * 128, variant, shared);
    if (mprotect(code, VARIANTS * 128, PROT_READ | PROT_EXEC))
        probe_skip("memory that was written may not be made executable here");
    struct work work = {&in, &out, shared, shared + (4 + 4 * thread) * BLOCK, code};
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool wide = has_avx512 && round % 2;
        for (size_t i = 0; i < sizeof in; i++)
            ((unsigned char *)&in)[i] = (unsigned char)(i * 7 + round * 13 + thread * 31 + 1);
        work.code = code + round % VARIANTS * 128;
        store8(shared, 0x3ff0000000000000 + round);
        if (wide) {
            uint32_t masks[2];
            work_avx512(&work);
            memcpy(masks, &out, sizeof masks);
            probe_check(masks[0] == 0x5a5a && masks[1] == 0xa5a5, "mask registers");
        } else {
            work_avx(&work);
        }
        compare(&in, &out, thread, wide);
    }
    munmap(code, VARIANTS * 128);
}

int main(void)
{
    if (!__builtin_cpu_supports("avx"))
        probe_skip("this processor has no AVX");
    has_avx512 = __builtin_cpu_supports("avx512f");
    if (posix_memalign((void **)&shared, 4096, 4096))
        probe_die("memory");
    memset(shared, 0, 4096);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
        probe_die("setitimer");
    probe_threads(THREADS, body);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("# %s, vector registers %s\n", probe_failed() ? "wrong" : "ok", has_avx512 ? "ymm and zmm" : "ymm");
    return probe_failed();
}
