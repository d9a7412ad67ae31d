/* Advice: what the data is like, which map reaches an error with how many features, and why. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "../features/propose.h"
#include "advise.h"

enum {
    FEWEST = 16,         /* features */
    DRAWS = 3,           /* that what is promised must hold for */
    FEW_QUERIES = 256,   /* to look for a number of features */
    MANY_QUERIES = 4096, /* to confirm it */
};

/* Signed features whose denominators all stay above half of what they should be: another draw scatters as much, and
 * would have to be twice as far off to come to 0, where outputs are anything. */
static const double least_denominator = 0.5;

/* ---- what the data is like ------------------------------------------------------------------------------------- */

typedef struct spectrum {
    bo_law *laws; /* one a key head */
    size_t count;
    bool infinite;    /* a key head, about as centred as the theory takes it, is too large for isotropic frequencies */
    double pair_norm; /* mean over key heads */
} spectrum;

static void spectrum_free(spectrum *s)
{
    for (size_t h = 0; s->laws && h < s->count; h++) bo_law_free(&s->laws[h]);
    bo_free(s->laws);
}

/* Eigenvalues of Λ, kept where they are the worst so far. */
static bo_status look_at_eigenvalues(bo_context *context, size_t dim, const bo_second_moments *q,
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
                              spectrum *s, bo_attention_advice *out)
{
    const bo_attention_desc *d = &call->attention->desc;
    bo_side queries = bo_side_queries(call, q, head, 1), keys = bo_side_keys(call, k, head, 1);
    bo_second_moments mq = {0}, mk = {0};
    bo_status status = bo_second_moments_measure(context, &queries, d->scale, &mq);
    if (status == BO_OK) status = bo_second_moments_measure(context, &keys, d->scale, &mk);
    if (status == BO_OK) status = look_at_eigenvalues(context, d->dim, &mq, &mk, out);
    if (status == BO_OK) status = bo_law_make(context, d->dim, mq.second, mk.second, &s->laws[head]);
    if (status == BO_OK) {
        s->infinite |=
            !s->laws[head].isotropic_finite && bo_second_moments_mean_share(d->dim, &mq, &mk) <= BO_CENTRED_SHARE;
        s->pair_norm += bo_second_moments_pair_norm(d->dim, &mq, &mk) / (double)d->key_heads;
        out->query_norm += bo_second_moments_norm(d->dim, &mq) / (double)d->key_heads;
        out->key_norm += bo_second_moments_norm(d->dim, &mk) / (double)d->key_heads;
    }
    bo_second_moments_free(&mq);
    bo_second_moments_free(&mk);
    return status;
}

static bo_status look(bo_context *context, const bo_call *call, const float *q, const float *k, spectrum *s,
                      bo_attention_advice *out)
{
    s->count = call->attention->desc.key_heads;
    s->laws = bo_alloc(context, s->count, sizeof *s->laws, "laws of frequencies");
    if (!s->laws) return BO_MEMORY;
    for (size_t h = 0; h < s->count; h++) BO_TRY(look_at_head(context, call, q, k, h, s, out));
    out->query_norm = sqrt(out->query_norm);
    out->key_norm = sqrt(out->key_norm);
    return BO_OK;
}

/* ---- candidates ------------------------------------------------------------------------------------------------ */

static const struct candidate {
    bo_attention_kind kind;
    bo_function function;
    size_t per_frequency;
    const char *name, *why;
} candidates[BO_ADVICE_MAPS] = {
    {BO_ATTENTION_FAVOR, BO_FUNCTION_POSITIVE, 1, "favor with positive features",
     "positive features are accurate where the kernel is small"},
    {BO_ATTENTION_FAVOR, BO_FUNCTION_HYPERBOLIC, 2, "favor with hyperbolic features",
     "positive features in opposite pairs are accurate where the kernel is small, most of all for small norms"},
    {BO_ATTENTION_FAVOR, BO_FUNCTION_SINCOS, 2, "favor with trigonometric features (sincos)",
     "trigonometric features are accurate where the kernel is large"},
    {BO_ATTENTION_FAVOR, BO_FUNCTION_OPRF, 1, "favor with bounded positive features (oprf)",
     "bounded positive features are accurate where the kernel is small and keep their variance at larger norms"},
    {BO_ATTENTION_RFA, BO_FUNCTION_SINCOS, 2, "rfa",
     "trigonometric features are accurate where the kernel is large, and unit norm changes little here"},
    {BO_ATTENTION_DARK, BO_FUNCTION_POSITIVE, 1, "dark with a proposal",
     "positive features are accurate where the kernel is small, and their frequencies are drawn for this data"},
};

typedef struct trials {
    bo_context *context;
    bo_survey few, many; /* queries of the same heads */
    const spectrum *spectrum;
    const bo_attention_desc *base; /* resolved */
    uint64_t seed;
    double target;
    size_t most;
} trials;

/* An attention with a key head for each problem. */
static bo_status make_candidate(const trials *t, const struct candidate *c, size_t features, uint64_t draw,
                                bo_attention **out)
{
    bo_attention_desc desc = {.kind = c->kind,
                              .heads = t->few.count,
                              .dim = t->base->dim,
                              .value_dim = t->base->value_dim,
                              .features = {.function = c->function, .features = features, .seed = t->seed + draw}};
    if (c->kind != BO_ATTENTION_RFA) desc.scale = t->base->scale;
    if (c->function == BO_FUNCTION_OPRF) desc.features.pair_norm = fmax(t->spectrum->pair_norm, 1e-300);
    BO_TRY(bo_attention_create(t->context, &desc, out));
    bo_status status = BO_OK;
    for (size_t n = 0; c->kind == BO_ATTENTION_DARK && status == BO_OK && n < t->few.count; n++)
        status =
            bo_features_propose(t->context, (*out)->features[n], t->spectrum->laws[t->few.problems[n].key_head].root);
    if (status == BO_OK) return BO_OK;
    bo_attention_destroy(*out);
    return status;
}

/* The error of one draw; INFINITY where a denominator comes near 0 or numbers grow out of bounds. */
static bo_status try_draw(const trials *t, const bo_survey *survey, const struct candidate *c, size_t features,
                          uint64_t draw, double *error)
{
    bo_attention *attention;
    bo_verdict verdict;
    BO_TRY(make_candidate(t, c, features, draw, &attention));
    bo_status status = bo_survey_try(survey, attention, &verdict);
    bo_attention_destroy(attention);
    if (status == BO_OK)
        *error = verdict.least >= least_denominator && !isnan(verdict.error) ? verdict.error : INFINITY;
    return status;
}

static bo_status try_size(const trials *t, const struct candidate *c, size_t features, double *error)
{
    return try_draw(t, &t->few, c, features, 0, error);
}

/* The largest error of the draws, up to the first that misses the target. */
static bo_status confirm(const trials *t, const struct candidate *c, size_t features, double *error)
{
    double worst = 0;
    for (uint64_t draw = 0; draw < DRAWS && worst <= t->target; draw++) {
        BO_TRY(try_draw(t, &t->many, c, features, draw, error));
        worst = fmax(worst, *error);
    }
    *error = worst;
    return BO_OK;
}

static bo_status predict(const trials *t, const struct candidate *c, double *features)
{
    bo_attention *attention;
    bo_prediction p;
    BO_TRY(make_candidate(t, c, FEWEST, 0, &attention));
    bo_status status = bo_survey_predict(&t->few, attention, &p);
    bo_attention_destroy(attention);
    if (status != BO_OK) return status;
    double room = t->target * t->target - p.floor * p.floor;
    *features = room > 0 ? (double)c->per_frequency * p.slope / room : INFINITY;
    return BO_OK;
}

/* Where to begin: at what the formula asks for, which couplings of frequencies need less than. */
static size_t first_size(const trials *t, double predicted)
{
    size_t features = FEWEST;
    while (features < t->most && !((double)(2 * features) > 0.5 * predicted)) features *= 2;
    return features;
}

/* From there up until the target is reached, or down as long as it is; and up again until that is confirmed. */
static bo_status search(const trials *t, const struct candidate *c, bo_attention_advice *out)
{
    double predicted, error, smaller;
    BO_TRY(predict(t, c, &predicted));
    size_t features = first_size(t, predicted);
    BO_TRY(try_size(t, c, features, &error));
    bool down = error <= t->target;
    while (!(error <= t->target) && features < t->most) BO_TRY(try_size(t, c, features *= 2, &error));
    while (down && features > FEWEST) {
        BO_TRY(try_size(t, c, features / 2, &smaller));
        if (!(smaller <= t->target)) break;
        features /= 2;
        error = smaller;
    }
    if (error <= t->target) {
        BO_TRY(confirm(t, c, features, &error));
        while (!(error <= t->target) && features < t->most) BO_TRY(confirm(t, c, features *= 2, &error));
    }
    size_t at = out->map_count++;
    out->maps[at].kind = c->kind;
    out->maps[at].function = c->function;
    out->maps[at].features = error <= t->target ? features : 0;
    out->maps[at].most = t->most;
    out->maps[at].error = error;
    out->maps[at].predicted = predicted;
    return BO_OK;
}

/* Those that reach the target by their features, then the others by their error. */
static bool better(const bo_attention_advice *a, size_t i, size_t j)
{
    size_t fi = a->maps[i].features, fj = a->maps[j].features;
    if ((fi != 0) != (fj != 0)) return fi != 0;
    if (fi != fj) return fi < fj;
    return a->maps[i].error < a->maps[j].error;
}

static void sort_maps(bo_attention_advice *a)
{
    char map[sizeof a->maps[0]];
    for (size_t i = 1; i < a->map_count; i++)
        for (size_t j = i; j > 0 && better(a, j, j - 1); j--) {
            memcpy(map, &a->maps[j], sizeof map);
            a->maps[j] = a->maps[j - 1];
            memcpy(&a->maps[j - 1], map, sizeof map);
        }
}

/* ---- reasons --------------------------------------------------------------------------------------------------- */

static const struct candidate *candidate_of(const bo_attention_advice *a, size_t i)
{
    size_t c = 0;
    while (candidates[c].kind != a->maps[i].kind || candidates[c].function != a->maps[i].function) c++;
    return &candidates[c];
}

static void say(bo_attention_advice *a, const char *format, ...) BO_PRINTF(2, 3);
static void say(bo_attention_advice *a, const char *format, ...)
{
    size_t used = strlen(a->reason);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(a->reason + used, sizeof a->reason - used, format, arguments);
    va_end(arguments);
}

/* A window is advised where its measured error is at most half of that of any map; INFINITY: none was measured. */
static void explain(const trials *t, size_t window_features, double window_error, bo_attention_advice *a)
{
    const struct candidate *best = candidate_of(a, 0);
    if (a->reachable)
        say(a, "%s: an error of %.2g with %zu features. %c%s; ", best->name, a->maps[0].error, a->maps[0].features,
            best->why[0] - 'a' + 'A', best->why + 1);
    else if (isfinite(a->maps[0].error))
        say(a, "none: %zu features do not reach an error of %.2g; the nearest is %s with an error of %.2g. Here ",
            t->most, a->target, best->name, a->maps[0].error);
    else
        say(a, "none: %zu features do not reach an error of %.2g, nor anything near it. Here ", t->most, a->target);
    say(a, "q and k have norms %.2g and %.2g (times √s)", a->query_norm, a->key_norm);
    if (t->spectrum->infinite)
        say(a,
            ", and on Gaussian data plain positive features have infinite variance from eigenvalues of 1/6 on "
            "(here %.2g)",
            a->largest);
    say(a, ".");
    if (a->reachable) return;
    say(a, " What would help: smaller norms (unit norm with a temperature, a smaller scale)");
    if (window_error <= 0.5 * a->maps[0].error)
        say(a, ", a window of exact attention (hybrid, with 64 keys and %zu features, has an error of %.2g)",
            window_features, window_error);
    if (a->entropy_share < 0.5) say(a, ", exact attention (it is concentrated on few keys here)");
    say(a, ".");
}

static bo_status conclude(const trials *t, const bo_call *call, const float *q, const float *k, const float *v,
                          bo_attention_advice *out)
{
    bo_features_desc features = {.features = FEWEST, .seed = t->seed};
    double window_error = INFINITY;
    while (features.features < 4 * t->base->dim) features.features *= 2;
    if (!out->reachable && t->base->causal)
        BO_TRY(bo_window_error(t->context, call, q, k, v, &features, &window_error));
    explain(t, features.features, window_error, out);
    return BO_OK;
}

/* ---- the call -------------------------------------------------------------------------------------------------- */

static bo_status advise(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                        uint64_t seed, size_t most, bo_attention_advice *out)
{
    spectrum found = {0};
    trials t = {.context = context,
                .spectrum = &found,
                .base = &call->attention->desc,
                .seed = seed,
                .target = out->target,
                .most = FEWEST};
    while (t.most <= most / 2) t.most *= 2;
    bo_status status = look(context, call, q, k, &found, out);
    if (status == BO_OK) status = bo_survey_make(context, call, q, k, v, FEW_QUERIES, &t.few);
    if (status == BO_OK) status = bo_survey_make(context, call, q, k, v, MANY_QUERIES, &t.many);
    if (status == BO_OK) bo_survey_entropy(&t.many, &out->entropy, &out->entropy_share);
    for (size_t c = 0; status == BO_OK && c < BO_ADVICE_MAPS; c++) {
        status = search(&t, &candidates[c], out);
        if (status == BO_OK) status = bo_progress(context, "trying maps", (double)(c + 1), BO_ADVICE_MAPS);
    }
    if (status == BO_OK) {
        sort_maps(out);
        out->reachable = out->maps[0].features != 0;
        status = conclude(&t, call, q, k, v, out);
    }
    bo_survey_free(&t.few);
    bo_survey_free(&t.many);
    spectrum_free(&found);
    return status;
}

static bo_status check(bo_context *context, const bo_attention_desc *desc, const bo_attention_shape *shape,
                       const float *q, const float *k, double target, size_t most)
{
    if (!desc || !shape || !q || !k)
        return bo_fail(context, BO_INVALID, "advice: %s NULL",
                       !desc    ? "the descriptor is"
                       : !shape ? "the shape is"
                       : !q     ? "the queries are"
                                : "the keys are");
    if (!(target >= 0 && isfinite(target)))
        return bo_fail(context, BO_INVALID, "advice: target must be positive (0: 0.1), found %g", target);
    if (most != 0 && most < FEWEST)
        return bo_fail(context, BO_INVALID, "advice: most must be at least %d features, found %zu", FEWEST, most);
    if (shape->no_keys) return bo_fail(context, BO_INVALID, "advice needs keys; the shape has none");
    return BO_OK;
}

bo_status bo_attention_advise(bo_context *context, const bo_attention_desc *desc, const bo_attention_shape *shape,
                              const float *q, const float *k, const float *v, double target, size_t most,
                              bo_attention_advice *out)
{
    if (!out) return bo_fail(context, BO_INVALID, "advice: there is nowhere to put it");
    memset(out, 0, sizeof *out);
    BO_TRY(check(context, desc, shape, q, k, target, most));
    out->target = target > 0 ? target : 0.1;
    bo_attention_desc plain = {.kind = BO_ATTENTION_EXACT,
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
        status = advise(context, &call, q, k, v, desc->features.seed, most ? most : 4096, out);
        bo_geometry_free(&geometry);
    }
    bo_attention_destroy(exact);
    return status;
}
