/* Cuts a basic block into segments and says what each leaves in the recording (recording_abi.h). */
#ifndef COHABIT_RECORDER_PLAN_H
#define COHABIT_RECORDER_PLAN_H

#include "recorder.h"
#include "values.h"

/* Accesses of one segment, at most; a longer one is cut. */
#define SEGMENT_ACCESSES 256u
/* Bytes of code that are kept of one: those of a basic block of DynamoRIO's usual size. */
#define SEGMENT_CODE 4096u

typedef struct {
    instr_t *where; /* its address is left before this instruction */
    opnd_t operand;
    uint32_t number; /* within its segment */
} anchor_t;

typedef struct {
    instr_t *first; /* the segment is begun before this instruction */
    uint32_t number;
    uint32_t accesses;
    uint32_t anchor_count;
    anchor_t *anchors;
} planned_segment_t;

typedef struct {
    uint32_t count;
    uint32_t capacity;
    planned_segment_t *segments;
} recorder_plan_t;

typedef struct {
    void *drcontext;
    recorder_plan_t *plan;
    cohabit_segment_t segment;
    instr_t *first; /* of the segment under way; NULL: none is */
    uint32_t instructions; /* since the last access */
    bool code_ends; /* there was no room, or the code could not be read: no more of it is kept */
    uint8_t code[SEGMENT_CODE + COHABIT_RECORDING_ALIGN];
    cohabit_recorded_access_t accesses[SEGMENT_ACCESSES];
    anchor_t anchors[SEGMENT_ACCESSES];
    address_t addresses[SEGMENT_ACCESSES]; /* of the anchors */
} recorder_planner_t;

/* Begins with a block. */
recorder_planner_t *recorder_plan_begin(void *drcontext);
/* The next instruction of the program; `apart`: what it accesses is recorded by the run. */
void recorder_plan_instr(recorder_planner_t *planner, instr_t *instr, bool apart);
/* One of its accesses. Its number within the segment. */
uint32_t recorder_plan_access(recorder_planner_t *planner, instr_t *instr, opnd_t operand, const address_t *address,
                              uint32_t bytes, uint32_t kind, bool atomic);
/* Ends with the block. */
recorder_plan_t *recorder_plan_end(recorder_planner_t *planner);
void recorder_plan_free(void *drcontext, recorder_plan_t *plan);

#endif
