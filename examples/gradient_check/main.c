/* A custom operation, y = x / |x| for each row. Its gradient is checked against finite differences. */
#include <bochner/bochner.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 6, COLUMNS = 5, SIZE = ROWS * COLUMNS };

static int fail(bo_context *context)
{
    fprintf(stderr, "gradient_check: %s\n", bo_context_error(context));
    return 1;
}

static float length_of(const float *row, size_t columns)
{
    float sum = 0;
    for (size_t j = 0; j < columns; j++) sum += row[j] * row[j];
    return sqrtf(sum);
}

static bo_status unit_forward(bo_context *context, const bo_operation_call *call)
{
    const size_t columns = call->in[0].columns;
    for (size_t i = 0; i < call->in[0].rows; i++) {
        const float *x = (const float *)call->in[0].data + i * columns, length = length_of(x, columns);
        float *y = (float *)call->out[0].data + i * columns;
        if (length == 0) return bo_context_fail(context, BO_NUMERIC, "row %zu has no direction", i);
        for (size_t j = 0; j < columns; j++) y[j] = x[j] / length;
    }
    return BO_OK;
}

/* dx = (dy - y (y·dy)) / |x|, added to the existing gradient. */
static bo_status unit_backward(bo_context *context, const bo_operation_call *call)
{
    const size_t columns = call->in[0].columns;
    (void)context;
    for (size_t i = 0; call->din[0] && i < call->in[0].rows; i++) {
        const float *x = (const float *)call->in[0].data + i * columns,
                    *y = (const float *)call->out[0].data + i * columns;
        const float *dy = call->dout[0] + i * columns, length = length_of(x, columns);
        float along = 0, *dx = call->din[0] + i * columns;
        for (size_t j = 0; j < columns; j++) along += y[j] * dy[j];
        for (size_t j = 0; j < columns; j++) dx[j] += (dy[j] - y[j] * along) / length;
    }
    return BO_OK;
}

static const bo_operation_desc unit = {.name = "unit", .inputs = 1, .forward = unit_forward, .backward = unit_backward};

static float loss_at(bo_context *context, bo_graph *graph, bo_value x, bo_value loss, const float *numbers)
{
    float value = NAN;
    if (bo_graph_write(context, graph, x, numbers) != BO_OK || bo_graph_run(context, graph, NULL) != BO_OK ||
        bo_graph_read(context, graph, loss, &value) != BO_OK)
        printf("%s\n", bo_context_error(context));
    return value;
}

int main(void)
{
    const float h = 0x1p-8f;
    float numbers[SIZE], target[SIZE], gradient[SIZE], worst = 0;
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    if (bo_weights_create(context, &weights) != BO_OK || bo_graph_create(context, weights, &graph) != BO_OK) return 1;
    for (int i = 0; i < SIZE; i++) numbers[i] = sinf((float)(3 * i + 1)), target[i] = cosf((float)(2 * i));

    bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    bo_value t = bo_graph_input(graph, "target", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    bo_value y = bo_graph_apply_custom(graph, &unit, NULL, 0, 1, &x);
    bo_value loss = bo_graph_loss(graph, BO_LOSS_KIND_MSE, y, t);
    bo_graph_keep_gradient(graph, x); /* inputs have no gradient by default */
    const bo_graph_compile_desc training = {.loss = loss, .gradients = true};
    if (bo_graph_compile(context, graph, &training) != BO_OK || bo_weights_allocate(context, weights, true) != BO_OK ||
        bo_graph_allocate(context, graph) != BO_OK || bo_graph_write(context, graph, t, target) != BO_OK)
        return fail(context);

    loss_at(context, graph, x, loss, numbers);
    if (bo_graph_read_gradient(context, graph, x, gradient) != BO_OK) return fail(context);
    for (int i = 0; i < SIZE; i++) {
        const float before = numbers[i];
        numbers[i] = before + h;
        const float above = loss_at(context, graph, x, loss, numbers);
        numbers[i] = before - h;
        const float below = loss_at(context, graph, x, loss, numbers);
        numbers[i] = before;
        worst = fmaxf(worst, fabsf(gradient[i] - (above - below) / (2 * h)));
    }
    printf("largest difference from finite differences: %.1e\n", (double)worst);
    bo_graph_destroy(graph);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
    return worst < 1e-3f ? 0 : 1; /* the error of a difference: 2^-24 / h by rounding, and h² times third derivatives */
}
