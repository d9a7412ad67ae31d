/* y_o = xᵀ W_o x. Only W_o + W_oᵀ matters: let V be its upper triangle (with the diagonal of W_o) and z = (x_i x_j), i
 * <= j. Then y = z Vᵀ, which halves the number of products. Rows are processed in chunks.
 *
 * dV = dyᵀ z, and both halves of dW_o are dV_o; dz = dy V, dx_k = Σ_{j>=k} dz_kj x_j + Σ_{i<=k} dz_ik x_i. */
#include "matrix.h"
#include "../shapes.h"

enum { CHUNK_BYTES = 128 << 20, EMULATED_BYTES = 1 << 12 }; /* of dz of a chunk */

/* The workspace has V (out x pairs), dV of the same shape if needed, and z or dz of a chunk. ld: padded number of
 * pairs. */
typedef struct quadratic {
    size_t rows, width, out, ld, chunk;
    bo_element type; /* of the factors V and z; dV and dz are float32 */
    const void *dy;  /* in that type */
    void *v, *dv, *z;
    bo_gpu_recast recast;
    size_t bytes;
} quadratic;

static quadratic plan(bo_context *context, const bo_op_call *call)
{
    quadratic q = {.rows = call->in[0].rows, .width = call->in[0].columns, .out = call->in[1].rows};
    q.type = bo_gpu_products(call);
    q.ld = bo_round_up(q.width * (q.width + 1) / 2, 8);
    const size_t bytes = bo_device_properties(bo_device_of(context))->emulated ? EMULATED_BYTES : CHUNK_BYTES;
    q.chunk = bo_min(bo_max(bytes / (q.ld * sizeof(float)), 1), q.rows);
    bo_carver carver = {call->scratch, 0};
    if (call->dout[0]) {
        bo_tensor dy = call->out[0];
        dy.data = (void *)(uintptr_t)call->dout[0];
        q.dy = bo_gpu_factor(&q.recast, &carver, &dy, q.rows, q.type);
    }
    q.v = bo_carve(&carver, q.out * q.ld, bo_gpu_bytes(q.type));
    if (call->din[1]) q.dv = bo_carve_floats(&carver, q.out * q.ld);
    q.z = bo_carve_floats(&carver, q.chunk * q.ld);
    q.bytes = carver.bytes;
    return q;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)gradients;
    *saved = 0;
    *scratch = plan(context, call).bytes;
    if (call->in[0].columns <= 12 << 10) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "quadratic: %zu columns, the GPU supports up to %d", call->in[0].columns,
                   12 << 10);
}

static char *row_of(const void *matrix, bo_element element, size_t columns, size_t first)
{
    return (char *)(uintptr_t)matrix + first * columns * bo_gpu_bytes(element);
}

static bo_gpu_quadratic of_weights(const bo_op_call *call, const quadratic *q)
{
    return (bo_gpu_quadratic){
        .type = q->type, .outer_type = call->in[1].element, .count = q->out, .width = q->width, .ld = q->ld};
}

static bo_gpu_quadratic of_rows(const bo_op_call *call, const quadratic *q, size_t first, size_t rows)
{
    return (bo_gpu_quadratic){.type = q->type,
                              .outer_type = call->in[0].element,
                              .count = rows,
                              .width = q->width,
                              .ld = q->ld,
                              .v = q->z,
                              .x = row_of(call->in[0].data, call->in[0].element, q->width, first)};
}

static bo_status fold(bo_context *context, const bo_op_call *call, const quadratic *q)
{
    bo_gpu_quadratic pairs = of_weights(call, q);
    pairs.w = call->in[1].data, pairs.v = q->v;
    return BO_LAUNCH(context, quadratic_fold, &pairs);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const quadratic q = plan(context, call);
    BO_TRY(fold(context, call, &q));
    for (size_t first = 0; first < q.rows; first += q.chunk) {
        const size_t rows = bo_min(q.chunk, q.rows - first);
        const bo_gpu_quadratic z = of_rows(call, &q, first, rows);
        const bo_gpu_gemm product = {
            .m = rows,
            .n = q.out,
            .k = q.ld,
            .a = q.z,
            .lda = q.ld,
            .tb = true,
            .b = q.v,
            .ldb = q.ld,
            .d = row_of(call->out[0].data, call->out[0].element, q.out, first),
            .ldd = q.out,
            .factors = q.type,
            .result = call->out[0].element,
            .alpha = 1,
        };
        BO_TRY(BO_LAUNCH(context, quadratic_expand, &z));
        BO_TRY(BO_LAUNCH(context, gemm, &product));
    }
    return BO_OK;
}

static bo_status weight_chunk(bo_context *context, const quadratic *q, const bo_gpu_quadratic *z, const void *dy,
                              bool add)
{
    const bo_gpu_gemm product = {
        .m = q->out,
        .n = q->ld,
        .k = z->count,
        .ta = true,
        .a = dy,
        .lda = q->out,
        .b = q->z,
        .ldb = q->ld,
        .d = q->dv,
        .ldd = q->ld,
        .factors = q->type,
        .result = BO_ELEMENT_FLOAT32,
        .alpha = 1,
        .beta = add ? 1 : 0,
    };
    BO_TRY(BO_LAUNCH(context, quadratic_expand, z));
    return BO_LAUNCH(context, gemm, &product);
}

static bo_status input_chunk(bo_context *context, const quadratic *q, const bo_gpu_quadratic *dz, const void *dy)
{
    const bo_gpu_gemm product = {
        .m = dz->count,
        .n = q->ld,
        .k = q->out,
        .a = dy,
        .lda = q->out,
        .b = q->v,
        .ldb = q->ld,
        .d = q->z,
        .ldd = q->ld,
        .factors = q->type,
        .result = BO_ELEMENT_FLOAT32,
        .alpha = 1,
    };
    BO_TRY(BO_LAUNCH(context, gemm, &product));
    return BO_LAUNCH(context, quadratic_contract, dz);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    const quadratic q = plan(context, call);
    BO_TRY(bo_gpu_recast_all(context, &q.recast));
    if (call->din[0]) BO_TRY(fold(context, call, &q));
    for (size_t first = 0; first < q.rows; first += q.chunk) {
        bo_gpu_quadratic pairs = of_rows(call, &q, first, bo_min(q.chunk, q.rows - first));
        const void *dy = (const char *)q.dy + first * q.out * bo_gpu_bytes(q.type);
        if (call->din[1]) BO_TRY(weight_chunk(context, &q, &pairs, dy, first > 0));
        if (!call->din[0]) continue;
        pairs.dx = row_of(call->din[0], call->in[0].element, q.width, first), pairs.accumulate = call->add[0];
        BO_TRY(input_chunk(context, &q, &pairs, dy));
    }
    if (!call->din[1]) return BO_OK;
    bo_gpu_quadratic pairs = of_weights(call, &q);
    pairs.w = call->din[1], pairs.v = q.dv, pairs.accumulate = call->add[1];
    return BO_LAUNCH(context, quadratic_unfold, &pairs);
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return 2.0 * (double)call->in[0].rows * (double)bo_gpu_count(&call->in[1]);
}

const bo_op bo_gpu_op_quadratic = {
    .name = "quadratic",
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_quadratic,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
