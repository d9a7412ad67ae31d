/* Advice: measures the data, finds the map that reaches a given error with the smallest state, and explains the
 * choice. */
#include "enums.h"
#include "advise.h"
#include "kinds.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* The candidate maps that advice compares on the problems of a survey. */

/* Signed features are accepted only if all denominators are at least this fraction of their expected value. Other draws
 * have the same spread: their deviation would have to be twice as large to reach 0, where outputs are arbitrary. */
static const double min_denominator = 0.5;

#define FAVOR(function)        BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, 0, BO_FUNCTION_##function
#define LINEAR(kernel, degree) BO_ATTENTION_LINEAR, BO_KERNEL_##kernel, degree, BO_FUNCTION_##kernel
#define DRAWN                  BO_PROPOSAL_NONE, BO_SAMPLING_DRAWN

const bo_advice_candidate bo_candidates[] = {
    {FAVOR(POSITIVE), DRAWN, "favor with positive features",
     "positive features are accurate where the kernel is small"},
    {FAVOR(HYPERBOLIC), DRAWN, "favor with hyperbolic features",
     "positive features in pairs of opposite frequencies are accurate where the kernel is small, especially for small "
     "norms"},
    {FAVOR(SINCOS), DRAWN, "favor with trigonometric features (sincos)",
     "trigonometric features are accurate where the kernel is large"},
    {FAVOR(POSITIVE), BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN, "favor++",
     "bounded positive features have a small variance also at larger norms"},
    {FAVOR(POSITIVE), BO_PROPOSAL_SDERF, BO_SAMPLING_DRAWN, "favor#",
     "positive features with one parameter per principal direction have a small variance if directions differ"},
    {FAVOR(POSITIVE), BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_DRAWN, "favor with proposal gaussian",
     "positive features have the smallest variance here with frequencies drawn for this data"},
    {FAVOR(POSITIVE), BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_OPTIMAL, "favor with proposal gaussian and sampling optimal",
     "positive features have the smallest variance here with frequencies chosen from this data"},
    {LINEAR(TAYLOR, 0), DRAWN, "taylor", "scores are small, so that 1 + x + x²/2 is nearly exp(x)"},
    {LINEAR(POLYNOMIAL, 2), DRAWN, "poly of degree 2", "scores are small, so that (1 + x/2)² is nearly exp(x)"},
    {LINEAR(POLYNOMIAL, 4), DRAWN, "poly of degree 4", "scores are small, so that (1 + x/4)⁴ is nearly exp(x)"},
    {BO_ATTENTION_RFA, BO_KERNEL_RBF, 0, BO_FUNCTION_SINCOS, DRAWN, "rfa",
     "trigonometric features are accurate where the kernel is large, and unit norm changes little here"},
};
const size_t bo_candidate_count = sizeof bo_candidates / sizeof *bo_candidates;

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static double binomial(size_t n, size_t k)
{
    double value = 1;
    for (size_t i = 1; i <= k; i++) value *= (double)(n - k + i) / (double)i;
    return round(value);
}

/* Returns the number of features of the candidate's map if it is fixed. 0: not fixed. */
static size_t candidate_features(const bo_trials *t, const bo_advice_candidate *c)
{
    size_t degree = c->kernel == BO_KERNEL_TAYLOR ? 2 : (size_t)c->degree;
    double count = degree ? binomial(t->base->dim + degree, degree) : 0;
    return count < 1e15 ? (size_t)count : SIZE_MAX;
}

/* Returns the descriptor with which a caller creates the candidate. */
static bo_attention_desc desc_of(const bo_trials *t, const bo_advice_candidate *c, size_t features)
{
    bo_attention_desc desc = {.kind = c->kind,
                              .heads = t->base->heads,
                              .key_heads = t->base->key_heads,
                              .dim = t->base->dim,
                              .value_dim = t->base->value_dim,
                              .causal = t->base->causal,
                              .proposal = c->proposal};
    desc.features = (bo_features_desc){.kernel = c->kernel,
                                       .function = c->function,
                                       .sampling = c->sampling,
                                       .degree = c->degree,
                                       .features = features,
                                       .seed = t->seed};
    if (bo_attention_may(c->kind, BO_TRAIT_TEMPERATURE))
        desc.temperature = t->norms > 0 ? 1 / sqrt(t->norms) : 1; /* then exp(q̂·k̂ / τ²) is exp(s q·k) on average */
    else if (bo_attention_may(c->kind, BO_TRAIT_ANY_KERNEL))
        desc.features.gamma = t->base->scale / (c->degree ? c->degree : 1);
    else
        desc.scale = t->base->scale;
    return desc;
}

/* ---- one candidate with a given number of features --------------------------------------------------------------- */

/* A candidate, either its map alone or with a window, and its calibration. */
typedef struct candidate_run {
    const bo_trials *trials;
    bo_attention_desc desc;      /* valid for any number of features */
    bo_calibration *calibration; /* NULL: no calibration is needed */
    size_t fixed;                /* number of features if it is fixed, else 0 */
} candidate_run;

/* Creates an attention with one key head per problem. */
static bo_status make_attention(const candidate_run *c, size_t features, bo_attention **out)
{
    bo_attention_desc desc = c->desc;
    desc.features.features = features;
    desc.heads = desc.key_heads = c->trials->search.count;
    return bo_attention_create(c->trials->context, &desc, out);
}

/* The caller must destroy the calibration of *out, also on failure. */
static bo_status candidate_begin(const bo_trials *t, const bo_attention_desc *desc, size_t fixed, candidate_run *out)
{
    *out = (candidate_run){.trials = t, .desc = *desc, .fixed = fixed};
    if (desc->proposal == BO_PROPOSAL_NONE && desc->features.sampling == BO_SAMPLING_DRAWN) return BO_OK;
    bo_attention_shape shape = {.sequences = 1, .tokens = BO_CALIBRATION_ROWS};
    bo_attention_inputs in = {.q = t->search.calibration_q, .k = t->search.calibration_k};
    bo_attention *attention;
    BO_TRY(make_attention(out, BO_MIN_FEATURES, &attention));
    bo_status status = bo_calibration_create(t->context, attention, 0, &out->calibration);
    if (status == BO_OK) status = bo_calibration_add_arrays(t->context, out->calibration, &shape, &in);
    bo_attention_destroy(attention);
    return status;
}

static bo_status redraw(const candidate_run *c, bo_attention *attention, uint64_t draw)
{
    if (c->calibration) return bo_calibration_apply(c->trials->context, c->calibration, attention, draw, NULL);
    return bo_attention_redraw(c->trials->context, attention, draw);
}

/* Computes the error of one draw. INFINITY: a denominator is near 0, or the output overflows. */
static bo_status try_draw(const candidate_run *c, const bo_survey *survey, bo_attention *attention, uint64_t draw,
                          double *error)
{
    bo_survey_result result;
    BO_TRY(redraw(c, attention, draw));
    if (c->desc.window) return bo_prefixes_evaluate(c->trials->context, &c->trials->prefixes, attention, error);
    BO_TRY(bo_survey_evaluate(survey, attention, &result));
    *error = result.min_denominator >= min_denominator && !isnan(result.error) ? result.error : INFINITY;
    return BO_OK;
}

/* Computes the error with the search queries and one draw. */
static bo_status try_size(const candidate_run *c, size_t features, double *error)
{
    bo_attention *attention;
    BO_TRY(make_attention(c, features, &attention));
    bo_status status = try_draw(c, &c->trials->search, attention, 0, error);
    bo_attention_destroy(attention);
    return status;
}

/* Tests with more queries whether every draw reaches the target, and computes the root mean square of the errors. Stops
 * at the first failure. */
static bo_status confirm(const candidate_run *c, size_t features, bool *reached, double *error)
{
    bo_attention *attention;
    double squares = 0, draws = 0;
    BO_TRY(make_attention(c, features, &attention));
    bo_status status = BO_OK;
    *reached = true;
    for (uint64_t draw = 0; status == BO_OK && *reached && draw < (c->fixed ? 1 : BO_DRAWS); draw++) {
        status = try_draw(c, &c->trials->confirmation, attention, draw, error);
        *reached = status == BO_OK && *error <= c->trials->target;
        squares += *error * *error;
        draws++;
    }
    if (status == BO_OK) *error = sqrt(squares / draws);
    bo_attention_destroy(attention);
    return status;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

static bo_status predict(const candidate_run *c, double *features)
{
    const bo_trials *t = c->trials;
    size_t min_features = c->fixed ? c->fixed : BO_MIN_FEATURES;
    bo_attention *attention;
    bo_survey_prediction p;
    BO_TRY(make_attention(c, min_features, &attention));
    bo_status status = redraw(c, attention, 0);
    size_t frequencies = bo_features_frequencies(attention->features[0]);
    if (status == BO_OK) status = bo_survey_predict(&t->search, attention, &p);
    bo_attention_destroy(attention);
    if (status != BO_OK) return status;
    double margin = t->target * t->target - p.floor * p.floor;
    double per_frequency = frequencies ? (double)(min_features / frequencies) : 0;
    *features = !(margin > 0) ? INFINITY : c->fixed ? (double)c->fixed : per_frequency * p.slope / margin;
    return BO_OK;
}

/* Returns the first size of the search, the first above a quarter of the predicted size: coupled frequencies require
 * fewer features. */
static size_t first_size(size_t max_features, double predicted)
{
    size_t features = BO_MIN_FEATURES;
    while (features < max_features && !((double)(2 * features) > 0.5 * predicted)) features *= 2;
    return features;
}

/* Doubles the size until the target is reached, or halves it while the target is reached; then doubles it until the
 * result is confirmed. */
static bo_status search_sizes(const candidate_run *c, size_t hint, bo_row *row)
{
    double target = c->trials->target, smaller;
    size_t features = first_size(row->max_features, isnan(row->predicted) ? (double)hint : row->predicted);
    BO_TRY(try_size(c, features, &row->error));
    bool down = row->error <= target, reached = false;
    while (!(row->error <= target) && features < row->max_features) BO_TRY(try_size(c, features *= 2, &row->error));
    while (down && features > BO_MIN_FEATURES) {
        BO_TRY(try_size(c, features / 2, &smaller));
        if (!(smaller <= target)) break;
        features /= 2;
        row->error = smaller;
    }
    if (row->error <= target) {
        BO_TRY(confirm(c, features, &reached, &row->error));
        while (!reached && features < row->max_features) BO_TRY(confirm(c, features *= 2, &reached, &row->error));
    }
    row->features = reached ? features : 0;
    return BO_OK;
}

static bo_status search(const candidate_run *c, size_t hint, bo_row *row)
{
    bool reached;
    BO_TRY(predict(c, &row->predicted));
    if (!c->fixed) return search_sizes(c, hint, row);
    BO_TRY(confirm(c, c->fixed, &reached, &row->error));
    row->features = reached ? c->fixed : 0;
    return BO_OK;
}

/* Finds the minimum number of features with which the candidate reaches the target. hint: the first size if there is no
 * formula. */
static bo_status candidate_search(const bo_trials *t, const bo_advice_candidate *candidate, size_t hint, bo_row *out)
{
    candidate_run c;
    bo_attention_desc desc = desc_of(t, candidate, BO_MIN_FEATURES);
    *out = (bo_row){.candidate = candidate, .max_features = t->max_features};
    bo_status status = candidate_begin(t, &desc, candidate_features(t, candidate), &c);
    if (c.fixed) out->max_features = c.fixed;
    if (candidate->sampling == BO_SAMPLING_OPTIMAL) out->max_features = bo_min(t->max_features, BO_MAX_CHOSEN_FEATURES);
    if (status == BO_OK) status = search(&c, hint, out);
    bo_calibration_destroy(c.calibration);
    out->desc = desc_of(t, candidate, out->features ? out->features : out->max_features);
    return status;
}

/* ---- with a window ----------------------------------------------------------------------------------------------- */

/* True if causal HYBRID attention can use the map of the row. The search is then repeated with a window. */
static bool row_has_hybrid(const bo_row *row)
{
    return bo_attention_takes_kernel(BO_ATTENTION_HYBRID, row->candidate->kernel) && !row->desc.window;
}

/* Searches upward from the minimum number of features: one draw, then the draws that confirm it. */
static bo_status search_with_window(const candidate_run *c, bo_row *row)
{
    bool reached = false;
    size_t features = c->fixed ? c->fixed : BO_MIN_FEATURES;
    for (;; features *= 2) {
        BO_TRY(try_size(c, features, &row->error));
        if (row->error <= c->trials->target) BO_TRY(confirm(c, features, &reached, &row->error));
        if (reached || features >= row->max_features) break;
    }
    row->features = reached ? features : 0;
    row->desc.features.features = features;
    return BO_OK;
}

static bo_status hybrid_search(const bo_trials *t, const bo_row *row, bo_row *out)
{
    candidate_run c;
    size_t fixed = candidate_features(t, row->candidate);
    *out = *row;
    out->desc.kind = BO_ATTENTION_HYBRID;
    out->desc.scale = t->base->scale;
    out->desc.window = BO_DEFAULT_WINDOW;
    out->max_features = fixed ? fixed : bo_min(row->features ? row->features : t->max_features, BO_MAX_CHOSEN_FEATURES);
    out->predicted = NAN;
    bo_status status = candidate_begin(t, &out->desc, fixed, &c);
    if (status == BO_OK) status = search_with_window(&c, out);
    bo_calibration_destroy(c.calibration);
    return status;
}

/* ---- properties of the data -------------------------------------------------------------------------------------- */

/* Computes the eigenvalues of Λ and stores them if they are the worst so far. */
static bo_status measure_eigenvalues(bo_context *context, size_t dim, const bo_second_moments *q,
                                     const bo_second_moments *k, bo_attention_advice *out)
{
    double *values = bo_alloc_raw(context, dim, sizeof *values, "eigenvalues"), sum = 0, squares = 0;
    if (!values) return BO_MEMORY;
    bo_status status = bo_second_moments_eigenvalues(context, dim, q, k, values);
    if (status == BO_OK && values[dim - 1] >= out->largest) {
        for (size_t i = 0; i < dim; i++) sum += values[i], squares += values[i] * values[i];
        out->largest = values[dim - 1];
        out->smallest = values[0];
        out->effective = squares > 0 ? sum * sum / squares : 0;
    }
    bo_free(values);
    return status;
}

static bo_status look_at_head(bo_context *context, const bo_call *call, const float *q, const float *k, size_t head,
                              bool *infinite, bo_attention_advice *out)
{
    const bo_attention_desc *d = &call->attention->desc;
    bo_side queries = bo_side_queries(call, q, head, 1), keys = bo_side_keys(call, k, head, 1);
    bo_second_moments mq = {0}, mk = {0};
    bo_law law;
    bo_status status = bo_second_moments_measure(context, &queries, d->scale, &mq);
    if (status == BO_OK) status = bo_second_moments_measure(context, &keys, d->scale, &mk);
    if (status == BO_OK) status = measure_eigenvalues(context, d->dim, &mq, &mk, out);
    if (status == BO_OK) status = bo_law_make(context, d->dim, mq.second, mk.second, &law);
    if (status == BO_OK) {
        *infinite |= !law.isotropic_finite && bo_second_moments_mean_share(d->dim, &mq, &mk) <= BO_CENTERED_SHARE;
        bo_law_free(&law);
        out->query_norm += bo_second_moments_norm(d->dim, &mq) / (double)d->key_heads;
        out->key_norm += bo_second_moments_norm(d->dim, &mk) / (double)d->key_heads;
    }
    bo_second_moments_free(&mq);
    bo_second_moments_free(&mk);
    return status;
}

/* Measures all key heads. *infinite: the norms of a nearly centered key head are too large for isotropic
 * frequencies. */
static bo_status look(bo_context *context, const bo_call *call, const float *q, const float *k, bool *infinite,
                      bo_attention_advice *out)
{
    for (size_t h = 0; h < call->attention->desc.key_heads; h++)
        BO_TRY(look_at_head(context, call, q, k, h, infinite, out));
    out->query_norm = sqrt(out->query_norm);
    out->key_norm = sqrt(out->key_norm);
    return BO_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

enum { HYBRIDS = 3, MAX_MAPS = 16 }; /* maps that are tried with a window, and maximum number of maps */

typedef struct rows {
    bo_row row[MAX_MAPS];
    size_t count;
} rows;

/* The advice and the arrays that it points to, in one block of memory. */
typedef struct advice_block {
    bo_attention_advice advice; /* first member: the pointer that the caller frees */
    bo_attention_advice_map maps[MAX_MAPS];
    char reason[512];
} advice_block;

/* Returns the number of floats in the state of one head. */
static double state_size(const bo_row *r)
{
    const bo_attention_desc *d = &r->desc;
    return (double)r->features * (double)(d->value_dim + 1) + (double)d->window * (double)(d->dim + d->value_dim);
}

/* True if a is better than b: rows that reach the target come first, ordered by state size; the others are ordered by
 * error. */
static bool better(const bo_row *a, const bo_row *b)
{
    if ((a->features != 0) != (b->features != 0)) return a->features != 0;
    if (a->features && state_size(a) != state_size(b)) return state_size(a) < state_size(b);
    return a->error < b->error;
}

static void insert(rows *all, const bo_row *row)
{
    size_t at = all->count++;
    for (; at > 0 && better(row, &all->row[at - 1]); at--) all->row[at] = all->row[at - 1];
    all->row[at] = *row;
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

/* Maps chosen from data require about as many features as the best map so far. */
static size_t hint_of(const bo_trials *t, const rows *all)
{
    return all->count && all->row[0].features ? 2 * all->row[0].features : t->max_features;
}

static bo_status try_maps(const bo_trials *t, rows *all)
{
    for (size_t c = 0; c < bo_candidate_count; c++) {
        bo_row row;
        size_t fixed = candidate_features(t, &bo_candidates[c]);
        if (fixed > t->max_features) continue;
        BO_TRY(candidate_search(t, &bo_candidates[c], hint_of(t, all), &row));
        insert(all, &row);
        BO_TRY(bo_progress(t->context, "trying maps", (double)(c + 1), (double)(bo_candidate_count + HYBRIDS)));
    }
    return BO_OK;
}

static bo_status try_hybrids(bo_trials *t, const bo_call *call, const float *q, const float *k, const float *v,
                             rows *all)
{
    rows found = {.count = 0};
    bo_status status = bo_prefixes_make(t->context, call, q, k, v, BO_CONFIRM_QUERIES, &t->prefixes);
    for (size_t i = 0; status == BO_OK && i < all->count && found.count < HYBRIDS; i++) {
        if (!row_has_hybrid(&all->row[i])) continue;
        status = hybrid_search(t, &all->row[i], &found.row[found.count++]);
        if (status == BO_OK)
            status = bo_progress(t->context, "trying maps", (double)(bo_candidate_count + found.count),
                                 (double)(bo_candidate_count + HYBRIDS));
    }
    for (size_t i = 0; status == BO_OK && i < found.count; i++) insert(all, &found.row[i]);
    bo_prefixes_free(&t->prefixes);
    return status;
}

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

static void append_reason(advice_block *out, const char *format, ...) BO_PRINTF(2, 3);
static void append_reason(advice_block *out, const char *format, ...)
{
    size_t used = strlen(out->reason);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->reason + used, sizeof out->reason - used, format, arguments);
    va_end(arguments);
}

static void explain(const bo_trials *t, bool infinite, const bo_row *best, advice_block *out)
{
    const bo_advice_candidate *c = best->candidate;
    const bo_attention_advice *a = &out->advice;
    char window[64] = "";
    if (best->desc.window)
        snprintf(window, sizeof window, "a window of %zu keys (%s) and ", best->desc.window,
                 bo_attention_kind_name(best->desc.kind));
    if (a->reachable)
        append_reason(out, "%s%s: error %.2g with %zu features. %c%s; ", window, c->name, best->error, best->features,
                      c->why[0] - 'a' + 'A', c->why + 1);
    else if (isfinite(best->error))
        append_reason(
            out,
            "none: with at most %zu features no map reaches an error of %.2g; the best is %s%s with error %.2g. Here ",
            t->max_features, a->target, window, c->name, best->error);
    else
        append_reason(
            out, "none: with at most %zu features no map reaches an error of %.2g, and none has a finite error. Here ",
            t->max_features, a->target);
    append_reason(out, "q and k have norms %.2g and %.2g (times √s)", a->query_norm, a->key_norm);
    if (infinite)
        append_reason(
            out,
            ", and on Gaussian data plain positive features have infinite variance if an eigenvalue is at least 1/6 "
            "(here %.2g)",
            a->largest);
    append_reason(out, ".");
    if (a->reachable) return;
    append_reason(out, " To reduce the error, use smaller norms (unit norm with a temperature, or a smaller scale)");
    if (a->entropy_share < 0.5)
        append_reason(out, ", or softmax attention (its weights are concentrated on few keys here)");
    append_reason(out, ".");
}

static void write_maps(const rows *all, advice_block *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const bo_row *row = &all->row[i];
        out->maps[i] = (bo_attention_advice_map){.desc = row->desc,
                                                 .features = row->features,
                                                 .max_features = row->max_features,
                                                 .error = row->error,
                                                 .predicted = row->predicted};
    }
    out->advice.maps = out->maps;
    out->advice.map_count = all->count;
    out->advice.reason = out->reason;
    out->advice.reachable = all->row[0].features != 0;
}

/* ---- the public function ----------------------------------------------------------------------------------------- */

static bo_status try_all(bo_trials *t, const bo_call *call, const float *q, const float *k, const float *v,
                         bool infinite, advice_block *out)
{
    rows *all = bo_alloc(t->context, 1, sizeof *all, "results of trials");
    if (!all) return BO_MEMORY;
    bo_status status = try_maps(t, all);
    if (status == BO_OK && t->base->causal) status = try_hybrids(t, call, q, k, v, all);
    if (status == BO_OK) {
        write_maps(all, out);
        explain(t, infinite, &all->row[0], out);
    }
    bo_free(all);
    return status;
}

static bo_status advise(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                        uint64_t seed, size_t max_features, advice_block *block)
{
    bo_attention_advice *out = &block->advice;
    bool infinite = false;
    bo_trials t = {.context = context,
                   .base = &call->attention->desc,
                   .seed = seed,
                   .target = out->target,
                   .max_features = BO_MIN_FEATURES};
    while (t.max_features <= max_features / 2) t.max_features *= 2;
    bo_status status = look(context, call, q, k, &infinite, out);
    t.norms = out->query_norm * out->key_norm;
    if (status == BO_OK) status = bo_survey_make(context, call, q, k, v, BO_SEARCH_QUERIES, &t.search);
    if (status == BO_OK) status = bo_survey_make(context, call, q, k, v, BO_CONFIRM_QUERIES, &t.confirmation);
    if (status == BO_OK) bo_survey_entropy(&t.confirmation, &out->entropy, &out->entropy_share);
    if (status == BO_OK) status = try_all(&t, call, q, k, v, infinite, block);
    bo_survey_free(&t.search);
    bo_survey_free(&t.confirmation);
    return status;
}

static bo_status check(bo_context *context, const bo_attention_desc *desc, const bo_attention_shape *shape,
                       double target, size_t max_features)
{
    if (!(target >= 0 && isfinite(target)))
        return bo_fail(context, BO_INVALID, "advice: target must be positive (0: default 0.1), found %g", target);
    if (max_features != 0 && max_features < BO_MIN_FEATURES)
        return bo_fail(context, BO_INVALID, "advice: max_features must be at least %d, found %zu", BO_MIN_FEATURES,
                       max_features);
    BO_TRY(bo_check_reserved(context, "bo_attention_desc", desc->reserved));
    if (shape->no_keys) return bo_fail(context, BO_INVALID, "advice needs keys; the shape has none");
    return BO_OK;
}

static bo_status advise_on(bo_context *context, const bo_attention_desc *desc, const bo_attention_shape *shape,
                           const float *q, const float *k, const float *v, size_t max_features, advice_block *out)
{
    const bo_attention_desc plain = {.kind = BO_ATTENTION_SOFTMAX,
                                     .heads = desc->heads,
                                     .key_heads = desc->key_heads,
                                     .dim = desc->dim,
                                     .value_dim = desc->value_dim,
                                     .causal = desc->causal,
                                     .scale = desc->scale};
    bo_attention *exact;
    bo_geometry geometry;
    BO_TRY(bo_attention_create(context, &plain, &exact));
    bo_status status = bo_geometry_make(context, exact, shape, &geometry);
    if (status == BO_OK) {
        bo_call call = bo_layout_of(exact, shape, &geometry);
        status = advise(context, &call, q, k, v, desc->features.seed, max_features ? max_features : 4096, out);
        bo_geometry_free(&geometry);
    }
    bo_attention_destroy(exact);
    return status;
}

bo_status bo_attention_advise_arrays(bo_context *context, const bo_attention_desc *desc,
                                     const bo_attention_shape *shape, const float *q, const float *k, const float *v,
                                     double target, size_t max_features, bo_attention_advice **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, shape, q, k, out);
    BO_TRY(check(context, desc, shape, target, max_features));
    advice_block *block = bo_alloc(context, 1, sizeof *block, "advice");
    if (!block) return BO_MEMORY;
    block->advice.target = target > 0 ? target : 0.1;
    const bo_status status = advise_on(context, desc, shape, q, k, v, max_features, block);
    if (status == BO_OK)
        *out = &block->advice;
    else
        bo_free(block);
    return status;
}

void bo_attention_advice_destroy(bo_attention_advice *advice)
{
    bo_free(advice);
}
