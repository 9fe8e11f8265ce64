/* From addresses to data objects (objects.h). Compiled without vector registers. */
#include "objects.h"
#include "allocations.h"
#include "statics.h"
#include "system.h"

/* Objects are numbered: memory of which nothing is known, the first stack, heap and mappings by the call stack that
 * asked for them, data of modules. */
enum {
    UNKNOWN,
    FIRST_STACK,
    HEAP,
    MAPPINGS = HEAP + ALLOCATION_STACKS,
    DATA = MAPPINGS + ALLOCATION_STACKS,
    OBJECTS = DATA + STATICS,
};

/* The kernel leaves this much address space, at least, to the stack of a process below its top (mmap_base in
 * arch/x86/mm/mmap.c), and what a program finds there when it starts lies above what it is told of by AT_RANDOM. */
#define STACK_BYTES (128ull << 20)
#define STACK_ABOVE (4ull << 20)

static uint64_t *records; /* offset in the part, by number; 0: not made yet */
static int lock;

bool
objects_init(void)
{
    records = system_map_reserve(OBJECTS * sizeof(*records));
    return records != NULL && allocations_init() && statics_init();
}

void
objects_fork(void)
{
    system_discard(records, OBJECTS * sizeof(*records));
    lock = 0;
    allocations_fork();
    statics_fork();
}

static uint64_t
new_record(uint32_t kind, uint64_t address, uint64_t bytes, const frames_t *stack)
{
    uint64_t at = part_alloc(sizeof(cohabit_object_t));
    if (at == 0)
        return 0;
    cohabit_object_t *object = part_at(at);
    object->kind = kind;
    object->address = address;
    object->bytes = bytes;
    for (uint32_t i = 0; stack != NULL && i < COHABIT_HOT_STACK; i++)
        object->stack[i] = stack->frames[i];
    object->next = part()->objects;
    __atomic_store_n(&part()->objects, at, __ATOMIC_RELEASE);
    return at;
}

static uint64_t
record_of(uint32_t number, uint32_t kind, uint64_t address, uint64_t bytes, const frames_t *stack)
{
    uint64_t at = __atomic_load_n(&records[number], __ATOMIC_ACQUIRE);
    if (at != 0)
        return at;
    system_lock(&lock);
    if (records[number] == 0)
        __atomic_store_n(&records[number], new_record(kind, address, bytes, stack), __ATOMIC_RELEASE);
    system_unlock(&lock);
    return records[number];
}

static place_t
allocated(task_t *me, const allocation_t *found, uint64_t version)
{
    uint32_t first = found->kind == COHABIT_OBJECT_HEAP ? HEAP : MAPPINGS;
    uint64_t at = record_of(first + found->stack, found->kind, 0, found->bytes, allocations_stack(found->stack));
    cohabit_object_t *object = at == 0 ? NULL : part_at(at);
    if (object != NULL && object->bytes < found->bytes)
        object->bytes = found->bytes;
    if (found->kind == COHABIT_OBJECT_HEAP) { /* a mapping may hold heap blocks elsewhere */
        me->object_start = found->start;
        me->object_bytes = found->bytes;
        me->object_version = version;
        me->object_record = at;
    }
    return (place_t) { at, found->start, found->bytes };
}

place_t
objects_find(task_t *me, uint64_t address)
{
    static_t data;
    allocation_t allocation;
    uint64_t version = allocations_version();
    if (me->object_record != 0 && address - me->object_start < me->object_bytes && me->object_version == version)
        return (place_t) { me->object_record, me->object_start, me->object_bytes };
    if (statics_find(address, &data)) {
        uint32_t kind = data.symbol ? COHABIT_OBJECT_SYMBOL : COHABIT_OBJECT_MODULE;
        return (place_t) { record_of(DATA + data.number, kind, data.start, data.bytes, NULL), 0, 0 };
    }
    if (allocations_find(address, &allocation))
        return allocated(me, &allocation, version);
    uint64_t top = part()->stack_top;
    if (top > STACK_BYTES && address >= top - STACK_BYTES && address < top + STACK_ABOVE)
        return (place_t) { record_of(FIRST_STACK, COHABIT_OBJECT_STACK, 0, 0, NULL), 0, 0 };
    return (place_t) { record_of(UNKNOWN, COHABIT_OBJECT_UNKNOWN, 0, 0, NULL), 0, 0 };
}
