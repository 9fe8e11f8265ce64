/* Codes what tasks do into chunks of the recording (recording_abi.h). */
#ifndef COHABIT_RECORDER_CODE_H
#define COHABIT_RECORDER_CODE_H

#include "recorder.h"

/* An entry of a task's buffer is a word and what follows it. The low bits of the word say what it is; the rest of a
 * segment's is its number, and the addresses of its anchors follow. An event's has its first number, and so many
 * follow. */
#define ENTRY_BITS 8
#define ENTRY_SEGMENT 0u /* else COHABIT_EVENT_... */
#define ENTRY_MAX_WORDS 6u

/* Predictions for one segment as one task runs it. */
typedef struct {
    uint32_t restart; /* number of the restart that they are of */
    uint32_t next;    /* the segment that came after it last */
    struct {
        uint64_t last;
        int64_t stride;
        int64_t candidate; /* the last difference that was not the stride: twice the same becomes the stride */
    } anchors[];
} prediction_t;

typedef struct {
    uint32_t task;
    prediction_t **predictions; /* by segment */
    char *arena;
    uint64_t arena_left;
    prediction_t *previous;
    uint32_t restart;
    uint32_t chunks; /* since the restart */
    uint64_t run;    /* segments as predicted, not yet written */
    uint64_t last_address; /* of an access event */
    uint64_t position;     /* what is coded */
    cohabit_chunk_t *chunk;
    uint8_t *out;
    uint8_t *end;
    bool lost;
} coder_t;

/* What the coder has to know of a segment. */
typedef struct {
    uint16_t anchors;
    uint16_t accesses;
} segment_shape_t;

extern segment_shape_t *recorder_shapes; /* by segment */

/* A new chunk of the file; NULL where there is no room. */
cohabit_chunk_t *recorder_chunk(uint32_t kind, uint32_t task);

bool coder_init(coder_t *coder, uint32_t task);
/* Codes the entries in [from, to), which are whole. */
void coder_take(coder_t *coder, const uint64_t *from, const uint64_t *to);
void coder_free(coder_t *coder);

#endif
