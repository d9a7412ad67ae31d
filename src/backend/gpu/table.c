/* The operations of GPUs, and type conversions in device memory. */
#include "../cpu/stored.h"
#include "../updates.h"
#include "gpu.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Element types with scales are converted on the host: this happens once per model. */
static bo_status convert_on_host(bo_context *context, bo_element element, size_t rows, size_t columns, bool narrow,
                                 const void *from, void *to)
{
    bo_device *device = bo_device_of(context);
    const size_t floats = rows * columns * sizeof(float), bytes = bo_element_bytes(element, rows, columns);
    void *wide = bo_alloc_raw(context, floats, 1, "a weight"), *kept = bo_alloc_raw(context, bytes, 1, "a weight");
    bo_status status = wide && kept ? BO_OK : BO_MEMORY;
    if (status == BO_OK && narrow) {
        status = bo_buffer_read(context, device, wide, from, floats);
        if (status == BO_OK) status = bo_cpu_narrow(context, element, rows, columns, wide, kept);
        if (status == BO_OK) status = bo_buffer_write(context, device, to, kept, bytes);
    } else if (status == BO_OK) {
        status = bo_buffer_read(context, device, kept, from, bytes);
        if (status == BO_OK) status = bo_cpu_widen(context, element, rows, columns, kept, wide);
        if (status == BO_OK) status = bo_buffer_write(context, device, to, wide, floats);
    }
    bo_free(wide);
    bo_free(kept);
    return status;
}

static bo_status convert(bo_context *context, bo_element from_element, bo_element to_element, size_t count,
                         const void *from, void *to)
{
    return BO_LAUNCH(
        context, convert,
        &((bo_gpu_convert){.count = count, .from_type = from_element, .to_type = to_element, .from = from, .to = to}));
}

static bool has_scales(bo_element element)
{
    return element == BO_ELEMENT_INT8 || element == BO_ELEMENT_INT4;
}

static bo_status narrow(bo_context *context, bo_element element, size_t rows, size_t columns, const void *floats,
                        void *to)
{
    if (has_scales(element)) return convert_on_host(context, element, rows, columns, true, floats, to);
    return convert(context, BO_ELEMENT_FLOAT32, element, rows * columns, floats, to);
}

static bo_status widen(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                       void *floats)
{
    if (has_scales(element)) return convert_on_host(context, element, rows, columns, false, from, floats);
    return convert(context, element, BO_ELEMENT_FLOAT32, rows * columns, from, floats);
}

/* ---- results on the host ---------------------------------------------------------------------------------------- */

/* Reads a result in borrowed memory and returns the memory. */
static bo_status read_result(bo_context *context, bo_status status, void *memory, void *host, size_t bytes)
{
    if (status == BO_OK) status = bo_buffer_read(context, bo_device_of(context), host, memory, bytes);
    bo_gpu_return(context, memory);
    return status;
}

static bo_status all_finite(bo_context *context, bo_element element, const void *numbers, size_t count, bool *out)
{
    int32_t found = 0;
    void *flag = bo_gpu_borrow(context, sizeof found);
    *out = false;
    if (!flag) return BO_MEMORY;
    const bo_status status =
        BO_LAUNCH(context, finite, &((bo_gpu_finite){.type = element, .count = count, .x = numbers, .out = flag}));
    BO_TRY(read_result(context, status, flag, &found, sizeof found));
    *out = found != 0;
    return BO_OK;
}

static bo_status largest(bo_context *context, size_t rows, size_t columns, const void *floats, int32_t *host)
{
    void *found = bo_gpu_borrow(context, rows * sizeof *host);
    if (!found) return BO_MEMORY;
    const bo_status status =
        BO_LAUNCH(context, largest, &((bo_gpu_largest){.rows = rows, .columns = columns, .x = floats, .out = found}));
    return read_result(context, status, found, host, rows * sizeof *host);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* One line per operation. Recording a graph fails for operations that are missing here. */
static const bo_op *const ops[BO_OPERATION_COUNT] = {
    [BO_OPERATION_ADD] = &bo_gpu_op_add,
    [BO_OPERATION_ATTENTION] = &bo_gpu_op_attention,
    [BO_OPERATION_EMBED] = &bo_gpu_op_embed,
    [BO_OPERATION_POSITION] = &bo_gpu_op_position,
    [BO_OPERATION_NORM] = &bo_gpu_op_norm,
    [BO_OPERATION_DROPOUT] = &bo_gpu_op_dropout,
    [BO_OPERATION_ROPE] = &bo_gpu_op_rope,
    [BO_OPERATION_UNARY] = &bo_gpu_op_unary,
    [BO_OPERATION_GLU] = &bo_gpu_op_glu,
    [BO_OPERATION_LOSS] = &bo_gpu_op_loss,
    [BO_OPERATION_NOISE] = &bo_gpu_op_noise,
    [BO_OPERATION_ROUND] = &bo_gpu_op_round,
    [BO_OPERATION_PRODUCT] = &bo_gpu_op_product,
    [BO_OPERATION_SCALE] = &bo_gpu_op_scale,
    [BO_OPERATION_RESHAPE] = &bo_gpu_op_reshape,
    [BO_OPERATION_CONCAT] = &bo_gpu_op_concat,
    [BO_OPERATION_BATCH_NORM] = &bo_gpu_op_batch_norm,
    [BO_OPERATION_POOL] = &bo_gpu_op_pool,
    [BO_OPERATION_AGGREGATE] = &bo_gpu_op_aggregate,
    [BO_OPERATION_CONVOLUTION] = &bo_gpu_op_convolution,
    [BO_OPERATION_FEATURES] = &bo_gpu_op_features,
    [BO_OPERATION_MIX] = &bo_gpu_op_mix,
    [BO_OPERATION_RECURRENT] = &bo_gpu_op_recurrent,
    [BO_OPERATION_CROSS_ENTROPY] = &bo_gpu_op_cross_entropy,
    [BO_OPERATION_LINEAR] = &bo_gpu_op_linear,
    [BO_OPERATION_QUADRATIC] = &bo_gpu_op_quadratic,
};

extern const bo_backend bo_backend_gpu;
const bo_backend bo_backend_gpu = {
    .ops = ops,
    .updates = &bo_gpu_updates,
    .narrow = narrow,
    .widen = widen,
    .finite = all_finite,
    .largest = largest,
    .stage = bo_gpu_stage,
    .unstage = bo_gpu_unstage,
};
