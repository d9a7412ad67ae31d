/* Capture of queries, keys, values, outputs of heads and the residual stream of a language model. */
#include "../nn/enums.h"
#include "capture.h"
#include "internal.h"

struct bo_capture {
    const bo_model *model;
    bo_capture_desc desc; /* without zeros */
    bo_model_graph graph;
    bo_attention_values *values; /* one per layer; NULL: not captured */
    bo_value *stream;            /* bo_capture_places entries; NULL: not captured */
    int32_t *positions;
    bool ran;
};

static bo_status check(bo_context *context, const bo_model *model, const bo_capture_desc *d)
{
    const size_t max_tokens = bo_model_max_tokens(&model->desc);
    BO_TRY(bo_model_require_language(context, model, "capture"));
    if (!(d->parts & (BO_CAPTURE_PART_ATTENTION | BO_CAPTURE_PART_STREAM)))
        return bo_fail(context, BO_INVALID, "capture: expected attention, the residual stream or both, found neither");
    if (d->tokens < 1 || d->tokens > INT32_MAX || (max_tokens && d->tokens > max_tokens))
        return bo_fail(context, BO_INVALID, "capture: %zu tokens per sequence, expected 1 to %zu", d->tokens,
                       max_tokens ? max_tokens : (size_t)INT32_MAX);
    bool attends = !(d->parts & BO_CAPTURE_PART_ATTENTION);
    for (size_t i = 0; i < model->desc.layers; i++) attends = attends || model->attentions[i];
    if (attends) return BO_OK; /* arrays of layers without attention are not captured */
    return bo_fail(context, BO_INVALID, "capture: layer 0 has no attention, its mixer is %s",
                   bo_mixer_name(model->desc.block.mixer));
}

static bo_status build(bo_context *context, bo_capture *c)
{
    static const char what[] = "a capture of activations";
    const size_t rows = bo_capture_rows(c), layers = c->model->desc.layers;
    c->positions = bo_alloc(context, rows, sizeof *c->positions, what);
    if (!c->positions) return BO_MEMORY;
    if (c->desc.parts & BO_CAPTURE_PART_ATTENTION) {
        c->values = bo_alloc(context, layers, sizeof *c->values, what);
        if (!c->values) return BO_MEMORY;
    }
    if (c->desc.parts & BO_CAPTURE_PART_STREAM) {
        c->stream = bo_alloc(context, bo_capture_places(c), sizeof *c->stream, what);
        if (!c->stream) return BO_MEMORY;
    }
    for (size_t i = 0; i < rows; i++) c->positions[i] = (int32_t)(i % c->desc.tokens);
    const bo_model_graph_desc desc = {.rows = rows, .tokens = c->desc.tokens, .stream = c->stream, .values = c->values};
    BO_TRY(bo_model_graph_create(context, c->model, &desc, &c->graph));
    return bo_graph_allocate(context, c->graph.graph);
}

bo_status bo_capture_create(bo_context *context, const bo_model *model, const bo_capture_desc *desc, bo_capture **out)
{
    *out = NULL;
    bo_capture_desc d = *desc;
    if (!d.sequences) d.sequences = 1;
    BO_TRY(check(context, model, &d));
    bo_capture *capture = bo_alloc(context, 1, sizeof *capture, "a capture of activations");
    if (!capture) return BO_MEMORY;
    capture->model = model;
    capture->desc = d;
    bo_status status = build(context, capture);
    if (status == BO_OK)
        *out = capture;
    else
        bo_capture_destroy(capture);
    return status;
}

void bo_capture_destroy(bo_capture *capture)
{
    if (!capture) return;
    bo_model_graph_destroy(&capture->graph);
    bo_free(capture->values);
    bo_free(capture->stream);
    bo_free(capture->positions);
    bo_free(capture);
}

bo_status bo_capture_run(bo_context *context, bo_capture *capture, const int32_t *ids)
{
    const bo_model_graph *g = &capture->graph;
    capture->ran = false;
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, ids));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, capture->positions));
    BO_TRY(bo_graph_run(context, g->graph, NULL));
    capture->ran = true;
    return BO_OK;
}

static bo_status run_text(bo_context *context, bo_capture *capture, const bo_corpus *corpus)
{
    const size_t window = capture->desc.tokens, sequences = capture->desc.sequences;
    const uint64_t windows = bo_corpus_tokens(corpus) / window;
    int32_t *ids = bo_alloc(context, sequences * window, sizeof *ids, "tokens of a capture");
    bo_status status = ids ? BO_OK : BO_MEMORY;
    for (size_t i = 0; i < sequences && status == BO_OK; i++)
        status = bo_corpus_read(context, corpus, windows * i / sequences * window, window, ids + i * window);
    if (status == BO_OK) status = bo_capture_run(context, capture, ids);
    bo_free(ids);
    return status;
}

bo_status bo_capture_text(bo_context *context, const bo_model *model, const bo_corpus *corpus, size_t window,
                          uint64_t tokens, const char *caller, bo_capture **out)
{
    const uint64_t all = bo_corpus_tokens(corpus), used = tokens < all ? tokens : all;
    *out = NULL;
    if (all < window)
        return bo_fail(context, BO_INVALID, "%s: the text has %llu tokens, expected at least %zu, one window", caller,
                       (unsigned long long)all, window);
    const bo_capture_desc desc = {
        .tokens = window, .sequences = used < window ? 1 : (size_t)(used / window), .parts = BO_CAPTURE_PART_ATTENTION};
    BO_TRY(bo_capture_create(context, model, &desc, out));
    const bo_status status = run_text(context, *out, corpus);
    if (status == BO_OK) return BO_OK;
    bo_capture_destroy(*out);
    *out = NULL;
    return status;
}

size_t bo_capture_sequences(const bo_capture *capture)
{
    return capture->desc.sequences;
}

size_t bo_capture_rows(const bo_capture *capture)
{
    return capture->desc.sequences * capture->desc.tokens;
}

size_t bo_capture_places(const bo_capture *capture)
{
    return 1 + 2 * capture->model->desc.layers;
}

/* Returns 0 if the array is not captured. */
static bo_value value_of(const bo_capture *capture, size_t layer, bo_capture_array array)
{
    if (!capture->values || layer >= capture->model->desc.layers) return 0;
    const bo_attention_values *v = &capture->values[layer];
    return (bo_value[BO_CAPTURE_ARRAYS]){v->q, v->k, v->v, v->out}[array];
}

size_t bo_capture_columns(const bo_capture *capture, size_t layer, bo_capture_array array)
{
    const bo_value value = value_of(capture, layer, array);
    return value ? bo_graph_columns(capture->graph.graph, value) : 0;
}

static bo_status read_value(bo_context *context, bo_capture *capture, bo_value value, float *out)
{
    if (!value) return bo_fail(context, BO_INVALID, "capture: this array is not captured");
    if (!capture->ran) return bo_fail(context, BO_INVALID, "capture: no batch has been run");
    return bo_graph_read(context, capture->graph.graph, value, out);
}

bo_status bo_capture_read(bo_context *context, bo_capture *capture, size_t layer, bo_capture_array array, float *out)
{
    return read_value(context, capture, value_of(capture, layer, array), out);
}

bo_status bo_capture_read_stream(bo_context *context, bo_capture *capture, size_t place, float *out)
{
    const bool exists = capture->stream && place < bo_capture_places(capture);
    return read_value(context, capture, exists ? capture->stream[place] : 0, out);
}
