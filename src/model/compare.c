/* Comparison of a model with its teacher: the error of attention by layer, and the agreement on the next token. */
#include <math.h>
#include <string.h>
#include "../base/base.h"
#include "../base/trace.h"
#include "internal.h"

/* Whole windows of a corpus, from its start. */
typedef struct windows {
    const bo_corpus *corpus;
    size_t tokens; /* per window */
    size_t each;   /* windows per run */
    uint64_t count;
    int32_t *ids, *positions; /* each x tokens */
} windows;

static bo_status open_windows(bo_context *context, const char *caller, uint64_t max_tokens, windows *w)
{
    const uint64_t all = bo_corpus_tokens(w->corpus);
    if (all < w->tokens)
        return bo_fail(context, BO_INVALID, "%s: the corpus has %llu tokens, expected at least one window of %zu",
                       caller, (unsigned long long)all, w->tokens);
    w->count = (max_tokens && max_tokens < all ? max_tokens : all) / w->tokens;
    if (!w->count) w->count = 1;
    if (w->each > w->count) w->each = (size_t)w->count;
    w->count -= w->count % w->each; /* each window counts once */
    w->ids = bo_alloc(context, w->each * w->tokens, 2 * sizeof *w->ids, "tokens to compare");
    if (!w->ids) return BO_MEMORY;
    w->positions = w->ids + w->each * w->tokens;
    for (size_t i = 0; i < w->each * w->tokens; i++) w->positions[i] = (int32_t)(i % w->tokens);
    return BO_OK;
}

/* Runs a graph over windows first … first + each - 1. */
static bo_status run(bo_context *context, const windows *w, uint64_t first, const bo_model_graph *g)
{
    const bo_graph_pass pass = {0};
    BO_TRY(bo_corpus_read(context, w->corpus, first * w->tokens, w->each * w->tokens, w->ids));
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, w->ids));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, w->positions));
    return bo_graph_run(context, g->graph, &pass);
}

/* ---- attention by layer ------------------------------------------------------------------------------------------ */

static bo_status add_errors(bo_context *context, const windows *w, const bo_model *model, const bo_model_graph *g,
                            double *errors)
{
    const size_t layers = model->desc.layers;
    size_t runs = 0;
    float *found = bo_alloc(context, layers, sizeof *found, "errors of layers");
    bo_status status = found ? BO_OK : BO_MEMORY;
    memset(errors, 0, layers * sizeof *errors);
    for (uint64_t at = 0; at < w->count && status == BO_OK; at += w->each, runs++) {
        status = bo_progress(context, "comparing attention", (double)at, (double)w->count);
        if (status == BO_OK) status = run(context, w, at, g);
        if (status == BO_OK) status = bo_graph_read(context, g->graph, g->losses, found);
        for (size_t i = 0, next = 0; i < layers && status == BO_OK; i++)
            errors[i] += !bo_block_replaces(bo_model_block(&model->desc, i)) ? NAN : (double)found[next++];
    }
    for (size_t i = 0; i < layers; i++) errors[i] /= (double)runs;
    bo_free(found);
    return status;
}

bo_status bo_model_imitation(bo_context *context, const bo_model *model, const bo_corpus *corpus, size_t context_tokens,
                             uint64_t max_tokens, double *errors)
{
    enum { ROWS = 2048 };
    BO_REQUIRE(context, model, corpus, errors);
    BO_SPAN(context, "model", "compare attention");
    BO_TRY(bo_model_require_language(context, model, "imitation"));
    windows w = {.corpus = corpus, .tokens = context_tokens ? context_tokens : model->desc.context};
    w.each = bo_max(ROWS / w.tokens, 1);
    bo_model_graph graph = {0};
    bo_status status = open_windows(context, "imitation", max_tokens, &w);
    const bo_model_graph_desc desc = {
        .rows = w.each * w.tokens, .tokens = w.tokens, .loss = true, .imitate = BO_IMITATION_ATTENTION};
    if (status == BO_OK) status = bo_model_graph_create(context, model, &desc, &graph);
    if (status == BO_OK) status = bo_graph_allocate(context, graph.graph);
    if (status == BO_OK) status = add_errors(context, &w, model, &graph, errors);
    bo_model_graph_destroy(&graph);
    bo_free(w.ids);
    return status;
}

/* ---- agreement on the next token --------------------------------------------------------------------------------- */

typedef struct comparison {
    windows windows;
    size_t vocab;
    bo_model_graph graphs[2];
    float *logits[2];
} comparison;

static size_t argmax(size_t count, const float *logits)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static double log_total(size_t count, const float *logits)
{
    const double top = (double)logits[argmax(count, logits)];
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += exp((double)logits[i] - top);
    return top + log(sum);
}

/* KL(softmax(p) | softmax(q)). */
static double divergence(size_t count, const float *p, const float *q)
{
    const double p_total = log_total(count, p), q_total = log_total(count, q);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double log_p = (double)p[i] - p_total, share = exp(log_p);
        if (share > 0) sum += share * (log_p - ((double)q[i] - q_total));
    }
    return sum;
}

static void add_rows(const comparison *c, bo_agreement *out)
{
    for (size_t r = 0; r < c->windows.tokens; r++) {
        const float *p = c->logits[0] + r * c->vocab, *q = c->logits[1] + r * c->vocab;
        out->greedy += argmax(c->vocab, p) == argmax(c->vocab, q);
        out->divergence += divergence(c->vocab, p, q);
        out->tokens++;
    }
}

static bo_status compare(bo_context *context, comparison *c, const bo_model *const models[2], bo_agreement *out)
{
    const windows *w = &c->windows;
    const bo_model_graph_desc desc = {.rows = w->tokens, .outputs = true, .chosen = w->tokens};
    for (int i = 0; i < 2; i++) {
        c->logits[i] = bo_alloc_raw(context, w->tokens * c->vocab, sizeof(float), "logits");
        if (!c->logits[i]) return BO_MEMORY;
        BO_TRY(bo_model_graph_create(context, models[i], &desc, &c->graphs[i]));
        BO_TRY(bo_graph_allocate(context, c->graphs[i].graph));
    }
    for (uint64_t at = 0; at < w->count; at++) {
        BO_TRY(bo_progress(context, "comparing models", (double)at, (double)w->count));
        for (int i = 0; i < 2; i++) {
            BO_TRY(run(context, w, at, &c->graphs[i]));
            BO_TRY(bo_graph_read(context, c->graphs[i].graph, c->graphs[i].outputs, c->logits[i]));
        }
        add_rows(c, out);
    }
    out->greedy /= (double)out->tokens;
    out->divergence /= (double)out->tokens;
    return BO_OK;
}

bo_status bo_model_agreement(bo_context *context, const bo_model *first, const bo_model *second,
                             const bo_corpus *corpus, size_t context_tokens, uint64_t max_tokens, bo_agreement *out)
{
    BO_REQUIRE(context, first, second, corpus, out);
    BO_SPAN(context, "model", "compare models");
    const bo_model *const models[2] = {first, second};
    *out = (bo_agreement){0};
    for (int i = 0; i < 2; i++) BO_TRY(bo_model_require_language(context, models[i], "agreement"));
    if (first->desc.vocab != second->desc.vocab)
        return bo_fail(context, BO_INVALID, "agreement: the models have vocabularies of %zu and %zu ids",
                       first->desc.vocab, second->desc.vocab);
    comparison c = {.vocab = first->desc.vocab, .windows = {.corpus = corpus, .each = 1}};
    c.windows.tokens = context_tokens ? context_tokens : bo_min(first->desc.context, second->desc.context);
    bo_status status = open_windows(context, "agreement", max_tokens, &c.windows);
    if (status == BO_OK) status = compare(context, &c, models, out);
    for (int i = 0; i < 2; i++) {
        bo_model_graph_destroy(&c.graphs[i]);
        bo_free(c.logits[i]);
    }
    bo_free(c.windows.ids);
    return status;
}
