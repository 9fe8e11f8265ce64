/* What to check in a basic block: its memory accesses gathered into spans, each checked once. */
#ifndef COHABIT_PLAN_H
#define COHABIT_PLAN_H

#include "groups.h"
#include "loops.h"
#include "recorder_plan.h"
#include "dr_api.h"

/* Accesses that one check before the first of them covers: at most one block long, so in at most two blocks. */
typedef struct {
    instr_t *where;  /* the check goes before this instruction */
    opnd_t operand;  /* memory operand of the first access */
    int32_t delta;   /* from the operand's address to the span's first byte */
    uint32_t bytes;  /* of the whole span */
    bool alone;      /* it is one access, not several */
    bool writes;     /* the check asks "is the word exactly mine?", else "is my bit set?" */
    uint32_t group;  /* its pieces, for the slow path: number in groups.h */
    int32_t next;    /* span that is checked together with this one; -1: none */
    bool follows;    /* it is checked together with an earlier one */
    bool always;     /* no question is asked: it always goes to the slow path */
} span_t;

/* Spans that one check can stand for, at most. */
#define MAX_BUNDLE 4

/* What the iterations of an unrolled loop touch through one address, checked before them. */
typedef struct {
    address_t address; /* in the first iteration; its roots are the registers as the iteration finds them */
    int64_t stride;    /* what it moves by an iteration */
    int64_t low;       /* the bytes touched, [low, high) from the address of the registers */
    int64_t high;
    bool writes;
} ahead_t;

#define MAX_AHEAD 12

typedef struct {
    uint32_t loads;
    uint32_t stores;
    uint32_t bytes;
    bool spins; /* the loads are those of a loop that waits (spins.h) */
    uint32_t instructions; /* of the program; a repeated string instruction is one */
    uint32_t span_count;
    span_t *spans;
    bool unrolled;        /* a loop, of which the counts above are one iteration's (loops.h) */
    uint32_t ahead_count;
    ahead_t ahead[MAX_AHEAD];
    recorder_plan_t *recording; /* NULL: nothing is recorded */
} plan_t;

/* Memory accesses of an instruction that only a call at run time can tell: string instructions with a repeat prefix,
 * masked vectors, state save areas. */
bool plan_is_special(instr_t *instr);

/* A bit test whose bit may lie far from its operand. */
bool plan_is_far_bit(instr_t *instr);

/* Whether the instruction touches memory in a way that counts (not a prefetch, a cache flush or an address no
 * access). */
bool plan_counts(instr_t *instr);

/* Whether accesses must not move across the instruction: it is atomic or a fence. */
bool plan_orders_memory(instr_t *instr);

/* Plans the checks of a block. Free with plan_destroy. NULL where there is no memory. */
plan_t *plan_create(void *drcontext, instrlist_t *block);
void plan_destroy(void *drcontext, plan_t *plan);
/* When the task ends. */
void plan_free_scratch(task_t *task);

#endif
