/* Wrapping the allocation functions (heap.h): those of the C library, or of whatever library or program exports
 * its own. Programs linked statically export none: their heap blocks are not told apart.
 *
 * The C++ operators call malloc where they are the standard library's own; those of an allocator that comes with its
 * malloc are wrapped as well.
 */
#include "heap.h"
#include "callstack.h"
#include "counting.h"
#include "drmgr.h"
#include "drwrap.h"
#include "statics.h"
#include "unwind.h"

typedef struct {
    const char *name;
    /* Numbers of the arguments: bytes, what they are multiplied by (calloc), the old block (realloc), where the
     * address goes (posix_memalign); -1: there is none. */
    int bytes, times, old, result;
    bool throws; /* C++ */
} function_t;

static const function_t functions[] = {
    { "malloc", 0, -1, -1, -1, false },         { "calloc", 0, 1, -1, -1, false },
    { "realloc", 1, -1, 0, -1, false },         { "reallocarray", 1, 2, 0, -1, false },
    { "memalign", 1, -1, -1, -1, false },       { "aligned_alloc", 1, -1, -1, -1, false },
    { "posix_memalign", 2, -1, -1, 0, false },  { "valloc", 0, -1, -1, -1, false },
    { "pvalloc", 0, -1, -1, -1, false },        { "_Znwm", 0, -1, -1, -1, true },
    { "_Znam", 0, -1, -1, -1, true },           { "_ZnwmSt11align_val_t", 0, -1, -1, -1, true },
    { "_ZnamSt11align_val_t", 0, -1, -1, -1, true },
    { "_ZnwmRKSt9nothrow_t", 0, -1, -1, -1, true },
    { "_ZnamRKSt9nothrow_t", 0, -1, -1, -1, true },
};
static const char *const releases[] = { "free", "cfree", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm" };

/* A call under way. */
typedef struct {
    uint64_t bytes;
    uint64_t old;
    uint64_t result_at;
    frames_t frames;
} call_t;

static uint64_t
argument(void *wrapcxt, int number, uint64_t otherwise)
{
    return number < 0 ? otherwise : (uint64_t)(ptr_uint_t)drwrap_get_arg(wrapcxt, number);
}

static void
before_allocation(void *wrapcxt, void **user_data)
{
    const function_t *function = *user_data;
    call_t *call = dr_thread_alloc(drwrap_get_drcontext(wrapcxt), sizeof(*call));
    call->bytes = argument(wrapcxt, function->bytes, 0) * argument(wrapcxt, function->times, 1);
    call->old = argument(wrapcxt, function->old, 0);
    call->result_at = argument(wrapcxt, function->result, 0);
    dr_mcontext_t *mc = drwrap_get_mcontext_ex(wrapcxt, DR_MC_CONTROL | DR_MC_INTEGER);
    registers_t caller = { (uint64_t)(ptr_uint_t)drwrap_get_retaddr(wrapcxt), mc->xsp + sizeof(uint64_t), mc->xbp };
    callstack_walk(caller, &call->frames);
    *user_data = call;
}

static void
after_allocation(void *wrapcxt, void *user_data)
{
    call_t *call = user_data;
    if (wrapcxt != NULL) { /* otherwise the stack was unwound past it */
        uint64_t start = (uint64_t)(ptr_uint_t)drwrap_get_retval(wrapcxt);
        if (call->result_at != 0 &&
            (start != 0 || !dr_safe_read((void *)call->result_at, sizeof(start), &start, NULL)))
            start = 0;
        if (call->old != 0 && (start != 0 || call->bytes == 0))
            allocations_remove(call->old);
        if (start != 0)
            allocations_add(start, call->bytes, COHABIT_OBJECT_HEAP, &call->frames);
    }
    dr_thread_free(dr_get_current_drcontext(), call, sizeof(*call));
}

static void
before_release(void *wrapcxt, void **user_data)
{
    (void)user_data;
    allocations_remove((uint64_t)(ptr_uint_t)drwrap_get_arg(wrapcxt, 0));
}

void
heap_module_loaded(const module_data_t *module)
{
    statics_loaded(module);
    unwind_loaded(module);
    bool allocator = dr_get_proc_address(module->handle, "malloc") != NULL;
    for (size_t i = 0; allocator && i < sizeof(functions) / sizeof(functions[0]); i++) {
        app_pc at = (app_pc)dr_get_proc_address(module->handle, functions[i].name);
        /* Replacing the return address is the cheap way to see a function return. An exception cannot pass it, and
         * where code is flushed while the function runs, programs broke now and then. */
        bool replaced = !functions[i].throws && !counting_partly();
        uint flags = DRWRAP_CALLCONV_DEFAULT | (replaced ? DRWRAP_REPLACE_RETADDR : 0);
        if (at != NULL)
            drwrap_wrap_ex(at, before_allocation, after_allocation, (void *)&functions[i], flags);
    }
    for (size_t i = 0; allocator && i < sizeof(releases) / sizeof(releases[0]); i++) {
        app_pc at = (app_pc)dr_get_proc_address(module->handle, releases[i]);
        if (at != NULL)
            drwrap_wrap_ex(at, before_release, NULL, NULL, DRWRAP_CALLCONV_DEFAULT);
    }
}

static void
calls_under_way(frames_t *frames)
{
    dr_mcontext_t mc = { sizeof(mc), DR_MC_CONTROL | DR_MC_INTEGER };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    callstack_walk((registers_t) { (uint64_t)(ptr_uint_t)mc.pc, mc.xsp, mc.xbp }, frames);
}

void
heap_mapped(uint64_t start, uint64_t bytes)
{
    frames_t frames;
    calls_under_way(&frames);
    allocations_unmapped(start, bytes);
    allocations_add(start, bytes, COHABIT_OBJECT_MAPPING, &frames);
}

/* One mapping, of the calls that made it grow first: it holds what malloc keeps between and for its blocks. */
void
heap_moved_top(uint64_t top)
{
    static uint64_t bottom; /* the first call asks where it is; a forked child inherits it */
    static frames_t frames;
    if (bottom == 0 || top < bottom) {
        bottom = top;
        return;
    }
    if (frames.frames[0] == 0)
        calls_under_way(&frames);
    if (top > bottom) /* in place of the shorter one that starts there */
        allocations_add(bottom, top - bottom, COHABIT_OBJECT_MAPPING, &frames);
}

void
heap_unmapped(uint64_t start, uint64_t bytes)
{
    allocations_unmapped(start, bytes);
    statics_unmapped(start, bytes);
}

bool
heap_init(void)
{
    return drwrap_init();
}

void
heap_exit(void)
{
    drwrap_exit();
}
