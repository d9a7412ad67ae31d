/* The CPU backend: memory is the host's. */
#include "cpu.h"
#include <string.h>
#include "stored.h"
#include "../updates.h"
#include "../../kernels/kernels.h"

static void *allocate(bo_context *context, size_t bytes, const char *what)
{
    return bo_alloc(context, bytes, 1, what);
}

static bo_status move(bo_context *context, void *to, const void *from, size_t bytes)
{
    (void)context;
    memcpy(to, from, bytes);
    return BO_OK;
}

static bo_status zero(bo_context *context, void *to, size_t bytes)
{
    (void)context;
    memset(to, 0, bytes);
    return BO_OK;
}

static bo_status all_finite(bo_context *context, const void *floats, size_t count, bool *out)
{
    *out = bo_context_kernels(context)->finite(count, floats);
    return BO_OK;
}

/* A line an operation, added with it. */
static const bo_op *const ops[BO_OP_COUNT] = {
    [BO_OP_ROUND] = &bo_cpu_round,
    [BO_OP_EMBED] = &bo_cpu_embed,
    [BO_OP_POSITION] = &bo_cpu_position,
    [BO_OP_NORM] = &bo_cpu_norm,
    [BO_OP_DROPOUT] = &bo_cpu_dropout,
    [BO_OP_ROPE] = &bo_cpu_rope,
    [BO_OP_ATTENTION] = &bo_cpu_attention,
    [BO_OP_UNARY] = &bo_cpu_unary,
    [BO_OP_GLU] = &bo_cpu_glu,
    [BO_OP_ADD] = &bo_cpu_add,
    [BO_OP_LOSS] = &bo_cpu_loss,
    [BO_OP_SSM] = &bo_cpu_ssm,
    [BO_OP_LINEAR] = &bo_cpu_linear,
    [BO_OP_RECURRENT] = &bo_cpu_recurrent,
    [BO_OP_MIX] = &bo_cpu_mix,
    [BO_OP_CROSS_ENTROPY] = &bo_cpu_cross_entropy,
    [BO_OP_RESHAPE] = &bo_cpu_reshape,
    [BO_OP_CONCAT] = &bo_cpu_concat,
    [BO_OP_AGGREGATE] = &bo_cpu_aggregate,
    [BO_OP_NOISE] = &bo_cpu_noise,
    [BO_OP_SCALE] = &bo_cpu_scale,
    [BO_OP_PRODUCT] = &bo_cpu_product,
    [BO_OP_FEATURES] = &bo_cpu_features,
    [BO_OP_QUADRATIC] = &bo_cpu_quadratic,
    [BO_OP_CONVOLUTION] = &bo_cpu_convolution,
    [BO_OP_POOL] = &bo_cpu_pool,
    [BO_OP_BATCH_NORM] = &bo_cpu_batch_norm,
};

static const bo_backend cpu = {
    .name = "cpu",
    .allocate = allocate,
    .release = bo_free,
    .write = move,
    .read = move,
    .zero = zero,
    .copy = move,
    .narrow = bo_cpu_narrow,
    .widen = bo_cpu_widen,
    .finite = all_finite,
    .ops = ops,
    .updates = &bo_cpu_updates,
};

const bo_backend *bo_backend_cpu(void)
{
    return &cpu;
}
