/* One step of a model of any task on random tokens or examples, measured per operation. */
#include <stdio.h>
#include "../nn/enums.h"
#include "../base/rng.h"
#include "internal.h"

enum { DEFAULT_TOKENS = 256, DEFAULT_EXAMPLES = 32, DEFAULT_REPEATS = 5 };

/* Texts of equal length, one after the other, as a pack; or examples. It owns their arrays. */
typedef struct drawn {
    bo_text_pack pack;
    size_t texts, tokens; /* texts per stream, tokens per text */
    int32_t *numbers;     /* of the pack; PREDICT: edges: `first`, then neighbors */
    size_t *lengths;
    float *x;
    double *y;
    bo_examples *examples; /* PREDICT */
    size_t *rows;          /* of all examples, in order */
} drawn;

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void draw_stream(bo_rng *rng, const bo_model_desc *d, const drawn *data, int32_t *buffer, size_t *lengths,
                        bo_packed_stream *out)
{
    const size_t tokens = data->tokens, rows = data->texts * tokens;
    *out = (bo_packed_stream){rows, buffer, buffer + rows, buffer + 2 * rows, lengths};
    for (size_t i = 0; i < rows; i++) {
        const size_t at = i % tokens;
        out->tokens[i] = (int32_t)bo_rng_below(rng, d->vocab);
        out->positions[i] = (int32_t)at;
        out->reversal[i] = (int32_t)(i - at + (tokens - 1 - at));
    }
    for (size_t i = 0; i < data->texts; i++) lengths[i] = tokens; /* the rest after the texts has no sequence */
}

/* Language models have one target per token and no rest after the texts; for other tasks see packs.h. */
static bo_status draw_pack(bo_context *context, const bo_model_desc *d, const bo_profile_desc *options, drawn *data)
{
    const bool language = d->task == BO_MODEL_TASK_LANGUAGE, translates = d->task == BO_MODEL_TASK_TRANSLATE;
    const size_t batch = options->batch ? options->batch : 1,
                 default_tokens = d->context < DEFAULT_TOKENS ? d->context : DEFAULT_TOKENS;
    data->tokens = options->tokens ? options->tokens : default_tokens;
    if (data->tokens > d->context)
        return bo_fail(context, BO_INVALID, "profile: %zu tokens exceed the model's context of %zu", data->tokens,
                       d->context);
    if (batch > INT32_MAX / 8 / data->tokens)
        return bo_fail(context, BO_INVALID, "profile: %zu x %zu tokens, expected at most %d in total", batch,
                       data->tokens, INT32_MAX / 8);
    data->texts = batch * (d->task == BO_MODEL_TASK_MATCH ? 2 : 1);
    const size_t rows = data->texts * data->tokens, sequences = data->texts + !language;
    data->numbers = bo_alloc(context, 8 * rows, sizeof *data->numbers, "a batch");
    data->lengths = bo_alloc(context, 2 * sequences, sizeof *data->lengths, "a batch");
    if (!data->numbers || !data->lengths) return BO_MEMORY;
    int32_t *labels = data->numbers + 7 * rows;
    bo_rng rng = bo_rng_make(options->seed, bo_rng_stream("model.profile", 0));
    data->pack = (bo_text_pack){.examples = batch,
                                .max_examples = batch,
                                .texts = data->texts,
                                .sequences = sequences,
                                .max_sequences = sequences,
                                .targets = data->numbers + 6 * rows,
                                .labels = labels};
    draw_stream(&rng, d, data, data->numbers, data->lengths, &data->pack.stream);
    if (translates) draw_stream(&rng, d, data, data->numbers + 3 * rows, data->lengths + sequences, &data->pack.source);
    for (size_t i = 0; i < rows; i++) {
        data->pack.targets[i] = (int32_t)bo_rng_below(&rng, d->vocab);
        labels[i] = language ? data->pack.targets[i] : translates ? 0 : (int32_t)bo_rng_below(&rng, d->classes);
    }
    return BO_OK;
}

static bo_status draw_texts(bo_context *context, const bo_model *model, const bo_profile_desc *options, drawn *data,
                            bo_model_graph_desc *graph)
{
    BO_TRY(draw_pack(context, &model->desc, options, data));
    graph->rows = data->pack.stream.rows;
    graph->tokens = data->tokens;
    graph->max_sequences = data->pack.max_sequences;
    graph->examples = data->pack.max_examples;
    graph->source_rows = data->pack.source.rows;
    graph->source_tokens = data->pack.source.rows ? data->tokens : 0;
    return BO_OK;
}

/* ---- examples ---------------------------------------------------------------------------------------------------- */

/* Inputs are N(0, 1). Classes and neighbors are assigned cyclically. Other targets are 1 / targets, which every loss
 * accepts. */
static bo_status draw_examples(bo_context *context, const bo_model *model, const bo_profile_desc *options, drawn *out,
                               bo_model_graph_desc *graph)
{
    const bo_network *network = model->network;
    const bo_facts *info = &network->info;
    const bool classes = network->loss == BO_NETWORK_CROSS_ENTROPY, edges = network->input == BO_NETWORK_INPUT_GRAPH;
    const size_t rows = options->batch ? options->batch : DEFAULT_EXAMPLES, targets = classes ? 1 : info->targets;
    const size_t numbers = rows * info->dim;
    bo_rng rng = bo_rng_make(options->seed, bo_rng_stream("network.profile", 0));
    if (options->tokens) return bo_fail(context, BO_INVALID, "profile: tokens is an option of text models");
    if (rows > INT32_MAX / 2) return bo_fail(context, BO_INVALID, "profile: %zu rows are too many", rows);
    out->x = bo_alloc(context, numbers, sizeof *out->x, "examples");
    out->y = bo_alloc(context, rows * targets, sizeof *out->y, "examples");
    out->numbers = bo_alloc(context, 2 * rows + 1, sizeof *out->numbers, "examples");
    out->rows = bo_alloc(context, rows, sizeof *out->rows, "examples");
    if (!out->x || !out->y || !out->numbers || !out->rows) return BO_MEMORY;
    for (size_t i = 0; i < numbers; i++) out->x[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < rows * targets; i++) out->y[i] = classes ? (double)(i % info->classes) : 1 / (double)targets;
    for (size_t i = 0; i <= rows; i++) out->numbers[i] = (int32_t)i;
    for (size_t i = 0; i < rows; i++) out->numbers[rows + 1 + i] = (int32_t)((i + rows - 1) % rows);
    for (size_t i = 0; i < rows; i++) out->rows[i] = i;
    const bo_examples_arrays arrays = {.rows = rows,
                                       .dim = info->dim,
                                       .targets = targets,
                                       .classes = classes ? info->classes : 0,
                                       .x = out->x,
                                       .y = targets ? out->y : NULL,
                                       .edges = edges ? rows : 0,
                                       .first = edges ? out->numbers : NULL,
                                       .neighbors = edges ? out->numbers + rows + 1 : NULL};
    BO_TRY(bo_examples_create(context, &arrays, &out->examples));
    graph->data = out->examples;
    graph->examples = rows;
    return BO_OK;
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

static void name_subject(const bo_model *model, const bo_profile_desc *options, const drawn *data, char *out,
                         size_t out_size)
{
    const bo_model_desc *d = &model->desc;
    const char *step = options->forward ? "forward" : "a training step";
    static const char *const things[] = {[BO_MODEL_TASK_LANGUAGE] = "",
                                         [BO_MODEL_TASK_CLASSIFY] = "texts of ",
                                         [BO_MODEL_TASK_MATCH] = "pairs of texts of ",
                                         [BO_MODEL_TASK_TRANSLATE] = "sources and targets of "};
    const bool language = d->task == BO_MODEL_TASK_LANGUAGE;
    if (model->network)
        snprintf(out, out_size, "%s of %zu %s", step, data->examples->rows,
                 model->network->input == BO_NETWORK_INPUT_GRAPH ? "nodes" : "examples");
    else
        snprintf(out, out_size, "%s of %zu %s%s%zu tokens", step, data->pack.examples, language ? "x " : "",
                 things[d->task], data->tokens);
}

/* Training also updates weights without gradients (running means of batch norm), so the weights of a network are
 * restored. */
static bo_status measure(bo_context *context, bo_model *model, const bo_profile_desc *options, const drawn *data,
                         bo_model_graph *graph, bo_profile **out)
{
    char subject[128];
    bo_weights *weights = model->weights;
    bo_device *device = bo_weights_device(weights);
    const size_t bytes = model->network ? bo_weights_floats(weights) * sizeof(float) : 0;
    const size_t repeats = options->repeats ? options->repeats : DEFAULT_REPEATS;
    const bo_model_batch batch = {data->examples ? NULL : &data->pack, data->examples, data->rows};
    bo_graph_pass pass = {.training = !options->forward, .seed = options->seed};
    float *before = NULL;
    BO_TRY(bo_weights_allocate(context, weights, !options->forward));
    BO_TRY(bo_graph_allocate(context, graph->graph));
    BO_TRY(bo_model_graph_fill(context, model, graph, &batch, &pass));
    name_subject(model, options, data, subject, sizeof subject);
    if (bytes && !(before = bo_alloc_raw(context, 1, bytes, "the weights"))) return BO_MEMORY;
    bo_status status = bytes ? bo_buffer_read(context, device, before, bo_weights_data(weights), bytes) : BO_OK;
    if (status == BO_OK) {
        status = bo_graph_profile(context, graph->graph, &pass, subject, repeats, out);
        const bo_status back =
            bytes ? bo_buffer_write(context, device, bo_weights_data(weights), before, bytes) : BO_OK;
        if (status == BO_OK) status = back;
    }
    bo_free(before);
    return status;
}

bo_status bo_model_profile(bo_context *context, bo_model *model, const bo_profile_desc *desc, bo_profile **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, out);
    static const bo_profile_desc defaults = {0};
    drawn data = {.texts = 0};
    bo_model_graph graph = {0};
    if (!desc) desc = &defaults;
    BO_TRY(bo_check_reserved(context, "bo_profile_desc", desc->reserved));
    if (!desc->forward && bo_model_storage(model) != BO_STORAGE_FLOAT32)
        return bo_fail(context, BO_UNSUPPORTED,
                       "the weights are stored as %s, for inference only: there is no backward",
                       bo_storage_name(bo_model_storage(model)));
    bo_model_graph_desc of_graph = {.loss = true, .gradients = !desc->forward, .checkpoint = desc->checkpointing};
    bo_status status = (model->network ? draw_examples : draw_texts)(context, model, desc, &data, &of_graph);
    if (status == BO_OK) status = bo_model_graph_create(context, model, &of_graph, &graph);
    if (status == BO_OK) status = measure(context, model, desc, &data, &graph, out);
    if (graph.graph) bo_model_graph_destroy(&graph);
    bo_examples_destroy(data.examples);
    bo_free(data.numbers);
    bo_free(data.lengths);
    bo_free(data.x);
    bo_free(data.y);
    bo_free(data.rows);
    return status;
}
