/* The table of the CUDA backend, whose memory is that of a GPU. */
#include <string.h>
#include "cuda.h"
#include "fits.h"
#include "../updates.h"
#include "../cpu/stored.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define CALL(name, ...)                                                                                                \
    bo_cuda_check(context, bo_cuda_open_device()->functions->name(bo_cuda_open_device()->cuda, __VA_ARGS__))

static void *allocate(bo_context *context, size_t bytes, const char *what)
{
    void *memory = NULL;
    bo_cuda_lock();
    bo_status status = CALL(allocate, bytes, &memory);
    if (status == BO_OK) status = CALL(fill, memory, 0, bytes);
    if (status != BO_OK && memory) bo_cuda_open_device()->functions->release(bo_cuda_open_device()->cuda, memory);
    bo_cuda_unlock();
    if (status == BO_OK) return memory;
    bo_fail(context, BO_MEMORY, "out of memory of the GPU: %s needs %zu bytes (%s)", what, bytes,
            bo_context_error(context));
    return NULL;
}

static void release(void *memory)
{
    bo_cuda_lock();
    if (memory) bo_cuda_open_device()->functions->release(bo_cuda_open_device()->cuda, memory);
    bo_cuda_unlock();
}

static bo_status write_bytes(bo_context *context, void *to, const void *host, size_t bytes)
{
    bo_cuda_lock();
    const bo_status status = CALL(write, to, host, bytes);
    bo_cuda_unlock();
    return status;
}

static bo_status read_bytes(bo_context *context, void *host, const void *from, size_t bytes)
{
    bo_cuda_lock();
    const bo_status status = CALL(read, host, from, bytes);
    bo_cuda_unlock();
    return status;
}

static bo_status zero(bo_context *context, void *to, size_t bytes)
{
    bo_cuda_lock();
    const bo_status status = CALL(fill, to, 0, bytes);
    bo_cuda_unlock();
    return status;
}

static bo_status copy(bo_context *context, void *to, const void *from, size_t bytes)
{
    bo_cuda_lock();
    const bo_status status = CALL(copy, to, from, bytes);
    bo_cuda_unlock();
    return status;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Element types with scales are converted on the host: this happens once per model. */
static bo_status through_host(bo_context *context, bo_element element, size_t rows, size_t columns, bool narrow,
                              const void *from, void *to)
{
    const size_t floats = rows * columns * sizeof(float), bytes = bo_element_bytes(element, rows, columns);
    void *wide = bo_alloc_raw(context, floats, 1, "a weight"), *kept = bo_alloc_raw(context, bytes, 1, "a weight");
    bo_status status = wide && kept ? BO_OK : BO_MEMORY;
    if (status == BO_OK && narrow) {
        status = read_bytes(context, wide, from, floats);
        if (status == BO_OK) status = bo_cpu_narrow(context, element, rows, columns, wide, kept);
        if (status == BO_OK) status = write_bytes(context, to, kept, bytes);
    } else if (status == BO_OK) {
        status = read_bytes(context, kept, from, bytes);
        if (status == BO_OK) status = bo_cpu_widen(context, element, rows, columns, kept, wide);
        if (status == BO_OK) status = write_bytes(context, to, wide, floats);
    }
    bo_free(wide);
    bo_free(kept);
    return status;
}

static bo_status convert(bo_context *context, bo_element from_element, bo_element to_element, size_t count,
                         const void *from, void *to)
{
    bo_cuda_lock();
    const bo_status status = BO_LAUNCH(context, convert, &((bo_cuda_convert){.count = count,
                                                                             .from_type = bo_cuda_type_of(from_element),
                                                                             .to_type = bo_cuda_type_of(to_element),
                                                                             .from = from,
                                                                             .to = to}));
    bo_cuda_unlock();
    return status;
}

static bool has_scales(bo_element element)
{
    return element == BO_ELEMENT_INT8 || element == BO_ELEMENT_INT4;
}

static bo_status narrow(bo_context *context, bo_element element, size_t rows, size_t columns, const void *floats,
                        void *to)
{
    if (has_scales(element)) return through_host(context, element, rows, columns, true, floats, to);
    return convert(context, BO_ELEMENT_FLOAT32, element, rows * columns, floats, to);
}

static bo_status widen(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                       void *floats)
{
    if (has_scales(element)) return through_host(context, element, rows, columns, false, from, floats);
    return convert(context, element, BO_ELEMENT_FLOAT32, rows * columns, from, floats);
}

static bo_status all_finite(bo_context *context, bo_element element, const void *numbers, size_t count, bool *out)
{
    int32_t found = 0;
    bo_cuda_lock();
    void *flag = bo_cuda_scratch(context, sizeof found);
    bo_status status = !flag ? BO_MEMORY : BO_LAUNCH(
        context, finite,
        &((bo_cuda_finite){.type = bo_cuda_type_of(element), .count = count, .x = numbers, .out = flag}));
    if (status == BO_OK) status = CALL(read, &found, flag, sizeof found);
    bo_cuda_unlock();
    *out = found != 0;
    return status;
}

static bo_status largest(bo_context *context, size_t rows, size_t columns, const void *floats, int32_t *host)
{
    bo_cuda_lock();
    void *found = bo_cuda_scratch(context, rows * sizeof *host);
    bo_status status = !found ? BO_MEMORY : BO_LAUNCH(context, largest,
                                 &((bo_cuda_largest){.rows = rows, .columns = columns, .x = floats, .out = found}));
    if (status == BO_OK) status = CALL(read, host, found, rows * sizeof *host);
    bo_cuda_unlock();
    return status;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bo_element held(bo_context *context)
{
    return bo_context_precision(context) == BO_PRECISION_BFLOAT16 ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32;
}

static bo_status record_begin(bo_context *context)
{
    return bo_cuda_check(context, bo_cuda_open_device()->functions->record_begin(bo_cuda_open_device()->cuda));
}

static bo_status record_end(bo_context *context, void **recording)
{
    return CALL(record_end, recording);
}

static bo_status replay(bo_context *context, void *recording)
{
    return CALL(replay, recording);
}

static void forget(void *recording)
{
    bo_cuda_lock();
    bo_cuda_open_device()->functions->forget(bo_cuda_open_device()->cuda, recording);
    bo_cuda_unlock();
}

static bo_status wait(bo_context *context)
{
    return bo_cuda_check(context, bo_cuda_open_device()->functions->wait(bo_cuda_open_device()->cuda));
}

static bo_status set_mark(bo_context *context, int mark)
{
    return CALL(mark, mark);
}

static bo_status elapsed(bo_context *context, int from, int to, double *seconds)
{
    return CALL(elapsed, from, to, seconds);
}

static bo_status rank_id(bo_context *context, unsigned char id[BO_RANK_ID])
{
    return CALL(rank_id, id);
}

static bo_status join(bo_context *context, const unsigned char id[BO_RANK_ID], int rank, int size)
{
    return CALL(join, id, rank, size);
}

static bo_status sum(bo_context *context, void *floats, size_t count)
{
    bo_cuda_lock();
    const bo_status status = CALL(sum, floats, count);
    bo_cuda_unlock();
    return status;
}

static const bo_device_runs runs = {
    .held = held,
    .lock = bo_cuda_lock,
    .unlock = bo_cuda_unlock,
    .stage = bo_cuda_stage,
    .unstage = bo_cuda_unstage,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = replay,
    .forget = forget,
    .wait = wait,
    .free_bytes = bo_cuda_free_bytes,
    .mark = set_mark,
    .elapsed = elapsed,
    .rank_id = rank_id,
    .join = join,
    .sum = sum,
};

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* One line per operation. Those that are absent are refused by name when a graph is recorded. */
static const bo_op *const ops[BO_OPERATION_COUNT] = {
    [BO_OPERATION_ADD] = &bo_cuda_op_add,
    [BO_OPERATION_ATTENTION] = &bo_cuda_op_attention,
    [BO_OPERATION_EMBED] = &bo_cuda_op_embed,
    [BO_OPERATION_POSITION] = &bo_cuda_op_position,
    [BO_OPERATION_NORM] = &bo_cuda_op_norm,
    [BO_OPERATION_DROPOUT] = &bo_cuda_op_dropout,
    [BO_OPERATION_ROPE] = &bo_cuda_op_rope,
    [BO_OPERATION_UNARY] = &bo_cuda_op_unary,
    [BO_OPERATION_GLU] = &bo_cuda_op_glu,
    [BO_OPERATION_LOSS] = &bo_cuda_op_loss,
    [BO_OPERATION_NOISE] = &bo_cuda_op_noise,
    [BO_OPERATION_ROUND] = &bo_cuda_op_round,
    [BO_OPERATION_PRODUCT] = &bo_cuda_op_product,
    [BO_OPERATION_SCALE] = &bo_cuda_op_scale,
    [BO_OPERATION_RESHAPE] = &bo_cuda_op_reshape,
    [BO_OPERATION_CONCAT] = &bo_cuda_op_concat,
    [BO_OPERATION_BATCH_NORM] = &bo_cuda_op_batch_norm,
    [BO_OPERATION_POOL] = &bo_cuda_op_pool,
    [BO_OPERATION_AGGREGATE] = &bo_cuda_op_aggregate,
    [BO_OPERATION_CONVOLUTION] = &bo_cuda_op_convolution,
    [BO_OPERATION_FEATURES] = &bo_cuda_op_features,
    [BO_OPERATION_MIX] = &bo_cuda_op_mix,
    [BO_OPERATION_RECURRENT] = &bo_cuda_op_recurrent,
    [BO_OPERATION_CROSS_ENTROPY] = &bo_cuda_op_cross_entropy,
    [BO_OPERATION_LINEAR] = &bo_cuda_op_linear,
    [BO_OPERATION_QUADRATIC] = &bo_cuda_op_quadratic,
};

extern const bo_backend bo_backend_cuda;
const bo_backend bo_backend_cuda = {
    .name = "cuda",
    .plain = false,
    .allocate = allocate,
    .release = release,
    .write = write_bytes,
    .read = read_bytes,
    .zero = zero,
    .copy = copy,
    .narrow = narrow,
    .widen = widen,
    .finite = all_finite,
    .largest = largest,
    .ops = ops,
    .updates = &bo_cuda_updates,
    .runs = &runs,
    .fits = &bo_cuda_fits,
};
