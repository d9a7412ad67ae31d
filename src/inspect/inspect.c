/* Inspection: settings, passes over a text and over repeated tokens, and the report. */
#include <math.h>
#include "../nn/enums.h"
#include "../model/enums.h"
#include "../base/rng.h"
#include "internal.h"

enum {
    DEFAULT_TOKENS = 256,
    DEFAULT_WINDOWS = 8,
    MIN_TOKENS = 4,
    BATCH = 2048,    /* tokens per run, if two windows fit */
    COPY = 64,       /* maximum length of a copy of random tokens */
    REPETITIONS = 4, /* sequences of repeated tokens */
    ALL_PARTS = BO_INSPECT_PART_STATISTICS | BO_INSPECT_PART_ERRORS | BO_INSPECT_PART_CIRCUITS |
        BO_INSPECT_PART_BEHAVIOR | BO_INSPECT_PART_ATTRIBUTION,
    OF_WEIGHTS = BO_INSPECT_PART_CIRCUITS | BO_INSPECT_PART_ATTRIBUTION,
    OF_TEXT = BO_INSPECT_PART_STATISTICS | BO_INSPECT_PART_ERRORS | BO_INSPECT_PART_ATTRIBUTION
};

/* ---- the report -------------------------------------------------------------------------------------------------- */

void *bo_inspection_alloc(bo_context *context, bo_inspection_builder *report, size_t count, size_t size)
{
    bo_inspection_block *block = bo_alloc(context, 1, sizeof *block, "a report on a model");
    void *memory = block ? bo_alloc(context, count, size, "a report on a model") : NULL;
    if (!memory) {
        bo_free(block);
        return NULL;
    }
    *block = (bo_inspection_block){report->blocks, memory};
    report->blocks = block;
    return memory;
}

void bo_inspection_destroy(bo_inspection *report)
{
    bo_inspection_builder *builder = (bo_inspection_builder *)report;
    if (!builder) return;
    for (bo_inspection_block *block = builder->blocks, *next; block; block = next) {
        next = block->next;
        bo_free(block->memory);
        bo_free(block);
    }
    bo_free(builder);
}

static void head_init(bo_head_report *head)
{
    double *const numbers[] = {&head->qk.effective,
                               &head->qk.positive,
                               &head->ov.effective,
                               &head->ov.positive,
                               &head->copying,
                               &head->entropy,
                               &head->entropy_share,
                               &head->previous,
                               &head->self,
                               &head->first,
                               &head->induction,
                               &head->induction_uniform,
                               &head->previous_repeated,
                               &head->induction_repeated,
                               &head->written,
                               &head->logit,
                               &head->logit_size,
                               &head->subspace_share};
    bo_head_moments *const moments[] = {&head->moments, &head->mapped};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = NAN;
    for (size_t i = 0; i < 2; i++)
        moments[i]->query_norm = moments[i]->key_norm = moments[i]->largest = moments[i]->smallest =
            moments[i]->condition = moments[i]->effective = moments[i]->mean_share = moments[i]->log_gain = NAN;
}

static bo_status report_make(bo_inspection_run *in)
{
    const size_t layers = in->d->layers;
    const bo_positions positions = bo_model_positions_kind(in->d);
    bo_inspection_builder *report = in->report;
    report->layers = bo_inspection_alloc(in->context, report, layers, sizeof *report->layers);
    report->heads = bo_inspection_alloc(in->context, report, layers, sizeof *report->heads);
    report->out =
        (bo_inspection){.layers = report->layers,
                        .layer_count = layers,
                        .parts = in->desc.parts,
                        .tokens = in->desc.tokens,
                        .windows = in->windows,
                        .target = in->desc.target,
                        .rotated = positions == BO_POSITIONS_ROPE || positions == BO_POSITIONS_ROPE_NEIGHBORS};
    if (!report->layers || !report->heads) return BO_MEMORY;
    for (size_t l = 0; l < layers; l++) {
        const bo_attention_desc *a = bo_inspection_attention(in, l);
        report->heads[l] = bo_inspection_alloc(in->context, report, a->heads, sizeof *report->heads[l]);
        if (!report->heads[l]) return BO_MEMORY;
        report->layers[l] = (bo_layer_report){.heads = report->heads[l],
                                              .head_count = a->heads,
                                              .attention = a,
                                              .weights = bo_has_pattern(a),
                                              .error = NAN,
                                              .logit = NAN,
                                              .stream_norm = NAN};
        for (size_t h = 0; h < a->heads; h++) head_init(&report->heads[l][h]);
    }
    return BO_OK;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

bool bo_has_circuits(const bo_model *model)
{
    const bool merged = !model->adapter || model->adapter->aside;
    return merged && model->desc.parametrization != BO_PARAMETRIZATION_UNIT;
}

static bo_status check_model(bo_context *context, const bo_model *model)
{
    if (model->desc.task != BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID, "inspect: expected a language model, found a model of task %s",
                       bo_model_task_name(model->desc.task));
    for (size_t i = 0; i < model->desc.layers; i++)
        if (bo_model_block(&model->desc, i)->mixer != BO_MIXER_ATTENTION)
            return bo_fail(context, BO_UNSUPPORTED, "inspect: expected layers with attention, found the mixer %s",
                           bo_mixer_name(bo_model_block(&model->desc, i)->mixer));
    return BO_OK;
}

static bo_status resolve_parts(bo_inspection_run *in)
{
    bo_inspect_desc *d = &in->desc;
    const bool chosen = d->parts != 0;
    if (d->parts & ~(unsigned)ALL_PARTS)
        return bo_fail(in->context, BO_INVALID, "inspect: unknown parts %#x", d->parts & ~(unsigned)ALL_PARTS);
    if (!chosen) d->parts = ALL_PARTS;
    if (!chosen && !in->count) d->parts &= ~(unsigned)OF_TEXT;
    if (!chosen && !bo_has_circuits(in->model)) d->parts &= ~(unsigned)OF_WEIGHTS;
    if (d->no_report) d->parts = 0;
    if (!in->count && (d->parts & OF_TEXT || d->receive))
        return bo_fail(in->context, BO_INVALID, "inspect: statistics, errors, attribution and arrays need a text");
    if (d->parts & OF_WEIGHTS && !bo_has_circuits(in->model))
        return bo_fail(
            in->context, BO_UNSUPPORTED, "inspect: circuits and attribution are not supported for a model %s",
            in->d->parametrization == BO_PARAMETRIZATION_UNIT ? "with unit scaling"
                                                              : "whose adapters are not merged (bo_model_merge)");
    return BO_OK;
}

static bo_status check_ids(bo_context *context, const int32_t *ids, size_t count, size_t vocab)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocab)
            return bo_fail(context, BO_INVALID, "inspect: token %zu is %ld, expected an id below %zu", i, (long)ids[i],
                           vocab);
    return BO_OK;
}

static bo_status resolve_windows(bo_inspection_run *in)
{
    bo_inspect_desc *d = &in->desc;
    const size_t positions = bo_model_positions_kind(in->d) == BO_POSITIONS_LEARNED ? in->d->context : INT32_MAX;
    if (!d->tokens) d->tokens = bo_min(in->d->context, DEFAULT_TOKENS);
    if (!d->windows) d->windows = DEFAULT_WINDOWS;
    if (d->tokens < MIN_TOKENS || d->tokens > positions)
        return bo_fail(in->context, BO_INVALID, "inspect: windows of %zu tokens, expected %d to %zu", d->tokens,
                       MIN_TOKENS, positions);
    if (in->count && in->count < d->tokens)
        return bo_fail(in->context, BO_INVALID,
                       "inspect: the text has %zu tokens, but a window has %zu; use a longer text or shorter windows",
                       in->count, d->tokens);
    if (!(d->parts & (OF_TEXT | BO_INSPECT_PART_BEHAVIOR)) && !d->receive) return BO_OK; /* the text is not needed */
    in->windows = bo_min(d->windows, in->count / d->tokens);
    in->batch = bo_min(bo_max(BATCH / d->tokens, 2), in->windows);
    return BO_OK;
}

static bo_status resolve(bo_inspection_run *in)
{
    BO_TRY(bo_check_reserved(in->context, "bo_inspect_desc", in->desc.reserved));
    BO_TRY(check_model(in->context, in->model));
    if (!(in->desc.target >= 0 && isfinite(in->desc.target)))
        return bo_fail(in->context, BO_INVALID, "inspect: target must be positive (0: default 0.2), found %g",
                       in->desc.target);
    if (in->desc.target == 0) in->desc.target = 0.2;
    BO_TRY(resolve_parts(in));
    BO_TRY(resolve_windows(in));
    return check_ids(in->context, in->ids, in->count, in->d->vocab);
}

/* ---- one run of the model ---------------------------------------------------------------------------------------- */

static void close_batch(bo_inspection_run *in)
{
    bo_layer_arrays *x = &in->arrays;
    bo_capture_destroy(in->capture);
    bo_free(in->batch_ids);
    bo_free(x->q);
    bo_free(x->k);
    bo_free(x->v);
    bo_free(x->out);
    in->capture = NULL;
    in->batch_ids = NULL;
    *x = (bo_layer_arrays){0};
}

/* Prepares runs of `windows` sequences of `tokens` tokens. */
static bo_status open_batch(bo_inspection_run *in, size_t tokens, size_t windows, unsigned parts)
{
    static const char what[] = "queries, keys and values of a layer";
    const bo_capture_desc desc = {.tokens = tokens, .sequences = windows, .parts = parts};
    const size_t rows = tokens * windows;
    bo_layer_arrays *x = &in->arrays;
    size_t q = 0, k = 0, v = 0, out = 0;
    close_batch(in);
    for (size_t l = 0; l < in->d->layers; l++) {
        const bo_attention_desc *a = bo_inspection_attention(in, l);
        q = bo_max(q, a->heads * a->dim);
        k = bo_max(k, a->key_heads * a->dim);
        v = bo_max(v, a->key_heads * a->value_dim);
        out = bo_max(out, a->heads * a->value_dim);
    }
    *x = (bo_layer_arrays){.tokens = tokens, .windows = windows};
    in->batch_ids = bo_alloc_raw(in->context, rows, sizeof *in->batch_ids, what);
    x->q = bo_alloc_raw(in->context, rows * q, sizeof *x->q, what);
    x->k = bo_alloc_raw(in->context, rows * k, sizeof *x->k, what);
    x->v = bo_alloc_raw(in->context, rows * v, sizeof *x->v, what);
    x->out = bo_alloc_raw(in->context, rows * out, sizeof *x->out, what);
    if (!in->batch_ids || !x->q || !x->k || !x->v || !x->out) return BO_MEMORY;
    return bo_capture_create(in->context, in->model, &desc, &in->capture);
}

static bo_status load_layer(bo_inspection_run *in, size_t layer)
{
    bo_layer_arrays *x = &in->arrays;
    x->layer = layer;
    x->attention = bo_inspection_attention(in, layer);
    x->scale = bo_inspection_scale(x->attention);
    BO_TRY(bo_capture_read(in->context, in->capture, layer, BO_CAPTURE_ARRAY_Q, x->q));
    BO_TRY(bo_capture_read(in->context, in->capture, layer, BO_CAPTURE_ARRAY_K, x->k));
    BO_TRY(bo_capture_read(in->context, in->capture, layer, BO_CAPTURE_ARRAY_V, x->v));
    return bo_capture_read(in->context, in->capture, layer, BO_CAPTURE_ARRAY_OUT, x->out);
}

static bo_status step(bo_inspection_run *in)
{
    return bo_progress(in->context, "inspecting", ++in->done, in->steps);
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

/* The first token of window n: windows are evenly spaced. */
static size_t window_start(const bo_inspection_run *in, size_t n)
{
    const size_t places = in->count / in->desc.tokens;
    return n * places / in->windows * in->desc.tokens;
}

static bo_status add_layer(bo_inspection_run *in, bool first, const float *directions)
{
    if (bo_part_requested(in, BO_INSPECT_PART_STATISTICS)) BO_TRY(bo_statistics_add(in));
    if (bo_part_requested(in, BO_INSPECT_PART_BEHAVIOR)) BO_TRY(bo_patterns_add(in, in->batch_ids, 0));
    if (bo_part_requested(in, BO_INSPECT_PART_ATTRIBUTION)) BO_TRY(bo_attribution_add(in, directions, first));
    if (first && bo_part_requested(in, BO_INSPECT_PART_ERRORS)) BO_TRY(bo_errors_add(in));
    return first && in->desc.receive ? bo_arrays_send(in) : BO_OK;
}

static bo_status add_layers(bo_inspection_run *in, bool first)
{
    float *directions = NULL;
    bo_status status =
        bo_part_requested(in, BO_INSPECT_PART_ATTRIBUTION) ? bo_attribution_directions(in, &directions) : BO_OK;
    for (size_t l = 0; status == BO_OK && l < in->d->layers; l++) {
        status = load_layer(in, l);
        if (status == BO_OK) status = add_layer(in, first, directions);
        if (status == BO_OK) status = step(in);
    }
    bo_free(directions);
    return status;
}

static bo_status read_text(bo_inspection_run *in)
{
    const bool stream = bo_part_requested(in, BO_INSPECT_PART_ATTRIBUTION) || in->desc.receive;
    const unsigned parts = BO_CAPTURE_PART_ATTENTION | (stream ? BO_CAPTURE_PART_STREAM : 0);
    for (size_t at = 0; at < in->windows; at += in->arrays.windows) {
        const size_t windows = bo_min(in->batch, in->windows - at);
        if (!in->capture || in->arrays.windows != windows) BO_TRY(open_batch(in, in->desc.tokens, windows, parts));
        for (size_t i = 0; i < windows * in->desc.tokens; i++)
            in->batch_ids[i] = in->ids[window_start(in, at + i / in->desc.tokens) + i % in->desc.tokens];
        BO_TRY(bo_capture_run(in->context, in->capture, in->batch_ids));
        if (at == 0 && in->desc.receive) BO_TRY(bo_arrays_send_stream(in));
        BO_TRY(add_layers(in, at == 0));
        if (in->desc.no_report) break;
    }
    return BO_OK;
}

/* ---- repeated tokens --------------------------------------------------------------------------------------------- */

static bo_status read_repeated(bo_inspection_run *in)
{
    const size_t period = bo_min(in->desc.tokens / 2, COPY), tokens = 2 * period;
    bo_rng rng = bo_rng_make(in->desc.seed, bo_rng_stream("inspect.repeated", 0));
    in->report->out.repeated = period;
    BO_TRY(open_batch(in, tokens, REPETITIONS, BO_CAPTURE_PART_ATTENTION));
    for (size_t i = 0; i < REPETITIONS * tokens; i++)
        in->batch_ids[i] = i % tokens < period ? (int32_t)bo_rng_below(&rng, in->d->vocab) : in->batch_ids[i - period];
    BO_TRY(bo_capture_run(in->context, in->capture, in->batch_ids));
    for (size_t l = 0; l < in->d->layers; l++) {
        BO_TRY(load_layer(in, l));
        BO_TRY(bo_patterns_add(in, in->batch_ids, period));
        BO_TRY(step(in));
    }
    return BO_OK;
}

/* ---- all parts --------------------------------------------------------------------------------------------------- */

static void free_moments(size_t count, bo_second_moments *moments)
{
    for (size_t h = 0; moments && h < count; h++) bo_second_moments_free(&moments[h]);
    bo_free(moments);
}

static void free_sums(bo_inspection_run *in)
{
    for (size_t l = 0; in->sums && l < in->d->layers; l++) {
        bo_layer_sums *s = &in->sums[l];
        void *const blocks[] = {s->patterns, s->repeated, s->error2, s->norm2, s->written2, s->logits, s->logits2};
        free_moments(bo_inspection_attention(in, l)->heads, s->queries);
        free_moments(bo_inspection_attention(in, l)->key_heads, s->keys);
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    }
    bo_free(in->sums);
}

static bo_status begin(bo_inspection_run *in)
{
    const double layers = (double)in->d->layers,
                 batches = in->batch ? ceil((double)in->windows / (double)in->batch) : 0;
    in->steps = layers * (batches + (bo_part_requested(in, BO_INSPECT_PART_CIRCUITS) ? 1 : 0) +
                          (bo_part_requested(in, BO_INSPECT_PART_BEHAVIOR) ? 1 : 0));
    if (bo_part_requested(in, BO_INSPECT_PART_ERRORS)) BO_TRY(bo_candidates_make(in));
    in->sums = bo_alloc(in->context, in->d->layers, sizeof *in->sums, "sums over a text");
    if (!in->sums) return BO_MEMORY;
    for (size_t l = 0; l < in->d->layers; l++) {
        if (bo_part_requested(in, BO_INSPECT_PART_STATISTICS)) BO_TRY(bo_statistics_begin(in, l));
        if (bo_part_requested(in, BO_INSPECT_PART_BEHAVIOR)) BO_TRY(bo_patterns_begin(in, l));
        if (bo_part_requested(in, BO_INSPECT_PART_ERRORS)) BO_TRY(bo_errors_begin(in, l));
        if (bo_part_requested(in, BO_INSPECT_PART_ATTRIBUTION)) BO_TRY(bo_attribution_begin(in, l));
    }
    return BO_OK;
}

static bo_status finish(bo_inspection_run *in)
{
    for (size_t l = 0; l < in->d->layers; l++) {
        if (bo_part_requested(in, BO_INSPECT_PART_STATISTICS)) BO_TRY(bo_statistics_finish(in, l));
        if (bo_part_requested(in, BO_INSPECT_PART_BEHAVIOR)) bo_patterns_finish(in, l);
        if (bo_part_requested(in, BO_INSPECT_PART_ERRORS)) BO_TRY(bo_errors_finish(in, l));
        if (bo_part_requested(in, BO_INSPECT_PART_ATTRIBUTION)) bo_attribution_finish(in, l);
    }
    if (bo_part_requested(in, BO_INSPECT_PART_ERRORS)) bo_candidates_choose(in);
    return BO_OK;
}

static bo_status run(bo_inspection_run *in)
{
    BO_TRY(report_make(in));
    BO_TRY(begin(in));
    if (bo_part_requested(in, BO_INSPECT_PART_CIRCUITS)) BO_TRY(bo_circuits(in));
    BO_TRY(read_text(in));
    if (bo_part_requested(in, BO_INSPECT_PART_BEHAVIOR)) BO_TRY(read_repeated(in));
    return finish(in);
}

bo_status bo_inspect(bo_context *context, const bo_model *model, const int32_t *ids, size_t count,
                     const bo_inspect_desc *desc, bo_inspection **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, out);
    BO_REQUIRE_IF(context, count > 0, ids);
    bo_inspection_run in = {.context = context, .model = model, .d = &model->desc, .ids = ids, .count = count};
    if (desc) in.desc = *desc;
    BO_TRY(resolve(&in));
    in.report = bo_alloc(context, 1, sizeof *in.report, "a report on a model");
    if (!in.report) return BO_MEMORY;
    const bo_status status = run(&in);
    close_batch(&in);
    free_sums(&in);
    if (status == BO_OK)
        *out = &in.report->out;
    else
        bo_inspection_destroy(&in.report->out);
    return status;
}
