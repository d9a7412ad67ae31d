/* The coordinate check and the spectral condition: the same training steps at several widths. */
#include <assert.h>
#include <bochner/widths.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../model/enums.h"
#include "../base/rng.h"
#include "../model/model.h"
#include "../optim/optim.h"
#include "train.h"

/* Measurements of one kind: `values` has one number per width for each trend, trend by trend. */
typedef struct trend_list {
    double *values;
    bo_widths_trend *items;
    size_t count;
} trend_list;

/* Order of the trends: activation[step][part], loss[step], norm and change[matrix]. */
typedef struct widths_made {
    bo_widths out; /* first member: bo_widths_destroy() casts the pointer */
    size_t widths;
    double *width;
    trend_list activation, loss, norm, change;
    char **names;  /* names of the parts */
    char **matrix; /* names of the matrices */
} widths_made;

static void free_trends(trend_list *list)
{
    bo_free(list->values);
    bo_free(list->items);
}

void bo_widths_destroy(bo_widths *made)
{
    widths_made *w = (widths_made *)made;
    if (!w) return;
    for (size_t i = 0; w->matrix && i < w->out.matrices; i++) bo_free(w->matrix[i]);
    for (size_t i = 0; w->names && i < w->out.parts; i++) bo_free(w->names[i]);
    bo_free(w->matrix);
    bo_free(w->names);
    bo_free(w->width);
    free_trends(&w->activation);
    free_trends(&w->loss);
    free_trends(&w->norm);
    free_trends(&w->change);
    bo_free(w);
}

/* ---- trends ------------------------------------------------------------------------------------------------------ */

/* Least squares of log value against log width. */
static double slope_of(size_t count, const double *width, const double *value)
{
    double x = 0, y = 0, xx = 0, xy = 0, n = (double)count;
    for (size_t i = 0; i < count; i++) {
        if (!(value[i] > 0 && isfinite(value[i]))) return NAN;
        double a = log(width[i]), b = log(value[i]);
        x += a, y += b, xx += a * a, xy += a * b;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static void set_trend(const widths_made *w, const trend_list *list, size_t index, const char *name)
{
    const double *values = list->values + index * w->widths;
    list->items[index] = (bo_widths_trend){name, values, slope_of(w->widths, w->width, values)};
}

/* Computes the trends after all values are known. */
static void set_trends(widths_made *w)
{
    for (size_t i = 0; i < w->activation.count; i++) set_trend(w, &w->activation, i, w->names[i % w->out.parts]);
    for (size_t i = 0; i < w->loss.count; i++) set_trend(w, &w->loss, i, "loss");
    for (size_t i = 0; i < w->out.matrices; i++) {
        set_trend(w, &w->norm, i, w->matrix[i]);
        set_trend(w, &w->change, i, w->matrix[i]);
    }
    w->out.activations = w->activation.items;
    w->out.norms = w->norm.items;
    w->out.changes = w->change.items;
    w->out.losses = w->loss.items;
}

/* ---- one width --------------------------------------------------------------------------------------------------- */

/* A model during the check. */
typedef struct walk {
    const bo_widths_desc *desc;
    size_t which; /* index of its width */
    widths_made *out;
    bo_model *model;
    bo_model_graph graph;
    bo_optimizer *optimizer;
    float *before; /* copy of the weights */
} walk;

static void walk_free(walk *k)
{
    bo_optimizer_destroy(k->optimizer);
    bo_model_graph_destroy(&k->graph);
    bo_model_destroy(k->model);
    bo_free(k->before);
}

static bo_status walk_create(bo_context *context, walk *k)
{
    const bo_widths_desc *d = k->desc;
    bo_model_desc desc;
    BO_TRY(bo_model_widen(context, &d->model, d->widths[k->which], &desc));
    const bo_status status = bo_model_create(context, &desc, NULL, &k->model);
    bo_model_desc_release(&desc);
    BO_TRY(status);
    bo_model_graph_desc graph = {
        .rows = d->batch * d->model.context, .tokens = d->model.context, .loss = true, .gradients = true};
    BO_TRY(bo_model_graph_create(context, k->model, &graph, &k->graph));
    BO_TRY(bo_weights_allocate(context, k->model->weights, true));
    BO_TRY(bo_graph_allocate(context, k->graph.graph));
    const bo_optimizer_desc optimizer = bo_train_optimizer(&d->optimizer);
    BO_TRY(bo_optimizer_create(context, &optimizer, k->model->weights, &k->optimizer));
    size_t floats = bo_weights_floats(k->model->weights);
    k->before = bo_alloc_raw(context, floats, sizeof *k->before, "weights before training");
    if (!k->before) return BO_MEMORY;
    bo_device *device = bo_weights_device(k->model->weights);
    return bo_buffer_read(context, device, k->before, bo_weights_data(k->model->weights), floats * sizeof(float));
}

/* tokens: inputs, targets and positions of the batch, `rows` of each. */
static bo_status walk_load(bo_context *context, const walk *k, const int32_t *tokens)
{
    const bo_model_graph *g = &k->graph;
    size_t rows = k->desc->batch * k->desc->model.context;
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, tokens));
    BO_TRY(bo_graph_write(context, g->graph, g->targets, tokens + rows));
    return g->positions ? bo_graph_write(context, g->graph, g->positions, tokens + 2 * rows) : BO_OK;
}

static bo_status measure_sizes(bo_context *context, const walk *k, size_t step, const int32_t *tokens, double *sizes)
{
    widths_made *w = k->out;
    BO_TRY(bo_model_probe(context, k->model, tokens, k->desc->model.context, sizes));
    assert(k->which < w->widths && step <= w->out.steps);
    for (size_t part = 0; part < w->out.parts; part++)
        w->activation.values[(step * w->out.parts + part) * w->widths + k->which] = sizes[part];
    return BO_OK;
}

/* The last step only computes the loss. */
static bo_status walk_step(bo_context *context, const walk *k, size_t step)
{
    bo_weights *weights = k->model->weights;
    float loss;
    double norm;
    BO_TRY(bo_weights_zero_gradients(context, weights));
    BO_TRY(bo_graph_run(context, k->graph.graph, &(bo_graph_pass){.training = true, .seed = step}));
    BO_TRY(bo_graph_read(context, k->graph.graph, k->graph.loss, &loss));
    k->out->loss.values[step * k->out->widths + k->which] = (double)loss;
    return step < k->desc->steps ? bo_optimizer_step(context, k->optimizer, 1, &norm) : BO_OK;
}

static bool is_matrix(const bo_weight *weight)
{
    return weight->rank == 2 && (weight->role == BO_WEIGHT_ROLE_MATRIX || weight->role == BO_WEIGHT_ROLE_HEAD);
}

static bo_status measure_norms(bo_context *context, const walk *k, bool after)
{
    widths_made *w = k->out;
    size_t matrix = 0;
    for (size_t i = 0; i < bo_weights_count(k->model->weights); i++) {
        const bo_weight *weight = bo_weights_at(k->model->weights, i);
        if (!is_matrix(weight)) continue;
        assert(matrix < w->out.matrices);
        double *to = &(after ? &w->change : &w->norm)->values[matrix++ * w->widths + k->which];
        BO_TRY(bo_model_spectral_norm(context, k->model, weight->name, after ? k->before + weight->offset : NULL, to));
        *to /= sqrt((double)weight->rows / (double)weight->columns);
    }
    return BO_OK;
}

static bo_status walk_through(bo_context *context, walk *k, const int32_t *tokens)
{
    bo_status status = BO_OK;
    BO_TRY(walk_load(context, k, tokens));
    double *sizes = bo_alloc(context, k->out->out.parts, sizeof *sizes, "a model's activations");
    if (!sizes) return BO_MEMORY;
    for (size_t step = 0; status == BO_OK && step <= k->desc->steps; step++) {
        status = measure_sizes(context, k, step, tokens, sizes);
        if (status == BO_OK) status = walk_step(context, k, step);
        if (status == BO_OK) status = bo_progress(context, "steps", (double)step, (double)k->desc->steps);
    }
    bo_free(sizes);
    return status;
}

/* ---- all widths -------------------------------------------------------------------------------------------------- */

static bo_status make_trends(bo_context *context, size_t count, size_t widths, trend_list *out)
{
    out->count = count;
    out->values = bo_alloc(context, count * widths, sizeof *out->values, "a check of widths");
    out->items = bo_alloc(context, count, sizeof *out->items, "a check of widths");
    return out->values && out->items ? BO_OK : BO_MEMORY;
}

/* The parts and matrices of the first model. The other models have the same. */
static bo_status allocate_results(bo_context *context, const walk *k)
{
    static const char what[] = "a check of widths";
    widths_made *w = k->out;
    const bo_widths_desc *d = k->desc;
    w->out.parts = bo_model_activations(k->model);
    for (size_t i = 0; i < bo_weights_count(k->model->weights); i++)
        w->out.matrices += is_matrix(bo_weights_at(k->model->weights, i));
    w->names = bo_alloc(context, w->out.parts, sizeof *w->names, what);
    w->matrix = bo_alloc(context, w->out.matrices, sizeof *w->matrix, what);
    w->width = bo_alloc(context, d->width_count, sizeof *w->width, what);
    if (!w->names || !w->matrix || !w->width) return BO_MEMORY;
    BO_TRY(make_trends(context, (d->steps + 1) * w->out.parts, d->width_count, &w->activation));
    BO_TRY(make_trends(context, d->steps + 1, d->width_count, &w->loss));
    BO_TRY(make_trends(context, w->out.matrices, d->width_count, &w->norm));
    BO_TRY(make_trends(context, w->out.matrices, d->width_count, &w->change));
    for (size_t i = 0, matrix = 0; i < bo_weights_count(k->model->weights); i++) {
        const bo_weight *weight = bo_weights_at(k->model->weights, i);
        if (is_matrix(weight) && !(w->matrix[matrix++] = bo_strdup(context, weight->name))) return BO_MEMORY;
    }
    for (size_t i = 0; i < w->out.parts; i++)
        if (!(w->names[i] = bo_strdup(context, bo_model_activation(k->model, i)))) return BO_MEMORY;
    for (size_t i = 0; i < d->width_count; i++) w->width[i] = (double)d->widths[i];
    return BO_OK;
}

static bo_status walk_width(bo_context *context, const bo_widths_desc *desc, size_t which, const int32_t *tokens,
                            widths_made *out)
{
    walk k = {.desc = desc, .which = which, .out = out};
    bo_status status = walk_create(context, &k);
    if (status == BO_OK && which == 0) status = allocate_results(context, &k);
    if (status == BO_OK) status = measure_norms(context, &k, false);
    if (status == BO_OK) status = walk_through(context, &k, tokens);
    if (status == BO_OK) status = measure_norms(context, &k, true);
    walk_free(&k);
    return status;
}

/* Inputs, targets and positions. Generated text: t is followed by 5t + 1 or 5t + 8 with equal probability. */
static bo_status make_tokens(bo_context *context, const bo_widths_desc *d, int32_t **out)
{
    size_t length = d->model.context, rows = d->batch * length;
    int32_t *all = bo_alloc(context, 3 * rows, sizeof *all, "tokens");
    if (!all) return BO_MEMORY;
    bo_rng rng = bo_rng_make(d->seed, bo_rng_stream("train.widths", 0));
    for (size_t s = 0; s < d->batch; s++) {
        uint64_t token = bo_rng_below(&rng, d->model.vocab);
        for (size_t i = 0; i < length; i++) {
            size_t at = s * length + i, source = s * (length + 1) + i;
            all[at] = d->tokens ? d->tokens[source] : (int32_t)token;
            token = (5 * token + (bo_rng_below(&rng, 2) ? 1 : 8)) % d->model.vocab;
            all[rows + at] = d->tokens ? d->tokens[source + 1] : (int32_t)token;
            all[2 * rows + at] = (int32_t)i;
        }
    }
    *out = all;
    return BO_OK;
}

static bo_status resolve(bo_context *context, const bo_widths_desc *desc, bo_widths_desc *out)
{
    BO_TRY(bo_check_reserved(context, "bo_widths_desc", desc->reserved));
    *out = *desc;
    if (!desc->widths || desc->width_count < 2)
        return bo_fail(context, BO_INVALID, "widths: expected at least two widths, found %zu", desc->width_count);
    if (desc->model.task != BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID, "widths: expected a language model, found a model with task %s",
                       bo_model_task_name(desc->model.task) ? bo_model_task_name(desc->model.task) : "an unknown task");
    if (!out->model.vocab) out->model.vocab = 256;
    if (!out->steps) out->steps = 5;
    if (!out->batch) out->batch = 1;
    if (out->model.context < 1) return bo_fail(context, BO_INVALID, "widths: the model's context is 0");
    return BO_OK;
}

bo_status bo_widths_measure(bo_context *context, const bo_widths_desc *desc, bo_widths **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    bo_widths_desc d;
    int32_t *tokens = NULL;
    BO_TRY(resolve(context, desc, &d));
    widths_made *w = bo_alloc(context, 1, sizeof *w, "a check of widths");
    if (!w) return BO_MEMORY;
    w->widths = d.width_count;
    w->out.steps = d.steps;
    bo_status status = make_tokens(context, &d, &tokens);
    for (size_t i = 0; status == BO_OK && i < d.width_count; i++) status = walk_width(context, &d, i, tokens, w);
    bo_free(tokens);
    if (status != BO_OK) {
        bo_widths_destroy(&w->out);
        return status;
    }
    set_trends(w);
    *out = &w->out;
    return BO_OK;
}
