/* y_i = s x W_iᵀ + b_i (+ keep r): products of src/math, with x packed once for all weights. Biases and residual are
 * the initial values of the sums. */
#include "cpu.h"
#include <string.h>
#include "blocks.h"
#include "stored.h"
#include "columns.h"
#include "../shapes.h"
#include "../../math/linalg.h"

enum { MAX_WEIGHTS = 4 };

/* The inputs by name. */
typedef struct linear {
    size_t rows, columns; /* of x */
    size_t weights;
    const bo_tensor *weight, *bias, *residual; /* weight and bias: the first tensor of each, or NULL */
    size_t first_bias, place_of_residual;
    float scale, keep;
} linear;

static float default_if_zero(double value, double fallback)
{
    return (float)(value != 0 ? value : fallback);
}

static linear linear_of(const bo_op_call *call)
{
    const bo_linear_attributes *attributes = call->attributes;
    linear l = {.rows = call->in[0].rows, .columns = call->in[0].columns, .weights = attributes->weights};
    l.weight = &call->in[1];
    l.first_bias = 1 + l.weights;
    l.place_of_residual = 1 + l.weights * (attributes->bias ? 2 : 1);
    if (attributes->bias) l.bias = &call->in[l.first_bias];
    if (attributes->residual) l.residual = &call->in[l.place_of_residual];
    l.scale = default_if_zero(attributes->scale, 1);
    l.keep = default_if_zero(attributes->keep, 1);
    return l;
}

static void products_of(const linear *l, const bo_op_call *call, bo_gemm_product *products)
{
    for (size_t i = 0; i < l->weights; i++) {
        size_t out = l->weight[i].rows;
        products[i] = (bo_gemm_product){.n = out, .tb = true, .b = l->weight[i].data, .ldb = l->columns};
        products[i].stored = bo_stored_of(l->weight[i].element);
        products[i].c = call->out[i].data, products[i].ldc = out;
        if (l->bias) products[i].row = l->bias[i].data;
        if (l->residual) products[i].beta = l->keep, products[i].base = l->residual->data, products[i].ldbase = out;
    }
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    linear l = linear_of(call);
    bo_gemm_product products[MAX_WEIGHTS] = {{0}};
    products_of(&l, call, products);
    *saved = 0;
    *scratch = bo_gemm_shared_bytes(context, bo_context_precision(context), l.rows, l.columns, l.weights, products);
    for (size_t i = 0; gradients && i < l.weights; i++) {
        size_t out = l.weight[i].rows;
        size_t dx = bo_gemm_bytes(context, bo_context_precision(context), l.rows, l.columns, out);
        size_t dw = bo_gemm_bytes(context, bo_context_precision(context), out, l.columns, l.rows);
        if (dx > *scratch) *scratch = dx;
        if (dw > *scratch) *scratch = dw;
    }
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    linear l = linear_of(call);
    bo_gemm_product products[MAX_WEIGHTS] = {{0}};
    products_of(&l, call, products);
    bo_gemm_shared(context, bo_context_precision(context), false, l.rows, l.columns, l.scale, call->in[0].data,
                   l.columns, l.weights, products, call->scratch);
    return BO_OK;
}

/* Computes the gradients of W_i and b_i. */
static void weight_gradients(bo_context *context, const bo_op_call *call, const linear *l, size_t i)
{
    size_t out = l->weight[i].rows;
    const float *dy = call->dout[i];
    void *dw = call->din[1 + i], *db = l->bias ? call->din[l->first_bias + i] : NULL;
    if (dw)
        bo_gemm_in(context, bo_context_precision(context), true, false, out, l->columns, l->rows, l->scale, dy, out,
                   call->in[0].data, l->columns, call->add[1 + i] ? 1.0f : 0.0f, dw, l->columns, call->scratch);
    if (db) bo_sum_columns(context, l->rows, out, dy, call->add[l->first_bias + i], db);
}

static void no_gradient(const bo_op_call *call, size_t place)
{
    if (call->din[place] && !call->add[place])
        memset(call->din[place], 0, bo_operand_floats(&call->in[place]) * sizeof(float));
}

/* Computes keep dy, the gradient of the residual. */
static void kept_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    linear l = linear_of(call);
    const float *dy = call->dout[0];
    float *dr = call->din[l.place_of_residual];
    bool add = call->add[l.place_of_residual];
    for (size_t i = block->first; i < block->end; i++) bo_store(&dr[i], add, l.keep * dy[i]);
}

static void residual_gradient(bo_context *context, const bo_op_call *call, const linear *l)
{
    if (!l->residual || !call->din[l->place_of_residual]) return;
    if (l->keep == 1)
        bo_hand_back(context, call, l->place_of_residual);
    else
        bo_blocks(context, call, bo_operand_floats(l->residual), BO_BLOCK_FLOATS, kept_block);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(bo_refuse_stored(context, call, "linear"));
    if (bo_backward_is_zero(call)) return BO_OK;
    linear l = linear_of(call);
    bool add = call->add[0];
    for (size_t i = 0; i < l.weights; i++) {
        const float *dy = call->dout[i];
        size_t out = l.weight[i].rows;
        if (!dy) {
            no_gradient(call, 1 + i);
            if (l.bias) no_gradient(call, l.first_bias + i);
            continue;
        }
        if (call->din[0])
            bo_gemm_in(context, bo_context_precision(context), false, false, l.rows, l.columns, out, l.scale, dy, out,
                       l.weight[i].data, l.columns, add ? 1.0f : 0.0f, call->din[0], l.columns, call->scratch);
        add = true;
        weight_gradients(context, call, &l, i);
    }
    residual_gradient(context, call, &l);
    return BO_OK;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    linear l = linear_of(call);
    double sum = 0;
    for (size_t i = 0; i < l.weights; i++) sum += 2.0 * (double)l.rows * (double)bo_operand_floats(&l.weight[i]);
    return sum;
}

const bo_op bo_cpu_linear = {
    .name = "linear",
    .attributes = sizeof(bo_linear_attributes),
    .reads_inputs = (1 << (1 + MAX_WEIGHTS)) - 1, /* x and the weights */
    .stored_inputs = ((1 << MAX_WEIGHTS) - 1) << 1,
    .passes = bo_passes_linear,
    .shape = bo_shape_linear,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
