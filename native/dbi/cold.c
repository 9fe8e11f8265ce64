/* Out-of-line code of checks (cold.h). Equal code is made once, so that code translated again does not make it grow. */
#include "cold.h"
#include "emit.h"
#include "slots.h"
#include "slow.h"
#include "system.h"

#define BUCKETS 65536u
#define CHUNK_BYTES (256 * 1024)
#define LONGEST_BYTES 256
#define MAX_CHUNKS 1024u

typedef struct entry {
    struct entry *next;
    opnd_t operand;
    int32_t delta;
    uint32_t bytes;
    uint32_t group;
    reg_id_t r[2];
    bool writes;
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
    routine = routine_make(slow_path);
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

static uint32_t
bucket_of(const entry_t *key)
{
    uint64_t hash = key->group * 0x9e3779b97f4a7c15ull ^ (uint64_t)key->r[0] << 40 ^ (uint64_t)key->r[1] << 48;
    hash ^= (uint64_t)(uint32_t)key->delta * 0xc2b2ae3d27d4eb4full;
    if (opnd_is_base_disp(key->operand)) {
        hash ^= (uint64_t)opnd_get_base(key->operand) << 20 ^ (uint64_t)opnd_get_index(key->operand) << 28;
        hash ^= (uint64_t)(uint32_t)opnd_get_disp(key->operand) * 0x165667b19e3779f9ull;
    } else {
        hash ^= (uint64_t)(ptr_uint_t)opnd_get_addr(key->operand) * 0x165667b19e3779f9ull;
    }
    return (uint32_t)((hash ^ hash >> 32) % BUCKETS);
}

static bool
same(const entry_t *a, const entry_t *b)
{
    return a->group == b->group && a->delta == b->delta && a->bytes == b->bytes && a->writes == b->writes &&
        a->look_again == b->look_again && a->r[0] == b->r[0] && a->r[1] == b->r[1] && opnd_same(a->operand, b->operand);
}

static byte *
encode(void *dc, const span_t *span, const entry_t *key)
{
    if (used + LONGEST_BYTES > CHUNK_BYTES) {
        if (chunk_count == MAX_CHUNKS)
            return NULL;
        chunks[chunk_count] =
            dr_nonheap_alloc(CHUNK_BYTES, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
        if (chunks[chunk_count] == NULL)
            return NULL;
        chunk_count++;
        used = 0;
    }
    instrlist_t *list = instrlist_create(dc);
    instr_t *slow = INSTR_CREATE_label(dc), *end = INSTR_CREATE_label(dc);
    instrlist_meta_append(list, slow);
    instrlist_meta_append(list, end);
#define BEFORE(where, instr) instrlist_meta_preinsert(list, where, instr)
    BEFORE(slow, INSTR_CREATE_mov_st(dc, slot(dc, SLOT_RETURN), opnd_create_reg(key->r[1])));
    if (key->look_again) {
        emit_address(dc, list, slow, span, key->r[0], key->r[1]);
        emit_both_ends(dc, list, slow, span, key->r, NULL, opnd_create_instr(slow));
        BEFORE(slow, INSTR_CREATE_jmp_ind(dc, slot(dc, SLOT_RETURN)));
    }
    emit_address(dc, list, end, span, key->r[0], key->r[1]);
    BEFORE(end, INSTR_CREATE_mov_st(dc, slot(dc, SLOT_ADDRESS), opnd_create_reg(key->r[0])));
    BEFORE(end, INSTR_CREATE_mov_st(dc, slot(dc, SLOT_GROUP), OPND_CREATE_INT32((int)key->group)));
    BEFORE(end, XINST_CREATE_jump(dc, opnd_create_pc(routine)));
    byte *code = chunks[chunk_count - 1] + used;
    byte *behind = instrlist_encode(dc, list, code, true);
    instrlist_clear_and_destroy(dc, list);
    if (behind == NULL || behind > code + LONGEST_BYTES)
        return NULL;
    used += (size_t)(behind - code);
    return code;
}

byte *
cold_code(void *dc, const span_t *span, uint32_t group, const reg_id_t r[2], bool look_again)
{
    entry_t key = { NULL, span->operand, span->delta, span->bytes, group, { r[0], r[1] }, span->writes, look_again, NULL };
    entry_t **bucket = &buckets[bucket_of(&key)];
    dr_mutex_lock(lock);
    entry_t *entry = *bucket;
    while (entry != NULL && !same(entry, &key))
        entry = entry->next;
    if (entry == NULL) {
        key.code = encode(dc, span, &key);
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
