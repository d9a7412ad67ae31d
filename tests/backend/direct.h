/* Direct calls of one operation without a tape: memory for its tensors, a context that counts allocations, and scratch
 * with a guard at its end. */
#ifndef BO_TESTS_DIRECT_H
#define BO_TESTS_DIRECT_H

#include "testing.h"
#include "backend/backend.h"

/* allowed: number of allocations that may still succeed */
typedef struct direct_purse {
    long allowed;
} direct_purse;

static inline void *direct_allocate(void *user, size_t bytes)
{
    direct_purse *purse = user;
    return purse->allowed-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static inline void direct_release(void *user, void *block)
{
    (void)user;
    free(block);
}

static inline bo_context *direct_context(int threads, const char *isa, direct_purse *purse)
{
    *purse = (direct_purse){.allowed = 1000};
    bo_context_desc desc = {.threads = threads, .isa = isa, .allocator = {direct_allocate, direct_release, purse}};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    return context;
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

/* Forward or backward with scratch of the requested size and no allocation allowed. */
static inline bo_status direct_run(bo_context *context, direct_purse *purse, const bo_op *op, bo_op_call *call,
                                   bool backward)
{
    enum { GUARD = 64 };
    size_t saved, scratch;
    assert_int_equal(op->sizes(context, call, backward, &saved, &scratch), BO_OK);
    char *room = aligned_alloc(64, (scratch + 63) / 64 * 64 + GUARD), *kept = malloc(saved + 1);
    memset(room, 0x7f, scratch + GUARD);
    call->scratch = room, call->saved = kept;
    long allowed = purse->allowed;
    purse->allowed = 0;
    bo_status status = (backward ? op->backward : op->forward)(context, call);
    purse->allowed = allowed;
    for (size_t i = 0; i < GUARD; i++) assert_int_equal(room[scratch + i], 0x7f);
    free(room), free(kept);
    return status;
}

#endif
