/* The time of one or several layers, and of a network per operation. */
#include <stdio.h>
#include <stdlib.h>
#include "../../base/rng.h"
#include "internal.h"

enum { MOST_REPEATS = 99 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Fills the graph with every row once, in order. */
static bo_status fill(bo_context *context, const bo_network *network, bo_network_graph *graph, const bo_examples *data)
{
    size_t *rows = bo_alloc(context, data->rows, sizeof *rows, "rows");
    if (!rows) return BO_MEMORY;
    for (size_t i = 0; i < data->rows; i++) rows[i] = i;
    const bo_status status = bo_network_graph_fill(context, network, graph, data, rows);
    bo_free(rows);
    return status;
}

static bo_status measure(bo_context *context, const bo_network *network, bo_network_graph *graph,
                         const bo_description *desc, size_t repeats, double *median)
{
    double samples[MOST_REPEATS];
    const bo_graph_pass pass = {.training = true, .seed = desc->seed};
    BO_TRY(bo_weights_allocate(context, network->weights, true));
    BO_TRY(bo_weights_init(context, network->weights, desc->seed));
    BO_TRY(bo_graph_allocate(context, graph->graph));
    BO_TRY(fill(context, network, graph, desc->examples));
    BO_TRY(bo_graph_run(context, graph->graph, &pass));
    for (size_t i = 0; i < repeats; i++) {
        const double start = bo_seconds();
        BO_TRY(bo_graph_run(context, graph->graph, &pass));
        samples[i] = bo_seconds() - start;
    }
    qsort(samples, repeats, sizeof *samples, compare);
    *median = samples[repeats / 2];
    return BO_OK;
}

bo_status bo_description_time(bo_context *context, const bo_description *desc, size_t repeats, double *seconds,
                              double *operations)
{
    BO_REQUIRE(context, desc, seconds);
    BO_REQUIRE(context, desc->text, desc->examples);
    bo_network *network;
    bo_network_graph graph = {0};
    if (repeats < 1 || repeats > MOST_REPEATS)
        return bo_fail(context, BO_INVALID, "repeats: expected 1 to %d, found %zu", MOST_REPEATS, repeats);
    BO_TRY(bo_network_prepare(context, desc, &network));
    const bo_network_graph_desc graph_desc = {
        .data = desc->examples, .examples = desc->examples->rows, .loss = true, .gradients = true, .drawn = true};
    bo_status status = bo_network_graph_create(context, network, &graph_desc, &graph);
    if (status == BO_OK) status = measure(context, network, &graph, desc, repeats, seconds);
    if (status == BO_OK && operations) *operations = bo_graph_flops(graph.graph);
    bo_network_graph_destroy(&graph);
    bo_network_destroy(network);
    return status;
}

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

enum { USUAL_BATCH = 32, USUAL_REPEATS = 5 };

/* Random examples. */
typedef struct drawn {
    float *x;
    double *y;
    int32_t *places; /* edges: `first`, then neighbors */
    bo_examples *examples;
} drawn;

/* Inputs are N(0, 1). Classes and neighbors are assigned cyclically. Other targets are 1 / targets, which every loss
 * accepts. */
static bo_status draw(bo_context *context, const bo_network *network, size_t rows, uint64_t seed, drawn *out)
{
    const bo_facts *facts = &network->facts;
    const bool classes = network->loss == BO_NETWORK_CROSS_ENTROPY, graph = network->input == BO_NETWORK_INPUT_GRAPH;
    const size_t targets = classes ? 1 : facts->targets, numbers = rows * facts->dim;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("network.profile", 0));
    out->x = bo_alloc(context, numbers, sizeof *out->x, "examples");
    out->y = bo_alloc(context, rows * targets, sizeof *out->y, "examples");
    out->places = bo_alloc(context, 2 * rows + 1, sizeof *out->places, "examples");
    if (!out->x || !out->y || !out->places) return BO_MEMORY;
    for (size_t i = 0; i < numbers; i++) out->x[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < rows * targets; i++)
        out->y[i] = classes ? (double)(i % facts->classes) : 1 / (double)targets;
    for (size_t i = 0; i <= rows; i++) out->places[i] = (int32_t)i;
    for (size_t i = 0; i < rows; i++) out->places[rows + 1 + i] = (int32_t)((i + rows - 1) % rows);
    const bo_examples_arrays arrays = {.rows = rows,
                                       .dim = facts->dim,
                                       .targets = targets,
                                       .classes = classes ? facts->classes : 0,
                                       .x = out->x,
                                       .y = targets ? out->y : NULL,
                                       .edges = graph ? rows : 0,
                                       .first = graph ? out->places : NULL,
                                       .neighbors = graph ? out->places + rows + 1 : NULL};
    return bo_examples_create(context, &arrays, &out->examples);
}

/* Training also updates weights without gradients (running means of batch norm), so all weights are restored. */
static bo_status profile_graph(bo_context *context, bo_network *network, const bo_profile_desc *desc,
                               const bo_examples *examples, bo_network_graph *graph, bo_profile **out)
{
    char subject[128];
    bo_weights *weights = network->weights;
    bo_device *device = bo_weights_device(weights);
    const size_t bytes = bo_weights_floats(weights) * sizeof(float);
    const bo_graph_pass pass = {.training = !desc->forward, .seed = desc->seed};
    BO_TRY(bo_weights_allocate(context, weights, !desc->forward));
    BO_TRY(bo_graph_allocate(context, graph->graph));
    BO_TRY(fill(context, network, graph, examples));
    float *before = bo_alloc_raw(context, 1, bytes, "the weights");
    if (!before) return BO_MEMORY;
    snprintf(subject, sizeof subject, "%s of %zu %s", desc->forward ? "forward" : "a training step", examples->rows,
             network->input == BO_NETWORK_INPUT_GRAPH ? "nodes" : "examples");
    bo_status status = bo_buffer_read(context, device, before, bo_weights_data(weights), bytes);
    if (status == BO_OK) {
        status =
            bo_graph_profile(context, graph->graph, &pass, subject, desc->repeats ? desc->repeats : USUAL_REPEATS, out);
        const bo_status back = bo_buffer_write(context, device, bo_weights_data(weights), before, bytes);
        if (status == BO_OK) status = back;
    }
    bo_free(before);
    return status;
}

bo_status bo_network_profile(bo_context *context, bo_network *network, const bo_profile_desc *desc, bo_profile **out)
{
    drawn data = {.x = NULL};
    bo_network_graph graph = {0};
    const size_t rows = desc->batch ? desc->batch : USUAL_BATCH;
    if (desc->tokens) return bo_fail(context, BO_INVALID, "profile: tokens is an option of text models");
    if (rows > INT32_MAX / 2) return bo_fail(context, BO_INVALID, "profile: %zu rows are too many", rows);
    bo_status status = draw(context, network, rows, desc->seed, &data);
    if (status == BO_OK) {
        const bo_network_graph_desc of_graph = {.data = data.examples,
                                                .examples = rows,
                                                .loss = true,
                                                .gradients = !desc->forward,
                                                .checkpoint = desc->checkpointing};
        status = bo_network_graph_create(context, network, &of_graph, &graph);
    }
    if (status == BO_OK) status = profile_graph(context, network, desc, data.examples, &graph, out);
    bo_network_graph_destroy(&graph);
    bo_examples_destroy(data.examples);
    bo_free(data.x);
    bo_free(data.y);
    bo_free(data.places);
    return status;
}
