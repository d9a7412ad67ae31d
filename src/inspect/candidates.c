/* Replacements of softmax attention: the tested candidates, and the recommendation. */
#include <math.h>
#include <stdio.h>
#include "internal.h"

static const size_t feature_counts[BO_FEATURE_COUNTS] = {64, 128, 256, 512}, window_sizes[] = {16, 32, 64, 128};
enum { WINDOWS = sizeof window_sizes / sizeof *window_sizes, NAME = 48, OPTIONS = 96 };

typedef struct map {
    const char *name, *preset;
    bo_proposal proposal;
    bool whitened;
} map;

static const map maps[BO_MAPS] = {
    [BO_MAP_FAVOR] = {"favor", "favor", BO_PROPOSAL_NONE, false},
    [BO_MAP_OPRF] = {"favor++", "favor++", BO_PROPOSAL_OPRF, false},
    [BO_MAP_SDERF] = {"favor#", "favor#", BO_PROPOSAL_SDERF, false},
    [BO_MAP_GAUSSIAN] = {"gaussian", "favor", BO_PROPOSAL_GAUSSIAN, false},
    [BO_MAP_DARK] = {"dark", "dark", BO_PROPOSAL_NONE, true},
    [BO_MAP_RFA] = {"rfa", "rfa", BO_PROPOSAL_NONE, false},
};
/* The maps that are tested with a window. */
static const bo_map hybrid_maps[] = {BO_MAP_FAVOR, BO_MAP_GAUSSIAN};
enum {
    HYBRID_MAPS = sizeof hybrid_maps / sizeof *hybrid_maps,
    CANDIDATES = BO_MAPS * BO_FEATURE_COUNTS + 1 + WINDOWS + HYBRID_MAPS * WINDOWS * BO_FEATURE_COUNTS
};

typedef struct label {
    char name[NAME], options[OPTIONS];
} label;

/* ---- the list ---------------------------------------------------------------------------------------------------- */

typedef struct list {
    bo_inspect_candidate *items;
    label *texts;
    size_t count, dim, value_dim;
} list;

static void finish(list *l, bo_inspect_candidate *c)
{
    label *w = &l->texts[l->count];
    c->name = w->name;
    c->options = w->options;
    c->state = c->features * (l->value_dim + 1) + c->window * (l->dim + l->value_dim);
    l->items[l->count++] = *c;
}

static void add_map(list *l, const map *m, size_t features)
{
    bo_inspect_candidate c = {.features = features, .whitened = m->whitened, .error = NAN};
    label *w = &l->texts[l->count];
    bo_attention_preset(m->preset, &c.attention);
    c.attention.proposal = m->proposal;
    c.attention.features.features = features;
    snprintf(w->name, NAME, "%s %zu", m->name, features);
    snprintf(w->options, OPTIONS, "--attention %s%s --features %zu", m->preset,
             m->proposal == BO_PROPOSAL_GAUSSIAN ? " --proposal gaussian" : "", features);
    finish(l, &c);
}

/* softmax(±x) without training: W is the identity. */
static void add_hedgehog(list *l)
{
    bo_inspect_candidate c = {.features = 2 * l->dim, .error = NAN};
    label *w = &l->texts[l->count];
    bo_attention_preset("hedgehog", &c.attention);
    snprintf(w->name, NAME, "hedgehog %zu", c.features);
    snprintf(w->options, OPTIONS, "--attention hedgehog");
    finish(l, &c);
}

static void add_window(list *l, size_t window)
{
    bo_inspect_candidate c = {.window = window, .error = NAN};
    label *w = &l->texts[l->count];
    c.attention.window = window;
    snprintf(w->name, NAME, "window %zu", window);
    snprintf(w->options, OPTIONS, "--attention softmax --window %zu", window);
    finish(l, &c);
}

static void add_hybrid(list *l, const map *m, size_t window, size_t features)
{
    bo_inspect_candidate c = {.features = features, .window = window, .error = NAN};
    label *w = &l->texts[l->count];
    bo_attention_preset("hybrid", &c.attention);
    c.attention.proposal = m->proposal;
    c.attention.window = window;
    c.attention.features.features = features;
    snprintf(w->name, NAME, "window %zu + %s %zu", window, m->name, features);
    snprintf(w->options, OPTIONS, "--attention hybrid%s --features %zu --window %zu",
             m->proposal == BO_PROPOSAL_GAUSSIAN ? " --proposal gaussian" : "", features, window);
    finish(l, &c);
}

bo_status bo_candidates_make(bo_inspection_run *in)
{
    const bo_attention_desc *a = bo_inspection_attention(in, 0);
    list l = {.dim = a->dim, .value_dim = a->value_dim};
    l.items = bo_inspection_alloc(in->context, in->report, CANDIDATES, sizeof *l.items);
    l.texts = bo_inspection_alloc(in->context, in->report, CANDIDATES, sizeof *l.texts);
    if (!l.items || !l.texts) return BO_MEMORY;
    for (size_t m = 0; m < BO_MAPS; m++)
        for (size_t f = 0; f < BO_FEATURE_COUNTS; f++) add_map(&l, &maps[m], feature_counts[f]);
    add_hedgehog(&l);
    for (size_t w = 0; w < WINDOWS; w++) add_window(&l, window_sizes[w]);
    for (size_t m = 0; m < HYBRID_MAPS; m++)
        for (size_t w = 0; w < WINDOWS; w++)
            for (size_t f = 0; f < BO_FEATURE_COUNTS; f++)
                add_hybrid(&l, &maps[hybrid_maps[m]], window_sizes[w], feature_counts[f]);
    in->report->out.candidates = in->report->candidates = l.items;
    in->report->out.candidate_count = l.count;
    return BO_OK;
}

bo_attention_desc bo_candidate_desc(const bo_inspection_run *in, const bo_inspect_candidate *candidate, size_t heads,
                                    size_t key_heads, double norms)
{
    const bo_layer_arrays *x = &in->arrays;
    bo_attention_desc desc = candidate->attention;
    desc.heads = heads;
    desc.key_heads = key_heads;
    desc.dim = x->attention->dim;
    desc.value_dim = x->attention->value_dim;
    desc.causal = true;
    desc.features.seed = in->desc.seed;
    if (bo_attention_has(&desc, BO_TRAIT_TEMPERATURE))
        desc.temperature = norms > 0 ? 1 / sqrt(norms) : 1; /* then exp(q̂·k̂ / τ²) is exp(s q·k) on average */
    else if (bo_attention_has(&desc, BO_TRAIT_SCALE))
        desc.scale = x->scale;
    return desc;
}

bo_status bo_candidate_fit(bo_context *context, bo_attention *attention, const bo_attention_shape *shape,
                           const float *q, const float *k)
{
    const bo_attention_inputs inputs = {.q = q, .k = k};
    bo_calibration *calibration;
    if (bo_attention_describe(attention)->proposal == BO_PROPOSAL_NONE) return BO_OK;
    BO_TRY(bo_calibration_create(context, attention, 0, &calibration));
    bo_status status = bo_calibration_add_arrays(context, calibration, shape, &inputs);
    if (status == BO_OK) status = bo_calibration_apply(context, calibration, attention, 0, NULL);
    bo_calibration_destroy(calibration);
    return status;
}

/* ---- recommendations --------------------------------------------------------------------------------------------- */

/* True if a is better than b: candidates that reach the target come first, ordered by state size; the others are
 * ordered by error. */
static bool better(double target, const bo_inspect_candidate *a, double error_a, const bo_inspect_candidate *b,
                   double error_b)
{
    const bool reaches_a = error_a <= target, reaches_b = error_b <= target;
    if (isnan(error_a) || isnan(error_b)) return !isnan(error_a);
    if (reaches_a != reaches_b) return reaches_a;
    if (reaches_a && a->state != b->state) return a->state < b->state;
    return error_a < error_b;
}

/* Returns the best candidate for a head with these errors. NULL: the best for the model among candidates with features,
 * because a window without features forgets earlier tokens, which errors on texts of one length do not show. */
static size_t best_of(const bo_inspection_builder *report, const double *errors)
{
    size_t best = 0;
    for (size_t c = 1; c < report->out.candidate_count; c++) {
        const bo_inspect_candidate *candidate = &report->candidates[c];
        if (!errors && !candidate->features) continue;
        if (better(report->out.target, candidate, errors ? errors[c] : candidate->error, &report->candidates[best],
                   errors ? errors[best] : report->candidates[best].error))
            best = c;
    }
    return best;
}

/* Returns the root mean square over the heads of some layers; NAN if no head has this error. */
static double error_of_layers(const bo_inspection_builder *report, size_t first, size_t end, size_t candidate)
{
    double squares = 0, count = 0;
    for (size_t l = first; l < end; l++)
        for (size_t h = 0; h < report->layers[l].head_count; h++) {
            const double *errors = report->heads[l][h].errors;
            if (!errors || isnan(errors[candidate])) continue;
            squares += errors[candidate] * errors[candidate];
            count++;
        }
    return count > 0 ? sqrt(squares / count) : NAN;
}

void bo_candidates_choose(bo_inspection_run *in)
{
    bo_inspection_builder *report = in->report;
    const size_t layers = report->out.layer_count;
    for (size_t c = 0; c < report->out.candidate_count; c++)
        report->candidates[c].error = error_of_layers(report, 0, layers, c);
    report->out.choice = best_of(report, NULL);
    report->out.reachable = report->candidates[report->out.choice].error <= report->out.target;
    for (size_t l = 0; l < layers; l++) {
        report->layers[l].error = error_of_layers(report, l, l + 1, report->out.choice);
        for (size_t h = 0; h < report->layers[l].head_count; h++)
            if (report->heads[l][h].errors) report->heads[l][h].choice = best_of(report, report->heads[l][h].errors);
    }
}
