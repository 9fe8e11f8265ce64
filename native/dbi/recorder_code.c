/* Coding (recorder_code.h). Compiled without vector registers. */
#include "recorder_code.h"
#include "system.h"

#define ARENA_BYTES (256u << 10)
#define NO_SEGMENT 0xffffffffu

static prediction_t *
new_prediction(coder_t *coder, uint32_t anchors)
{
    uint64_t bytes = sizeof(prediction_t) + anchors * sizeof(((prediction_t *)0)->anchors[0]);
    if (bytes > coder->arena_left) {
        char *arena = system_map_private(ARENA_BYTES);
        if (arena == NULL)
            return NULL;
        *(char **)arena = coder->arena; /* of the one before, for coder_free */
        coder->arena = arena;
        coder->arena_left = ARENA_BYTES - sizeof(char *);
    }
    prediction_t *made = (prediction_t *)(coder->arena + ARENA_BYTES - coder->arena_left);
    coder->arena_left -= (bytes + 7) & ~7ull;
    return made;
}

static prediction_t *
prediction_of(coder_t *coder, uint32_t segment, uint32_t anchors)
{
    prediction_t *found = coder->predictions[segment];
    if (found == NULL) {
        found = coder->predictions[segment] = new_prediction(coder, anchors);
        if (found == NULL)
            return NULL;
    } else if (found->restart == coder->restart) {
        return found;
    }
    found->restart = coder->restart;
    found->next = NO_SEGMENT;
    for (uint32_t i = 0; i < anchors; i++) {
        found->anchors[i].last = 0;
        found->anchors[i].stride = found->anchors[i].candidate = 0;
    }
    return found;
}

bool
coder_init(coder_t *coder, uint32_t task)
{
    *coder = (coder_t) { .task = task, .restart = 1 };
    coder->predictions = system_map_reserve(COHABIT_RECORDING_MAX_SEGMENTS * sizeof(prediction_t *));
    return coder->predictions != NULL;
}

void
coder_free(coder_t *coder)
{
    while (coder->arena != NULL) {
        char *before = *(char **)coder->arena;
        system_unmap(coder->arena, ARENA_BYTES);
        coder->arena = before;
    }
    system_unmap(coder->predictions, COHABIT_RECORDING_MAX_SEGMENTS * sizeof(prediction_t *));
}

static inline void
put(coder_t *coder, uint64_t value)
{
    uint8_t *out = coder->out;
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    coder->out = out;
}

static inline uint64_t
zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static void
put_run(coder_t *coder)
{
    if (coder->run != 0)
        put(coder, coder->run << 2 | COHABIT_TOKEN_RUN);
    coder->run = 0;
}

/* What is written so far is whole. */
static void
settle(coder_t *coder)
{
    if (coder->chunk != NULL) {
        uint32_t used = (uint32_t)(coder->out - (uint8_t *)(coder->chunk + 1));
        __atomic_store_n(&coder->chunk->used, used, __ATOMIC_RELEASE);
    }
}

static bool
next_chunk(coder_t *coder)
{
    if (coder->chunk != NULL) {
        put_run(coder);
        settle(coder);
    }
    coder->chunk = coder->lost ? NULL : recorder_chunk(COHABIT_CHUNK_STEPS, coder->task);
    if (coder->chunk == NULL) {
        coder->lost = true;
        return false;
    }
    coder->chunk->position = coder->position;
    if (coder->chunks++ % COHABIT_RECORDING_RESTART == 0) {
        coder->chunk->restart = 1;
        coder->restart++;
        coder->previous = NULL;
        coder->last_address = 0;
    }
    coder->out = (uint8_t *)(coder->chunk + 1);
    coder->end = (uint8_t *)coder->chunk + COHABIT_RECORDING_CHUNK_BYTES;
    return true;
}

/* Room for a token with so many numbers, beside the run before it. */
static inline bool
room(coder_t *coder, uint64_t numbers)
{
    return (uint64_t)(coder->end - coder->out) >= 10 * (numbers + 2) || next_chunk(coder);
}

/* Whether the address is as predicted; the prediction learns. */
static inline bool
predicted(prediction_t *of, uint32_t anchor, uint64_t address, int64_t *difference)
{
    uint64_t last = of->anchors[anchor].last;
    int64_t stride = of->anchors[anchor].stride, moved = (int64_t)(address - last);
    *difference = moved - stride;
    of->anchors[anchor].last = address;
    if (moved == stride)
        return true;
    if (moved == of->anchors[anchor].candidate)
        of->anchors[anchor].stride = moved;
    of->anchors[anchor].candidate = moved;
    return false;
}

static void
put_differences(coder_t *coder, prediction_t *of, const uint64_t *addresses, uint32_t anchors)
{
    int64_t differences[COHABIT_TOKEN_MASK];
    for (uint32_t first = 0; first < anchors; first += COHABIT_TOKEN_MASK) {
        uint32_t some = anchors - first < COHABIT_TOKEN_MASK ? anchors - first : COHABIT_TOKEN_MASK, count = 0;
        uint64_t mask = 0;
        for (uint32_t i = 0; i < some; i++) {
            if (!predicted(of, first + i, addresses[first + i], &differences[count])) {
                mask |= 1ull << i;
                count++;
            }
        }
        put(coder, mask);
        for (uint32_t i = 0; i < count; i++)
            put(coder, zigzag(differences[i]));
    }
}

/* Whether all is as predicted: nothing learns. */
static inline bool
all_predicted(const prediction_t *of, const uint64_t *addresses, uint32_t anchors)
{
    for (uint32_t i = 0; i < anchors; i++) {
        if (addresses[i] != of->anchors[i].last + (uint64_t)of->anchors[i].stride)
            return false;
    }
    return true;
}

static void
take_segment(coder_t *coder, uint32_t segment, const uint64_t *addresses)
{
    segment_shape_t shape = recorder_shapes[segment];
    if (!room(coder, shape.anchors + 3u + shape.anchors / COHABIT_TOKEN_MASK))
        return;
    prediction_t *of = prediction_of(coder, segment, shape.anchors);
    if (of == NULL) {
        coder->lost = true;
        return;
    }
    coder->position += shape.accesses;
    bool follows = coder->previous != NULL && coder->previous->next == segment;
    if (coder->previous != NULL)
        coder->previous->next = segment;
    coder->previous = of;
    if (follows && all_predicted(of, addresses, shape.anchors)) {
        for (uint32_t i = 0; i < shape.anchors; i++)
            of->anchors[i].last = addresses[i];
        coder->run++;
        return;
    }
    put_run(coder);
    put(coder, (uint64_t)!follows << 2 | COHABIT_TOKEN_SEGMENT);
    if (!follows)
        put(coder, segment);
    put_differences(coder, of, addresses, shape.anchors);
}

/* The numbers of an event behind its first. */
static uint32_t
numbers_of(uint32_t event)
{
    switch (event) {
    case COHABIT_EVENT_WAIT:
    case COHABIT_EVENT_WAIT_IN_RUN:
    case COHABIT_EVENT_CHANNEL: return 3;
    case COHABIT_EVENT_ACCESS:
    case COHABIT_EVENT_CLEAR: return 2;
    case COHABIT_EVENT_UNMAP:
    case COHABIT_EVENT_MAPPINGS: return 1;
    case COHABIT_EVENT_REMOTE: return 4;
    default: return 0;
    }
}

static void
take_event(coder_t *coder, uint32_t event, const uint64_t *entry)
{
    uint32_t numbers = numbers_of(event);
    if (!room(coder, numbers + 2))
        return;
    put_run(coder);
    put(coder, (uint64_t)event << 2 | COHABIT_TOKEN_EVENT);
    put(coder, entry[0] >> ENTRY_BITS);
    if (event == COHABIT_EVENT_ACCESS) {
        put(coder, entry[1]);
        put(coder, zigzag((int64_t)(entry[2] - coder->last_address)));
        coder->last_address = entry[2];
        coder->position++;
        return;
    }
    coder->position += event == COHABIT_EVENT_REMOTE || event == COHABIT_EVENT_CHANNEL;
    for (uint32_t i = 1; i <= numbers; i++)
        put(coder, entry[i]);
}

void
coder_take(coder_t *coder, const uint64_t *from, const uint64_t *to)
{
    while (from < to) {
        uint32_t what = (uint32_t)(*from & ((1u << ENTRY_BITS) - 1));
        if (what == ENTRY_SEGMENT) {
            uint32_t segment = (uint32_t)(*from >> ENTRY_BITS);
            if (!coder->lost)
                take_segment(coder, segment, from + 1);
            from += 1u + recorder_shapes[segment].anchors;
        } else {
            if (!coder->lost)
                take_event(coder, what, from);
            from += 1u + numbers_of(what);
        }
    }
    if (coder->chunk != NULL && !coder->lost && room(coder, 1)) {
        put_run(coder);
        settle(coder);
    }
}
