/* Advice: what the data is like, which map reaches an error with how many features, and why. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "advise_candidates.h"

/* ---- what the data is like ------------------------------------------------------------------------------------- */

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
                              bool *infinite, bo_attention_advice *out)
{
    const bo_attention_desc *d = &call->attention->desc;
    bo_side queries = bo_side_queries(call, q, head, 1), keys = bo_side_keys(call, k, head, 1);
    bo_second_moments mq = {0}, mk = {0};
    bo_law law;
    bo_status status = bo_second_moments_measure(context, &queries, d->scale, &mq);
    if (status == BO_OK) status = bo_second_moments_measure(context, &keys, d->scale, &mk);
    if (status == BO_OK) status = look_at_eigenvalues(context, d->dim, &mq, &mk, out);
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

/* *infinite: a key head, about as centered as the theory takes it, is too large for isotropic frequencies. */
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

enum { HYBRIDS = 3 }; /* maps that are tried with a window */

typedef struct rows {
    bo_row row[BO_ADVICE_MAPS];
    size_t count;
} rows;

/* Numbers in a state of one head. */
static double state_size(const bo_row *r)
{
    const bo_attention_desc *d = &r->desc;
    return (double)r->features * (double)(d->value_dim + 1) + (double)d->window * (double)(d->dim + d->value_dim);
}

/* Those that reach the target by their state, then the others by their error. */
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

/* ---- trying ------------------------------------------------------------------------------------------------------ */

/* What is chosen by data needs about as many features as the best so far. */
static size_t hint_of(const bo_trials *t, const rows *all)
{
    return all->count && all->row[0].features ? 2 * all->row[0].features : t->most;
}

static bo_status try_maps(const bo_trials *t, rows *all)
{
    for (size_t c = 0; c < bo_candidate_count; c++) {
        bo_row row;
        size_t fixed = bo_candidate_features(t, &bo_candidates[c]);
        if (fixed > t->most) continue;
        BO_TRY(bo_candidate_search(t, &bo_candidates[c], hint_of(t, all), &row));
        insert(all, &row);
        BO_TRY(bo_progress(t->context, "trying maps", (double)(c + 1), (double)(bo_candidate_count + HYBRIDS)));
    }
    return BO_OK;
}

static bo_status try_hybrids(bo_trials *t, const bo_call *call, const float *q, const float *k, const float *v,
                             rows *all)
{
    rows found = {.count = 0};
    bo_status status = bo_beginnings_make(t->context, call, q, k, v, BO_MANY_QUERIES, &t->beginnings);
    for (size_t i = 0; status == BO_OK && i < all->count && found.count < HYBRIDS; i++) {
        if (!bo_row_has_hybrid(&all->row[i])) continue;
        status = bo_hybrid_search(t, &all->row[i], &found.row[found.count++]);
        if (status == BO_OK)
            status = bo_progress(t->context, "trying maps", (double)(bo_candidate_count + found.count),
                                 (double)(bo_candidate_count + HYBRIDS));
    }
    for (size_t i = 0; status == BO_OK && i < found.count; i++) insert(all, &found.row[i]);
    bo_beginnings_free(&t->beginnings);
    return status;
}

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

static void say(bo_attention_advice *a, const char *format, ...) BO_PRINTF(2, 3);
static void say(bo_attention_advice *a, const char *format, ...)
{
    size_t used = strlen(a->reason);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(a->reason + used, sizeof a->reason - used, format, arguments);
    va_end(arguments);
}

static void explain(const bo_trials *t, bool infinite, const bo_row *best, bo_attention_advice *a)
{
    const bo_advice_candidate *c = best->candidate;
    const char *window = best->desc.kind == BO_ATTENTION_HYBRID ? "a window of 64 keys (hybrid) and " : "";
    if (a->reachable)
        say(a, "%s%s: an error of %.2g with %zu features. %c%s; ", window, c->name, best->error, best->features,
            c->why[0] - 'a' + 'A', c->why + 1);
    else if (isfinite(best->error))
        say(a, "none: %zu features do not reach an error of %.2g; the nearest is %s%s with an error of %.2g. Here ",
            t->most, a->target, window, c->name, best->error);
    else
        say(a, "none: %zu features do not reach an error of %.2g, nor anything near it. Here ", t->most, a->target);
    say(a, "q and k have norms %.2g and %.2g (times √s)", a->query_norm, a->key_norm);
    if (infinite)
        say(a,
            ", and on Gaussian data plain positive features have infinite variance from eigenvalues of 1/6 on "
            "(here %.2g)",
            a->largest);
    say(a, ".");
    if (a->reachable) return;
    say(a, " What would help: smaller norms (unit norm with a temperature, a smaller scale)");
    if (a->entropy_share < 0.5) say(a, ", exact attention (it is concentrated on few keys here)");
    say(a, ".");
}

static void tell(const rows *all, bo_attention_advice *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const bo_row *row = &all->row[i];
        out->maps[i].desc = row->desc;
        out->maps[i].features = row->features;
        out->maps[i].most = row->most;
        out->maps[i].error = row->error;
        out->maps[i].predicted = row->predicted;
    }
    out->map_count = all->count;
    out->reachable = all->row[0].features != 0;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static bo_status try_all(bo_trials *t, const bo_call *call, const float *q, const float *k, const float *v,
                         bool infinite, bo_attention_advice *out)
{
    rows *all = bo_alloc(t->context, 1, sizeof *all, "what was tried");
    if (!all) return BO_MEMORY;
    bo_status status = try_maps(t, all);
    if (status == BO_OK && t->base->causal) status = try_hybrids(t, call, q, k, v, all);
    if (status == BO_OK) {
        tell(all, out);
        explain(t, infinite, &all->row[0], out);
    }
    bo_free(all);
    return status;
}

static bo_status advise(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                        uint64_t seed, size_t most, bo_attention_advice *out)
{
    bool infinite = false;
    bo_trials t = {
        .context = context, .base = &call->attention->desc, .seed = seed, .target = out->target, .most = BO_FEWEST};
    while (t.most <= most / 2) t.most *= 2;
    bo_status status = look(context, call, q, k, &infinite, out);
    t.norms = out->query_norm * out->key_norm;
    if (status == BO_OK) status = bo_survey_make(context, call, q, k, v, BO_FEW_QUERIES, &t.few);
    if (status == BO_OK) status = bo_survey_make(context, call, q, k, v, BO_MANY_QUERIES, &t.many);
    if (status == BO_OK) bo_survey_entropy(&t.many, &out->entropy, &out->entropy_share);
    if (status == BO_OK) status = try_all(&t, call, q, k, v, infinite, out);
    bo_survey_free(&t.few);
    bo_survey_free(&t.many);
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
    if (most != 0 && most < BO_FEWEST)
        return bo_fail(context, BO_INVALID, "advice: most must be at least %d features, found %zu", BO_FEWEST, most);
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
