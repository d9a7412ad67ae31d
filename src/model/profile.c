/* One step of a model of any task on random tokens, measured per operation. */
#include <stdio.h>
#include "../base/rng.h"
#include "internal.h"

enum { USUAL_TOKENS = 256, USUAL_REPEATS = 5 };

/* Texts of equal length, one after the other, as a pack that owns its arrays. */
typedef struct drawn {
    bo_text_pack pack;
    size_t texts, tokens; /* texts per stream, tokens per text */
    int32_t *numbers;
    size_t *lengths;
} drawn;

static void draw_stream(bo_rng *rng, const bo_model_desc *d, const drawn *data, int32_t *room, size_t *lengths,
                        bo_packed_stream *out)
{
    const size_t tokens = data->tokens, rows = data->texts * tokens;
    *out = (bo_packed_stream){rows, room, room + rows, room + 2 * rows, lengths};
    for (size_t i = 0; i < rows; i++) {
        const size_t at = i % tokens;
        out->tokens[i] = (int32_t)bo_rng_below(rng, d->vocab);
        out->positions[i] = (int32_t)at;
        out->reversal[i] = (int32_t)(i - at + (tokens - 1 - at));
    }
    for (size_t i = 0; i < data->texts; i++) lengths[i] = tokens; /* the rest after the texts has no sequence */
}

/* Language models have one target per token and no rest after the texts; for other tasks see packs.h. */
static bo_status draw_pack(bo_context *context, const bo_model_desc *d, const bo_profile_desc *asked, drawn *data)
{
    const bool language = d->task == BO_MODEL_TASK_LANGUAGE, translates = d->task == BO_MODEL_TASK_TRANSLATE;
    const size_t batch = asked->batch ? asked->batch : 1, usual = d->context < USUAL_TOKENS ? d->context : USUAL_TOKENS;
    data->tokens = asked->tokens ? asked->tokens : usual;
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
    bo_rng rng = bo_rng_make(asked->seed, bo_rng_stream("model.profile", 0));
    data->pack = (bo_text_pack){.examples = batch,
                                .most = batch,
                                .texts = data->texts,
                                .sequences = sequences,
                                .most_sequences = sequences,
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

static void name_subject(const bo_model_desc *d, const bo_profile_desc *asked, const drawn *data, char *out,
                         size_t room)
{
    static const char *const things[] = {[BO_MODEL_TASK_LANGUAGE] = "",
                                         [BO_MODEL_TASK_CLASSIFY] = "texts of ",
                                         [BO_MODEL_TASK_MATCH] = "pairs of texts of ",
                                         [BO_MODEL_TASK_TRANSLATE] = "sources and targets of "};
    const bool language = d->task == BO_MODEL_TASK_LANGUAGE;
    snprintf(out, room, "%s of %zu %s%s%zu tokens", asked->forward ? "forward" : "a training step", data->pack.examples,
             language ? "x " : "", things[d->task], data->tokens);
}

static bo_status measure(bo_context *context, bo_model *model, const bo_profile_desc *asked, const drawn *data,
                         const bo_model_graph *graph, bo_profile **out)
{
    char subject[128];
    bo_graph_pass pass = {.training = !asked->forward, .seed = asked->seed};
    BO_TRY(bo_weights_allocate(context, model->weights, !asked->forward));
    BO_TRY(bo_graph_allocate(context, graph->graph));
    BO_TRY(bo_model_graph_fill(context, model, graph, &data->pack, &pass));
    name_subject(&model->desc, asked, data, subject, sizeof subject);
    return bo_graph_profile(context, graph->graph, &pass, subject, asked->repeats ? asked->repeats : USUAL_REPEATS,
                            out);
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
    if (model->network) return bo_network_profile(context, model->network, desc, out);
    if (!desc->forward && bo_model_storage(model) != BO_STORAGE_FLOAT32)
        return bo_fail(context, BO_UNSUPPORTED,
                       "the weights are stored as %s, for inference only: there is no backward",
                       bo_storage_name(bo_model_storage(model)));
    bo_status status = draw_pack(context, &model->desc, desc, &data);
    if (status == BO_OK) {
        const bo_model_graph_desc of_graph = {.rows = data.pack.stream.rows,
                                              .tokens = data.tokens,
                                              .most_sequences = data.pack.most_sequences,
                                              .loss = true,
                                              .gradients = !desc->forward,
                                              .checkpoint = desc->checkpointing,
                                              .examples = data.pack.most,
                                              .source_rows = data.pack.source.rows,
                                              .source_tokens = data.pack.source.rows ? data.tokens : 0};
        status = bo_model_graph_create(context, model, &of_graph, &graph);
    }
    if (status == BO_OK) status = measure(context, model, desc, &data, &graph, out);
    if (graph.graph) bo_model_graph_destroy(&graph);
    bo_free(data.numbers);
    bo_free(data.lengths);
    return status;
}
