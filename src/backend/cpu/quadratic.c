/* y_o = xᵀ W_o x. Only W_o + W_oᵀ matters: let V be its upper triangle (with the diagonal of W_o) and z = (x_i x_j), i
 * <= j. Then y = z Vᵀ, which halves the number of products. Chunks of rows are chosen so that z stays in cache.
 *
 * dV = dyᵀ z, and both halves of dW_o are dV_o; dz = dy V, dx_k = Σ_{j>=k} dz_kj x_j + Σ_{i<=k} dz_ik x_i. */
#include <assert.h>
#include "cpu.h"
#include <string.h>
#include "blocks.h"
#include "../shapes.h"
#include "../../base/carver.h"
#include "../../math/linalg.h"

enum { CHUNK_FLOATS = BO_SIZE(1 << 19, 64), MIN_ROWS = BO_SIZE(16, 2) };

/* Invariant: scratch contains V (out x pairs), dV of the same shape if needed, z of a chunk, dz of a chunk
 * in backward, and the GEMM workspace, each aligned to 64 bytes. */
typedef struct quadratic {
    const bo_op_call *call;
    const bo_kernels *kernels;
    size_t rows, width, out, pairs;
    size_t chunk, each; /* rows per chunk, and per task */
    size_t first, end;  /* rows of this chunk */
    float *v, *dv, *z, *dz;
    void *workspace;
    size_t bytes; /* bytes of workspace */
} quadratic;

static quadratic quadratic_of(bo_context *context, const bo_op_call *call)
{
    quadratic q = {.call = call, .kernels = bo_context_kernels(context)};
    q.rows = call->in[0].rows, q.width = call->in[0].columns, q.out = call->in[1].rows;
    q.pairs = q.width * (q.width + 1) / 2;
    q.chunk = bo_max(CHUNK_FLOATS / q.pairs, MIN_ROWS);
    if (q.chunk > q.rows) q.chunk = q.rows;
    q.each = bo_block_rows(q.pairs);
    bool backward = call->dout[0] != NULL;
    bo_carver carver = {call->scratch, 0};
    size_t products = bo_gemm_bytes(context, bo_context_precision(context), q.chunk, q.out, q.pairs);
    q.v = bo_carve_floats(&carver, q.out * q.pairs);
    if (call->din[1]) {
        q.dv = bo_carve_floats(&carver, q.out * q.pairs);
        products = bo_max(products, bo_gemm_bytes(context, bo_context_precision(context), q.out, q.pairs, q.chunk));
    }
    q.z = bo_carve_floats(&carver, q.chunk * q.pairs);
    if (backward) {
        q.dz = q.z; /* z is no longer needed when dz is computed */
        products = bo_max(products, bo_gemm_bytes(context, bo_context_precision(context), q.chunk, q.pairs, q.out));
    }
    q.workspace = bo_carve(&carver, products, 1);
    q.bytes = carver.bytes;
    assert(q.bytes % 64 == 0 && (uintptr_t)call->scratch % 64 == 0);
    return q;
}

/* ---- W and V ----------------------------------------------------------------------------------------------------- */

/* Task: computes V of one output. */
static void fold_task(void *arg, size_t o, int worker)
{
    (void)worker;
    const quadratic *q = arg;
    size_t w = q->width;
    const float *from = (const float *)q->call->in[1].data + o * w * w;
    float *to = q->v + o * q->pairs;
    for (size_t i = 0; i < w; i++) {
        *to++ = from[i * w + i];
        for (size_t j = i + 1; j < w; j++) *to++ = from[i * w + j] + from[j * w + i];
    }
}

/* Task: computes dW of one output. */
static void unfold_task(void *arg, size_t o, int worker)
{
    (void)worker;
    const quadratic *q = arg;
    size_t w = q->width;
    bool add = q->call->add[1];
    const float *from = q->dv + o * q->pairs;
    float *to = (float *)q->call->din[1] + o * w * w;
    for (size_t i = 0; i < w; i++)
        for (size_t j = i; j < w; j++, from++) {
            bo_store(&to[i * w + j], add, *from);
            if (j > i) bo_store(&to[j * w + i], add, *from);
        }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void rows_of_task(const quadratic *q, size_t index, size_t *first, size_t *end)
{
    *first = q->first + index * q->each;
    *end = q->end - *first < q->each ? q->end : *first + q->each;
}

static void expand_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const quadratic *q = arg;
    size_t first, end;
    rows_of_task(q, index, &first, &end);
    for (size_t r = first; r < end; r++) {
        const float *x = (const float *)q->call->in[0].data + r * q->width;
        q->kernels->triangle(q->width, x, x, 1, 1, 1, q->z + (r - q->first) * q->pairs);
    }
}

static void contract_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const quadratic *q = arg;
    size_t first, end;
    rows_of_task(q, index, &first, &end);
    for (size_t r = first; r < end; r++) {
        const float *x = (const float *)q->call->in[0].data + r * q->width;
        float *dx = (float *)q->call->din[0] + r * q->width;
        if (!q->call->add[0]) memset(dx, 0, q->width * sizeof *dx);
        q->kernels->triangle_back(q->width, x, x, 1, 1, 1, q->dz + (r - q->first) * q->pairs, dx, dx);
    }
}

/* Advances to the next rows. Returns false at the end. */
static bool next_chunk(quadratic *q)
{
    q->first = q->end;
    q->end = q->rows - q->first < q->chunk ? q->rows : q->first + q->chunk;
    return q->first < q->rows;
}

static void on_rows(bo_context *context, quadratic *q, bo_task_fn task)
{
    bo_parallel(context, bo_block_count(q->end - q->first, q->each), task, q);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    quadratic q = quadratic_of(context, call);
    bo_parallel(context, q.out, fold_task, &q);
    while (next_chunk(&q)) {
        on_rows(context, &q, expand_task);
        bo_gemm_in(context, bo_context_precision(context), false, true, q.end - q.first, q.out, q.pairs, 1, q.z,
                   q.pairs, q.v, q.pairs, 0, (float *)call->out[0].data + q.first * q.out, q.out, q.workspace);
    }
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    quadratic q = quadratic_of(context, call);
    if (call->din[0]) bo_parallel(context, q.out, fold_task, &q);
    while (next_chunk(&q)) {
        const float *dy = (const float *)call->dout[0] + q.first * q.out;
        size_t rows = q.end - q.first;
        if (call->din[1]) {
            on_rows(context, &q, expand_task);
            bo_gemm_in(context, bo_context_precision(context), true, false, q.out, q.pairs, rows, 1, dy, q.out, q.z,
                       q.pairs, q.first ? 1 : 0, q.dv, q.pairs, q.workspace);
        }
        if (!call->din[0]) continue;
        bo_gemm_in(context, bo_context_precision(context), false, false, rows, q.pairs, q.out, 1, dy, q.out, q.v,
                   q.pairs, 0, q.dz, q.pairs, q.workspace);
        on_rows(context, &q, contract_task);
    }
    if (call->din[1]) bo_parallel(context, q.out, unfold_task, &q);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)gradients;
    *saved = 0;
    *scratch = quadratic_of(context, call).bytes;
    return BO_OK;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return 2.0 * (double)call->in[0].rows * (double)bo_operand_floats(&call->in[1]);
}

const bo_op bo_cpu_quadratic = {
    .name = "quadratic",
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_quadratic,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
