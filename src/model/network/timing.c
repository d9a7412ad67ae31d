/* The time of one or several layers. */
#include <stdlib.h>
#include "../internal.h"
#include "internal.h"

enum { MAX_REPEATS = 99 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every row is passed once, in order. */
static bo_status measure(bo_context *context, bo_model *model, bo_model_graph *graph, const bo_description *desc,
                         const size_t *rows, size_t repeats, double *median)
{
    double samples[MAX_REPEATS];
    bo_graph_pass pass = {.training = true, .seed = desc->seed};
    const bo_model_batch batch = {.examples = desc->examples, .rows = rows};
    BO_TRY(bo_weights_allocate(context, model->weights, true));
    BO_TRY(bo_weights_init(context, model->weights, desc->seed));
    BO_TRY(bo_graph_allocate(context, graph->graph));
    BO_TRY(bo_model_graph_fill(context, model, graph, &batch, &pass));
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
    bo_model *model;
    bo_model_graph graph = {0};
    const bo_examples *data = desc->examples;
    if (repeats < 1 || repeats > MAX_REPEATS)
        return bo_fail(context, BO_INVALID, "repeats: expected 1 to %d, found %zu", MAX_REPEATS, repeats);
    BO_TRY(bo_network_prepare(context, desc, &network));
    BO_TRY(bo_model_of_network(context, network, &model));
    const bo_model_graph_desc graph_desc = {
        .data = data, .examples = data->rows, .loss = true, .gradients = true, .drawn = true};
    size_t *rows = bo_alloc(context, data->rows, sizeof *rows, "rows");
    for (size_t i = 0; rows && i < data->rows; i++) rows[i] = i;
    bo_status status = rows ? bo_model_graph_create(context, model, &graph_desc, &graph) : BO_MEMORY;
    if (status == BO_OK) status = measure(context, model, &graph, desc, rows, repeats, seconds);
    if (status == BO_OK && operations) *operations = bo_graph_describe(graph.graph)->flops;
    bo_model_graph_destroy(&graph);
    bo_free(rows);
    bo_model_destroy(model);
    return status;
}
