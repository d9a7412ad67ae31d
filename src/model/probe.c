/* Measurements inside a model: sizes of activations, and norms of weight matrices. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../nn/enums.h"
#include "internal.h"

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* The residual stream starts with the embedding; the mixer and the MLP of every layer add to it. */
static size_t stream_length(const bo_model *model)
{
    return 1 + 2 * model->desc.layers;
}

size_t bo_model_activations(const bo_model *model)
{
    return model && !model->network ? stream_length(model) + 1 : 0;
}

bo_status bo_model_name_activations(bo_context *context, bo_model *model)
{
    const size_t length = stream_length(model);
    bo_activation_name *names = bo_alloc(context, length + 1, sizeof *names, "the names of activations");
    if (!names) return BO_MEMORY;
    snprintf(names[0], sizeof *names, "embedding");
    for (size_t i = 1; i < length; i++)
        snprintf(names[i], sizeof *names, "layer %zu %s", (i - 1) / 2,
                 i % 2 ? bo_mixer_name(bo_model_block(&model->desc, i / 2)->mixer) : "mlp");
    snprintf(names[length], sizeof *names, "logits");
    model->activations = names;
    return BO_OK;
}

const char *bo_model_activation(const bo_model *model, size_t index)
{
    if (!model) return NULL;
    return index < bo_model_activations(model) ? model->activations[index] : NULL;
}

/* Computes the mean of |x - y|, or of |x| if y is NULL. */
static double mean_size(size_t count, const float *x, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += fabs((double)x[i] - (y ? (double)y[i] : 0));
    return sum / (double)count;
}

typedef struct probing {
    const bo_model *model;
    bo_model_graph graph;
    bo_value *stream;
    int32_t *places;     /* 0, 1, … */
    float *now, *before; /* values of the stream; `now` has space for the logits too */
    size_t tokens;
} probing;

static void probing_free(probing *p)
{
    bo_model_graph_destroy(&p->graph);
    bo_free(p->stream);
    bo_free(p->places);
    bo_free(p->now);
    bo_free(p->before);
}

static bo_status probing_create(bo_context *context, probing *p)
{
    static const char what[] = "a model's activations";
    const bo_model_desc *d = &p->model->desc;
    size_t max_numbers = p->tokens * (d->vocab > d->width ? d->vocab : d->width);
    p->stream = bo_alloc(context, stream_length(p->model), sizeof *p->stream, what);
    p->places = bo_alloc(context, p->tokens, sizeof *p->places, what);
    p->now = bo_alloc(context, max_numbers, sizeof *p->now, what);
    p->before = bo_alloc(context, max_numbers, sizeof *p->before, what);
    if (!p->stream || !p->places || !p->now || !p->before) return BO_MEMORY;
    for (size_t i = 0; i < p->tokens; i++) p->places[i] = (int32_t)i;
    bo_model_graph_desc desc = {.rows = p->tokens, .outputs = true, .chosen = p->tokens, .stream = p->stream};
    BO_TRY(bo_model_graph_create(context, p->model, &desc, &p->graph));
    return bo_graph_allocate(context, p->graph.graph);
}

static bo_status probing_run(bo_context *context, const probing *p, const int32_t *tokens)
{
    const bo_model_graph *g = &p->graph;
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, tokens));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, p->places));
    return bo_graph_run(context, g->graph, NULL);
}

static bo_status probing_read(bo_context *context, probing *p, double *sizes)
{
    size_t length = stream_length(p->model), width = p->model->desc.width, vocab = p->model->desc.vocab;
    for (size_t part = 0; part < length; part++) {
        float *before = p->now;
        p->now = p->before;
        p->before = before;
        BO_TRY(bo_graph_read(context, p->graph.graph, p->stream[part], p->now));
        sizes[part] = mean_size(p->tokens * width, p->now, part ? p->before : NULL);
    }
    BO_TRY(bo_graph_read(context, p->graph.graph, p->graph.outputs, p->now));
    sizes[length] = mean_size(p->tokens * vocab, p->now, NULL);
    return BO_OK;
}

bo_status bo_model_probe(bo_context *context, const bo_model *model, const int32_t *tokens, size_t count, double *sizes)
{
    BO_REQUIRE(context, model, sizes);
    BO_REQUIRE_IF(context, count > 0, tokens);
    BO_TRY(bo_model_require_language(context, model, "probe"));
    if (count < 1 || count > model->desc.context)
        return bo_fail(context, BO_INVALID, "probe: %zu tokens, expected 1 to %zu", count, model->desc.context);
    probing p = {.model = model, .tokens = count};
    bo_status status = probing_create(context, &p);
    if (status == BO_OK) status = probing_run(context, &p, tokens);
    if (status == BO_OK) status = probing_read(context, &p, sizes);
    probing_free(&p);
    return status;
}

/* ---- norms of weights -------------------------------------------------------------------------------------------- */

/* y = W x, or Wᵀ x. */
static void multiply(size_t rows, size_t columns, const float *w, bool transposed, const double *x, double *y)
{
    memset(y, 0, (transposed ? columns : rows) * sizeof *y);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            double product = (double)w[r * columns + c] * x[transposed ? r : c];
            y[transposed ? c : r] += product;
        }
}

static double normalize(size_t count, double *x)
{
    double square = 0;
    for (size_t i = 0; i < count; i++) square += x[i] * x[i];
    double norm = sqrt(square);
    for (size_t i = 0; norm > 0 && i < count; i++) x[i] /= norm;
    return norm;
}

/* Power iteration on WᵀW. Each step approaches the value from below; an accuracy of 0.1 % is sufficient to compare
 * sizes. */
static double largest_singular_value(size_t rows, size_t columns, const float *w, double *x, double *y)
{
    enum { MAX_STEPS = 60 };
    double norm = 0;
    /* unlikely to be orthogonal to the singular vector */
    for (size_t i = 0; i < columns; i++) x[i] = 1 + 0.5 * sin(1 + 7.3 * (double)i);
    normalize(columns, x);
    for (size_t step = 0; step < MAX_STEPS; step++) {
        double last = norm;
        multiply(rows, columns, w, false, x, y);
        norm = normalize(rows, y);
        if (norm == 0 || fabs(norm - last) < 1e-4 * norm) break;
        multiply(rows, columns, w, true, y, x);
        normalize(columns, x);
    }
    return norm;
}

bo_status bo_model_spectral_norm(bo_context *context, const bo_model *model, const char *name, const float *minus,
                                 double *out)
{
    BO_REQUIRE(context, model, name, out);
    const bo_weight *weight = bo_weights_find(model->weights, name);
    if (!weight) return bo_fail(context, BO_INVALID, "model: there is no weight '%s'", name);
    size_t count = weight->rows * weight->columns;
    float *w = bo_alloc_raw(context, count, sizeof *w, "a weight");
    double *x = bo_alloc_raw(context, weight->columns + weight->rows, sizeof *x, "a weight's norm");
    bo_status status = w && x ? bo_weights_get(context, bo_model_weights(model), name, w, NULL) : BO_MEMORY;
    if (status == BO_OK) {
        for (size_t i = 0; minus && i < count; i++) w[i] -= minus[i];
        *out = weight->scale * largest_singular_value(weight->rows, weight->columns, w, x, x + weight->columns);
    }
    bo_free(w);
    bo_free(x);
    return status;
}
