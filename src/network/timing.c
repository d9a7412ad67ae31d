/* The time of a layer, or of a few. */
#include <stdlib.h>
#include "internal.h"

enum { MOST_REPEATS = 99 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every row once, in order. */
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
                         const bo_network_desc *desc, size_t repeats, double *median)
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

bo_status bo_network_time(bo_context *context, const bo_network_desc *desc, size_t repeats, double *seconds,
                          double *operations)
{
    bo_network *network;
    bo_network_graph graph = {0};
    if (!desc || !desc->examples || !seconds)
        return bo_fail(context, BO_INVALID, "timing a network needs examples, and where to put the seconds");
    if (repeats < 1 || repeats > MOST_REPEATS)
        return bo_fail(context, BO_INVALID, "repeats: expected 1 to %d, found %zu", MOST_REPEATS, repeats);
    BO_TRY(bo_network_prepare(context, desc, &network));
    const bo_network_graph_desc graph_desc = {
        .data = desc->examples, .examples = desc->examples->rows, .loss = true, .gradients = true, .drawn = true};
    bo_status status = bo_network_graph_create(context, network, &graph_desc, &graph);
    if (status == BO_OK) status = measure(context, network, &graph, desc, repeats, seconds);
    if (status == BO_OK && operations) *operations = bo_graph_operations(graph.graph);
    bo_network_graph_destroy(&graph);
    bo_network_destroy(network);
    return status;
}
