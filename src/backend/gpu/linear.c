/* y_i = s x W_iᵀ + b_i (+ keep r): one product per weight. Weights are float32; in bfloat16 they are converted in
 * workspace, in forward and again in backward, which costs 6 bytes per weight. */
#include "matrix.h"
#include "../shapes.h"

enum { MAX_WEIGHTS = 4, MAX_ROWS = 8, MAX_INTEGER_ROWS = 16 };

/* The inputs by name, with the factors of the products in their type. */
typedef struct linear {
    size_t rows, columns; /* of x */
    size_t weights, first_bias, place_of_residual;
    bool has_bias, has_residual;
    float scale, keep;
    bo_element type; /* of products */
    const void *x, *w[MAX_WEIGHTS], *bias[MAX_WEIGHTS], *residual, *dy[MAX_WEIGHTS];
    float *partial; /* sums of columns */
    bo_gpu_recast recast;
    size_t bytes; /* of workspace */
} linear;

static linear linear_of(const bo_op_call *call)
{
    const bo_linear_attributes *attributes = call->attributes;
    linear l = {.rows = call->in[0].rows, .columns = call->in[0].columns, .weights = attributes->weights};
    l.has_bias = attributes->bias, l.has_residual = attributes->residual;
    l.first_bias = 1 + l.weights;
    l.place_of_residual = 1 + l.weights * (attributes->bias ? 2 : 1);
    l.scale = (float)(attributes->scale != 0 ? attributes->scale : 1);
    l.keep = (float)(attributes->keep != 0 ? attributes->keep : 1);
    l.type = bo_gpu_products(call);
    return l;
}

static const void *factor(linear *l, bo_carver *carver, const bo_tensor *tensor, bo_element type)
{
    return bo_gpu_factor(&l->recast, carver, tensor, tensor->rows, type);
}

/* Decoding: weights are read in their storage type, once per 8 rows. Integer weights are read twice if necessary, which
 * is cheaper than converting them. */
static bool has_few_rows(const bo_op_call *call, const linear *l)
{
    const bo_element stored = call->in[1].element;
    const bool integers = stored == BO_ELEMENT_INT8 || stored == BO_ELEMENT_INT4;
    for (size_t i = 1; i < l->weights; i++)
        if (call->in[1 + i].element != stored) return false;
    return call->in[0].element == BO_ELEMENT_BFLOAT16 && l->columns % BO_GPU_FEW_COLUMNS == 0 &&
           l->rows <= (integers ? MAX_INTEGER_ROWS : MAX_ROWS);
}

/* Bias and residual have the type of the output. */
static linear plan_forward(const bo_op_call *call)
{
    linear l = linear_of(call);
    if (has_few_rows(call, &l)) return l; /* needs no memory */
    bo_carver carver = {call->scratch, 0};
    l.x = factor(&l, &carver, &call->in[0], l.type);
    for (size_t i = 0; i < l.weights; i++) {
        const bo_element out = call->out[i].element;
        l.w[i] = factor(&l, &carver, &call->in[1 + i], l.type);
        if (l.has_bias) l.bias[i] = factor(&l, &carver, &call->in[l.first_bias + i], out);
        if (l.has_residual) l.residual = factor(&l, &carver, &call->in[l.place_of_residual], out);
    }
    l.bytes = carver.bytes;
    return l;
}

static linear plan_backward(const bo_op_call *call)
{
    linear l = linear_of(call);
    bo_carver carver = {call->scratch, 0};
    size_t partial = 0;
    bool any = false;
    for (size_t i = 0; i < l.weights; i++) {
        if (!call->dout[i]) continue;
        bo_tensor dy = call->out[i];
        dy.data = (void *)(uintptr_t)call->dout[i];
        l.dy[i] = factor(&l, &carver, &dy, l.type);
        if (call->din[0]) l.w[i] = factor(&l, &carver, &call->in[1 + i], l.type);
        any |= call->din[1 + i] != NULL;
        if (l.has_bias && call->din[l.first_bias + i])
            partial = bo_max(partial, bo_gpu_sum_floats(l.rows, call->out[i].columns));
    }
    if (any) l.x = factor(&l, &carver, &call->in[0], l.type);
    l.partial = bo_carve_floats(&carver, partial);
    l.bytes = carver.bytes;
    return l;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = bo_max(plan_forward(call).bytes, plan_backward(call).bytes);
    return BO_OK;
}

/* ---- a few rows -------------------------------------------------------------------------------------------------- */

static bo_status forward_few(bo_context *context, const bo_op_call *call, const linear *l)
{
    bo_gpu_few_rows few = {
        .rows = l->rows,
        .columns = l->columns,
        .x = call->in[0].data,
        .scale = l->scale,
        .keep = l->keep,
        .stored = call->in[1].element,
        .count = l->weights,
    };
    if (l->has_residual) {
        few.residual = call->in[l->place_of_residual].data;
        few.residual_type = call->in[l->place_of_residual].element;
    }
    for (size_t i = 0; i < l->weights; i++) {
        few.items[i] = (bo_gpu_few_item){
            .w = call->in[1 + i].data,
            .y = call->out[i].data,
            .n = call->in[1 + i].rows,
            .y_type = call->out[i].element,
        };
        if (!l->has_bias) continue;
        few.items[i].bias = call->in[l->first_bias + i].data;
        few.items[i].bias_type = call->in[l->first_bias + i].element;
    }
    return BO_LAUNCH(context, few_rows, &few);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const linear l = plan_forward(call);
    if (has_few_rows(call, &l)) return forward_few(context, call, &l);
    BO_TRY(bo_gpu_recast_all(context, &l.recast));
    for (size_t i = 0; i < l.weights; i++) {
        const size_t out = call->in[1 + i].rows;
        const bo_gpu_gemm product = {
            .m = l.rows,
            .n = out,
            .k = l.columns,
            .a = l.x,
            .lda = l.columns,
            .tb = true,
            .b = l.w[i],
            .ldb = l.columns,
            .c = l.residual,
            .ldc = out,
            .beta = l.residual ? l.keep : 0,
            .d = call->out[i].data,
            .ldd = out,
            .factors = l.type,
            .result = call->out[i].element,
            .alpha = l.scale,
            .bias = l.bias[i],
        };
        BO_TRY(BO_LAUNCH(context, gemm, &product));
    }
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* dx = s Σ_i dy_i W_i; `add`: accumulates. */
static bo_status input_gradient(bo_context *context, const bo_op_call *call, const linear *l, size_t i, bool add)
{
    const size_t out = call->in[1 + i].rows;
    const bo_gpu_gemm product = {
        .m = l->rows,
        .n = l->columns,
        .k = out,
        .a = l->dy[i],
        .lda = out,
        .b = l->w[i],
        .ldb = l->columns,
        .d = call->din[0],
        .ldd = l->columns,
        .factors = l->type,
        .result = call->in[0].element,
        .alpha = l->scale,
        .beta = add ? 1 : 0,
    };
    return BO_LAUNCH(context, gemm, &product);
}

/* dW_i = s dy_iᵀ x. */
static bo_status weight_gradient(bo_context *context, const bo_op_call *call, const linear *l, size_t i)
{
    const size_t out = call->in[1 + i].rows;
    const bo_gpu_gemm product = {
        .m = out,
        .n = l->columns,
        .k = l->rows,
        .ta = true,
        .a = l->dy[i],
        .lda = out,
        .b = l->x,
        .ldb = l->columns,
        .d = call->din[1 + i],
        .ldd = l->columns,
        .factors = l->type,
        .result = call->in[1 + i].element,
        .alpha = l->scale,
        .beta = call->add[1 + i] ? 1 : 0,
    };
    return BO_LAUNCH(context, gemm, &product);
}

static bo_status bias_gradient(bo_context *context, const bo_op_call *call, const linear *l, size_t i)
{
    const size_t place = l->first_bias + i, out = call->in[place].columns;
    const bo_gpu_sum_columns sums = {
        .type = call->out[i].element,
        .out_type = call->in[place].element,
        .rows = l->rows,
        .columns = out,
        .ld = out,
        .accumulate = call->add[place],
        .x = call->dout[i],
        .out = call->din[place],
        .parts = bo_gpu_sum_parts(l->rows),
        .partial = l->partial,
    };
    return BO_LAUNCH(context, sum_columns, &sums);
}

static bo_status residual_gradient(bo_context *context, const bo_op_call *call, const linear *l)
{
    const size_t place = l->place_of_residual;
    if (!l->has_residual || !call->din[place]) return BO_OK;
    const bo_gpu_store_scaled store = {
        .count = bo_gpu_count(&call->in[place]),
        .from_type = call->out[0].element,
        .to_type = call->in[place].element,
        .factor = l->keep,
        .accumulate = call->add[place],
        .from = call->dout[0],
        .to = call->din[place],
    };
    return BO_LAUNCH(context, store_scaled, &store);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(bo_gpu_refuse_integers(context, call, "linear"));
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    const linear l = plan_backward(call);
    BO_TRY(bo_gpu_recast_all(context, &l.recast));
    bool add = call->add[0];
    for (size_t i = 0; i < l.weights; i++) {
        if (!call->dout[i]) {
            BO_TRY(bo_gpu_no_gradient(context, call, 1 + i));
            if (l.has_bias) BO_TRY(bo_gpu_no_gradient(context, call, l.first_bias + i));
            continue;
        }
        if (call->din[0]) BO_TRY(input_gradient(context, call, &l, i, add));
        add = true;
        if (call->din[1 + i]) BO_TRY(weight_gradient(context, call, &l, i));
        if (l.has_bias && call->din[l.first_bias + i]) BO_TRY(bias_gradient(context, call, &l, i));
    }
    return residual_gradient(context, call, &l);
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    const linear l = linear_of(call);
    double sum = 0;
    for (size_t i = 0; i < l.weights; i++) sum += 2.0 * (double)l.rows * (double)bo_gpu_count(&call->in[1 + i]);
    return sum;
}

const bo_op bo_gpu_op_linear = {
    .name = "linear",
    .attributes = sizeof(bo_linear_attributes),
    .reads_inputs = (1 << (1 + MAX_WEIGHTS)) - 1, /* x and the weights */
    .stored_inputs = ((1 << MAX_WEIGHTS) - 1) << 1,
    .float_results = (1 << MAX_WEIGHTS) - 1,
    .passes = bo_passes_linear,
    .shape = bo_shape_linear,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
