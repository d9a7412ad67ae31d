/* The last linear layer by exact ridge regression. If all layers before it are fixed, as with random features, gradient
 * descent would converge to the same solution. */
#include <string.h>
#include "../../base/trace.h"
#include "../../math/linalg.h"
#include "../internal.h"
#include "internal.h"

/* The inputs of the last layer for all rows of the training part, and the targets. */
typedef struct regression {
    const bo_model *model;
    const bo_network *network;
    const bo_examples *examples;
    size_t rows, features, outputs; /* features: includes a constant 1 at the end if there is a bias */
    bool bias;
    float *z, *y, *w;
} regression;

static bo_status check(bo_context *context, const bo_network *network)
{
    const bo_layer *last = &network->layers[network->output];
    const bool fits = network->loss == BO_NETWORK_MSE || network->loss == BO_NETWORK_CROSS_ENTROPY;
    if (strcmp(last->type->name, "linear") != 0)
        return bo_fail(context, BO_INVALID, "a ridge readout needs a linear layer at the end, found %s",
                       bo_layer_name(last).text);
    if (network->target != BO_NO_LAYER || !fits)
        return bo_fail(context, BO_INVALID, "a ridge readout needs targets and the loss mse, or classes");
    return BO_OK;
}

/* Writes the targets of a row. Classes: 1 for the class of the row, 0 for the others. */
static void fill_target(const regression *r, size_t index)
{
    const size_t row = bo_examples_row(r->examples, BO_SPLIT_TRAIN, index);
    float *y = r->y + index * r->outputs;
    if (r->network->loss == BO_NETWORK_CROSS_ENTROPY) {
        const int32_t label = bo_examples_label(r->examples, row);
        if (label >= 0) y[label] = 1;
        return;
    }
    for (size_t i = 0; i < r->outputs; i++) y[i] = (float)r->examples->y[row * r->outputs + i];
    bo_scaling_apply(&r->network->outputs, r->outputs, y, y);
}

static bo_status gather(bo_context *context, regression *r)
{
    const size_t lines = r->rows > r->outputs ? r->rows : r->outputs; /* also has space for the readout */
    r->z = bo_alloc_raw(context, lines * r->features, sizeof *r->z, "features of all examples");
    r->y = bo_alloc(context, r->rows * r->outputs, sizeof *r->y, "targets of all examples");
    r->w = bo_alloc(context, r->features * r->outputs, sizeof *r->w, "a readout");
    if (!r->z || !r->y || !r->w) return BO_MEMORY;
    BO_TRY(bo_network_last_inputs(context, r->model, r->examples, r->z));
    const size_t inputs = r->features - r->bias;
    for (size_t i = r->rows; r->bias && i-- > 0;) { /* from the last row, since rows grow by one column */
        memmove(r->z + i * r->features, r->z + i * inputs, inputs * sizeof *r->z);
        r->z[i * r->features + inputs] = 1;
    }
    for (size_t i = 0; i < r->rows; i++) fill_target(r, i);
    return BO_OK;
}

static bo_status store(bo_context *context, const regression *r, const char *suffix, size_t first, size_t count,
                       float *buffer)
{
    const bo_nn_name name = bo_nn_join(r->network->layers[r->network->output].name, suffix);
    const bo_weight *weight = bo_weights_find(r->network->weights, name.text);
    const float scale = first == 0 && weight->scale != 0 ? (float)weight->scale : 1; /* y = scale x Wᵀ + b */
    for (size_t o = 0; o < r->outputs; o++)
        for (size_t i = 0; i < count; i++) buffer[o * count + i] = r->w[o * r->features + first + i] / scale;
    return bo_buffer_write(context, bo_weights_device(r->network->weights), weight->data, buffer,
                           r->outputs * count * sizeof *buffer);
}

static bo_status solve(bo_context *context, regression *r, double lambda)
{
    const size_t inputs = r->features - r->bias;
    BO_TRY(gather(context, r));
    BO_TRY(bo_ridge_readout(context, &(bo_readout){r->rows, r->features, r->outputs, r->z, r->y, lambda}, r->w));
    BO_TRY(store(context, r, ".weight", 0, inputs, r->z)); /* z is no longer needed */
    return r->bias ? store(context, r, ".bias", inputs, 1, r->z) : BO_OK;
}

bo_status bo_model_solve(bo_context *context, bo_model *model, const bo_examples *examples, double lambda)
{
    BO_REQUIRE(context, model, examples);
    BO_TRY(bo_model_require_network(context, model, "a ridge readout"));
    const bo_network *network = model->network;
    BO_SPAN(context, "network", "solve the last layer");
    if (!(lambda >= 0)) return bo_fail(context, BO_INVALID, "lambda should be 0 or more, found %g", lambda);
    BO_TRY(check(context, network));
    BO_TRY(bo_network_check(context, network, examples, true));
    const bo_layer *last = &network->layers[network->output];
    const bo_shape *in = last->from[0] < 0 ? &network->input_shape : &network->layers[last->from[0]].shape;
    regression r = {.model = model,
                    .network = network,
                    .examples = examples,
                    .rows = bo_examples_rows(examples, BO_SPLIT_TRAIN),
                    .features = in->channels + last->options.bias,
                    .outputs = last->shape.channels,
                    .bias = last->options.bias};
    bo_status status = solve(context, &r, lambda);
    if (status == BO_NUMERIC)
        status = bo_fail(context, status, "%s: a ridge readout with lambda %g has no solution, use a larger one: %s",
                         bo_layer_name(last).text, lambda, bo_context_error(context));
    bo_free(r.z);
    bo_free(r.y);
    bo_free(r.w);
    return status;
}
