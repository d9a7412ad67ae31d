/* The operations of the CPU. */
#include "cpu.h"
#include <assert.h>
#include "stored.h"
#include "../updates.h"
#include "../../device/cpu/kernels.h"

static bo_status all_finite(bo_context *context, bo_element element, const void *numbers, size_t count, bool *out)
{
    assert(element == BO_ELEMENT_FLOAT32);
    (void)element;
    *out = bo_context_kernels(context)->finite(count, numbers);
    return BO_OK;
}

static bo_status largest(bo_context *context, size_t rows, size_t columns, const void *floats, int32_t *host)
{
    (void)context;
    for (size_t r = 0; r < rows; r++) {
        const float *row = (const float *)floats + r * columns;
        size_t best = 0;
        for (size_t j = 1; j < columns; j++)
            if (row[j] > row[best]) best = j;
        host[r] = (int32_t)best;
    }
    return BO_OK;
}

/* One line per operation. */
static const bo_op *const ops[BO_OPERATION_COUNT] = {
    [BO_OPERATION_ROUND] = &bo_cpu_round,
    [BO_OPERATION_EMBED] = &bo_cpu_embed,
    [BO_OPERATION_POSITION] = &bo_cpu_position,
    [BO_OPERATION_NORM] = &bo_cpu_norm,
    [BO_OPERATION_DROPOUT] = &bo_cpu_dropout,
    [BO_OPERATION_ROPE] = &bo_cpu_rope,
    [BO_OPERATION_ATTENTION] = &bo_cpu_attention,
    [BO_OPERATION_UNARY] = &bo_cpu_unary,
    [BO_OPERATION_GLU] = &bo_cpu_glu,
    [BO_OPERATION_ADD] = &bo_cpu_add,
    [BO_OPERATION_LOSS] = &bo_cpu_loss,
    [BO_OPERATION_SSM] = &bo_cpu_ssm,
    [BO_OPERATION_LINEAR] = &bo_cpu_linear,
    [BO_OPERATION_RECURRENT] = &bo_cpu_recurrent,
    [BO_OPERATION_MIX] = &bo_cpu_mix,
    [BO_OPERATION_CROSS_ENTROPY] = &bo_cpu_cross_entropy,
    [BO_OPERATION_RESHAPE] = &bo_cpu_reshape,
    [BO_OPERATION_CONCAT] = &bo_cpu_concat,
    [BO_OPERATION_AGGREGATE] = &bo_cpu_aggregate,
    [BO_OPERATION_NOISE] = &bo_cpu_noise,
    [BO_OPERATION_SCALE] = &bo_cpu_scale,
    [BO_OPERATION_PRODUCT] = &bo_cpu_product,
    [BO_OPERATION_FEATURES] = &bo_cpu_features,
    [BO_OPERATION_QUADRATIC] = &bo_cpu_quadratic,
    [BO_OPERATION_CONVOLUTION] = &bo_cpu_convolution,
    [BO_OPERATION_POOL] = &bo_cpu_pool,
    [BO_OPERATION_BATCH_NORM] = &bo_cpu_batch_norm,
};

static const bo_backend cpu = {
    .narrow = bo_cpu_narrow,
    .widen = bo_cpu_widen,
    .finite = all_finite,
    .largest = largest,
    .ops = ops,
    .updates = &bo_cpu_updates,
};

const bo_backend *bo_backend_cpu(void)
{
    return &cpu;
}
