/* Out-of-line code of checks (cold.h). Equal code is made once, so that code translated again does not make it grow. */
#include "cold.h"
#include "emit.h"
#include "slots.h"
#include "slow.h"
#include "system.h"

#define BUCKETS 65536u
#define CHUNK_BYTES (256 * 1024)
#define LONGEST_BYTES 1024
#define MAX_CHUNKS 1024u

/* Spans and groups as they are where code for them was made. */
typedef struct {
    opnd_t operand;
    int32_t delta;
    uint32_t bytes;
    uint32_t group;
    bool writes;
} key_span_t;

typedef struct entry {
    struct entry *next;
    key_span_t spans[MAX_BUNDLE];
    uint32_t count;
    reg_id_t scratch;
    reg_id_t back;
    bool look_again;
    byte *code;
} entry_t;

static entry_t *buckets[BUCKETS];
static byte *chunks[MAX_CHUNKS];
static uint32_t chunk_count;
static size_t used = CHUNK_BYTES;
static byte *routine; /* to the slow path */
static void *lock;

bool
cold_init(void)
{
    lock = dr_mutex_create();
    routine = routine_make(slow_path, SLOT_BACK);
    return routine != NULL;
}

void
cold_exit(void)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (entry_t *entry = buckets[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            dr_global_free(entry, sizeof(*entry));
        }
    }
    for (uint32_t i = 0; i < chunk_count; i++)
        dr_nonheap_free(chunks[i], CHUNK_BYTES);
    routine_free(routine);
    dr_mutex_destroy(lock);
}

static uint64_t
mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

static uint32_t
bucket_of(const entry_t *key)
{
    uint64_t hash = (uint64_t)key->scratch << 16 ^ key->back;
    for (uint32_t k = 0; k < key->count; k++) {
        const key_span_t *span = &key->spans[k];
        hash = mix(hash, (uint64_t)span->group << 32 ^ (uint32_t)span->delta);
        if (opnd_is_base_disp(span->operand))
            hash = mix(hash, (uint64_t)opnd_get_base(span->operand) << 48 ^ (uint64_t)opnd_get_index(span->operand) << 32 ^
                                 (uint32_t)opnd_get_disp(span->operand));
        else
            hash = mix(hash, (uint64_t)(ptr_uint_t)opnd_get_addr(span->operand));
    }
    return (uint32_t)(hash % BUCKETS);
}

static bool
same(const entry_t *a, const entry_t *b)
{
    if (a->count != b->count || a->look_again != b->look_again || a->scratch != b->scratch || a->back != b->back)
        return false;
    for (uint32_t k = 0; k < a->count; k++) {
        const key_span_t *x = &a->spans[k], *y = &b->spans[k];
        if (x->group != y->group || x->delta != y->delta || x->bytes != y->bytes || x->writes != y->writes ||
            !opnd_same(x->operand, y->operand))
            return false;
    }
    return true;
}

#define APPEND(instr) instrlist_meta_append(list, instr)

/* One span: ask again where that is wanted, then the slow path, which goes on behind. */
static void
append_span(void *dc, instrlist_t *list, const span_t *span, const entry_t *key, uint32_t group)
{
    const reg_id_t r[2] = { key->scratch, DR_REG_NULL };
    instr_t *next = INSTR_CREATE_label(dc), *slow = INSTR_CREATE_label(dc);
    APPEND(slow);
    APPEND(next);
    if (key->look_again) {
        /* `back` is kept in its slot meanwhile: the question needs a second register. */
        const reg_id_t both[2] = { key->scratch, key->back };
        emit_address(dc, list, slow, span, both[0], both[1]);
        emit_both_ends(dc, list, slow, span, both, NULL, opnd_create_instr(slow));
        instrlist_meta_preinsert(list, slow, XINST_CREATE_jump(dc, opnd_create_instr(next)));
    }
    emit_address(dc, list, next, span, r[0], key->back);
#define BEFORE_NEXT(instr) instrlist_meta_preinsert(list, next, instr)
    BEFORE_NEXT(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_ADDRESS), opnd_create_reg(r[0])));
    BEFORE_NEXT(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_GROUP), OPND_CREATE_INT32((int)group)));
    instrlist_insert_mov_instr_addr(dc, next, NULL, opnd_create_reg(r[0]), list, next, NULL, NULL);
    BEFORE_NEXT(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RETURN), opnd_create_reg(r[0])));
    BEFORE_NEXT(XINST_CREATE_jump(dc, opnd_create_pc(routine)));
}

static bool
make_room(void)
{
    if (used + LONGEST_BYTES <= CHUNK_BYTES)
        return true;
    if (chunk_count == MAX_CHUNKS)
        return false;
    chunks[chunk_count] = dr_nonheap_alloc(CHUNK_BYTES, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
    if (chunks[chunk_count] == NULL)
        return false;
    chunk_count++;
    used = 0;
    return true;
}

static byte *
encode(void *dc, const bundle_t *bundle, const entry_t *key)
{
    if (!make_room())
        return NULL;
    instrlist_t *list = instrlist_create(dc);
    APPEND(INSTR_CREATE_mov_st(dc, slot(dc, SLOT_BACK), opnd_create_reg(key->back)));
    for (uint32_t k = 0; k < bundle->count; k++)
        append_span(dc, list, bundle->spans[k], key, bundle->groups[k]);
    APPEND(INSTR_CREATE_jmp_ind(dc, slot(dc, SLOT_BACK)));
    byte *code = chunks[chunk_count - 1] + used;
    byte *behind = instrlist_encode(dc, list, code, true);
    instrlist_clear_and_destroy(dc, list);
    if (behind == NULL || behind > code + LONGEST_BYTES)
        return NULL;
    used += (size_t)(behind - code);
    return code;
}

byte *
cold_code(void *dc, const bundle_t *bundle, reg_id_t scratch, reg_id_t back, bool look_again)
{
    entry_t key = { .count = bundle->count, .scratch = scratch, .back = back, .look_again = look_again };
    for (uint32_t k = 0; k < bundle->count; k++) {
        const span_t *span = bundle->spans[k];
        key.spans[k] = (key_span_t) { span->operand, span->delta, span->bytes, bundle->groups[k], span->writes };
    }
    entry_t **bucket = &buckets[bucket_of(&key)];
    dr_mutex_lock(lock);
    entry_t *entry = *bucket;
    while (entry != NULL && !same(entry, &key))
        entry = entry->next;
    if (entry == NULL) {
        key.code = encode(dc, bundle, &key);
        if (key.code != NULL) {
            entry = dr_global_alloc(sizeof(*entry));
            *entry = key;
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    dr_mutex_unlock(lock);
    return entry == NULL ? NULL : entry->code;
}
