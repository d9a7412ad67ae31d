/* What the oracle says to a trial, and the comparison. */
#ifndef BO_TEST_ATTENTION_JUDGE_H
#define BO_TEST_ATTENTION_JUDGE_H

#include "trial.h"

/* ---- from the call's layout to one head and back --------------------------------------------------------------- */

/* Where row `token` of (sequence, head) begins in an array of `heads` heads. */
static inline size_t trial_at(const trial *t, size_t heads, size_t width, bool keys, size_t s, size_t head,
                              size_t token)
{
    const size_t *starts = keys ? t->key_start : t->query_start, *lengths = keys ? t->keys : t->queries;
    size_t total = keys ? t->keys_total : t->queries_total;
    if (t->desc.shape.layout == BO_LAYOUT_TOKENS_FIRST) return ((starts[s] + token) * heads + head) * width;
    if (t->desc.shape.lengths) return (head * total + starts[s] + token) * width;
    return (starts[s] * heads + head * lengths[s] + token) * width;
}

/* Keys that the oracle sees one by one although a state held them. */
static inline size_t trial_kept(const trial *t)
{
    size_t past = t->desc.past;
    if (t->d->kind == BO_ATTENTION_EXACT) return past;
    if (t->d->kind == BO_ATTENTION_HYBRID) return past < t->d->window ? past : t->d->window;
    return 0;
}

static inline size_t trial_features(const trial *t)
{
    const bo_features *map = bo_attention_features(t->attention, 0);
    return map ? bo_features_describe(map)->features : 0;
}

typedef struct judge_head {
    oracle_head head;
    size_t sequence, key_head, kept, features;
    double *owned[32];
    size_t owned_count;
} judge_head;

static inline double *judge_array(judge_head *j, size_t count)
{
    assert_true(j->owned_count < 32);
    return j->owned[j->owned_count++] = oracle_zeros(count);
}

/* Rows of one head, in double; the kept ones of the past first. */
static inline double *judge_rows(judge_head *j, const trial *t, const float *array, size_t width, const float *past)
{
    size_t keys = t->keys[j->sequence], kh = t->d->key_heads, all = t->desc.past;
    double *rows = judge_array(j, (j->kept + keys) * width);
    for (size_t r = 0; r < j->kept; r++) {
        size_t from = ((j->sequence * kh + j->key_head) * all + all - j->kept + r) * width;
        for (size_t c = 0; c < width; c++) rows[r * width + c] = (double)past[from + c];
    }
    for (size_t r = 0; r < keys; r++) {
        size_t from = trial_at(t, kh, width, true, j->sequence, j->key_head, r);
        for (size_t c = 0; c < width; c++) rows[(j->kept + r) * width + c] = (double)array[from + c];
    }
    return rows;
}

/* The group's queries (or their gradients). */
static inline double *judge_queries(judge_head *j, const trial *t, const float *array, size_t width)
{
    size_t queries = t->queries[j->sequence], group = t->d->heads / t->d->key_heads;
    double *rows = judge_array(j, group * queries * width);
    for (size_t g = 0; g < group; g++)
        for (size_t r = 0; r < queries; r++) {
            size_t from = trial_at(t, t->d->heads, width, false, j->sequence, j->key_head * group + g, r);
            for (size_t c = 0; c < width; c++) rows[(g * queries + r) * width + c] = (double)array[from + c];
        }
    return rows;
}

static inline double *judge_parameters(judge_head *j, const trial *t, trial_array which, size_t width)
{
    if (!t->count[which]) return NULL;
    double *values = judge_array(j, width);
    for (size_t i = 0; i < width; i++) values[i] = (double)t->array[which][j->key_head * width + i];
    return values;
}

/* The sums of a state; false where it has absorbed nothing. */
static inline bool judge_state(judge_head *j, const trial *t, const void *state, double **s, double **z,
                               double *log_scale)
{
    size_t values = j->features * t->d->value_dim;
    float *s32 = trial_floats(values), *z32 = trial_floats(j->features);
    assert_ok(t->context, bo_attention_state_get(t->context, t->attention, state, j->key_head, s32, z32, log_scale));
    *s = judge_array(j, values), *z = judge_array(j, j->features);
    for (size_t i = 0; i < values; i++) (*s)[i] = (double)s32[i];
    for (size_t i = 0; i < j->features; i++) (*z)[i] = (double)z32[i];
    free(s32);
    free(z32);
    return *log_scale > -INFINITY;
}

static inline void judge_initial(judge_head *j, const trial *t)
{
    double *s, *z, log_scale;
    if (!t->initial || !j->features) return;
    if (!judge_state(j, t, t->initial[j->sequence], &s, &z, &log_scale)) return;
    j->head.s0 = s, j->head.z0 = z, j->head.log0 = log_scale;
    j->head.ds0 = judge_array(j, j->features * t->d->value_dim), j->head.dz0 = judge_array(j, j->features);
}

/* The sums' part of d_final, and where the final sums go. */
static inline void judge_final(judge_head *j, const trial *t)
{
    double *s, *z;
    size_t width = t->d->value_dim + 1;
    if (!j->features || !judge_state(j, t, t->final[j->sequence], &s, &z, &j->head.log_final)) return;
    j->head.s_final = s, j->head.z_final = z;
    double *ds = judge_array(j, j->features * t->d->value_dim), *dz = judge_array(j, j->features);
    const float *from = t->d_final[j->sequence] + j->key_head * j->features * width;
    for (size_t f = 0; f < j->features; f++) {
        for (size_t c = 0; c + 1 < width; c++) ds[f * (width - 1) + c] = (double)from[f * width + c];
        dz[f] = (double)from[f * width + width - 1];
    }
    j->head.ds_final = ds, j->head.dz_final = dz;
}

static inline judge_head judge_head_make(const trial *t, size_t sequence, size_t key_head, oracle_noise noise)
{
    const bo_attention_desc *d = t->d;
    size_t group = d->heads / d->key_heads;
    judge_head j = {.sequence = sequence, .key_head = key_head, .kept = trial_kept(t), .features = trial_features(t)};
    j.head = (oracle_head){.context = t->context,
                           .desc = d,
                           .features = bo_attention_features(t->attention, key_head),
                           .group = group,
                           .queries = t->queries[sequence],
                           .keys = j.kept + t->keys[sequence],
                           .asks = t->desc.shape.no_keys,
                           .noise = noise};
    oracle_head *h = &j.head;
    h->q = judge_queries(&j, t, t->array[Q], d->dim);
    h->dout = judge_queries(&j, t, t->gradient[OUT], d->value_dim);
    h->k = judge_rows(&j, t, t->array[K], d->dim, t->past_k);
    h->v = judge_rows(&j, t, t->array[V], d->value_dim, t->past_v);
    if (d->gate && !h->asks) h->log_gate = judge_rows(&j, t, t->array[LOG_GATE], 1, t->past_gate);
    h->sigma = judge_parameters(&j, t, SIGMA, d->dim);
    h->m = judge_parameters(&j, t, M, d->rank * d->dim);
    h->mix = judge_parameters(&j, t, MIX, group);
    h->out = judge_array(&j, group * h->queries * d->value_dim);
    h->dq = judge_array(&j, group * h->queries * d->dim), h->dk = judge_array(&j, h->keys * d->dim);
    h->dv = judge_array(&j, h->keys * d->value_dim), h->dlog_gate = judge_array(&j, h->keys);
    judge_initial(&j, t);
    judge_final(&j, t);
    return j;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static inline void judge_put_rows(const judge_head *j, const trial *t, const double *rows, size_t width, double *array)
{
    for (size_t r = 0; r < t->keys[j->sequence]; r++) {
        size_t to = trial_at(t, t->d->key_heads, width, true, j->sequence, j->key_head, r);
        for (size_t c = 0; c < width; c++) array[to + c] = rows[(j->kept + r) * width + c];
    }
}

static inline void judge_put_queries(const judge_head *j, const trial *t, const double *rows, size_t width,
                                     double *array)
{
    for (size_t g = 0; g < j->head.group; g++)
        for (size_t r = 0; r < j->head.queries; r++) {
            size_t head = j->key_head * j->head.group + g;
            size_t to = trial_at(t, t->d->heads, width, false, j->sequence, head, r);
            for (size_t c = 0; c < width; c++) array[to + c] = rows[(g * j->head.queries + r) * width + c];
        }
}

static inline size_t trial_held(const trial *t)
{
    if (t->d->kind != BO_ATTENTION_EXACT && t->d->kind != BO_ATTENTION_HYBRID) return 0;
    return t->d->window ? t->d->window : t->d->capacity;
}

/* The kept part of a state's gradient begins after every head's sums. */
static inline size_t judge_kept_at(const judge_head *j, const trial *t)
{
    size_t sums = t->d->key_heads * j->features * (t->d->value_dim + 1);
    return sums + j->key_head * trial_held(t) * (t->d->dim + t->d->value_dim);
}

/* Gradients of the keys that the final state keeps go straight to those keys. */
static inline void judge_kept_final(judge_head *j, const trial *t)
{
    size_t dim = t->d->dim, value = t->d->value_dim, all = j->head.keys, held = trial_held(t);
    size_t total = t->desc.past + t->keys[j->sequence], count = total < held ? total : held;
    const float *from = t->d_final[j->sequence] + judge_kept_at(j, t);
    for (size_t r = 0; r < count; r++) {
        const float *row = from + r * (dim + value);
        for (size_t c = 0; c < dim; c++) j->head.dk[(all - count + r) * dim + c] += (double)row[c];
        for (size_t c = 0; c < value; c++) j->head.dv[(all - count + r) * value + c] += (double)row[dim + c];
    }
}

static inline void judge_put_initial(const judge_head *j, const trial *t, double *out)
{
    size_t dim = t->d->dim, value = t->d->value_dim, held = trial_held(t);
    double *to = out + j->key_head * j->features * (value + 1);
    /* sums that hold nothing yet have no scale, so their gradient has no meaning: finite is all that is asked of it */
    const float *found = t->d_initial[j->sequence] + j->key_head * j->features * (value + 1);
    for (size_t i = 0; !j->head.s0 && i < j->features * (value + 1); i++) to[i] = (double)found[i];
    for (size_t f = 0; j->head.s0 && f < j->features; f++) {
        for (size_t c = 0; c < value; c++) to[f * (value + 1) + c] = j->head.ds0[f * value + c];
        to[f * (value + 1) + value] = j->head.dz0[f];
    }
    size_t count = t->desc.past < held ? t->desc.past : held;
    to = out + judge_kept_at(j, t);
    for (size_t r = 0; r < count; r++) {
        size_t from = j->kept - count + r;
        for (size_t c = 0; c < dim; c++) to[r * (dim + value) + c] = j->head.dk[from * dim + c];
        for (size_t c = 0; c < value; c++) to[r * (dim + value) + dim + c] = j->head.dv[from * value + c];
    }
}

static inline void judge_put_sums(const judge_head *j, const trial *t, double *sums)
{
    size_t value = t->d->value_dim, width = value + 1;
    double *to = sums + (j->sequence * t->d->key_heads + j->key_head) * j->features * width;
    for (size_t f = 0; j->head.s_final && f < j->features; f++) {
        for (size_t c = 0; c < value; c++) to[f * width + c] = j->head.s_final[f * value + c];
        to[f * width + value] = j->head.z_final[f];
    }
}

static inline trial_answer judge_answer_make(const trial *t)
{
    trial_answer a = {.out = oracle_zeros(t->count[OUT])};
    size_t n = t->desc.shape.sequences;
    for (size_t i = 0; i < OUT; i++) a.gradient[i] = oracle_zeros(t->count[i]);
    a.initial = oracle_zeros(n * t->gradient_floats);
    a.sums = oracle_zeros(n * t->d->key_heads * trial_features(t) * (t->d->value_dim + 1));
    return a;
}

static inline void judge_answer_drop(trial_answer *a)
{
    free(a->out);
    free(a->initial);
    free(a->sums);
    for (size_t i = 0; i < OUT; i++) free(a->gradient[i]);
}

static inline void judge_put_gradients(const judge_head *j, const trial *t, trial_answer *a, size_t sequence)
{
    judge_put_queries(j, t, j->head.dq, t->d->dim, a->gradient[Q]);
    judge_put_rows(j, t, j->head.dk, t->d->dim, a->gradient[K]);
    judge_put_rows(j, t, j->head.dv, t->d->value_dim, a->gradient[V]);
    if (t->count[LOG_GATE]) judge_put_rows(j, t, j->head.dlog_gate, 1, a->gradient[LOG_GATE]);
    if (t->initial) judge_put_initial(j, t, a->initial + sequence * t->gradient_floats);
}

static inline void judge_one(const trial *t, size_t s, size_t key_head, oracle_noise *noise, trial_answer *a)
{
    judge_head j = judge_head_make(t, s, key_head, *noise);
    size_t group = j.head.group;
    if (t->count[SIGMA]) j.head.dsigma = a->gradient[SIGMA] + key_head * t->d->dim;
    if (t->count[M]) j.head.dm = a->gradient[M] + key_head * t->d->rank * t->d->dim;
    if (t->count[MIX]) j.head.dmix = a->gradient[MIX] + key_head * group;
    if (t->desc.forward_only) j.head.dq = NULL;
    oracle_compute(&j.head);
    if (t->desc.final_gradient) judge_kept_final(&j, t);
    judge_put_queries(&j, t, j.head.out, t->d->value_dim, a->out);
    judge_put_sums(&j, t, a->sums);
    if (!t->desc.forward_only) judge_put_gradients(&j, t, a, s);
    *noise = j.head.noise;
    for (size_t i = 0; i < j.owned_count; i++) free(j.owned[i]);
}

static inline trial_answer judge_answer(const trial *t, double size, uint64_t seed)
{
    trial_answer a = judge_answer_make(t);
    oracle_noise noise = {size, 0x9e3779b97f4a7c15 * (seed + 1)};
    for (size_t s = 0; s < t->desc.shape.sequences; s++)
        for (size_t h = 0; h < t->d->key_heads; h++) judge_one(t, s, h, &noise, &a);
    return a;
}

/* ---- the comparison -------------------------------------------------------------------------------------------- */

typedef struct judge_verdict {
    trial_answer truth, shaken[TRIAL_SHAKES];
} judge_verdict;

static inline judge_verdict judge_make(const trial *t)
{
    judge_verdict verdict = {.truth = judge_answer(t, 0, 0)};
    for (size_t i = 0; i < TRIAL_SHAKES; i++) verdict.shaken[i] = judge_answer(t, TRIAL_NOISE, i + 1);
    return verdict;
}

static inline void judge_drop(judge_verdict *verdict)
{
    judge_answer_drop(&verdict->truth);
    for (size_t i = 0; i < TRIAL_SHAKES; i++) judge_answer_drop(&verdict->shaken[i]);
}

/* Row by row: SLACK times what shaking does to this row, or a quarter of what it does to the worst one; rounding of the
 * result itself, which many terms are added to; and what is 0 but for underflow beside values of order one. */
static inline void judge_compare(const trial *t, const char *what, size_t count, size_t width, const float *found,
                                 const double *truth, const double *const *shaken)
{
    double worst = 0, largest = 0, rounds = (double)(t->queries_total * t->d->heads / t->d->key_heads);
    for (size_t i = 0; i < count; i++) {
        for (size_t n = 0; n < TRIAL_SHAKES; n++) worst = fmax(worst, fabs(shaken[n][i] - truth[i]));
        largest = fmax(largest, fabs(truth[i]));
    }
    for (size_t row = 0; row * width < count; row++) {
        double own = 0;
        for (size_t i = row * width; i < (row + 1) * width; i++)
            for (size_t n = 0; n < TRIAL_SHAKES; n++) own = fmax(own, fabs(shaken[n][i] - truth[i]));
        double tolerance = TRIAL_SLACK * fmax(own, 0.25 * worst) + 0x1p-23 * largest * (4 + sqrt(rounds)) + 1e-20;
        for (size_t i = row * width; i < (row + 1) * width; i++)
            if (!(fabs((double)found[i] - truth[i]) <= tolerance))
                fail_msg("%s: %s, row %zu of %zu, column %zu: found %.9g, expected %.9g within %.3g", t->desc.name,
                         what, row, count / width, i - row * width, (double)found[i], truth[i], tolerance);
    }
}

static inline size_t judge_width(const trial *t, trial_array which)
{
    static const trial_array single[] = {LOG_GATE, MIX};
    if (which == single[0] || which == single[1]) return 1;
    return which == V || which == OUT ? t->d->value_dim : t->d->dim;
}

static inline void judge_forward(const trial *t, const judge_verdict *v)
{
    const double *shaken[TRIAL_SHAKES];
    for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].out;
    judge_compare(t, "out", t->count[OUT], t->d->value_dim, t->array[OUT], v->truth.out, shaken);
    size_t features = trial_features(t), width = t->d->value_dim + 1, heads = t->d->key_heads;
    if (!features) return;
    float *s = trial_floats(features * width), *z = trial_floats(features), *row = trial_floats(features * width);
    for (size_t i = 0; i < t->desc.shape.sequences * heads; i++) {
        double log_scale;
        size_t at = i * features * width;
        assert_ok(t->context,
                  bo_attention_state_get(t->context, t->attention, t->final[i / heads], i % heads, s, z, &log_scale));
        for (size_t f = 0; f < features; f++) {
            for (size_t c = 0; c + 1 < width; c++) row[f * width + c] = s[f * (width - 1) + c];
            row[f * width + width - 1] = z[f];
        }
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].sums + at;
        judge_compare(t, "final sums", features * width, width, row, v->truth.sums + at, shaken);
    }
    free(s);
    free(z);
    free(row);
}

static inline void judge_backward(const trial *t, const judge_verdict *v)
{
    const double *shaken[TRIAL_SHAKES];
    for (size_t i = 0; i < OUT; i++) {
        char what[32];
        snprintf(what, sizeof what, "gradient of %s", trial_names[i]);
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].gradient[i];
        judge_compare(t, what, t->count[i], judge_width(t, (trial_array)i), t->gradient[i], v->truth.gradient[i],
                      shaken);
    }
    for (size_t s = 0; t->initial && s < t->desc.shape.sequences; s++) {
        size_t at = s * t->gradient_floats;
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].initial + at;
        judge_compare(t, "gradient of the initial state", t->gradient_floats, 1, t->d_initial[s], v->truth.initial + at,
                      shaken);
    }
}

#endif
