/* Prediction and evaluation: blocks of rows pass through a graph without loss. Results have the units of the
 * targets. */
#include <math.h>
#include <string.h>
#include "../../base/trace.h"
#include "../internal.h"
#include "internal.h"

enum { MAX_ROWS = BO_SIZE(1024, 4), BLOCK_BYTES = 64 << 20 };

/* A part of the examples, read in blocks. */
typedef struct reading {
    const bo_model *model;
    const bo_network *network;
    const bo_examples *examples;
    bo_split part;
    bool hide, before; /* see bo_model_graph_desc */
    size_t count, block, outputs;
    bo_model_graph graph;
    size_t *rows; /* rows of the block */
    /* outputs of the block, and targets if they are the output of a layer (otherwise one row) */
    float *values, *target;
} reading;

static void close_reading(reading *r)
{
    bo_model_graph_destroy(&r->graph);
    bo_free(r->rows);
    bo_free(r->values);
    bo_free(r->target);
}

/* Returns the number of rows per block: a few megabytes of the widest layer. A graph is always read as a whole. */
static size_t block_rows(const reading *r)
{
    size_t widest = r->network->info.dim;
    for (size_t i = 0; i < r->network->count; i++) {
        const size_t numbers = bo_shape_numbers(&r->network->layers[i].shape);
        if (numbers > widest) widest = numbers;
    }
    size_t rows = BLOCK_BYTES / sizeof(float) / widest;
    if (rows > MAX_ROWS) rows = MAX_ROWS;
    if (rows == 0) rows = 1;
    return r->network->input == BO_NETWORK_INPUT_GRAPH || rows > r->count ? r->count : rows;
}

static size_t outputs_of(const reading *r)
{
    const bo_network *network = r->network;
    const int source = network->layers[network->output].from[0];
    if (!r->before) return bo_network_outputs(network);
    return bo_shape_numbers(source < 0 ? &network->input_shape : &network->layers[source].shape);
}

static bo_status open_reading(bo_context *context, reading *r)
{
    r->count = bo_examples_rows(r->examples, r->part);
    r->outputs = outputs_of(r);
    r->block = block_rows(r);
    if (!r->count) return bo_fail(context, BO_INVALID, "there are no examples in this part");
    const bo_model_graph_desc desc = {
        .data = r->examples, .examples = r->block, .outputs = true, .hide = r->hide, .before = r->before};
    BO_TRY(bo_model_graph_create(context, r->model, &desc, &r->graph));
    BO_TRY(bo_graph_allocate(context, r->graph.graph));
    r->rows = bo_alloc(context, r->block, sizeof *r->rows, "rows of a block");
    r->values = bo_alloc(context, r->block * r->outputs, sizeof *r->values, "the output of a block");
    r->target = bo_alloc(context, (r->graph.network.target ? r->block : 1) * r->outputs, sizeof *r->target, "targets");
    return r->rows && r->values && r->target ? BO_OK : BO_MEMORY;
}

/* Reads the rows from `first`. The last row fills the rest of the block; those results are ignored. */
static bo_status read_block(bo_context *context, reading *r, size_t first)
{
    const bo_model_batch batch = {.examples = r->examples, .rows = r->rows};
    bo_model_graph *graph = &r->graph;
    for (size_t i = 0; i < r->block; i++) {
        const size_t at = first + i < r->count ? first + i : r->count - 1;
        r->rows[i] = bo_examples_row(r->examples, r->part, at);
    }
    BO_TRY(bo_progress(context, "predicting", (double)first, (double)r->count));
    BO_TRY(bo_model_graph_compute(context, r->model, graph, &batch, graph->outputs, r->values));
    return graph->network.target ? bo_graph_read(context, graph->graph, graph->network.target, r->target) : BO_OK;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static void softmax(size_t count, float *values)
{
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, (double)values[i]);
    for (size_t i = 0; i < count; i++) sum += exp((double)values[i] - largest);
    for (size_t i = 0; i < count; i++) values[i] = (float)(exp((double)values[i] - largest) / sum);
}

/* Returns the scaling of the target. */
static const bo_network_scaling *unit_of(const bo_network *network)
{
    static const bo_network_scaling plain = {0};
    if (network->target == BO_NO_LAYER) return &network->outputs;
    if (network->target == BO_INPUT_LAYER || network->inputs.count == 1) return &network->inputs;
    return &plain;
}

static void to_prediction(const bo_network *network, size_t count, float *values)
{
    switch (network->loss) {
    case BO_NETWORK_CROSS_ENTROPY:
    case BO_NETWORK_KL: /* per row of an example */
        for (size_t i = 0, columns = bo_loss_columns(network); i < count; i += columns) softmax(columns, values + i);
        break;
    case BO_NETWORK_BCE:
        for (size_t i = 0; i < count; i++) values[i] = (float)(1 / (1 + exp(-(double)values[i])));
        if (network->target != BO_NO_LAYER) bo_scaling_undo(unit_of(network), count, values);
        break;
    default:
        bo_scaling_undo(unit_of(network), count, values);
    }
}

static bo_status predict(bo_context *context, reading *r, float *out)
{
    BO_TRY(open_reading(context, r));
    for (size_t first = 0; first < r->count; first += r->block) {
        const size_t rows = r->count - first < r->block ? r->count - first : r->block;
        BO_TRY(read_block(context, r, first));
        for (size_t i = 0; i < rows && !r->before; i++)
            to_prediction(r->network, r->outputs, r->values + i * r->outputs);
        memcpy(out + first * r->outputs, r->values, rows * r->outputs * sizeof *out);
    }
    return BO_OK;
}

static bo_status predict_all(bo_context *context, reading *r, float *out)
{
    r->network = r->model->network;
    const bo_status status = predict(context, r, out);
    close_reading(r);
    return status;
}

bo_status bo_model_predict(bo_context *context, const bo_model *model, const bo_examples *examples, bo_split part,
                           float *out)
{
    BO_REQUIRE(context, model, examples, out);
    BO_TRY(bo_model_require_network(context, model, "prediction"));
    BO_SPAN(context, "network", "predict");
    BO_TRY(bo_network_check(context, model->network, examples, false));
    return predict_all(context, &(reading){.model = model, .examples = examples, .part = part}, out);
}

bo_status bo_network_last_inputs(bo_context *context, const bo_model *model, const bo_examples *examples, float *out)
{
    reading r = {.model = model, .examples = examples, .part = BO_SPLIT_TRAIN, .before = true};
    return predict_all(context, &r, out);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

static size_t largest(size_t count, const float *values)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

/* Computes the mean squared error of an example in the units of the targets. */
static double squared_error(const bo_network *network, size_t count, const float *output, const float *target,
                            const float *mask)
{
    const bo_network_scaling *unit = unit_of(network);
    double sum = 0, counted = 0;
    for (size_t i = 0; i < count; i++) {
        double p = (double)output[i];
        if (mask && mask[i] != 0) continue;
        counted++;
        if (network->loss == BO_NETWORK_BCE) p = 1 / (1 + exp(-p));
        const double scale = unit->count ? (double)unit->scale[i % unit->count] : 1;
        sum += pow((p - (double)target[i]) / scale, 2);
    }
    return sum / counted;
}

static void score(reading *r, size_t index, bo_examples_evaluation *out)
{
    const bo_network *network = r->network;
    const bo_examples *examples = r->examples;
    const size_t row = r->rows[index], count = r->outputs;
    /* the mask of a graph covers all nodes */
    const size_t hidden = network->input == BO_NETWORK_INPUT_GRAPH ? row : index;
    const float *output = r->values + index * count,
                *mask = r->graph.network.mask ? r->graph.network.mask + hidden * count : NULL;
    float *target = r->target;
    int32_t label = -1;
    if (network->loss == BO_NETWORK_CROSS_ENTROPY) {
        label = bo_examples_label(examples, row);
        if (label < 0) return;
        out->accuracy += largest(count, output) == (size_t)label;
    } else if (r->graph.network.target) {
        target += index * count;
    } else {
        for (size_t i = 0; i < count; i++) target[i] = (float)examples->y[row * count + i];
        bo_scaling_apply(&network->outputs, count, target, target);
    }
    const double loss = bo_loss_of(network, output, target, mask, label);
    if (isnan(loss) && mask) return; /* no value was masked */
    if (label < 0) out->rmse += squared_error(network, count, output, target, mask);
    out->loss += loss;
    out->examples++;
}

static bo_status evaluate(bo_context *context, reading *r, bo_examples_evaluation *out)
{
    BO_TRY(open_reading(context, r));
    for (size_t first = 0; first < r->count; first += r->block) {
        const size_t rows = r->count - first < r->block ? r->count - first : r->block;
        BO_TRY(read_block(context, r, first));
        for (size_t i = 0; i < rows; i++) score(r, i, out);
    }
    if (!out->examples) return bo_fail(context, BO_INVALID, "no example has a target");
    const bool classes = r->network->loss == BO_NETWORK_CROSS_ENTROPY;
    const double examples = (double)out->examples;
    out->loss /= examples;
    out->accuracy = classes ? out->accuracy / examples : NAN;
    out->rmse = classes ? NAN : sqrt(out->rmse / examples);
    return BO_OK;
}

bo_status bo_model_evaluate_examples(bo_context *context, const bo_model *model, const bo_examples *examples,
                                     bo_split part, bo_examples_evaluation *out)
{
    BO_REQUIRE(context, model, examples, out);
    BO_TRY(bo_model_require_network(context, model, "evaluation on examples"));
    BO_SPAN(context, "network", "evaluate network");
    *out = (bo_examples_evaluation){0};
    BO_TRY(bo_network_check(context, model->network, examples, true));
    const double start = bo_seconds();
    reading r = {.model = model, .network = model->network, .examples = examples, .part = part, .hide = true};
    const bo_status status = evaluate(context, &r, out);
    close_reading(&r);
    out->seconds = bo_seconds() - start;
    return status;
}
