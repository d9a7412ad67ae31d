/* A small backend of five operations: it shows that the tape does not depend on the CPU backend, and its results are
 * easy to check. Its calls are watched. */
#ifndef BO_TEST_TOY_H
#define BO_TEST_TOY_H

#include "watch.h"
#include "backend/shapes.h"

static size_t numbers(const bo_tensor *operand)
{
    return operand->rows * operand->columns;
}

static void write_gradient(float *to, bool add, float value)
{
    *to = add ? *to + value : value;
}

static bo_status toy_no_sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                              size_t *scratch)
{
    (void)context, (void)call, (void)gradients;
    *saved = *scratch = 0;
    return BO_OK;
}

static bo_status toy_shape(bo_context *context, bo_op_call *call)
{
    for (size_t i = 1; i < call->inputs; i++)
        if (numbers(&call->in[i]) != numbers(&call->in[0]))
            return bo_fail(context, BO_INVALID, "toy: %zu numbers, expected %zu", numbers(&call->in[i]),
                           numbers(&call->in[0]));
    call->outputs = 1;
    call->out[0] = call->in[0];
    return BO_OK;
}

/* ---- a + b ------------------------------------------------------------------------------------------------------- */

static bo_status toy_add(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    const float *a = call->in[0].data, *b = call->in[1].data;
    for (size_t i = 0; i < numbers(&call->in[0]); i++) ((float *)call->out[0].data)[i] = a[i] + b[i];
    return BO_OK;
}

static bo_status toy_add_backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; call->din[j] && i < numbers(&call->in[0]); i++)
            write_gradient((float *)call->din[j] + i, call->add[j], ((const float *)call->dout[0])[i]);
    return BO_OK;
}

/* ---- a b --------------------------------------------------------------------------------------------------------- */

static bo_status toy_product(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    const float *a = call->in[0].data, *b = call->in[1].data;
    for (size_t i = 0; i < numbers(&call->in[0]); i++) ((float *)call->out[0].data)[i] = a[i] * b[i];
    return BO_OK;
}

static bo_status toy_product_backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; call->din[j] && i < numbers(&call->in[0]); i++)
            write_gradient((float *)call->din[j] + i, call->add[j],
                           ((const float *)call->dout[0])[i] * ((const float *)call->in[1 - j].data)[i]);
    return BO_OK;
}

/* ---- sin(x): cos(x) is saved, and both pass through scratch ------------------------------------------------------ */

static bo_status toy_sine_sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                                size_t *scratch)
{
    (void)context;
    *saved = gradients ? numbers(&call->in[0]) * sizeof(float) : 0;
    *scratch = numbers(&call->in[0]) * sizeof(float);
    return BO_OK;
}

static bo_status toy_sine(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    float *scratch = call->scratch;
    for (size_t i = 0; i < numbers(&call->in[0]); i++) scratch[i] = sinf(((const float *)call->in[0].data)[i]);
    for (size_t i = 0; i < numbers(&call->in[0]); i++) ((float *)call->out[0].data)[i] = scratch[i];
    for (size_t i = 0; call->saved && i < numbers(&call->in[0]); i++)
        ((float *)call->saved)[i] = cosf(((const float *)call->in[0].data)[i]);
    return BO_OK;
}

static bo_status toy_sine_backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    float *scratch = call->scratch;
    for (size_t i = 0; i < numbers(&call->in[0]); i++)
        scratch[i] = ((const float *)call->saved)[i] * ((const float *)call->dout[0])[i];
    for (size_t i = 0; call->din[0] && i < numbers(&call->in[0]); i++)
        write_gradient((float *)call->din[0] + i, call->add[0], scratch[i]);
    return BO_OK;
}

/* ---- y = σ(x): backward reads the output; the second output is 2y ------------------------------------------------ */

static bo_status toy_sigmoid_shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(toy_shape(context, call));
    call->outputs = 2;
    call->out[1] = call->out[0];
    return BO_OK;
}

static bo_status toy_sigmoid(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    for (size_t i = 0; i < numbers(&call->in[0]); i++) {
        float y = 1 / (1 + expf(-((const float *)call->in[0].data)[i]));
        ((float *)call->out[0].data)[i] = y;
        ((float *)call->out[1].data)[i] = 2 * y;
    }
    return BO_OK;
}

static bo_status toy_sigmoid_backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    const float *y = call->out[0].data, *d0 = call->dout[0], *d1 = call->dout[1];
    for (size_t i = 0; call->din[0] && i < numbers(&call->in[0]); i++)
        write_gradient((float *)call->din[0] + i, call->add[0],
                       y[i] * (1 - y[i]) * ((d0 ? d0[i] : 0) + 2 * (d1 ? d1[i] : 0)));
    return BO_OK;
}

/* ---- Σ x (1 x 1): forward runs in backward ----------------------------------------------------------------------- */

static bo_status toy_sum_shape(bo_context *context, bo_op_call *call)
{
    (void)context;
    call->outputs = 1;
    call->out[0] = (bo_tensor){.rows = 1, .columns = 1};
    return BO_OK;
}

static void sum_into(const bo_op_call *call)
{
    double sum = 0;
    for (size_t i = 0; i < numbers(&call->in[0]); i++) sum += (double)((const float *)call->in[0].data)[i];
    *(float *)call->out[0].data = (float)sum;
}

static bo_status toy_sum(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    sum_into(call);
    return BO_OK;
}

static bo_status toy_sum_backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(before_call(context, call));
    if (call->out[0].data) sum_into(call); /* late */
    for (size_t i = 0; call->din[0] && i < numbers(&call->in[0]); i++)
        write_gradient((float *)call->din[0] + i, call->add[0], *(const float *)call->dout[0]);
    return BO_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum {
    TOY_ADD = BO_OPERATION_ADD,
    TOY_PRODUCT = BO_OPERATION_GLU,
    TOY_SINE = BO_OPERATION_UNARY,
    TOY_SIGMOID = BO_OPERATION_NORM,
    TOY_SUM = BO_OPERATION_LOSS
};

static double toy_operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return (double)numbers(&call->in[0]);
}

static const bo_op toy_add_op = {.name = "add",
                                 .passes = bo_passes_add,
                                 .shape = toy_shape,
                                 .sizes = toy_no_sizes,
                                 .forward = toy_add,
                                 .backward = toy_add_backward,
                                 .operations = toy_operations};
static const bo_op toy_product_op = {.name = "product",
                                     .reads_inputs = 3,
                                     .shape = toy_shape,
                                     .sizes = toy_no_sizes,
                                     .forward = toy_product,
                                     .backward = toy_product_backward};
static const bo_op toy_sine_op = {
    .name = "sine", .shape = toy_shape, .sizes = toy_sine_sizes, .forward = toy_sine, .backward = toy_sine_backward};
static const bo_op toy_sigmoid_op = {.name = "sigmoid",
                                     .reads_outputs = 1,
                                     .shape = toy_sigmoid_shape,
                                     .sizes = toy_no_sizes,
                                     .forward = toy_sigmoid,
                                     .backward = toy_sigmoid_backward};
static const bo_op toy_sum_op = {.name = "sum",
                                 .reads_inputs = 1,
                                 .forward_in_backward = true,
                                 .shape = toy_sum_shape,
                                 .sizes = toy_no_sizes,
                                 .forward = toy_sum,
                                 .backward = toy_sum_backward};
static const bo_op *const toy_ops[BO_OPERATION_COUNT] = {[TOY_ADD] = &toy_add_op,
                                                         [TOY_PRODUCT] = &toy_product_op,
                                                         [TOY_SINE] = &toy_sine_op,
                                                         [TOY_SIGMOID] = &toy_sigmoid_op,
                                                         [TOY_SUM] = &toy_sum_op};

static bo_device *toy_device(void)
{
    static bo_backend backend;
    backend = *bo_backend_cpu();
    backend.ops = toy_ops;
    backend.narrow = watched_narrow;
    backend.widen = watched_widen;
    return device_with(&backend);
}

#endif
