/* Direct calls of one operation without a tape: memory for its tensors, a context that counts allocations, and scratch
 * with a guard at its end. */
#ifndef BO_TESTS_DIRECT_H
#define BO_TESTS_DIRECT_H

#include <bochner/devices.h>
#include "testing.h"
#include "backend/backend.h"

/* allowed: number of remaining allocations that succeed */
typedef struct direct_arena {
    long allowed;
} direct_arena;

static inline void *direct_allocate(void *user, size_t bytes)
{
    direct_arena *arena = user;
    return arena->allowed-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static inline void direct_release(void *user, void *block)
{
    (void)user;
    free(block);
}

static inline bo_context *direct_context(int threads, const char *isa, direct_arena *arena)
{
    *arena = (direct_arena){.allowed = 1000};
    bo_context_desc desc = {.threads = threads, .isa = isa, .allocator = {direct_allocate, direct_release, arena}};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    const char *device = getenv("BOCHNER_TEST_DEVICE");
    if (device) assert_ok(context, bo_context_use_device(context, device));
    return context;
}

/* An operation of the CPU, or of the device that is tested. */
static inline const bo_op *direct_op(bo_context *context, bo_operation operation)
{
    return bo_backend_of(bo_device_of(context))->ops[operation];
}

static inline float *direct_floats(size_t count, uint64_t stream)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    bo_rng rng = bo_rng_make(stream, 11);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
    return x;
}

static inline bo_tensor direct_operand(size_t rows, size_t columns, uint64_t stream)
{
    return (bo_tensor){direct_floats(rows * columns, stream), BO_ELEMENT_FLOAT32, rows, columns};
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

enum { DIRECT_GUARD = 64, DIRECT_MAX = 2 * (BO_OP_INPUTS + BO_OP_OUTPUTS) + 2 };

/* Copies of the operands of a call in backend memory; on the CPU the operands are used directly. */
typedef struct direct_copies {
    bo_context *context;
    size_t count;
    struct direct_copy {
        void *host, *device;
        size_t bytes;
    } all[DIRECT_MAX];
} direct_copies;

static inline void *direct_enter(direct_copies *copies, const void *host, size_t bytes)
{
    bo_device *device = bo_device_of(copies->context);
    if (!host || !bo_device_is_gpu(device)) return (void *)(uintptr_t)host;
    struct direct_copy *copy = &copies->all[copies->count++];
    *copy = (struct direct_copy){(void *)(uintptr_t)host,
                                 bo_buffer_allocate(copies->context, device, bytes, "a tensor"), bytes};
    assert_non_null(copy->device);
    assert_ok(copies->context, bo_buffer_write(copies->context, device, copy->device, host, bytes));
    return copy->device;
}

static inline void direct_leave(direct_copies *copies)
{
    bo_device *device = bo_device_of(copies->context);
    for (size_t i = 0; i < copies->count; i++) {
        struct direct_copy *copy = &copies->all[i];
        assert_ok(copies->context, bo_buffer_read(copies->context, device, copy->host, copy->device, copy->bytes));
        bo_buffer_release(device, copy->device);
    }
}

/* Forward or backward with scratch of the requested size and no allocation allowed. */
static inline bo_status direct_run(bo_context *context, direct_arena *arena, const bo_op *op, bo_op_call *call,
                                   bool backward)
{
    size_t saved, scratch;
    assert_int_equal(op->sizes(context, call, backward, &saved, &scratch), BO_OK);
    char *workspace = aligned_alloc(64, (scratch + 63) / 64 * 64 + DIRECT_GUARD), *kept = malloc(saved + 1);
    memset(workspace, 0x7f, scratch + DIRECT_GUARD);
    direct_copies copies = {.context = context};
    bo_op_call copy = *call;
    copy.scratch = direct_enter(&copies, workspace, scratch + DIRECT_GUARD);
    copy.saved = direct_enter(&copies, kept, saved + 1);
    for (size_t i = 0; i < call->inputs; i++) {
        const size_t bytes = call->in[i].rows * call->in[i].columns * 4;
        copy.in[i].data = direct_enter(&copies, call->in[i].data, bytes);
        copy.din[i] = direct_enter(&copies, call->din[i], bytes);
    }
    for (size_t i = 0; i < call->outputs; i++) {
        const size_t bytes = call->out[i].rows * call->out[i].columns * 4;
        copy.out[i].data = direct_enter(&copies, call->out[i].data, bytes);
        copy.dout[i] = direct_enter(&copies, call->dout[i], bytes);
    }
    long allowed = arena->allowed;
    arena->allowed = 0;
    bo_status status = (backward ? op->backward : op->forward)(context, &copy);
    arena->allowed = allowed;
    direct_leave(&copies);
    for (size_t i = 0; i < DIRECT_GUARD; i++) assert_int_equal(workspace[scratch + i], 0x7f);
    free(workspace), free(kept);
    return status;
}

#endif
