/* Measurements for advice: small problems sampled from large data, and the errors of candidates on them. */
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "advise.h"
#include "measure.h"
#include "../math/linalg.h"
#include "row_transform.h"

/* ---- surveys ----------------------------------------------------------------------------------------------------- */

/* Small problems sampled from large data: see advise.h. All samples are evenly spaced: the same data gives the same
 * problems. */

enum {
    HEADS = BO_ADVICE_HEADS,
    KEYS = 2048, /* maximum keys of a problem */
};

/* Returns the index of item i of `count` evenly spaced items among `total`. */
static size_t spaced(size_t i, size_t count, size_t total)
{
    return count >= total ? i : (size_t)((double)total * ((double)i + 0.5) / (double)count);
}

/* Returns the position of query i of `count`. It is odd if there are at least two positions. */
static size_t query_place(size_t i, size_t count, size_t total)
{
    return total > 1 ? 2 * spaced(i, count, total / 2) + 1 : 0;
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

/* The source of a problem. */
typedef struct source {
    const bo_call *call;
    size_t sequence, head, key_head;
    bo_rows q, k, v; /* v.at NULL: random values */
} source;

/* Finds the sequence at problem i's share of the tokens, or the next sequence with queries and keys. False: no such
 * sequence. */
static bool find_sequence(const bo_call *call, size_t i, size_t count, size_t *out)
{
    size_t token = spaced(i, count, call->queries_total), sequences = call->shape->sequences, at = 0;
    while (at + 1 < sequences && call->sequences[at].query_start + call->sequences[at].queries <= token) at++;
    for (size_t step = 0; step < sequences; step++, at = (at + 1) % sequences) {
        *out = at;
        if (call->sequences[at].queries && call->sequences[at].keys) return true;
    }
    return false;
}

static source source_of(const bo_call *call, const float *q, const float *k, const float *v, size_t sequence,
                        size_t head)
{
    const bo_attention_desc *d = &call->attention->desc;
    size_t key_head = head / call->attention->group;
    return (source){.call = call,
                    .sequence = sequence,
                    .head = head,
                    .key_head = key_head,
                    .q = bo_rows_at(call, q, d->heads, d->dim, false, sequence, head),
                    .k = bo_rows_at(call, k, d->key_heads, d->dim, true, sequence, key_head),
                    .v = bo_rows_at(call, v, d->key_heads, d->value_dim, true, sequence, key_head)};
}

static bo_status problem_alloc(bo_context *context, const bo_survey *s, bo_advice_problem *p)
{
    const char *what = "a sample of attention";
    p->q = bo_alloc_raw(context, p->queries * s->dim, sizeof(float), what);
    p->k = bo_alloc_raw(context, p->keys * s->dim, sizeof(float), what);
    p->v = bo_alloc_raw(context, p->keys * s->value_dim, sizeof(float), what);
    p->visible = bo_alloc_raw(context, p->queries, sizeof *p->visible, what);
    p->scores = bo_alloc_raw(context, p->queries * p->keys, sizeof(double), what);
    p->exact = bo_alloc_raw(context, p->queries * s->value_dim, sizeof(double), what);
    p->entropy = bo_alloc_raw(context, p->queries, sizeof(double), what);
    p->share = bo_alloc_raw(context, p->queries, sizeof(double), what);
    return p->q && p->k && p->v && p->visible && p->scores && p->exact && p->entropy && p->share ? BO_OK : BO_MEMORY;
}

static void gather_queries(bo_rows rows, size_t width, size_t count, size_t total, float *out)
{
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, rows.at + query_place(i, count, total) * rows.stride, width * sizeof *out);
}

static void gather(bo_rows rows, size_t width, size_t count, size_t total, float *out)
{
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, rows.at + spaced(i, count, total) * rows.stride, width * sizeof *out);
}

static bo_status gather_values(bo_context *context, const source *from, size_t value_dim, size_t count, size_t total,
                               float *out)
{
    if (from->v.at) {
        gather(from->v, value_dim, count, total, out);
        for (size_t i = 0; i < count * value_dim; i++)
            if (!isfinite(out[i]))
                return bo_fail(context, BO_NUMERIC, BO_NOT_FINITE, "v", (double)out[i], from->sequence, from->key_head,
                               spaced(i / value_dim, count, total), i % value_dim);
        return BO_OK;
    }
    bo_rng rng = bo_rng_make(0, bo_rng_stream("attention.values", from->key_head));
    for (size_t i = 0; i < count * value_dim; i++) out[i] = (float)bo_rng_normal(&rng);
    return BO_OK;
}

/* ---- output of softmax attention --------------------------------------------------------------------------------- */

typedef struct query_job {
    const bo_survey *survey;
    const source *from;
    bo_advice_problem *problem;
    double *rows; /* log weights of all keys, one row per worker */
} query_job;

/* Returns -Σ p log p with log p = l - log Σ exp l. */
static double entropy_of(size_t count, const double *log_weights)
{
    double sum = bo_log_sum(count, log_weights), entropy = 0;
    for (size_t j = 0; j < count; j++) {
        double log_share = log_weights[j] - sum;
        entropy -= exp(log_share) * log_share;
    }
    return entropy;
}

static void query_task(void *arg, size_t i, int worker)
{
    const query_job *job = arg;
    const bo_survey *s = job->survey;
    const bo_sequence *at = &job->from->call->sequences[job->from->sequence];
    const bo_attention *a = job->from->call->attention;
    bo_advice_problem *p = job->problem;
    size_t place = query_place(i, p->queries, at->queries), all = a->desc.causal ? place + 1 : at->keys;
    const float *q = p->q + i * s->dim;
    bo_compare_weights sampled = {.end = p->visible[i], .log = p->scores + i * p->keys};
    bo_denominator sum = {0};
    bo_weights_softmax(a->kernels, s->dim, s->scale, q, (bo_rows){p->k, s->dim}, &sampled);
    bo_weights_mix(&sampled, (bo_rows){p->v, s->value_dim}, s->value_dim, &sum, p->exact + i * s->value_dim);
    bo_compare_weights all_weights = {.end = all, .log = job->rows + (size_t)worker * at->keys};
    p->entropy[i] = p->share[i] = NAN;
    if (all < 2) return;
    bo_weights_softmax(a->kernels, s->dim, s->scale, q, job->from->k, &all_weights);
    p->entropy[i] = entropy_of(all, all_weights.log);
    p->share[i] = p->entropy[i] / log((double)all);
}

/* Returns the number of sampled keys that a query at this position may see. */
static size_t visible_keys(const source *from, const bo_advice_problem *p, size_t place)
{
    size_t keys = from->call->sequences[from->sequence].keys, visible = 0;
    if (!from->call->attention->desc.causal) return p->keys;
    while (visible < p->keys && spaced(visible, p->keys, keys) <= place) visible++;
    return visible;
}

static bo_status cut(bo_survey *s, const source *from, size_t queries, bo_advice_problem *p)
{
    const bo_sequence *at = &from->call->sequences[from->sequence];
    size_t max_queries = bo_max(1, at->queries / 2);
    *p = (bo_advice_problem){
        .key_head = from->key_head, .queries = bo_min(queries, max_queries), .keys = bo_min(KEYS, at->keys)};
    BO_TRY(problem_alloc(s->context, s, p));
    gather_queries(from->q, s->dim, p->queries, at->queries, p->q);
    gather(from->k, s->dim, p->keys, at->keys, p->k);
    BO_TRY(gather_values(s->context, from, s->value_dim, p->keys, at->keys, p->v));
    for (size_t i = 0; i < p->queries; i++)
        p->visible[i] = visible_keys(from, p, query_place(i, p->queries, at->queries));
    query_job job = {s, from, p, NULL};
    job.rows = bo_alloc_raw(s->context, (size_t)bo_context_threads(s->context) * at->keys, sizeof *job.rows,
                            "softmax attention of a query");
    if (!job.rows) return BO_MEMORY;
    bo_parallel(s->context, p->queries, query_task, &job);
    bo_free(job.rows);
    for (size_t i = 0; i < p->queries * s->value_dim; i++) s->norm += p->exact[i] * p->exact[i];
    return BO_OK;
}

/* Copies calibration rows at even positions of the problem's key head. */
static void sample_calibration_rows(const bo_call *call, const float *q, const float *k, size_t key_head,
                                    const bo_survey *s)
{
    bo_side queries = bo_side_queries(call, q, key_head, 1), keys = bo_side_keys(call, k, key_head, 1);
    size_t start = s->count * BO_CALIBRATION_ROWS * s->dim;
    queries.step = keys.step = 2;
    bo_side_spread(&queries, BO_CALIBRATION_ROWS, 0.5, s->calibration_q + start);
    bo_side_spread(&keys, BO_CALIBRATION_ROWS, 0.5, s->calibration_k + start);
}

bo_status bo_survey_make(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                         size_t queries, bo_survey *out)
{
    const bo_attention_desc *d = &call->attention->desc;
    size_t count = bo_min(HEADS, d->heads), sequence;
    *out = (bo_survey){.context = context, .dim = d->dim, .value_dim = d->value_dim, .scale = d->scale};
    out->problems = bo_alloc(context, count, sizeof *out->problems, "samples of attention");
    out->calibration_q =
        bo_alloc_raw(context, count * BO_CALIBRATION_ROWS * d->dim, sizeof(float), "rows to calibrate with");
    out->calibration_k =
        bo_alloc_raw(context, count * BO_CALIBRATION_ROWS * d->dim, sizeof(float), "rows to calibrate with");
    if (!out->problems || !out->calibration_q || !out->calibration_k) return BO_MEMORY;
    for (; out->count < count; out->count++) {
        if (!find_sequence(call, out->count, count, &sequence))
            return bo_fail(context, BO_INVALID, "advice needs a sequence with queries and keys; there is none");
        source from = source_of(call, q, k, v, sequence, spaced(out->count, count, d->heads));
        bo_status status = cut(out, &from, queries / count, &out->problems[out->count]);
        if (status != BO_OK) {
            out->count++; /* so that the arrays of this problem are freed */
            return status;
        }
        sample_calibration_rows(call, q, k, from.key_head, out);
    }
    return BO_OK;
}

void bo_survey_free(bo_survey *survey)
{
    for (size_t i = 0; i < survey->count; i++) {
        bo_advice_problem *p = &survey->problems[i];
        void *const blocks[] = {p->q, p->k, p->v, p->visible, p->scores, p->exact, p->entropy, p->share};
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) bo_free(blocks[b]);
    }
    bo_free(survey->problems);
    bo_free(survey->calibration_q);
    bo_free(survey->calibration_k);
    *survey = (bo_survey){0};
}

void bo_survey_entropy(const bo_survey *survey, double *entropy, double *share)
{
    size_t count = 0;
    *entropy = *share = 0;
    for (size_t n = 0; n < survey->count; n++)
        for (size_t i = 0; i < survey->problems[n].queries; i++) {
            if (isnan(survey->problems[n].entropy[i])) continue;
            *entropy += survey->problems[n].entropy[i];
            *share += survey->problems[n].share[i];
            count++;
        }
    if (count) *entropy /= (double)count, *share /= (double)count;
}

/* ---- problems with a window -------------------------------------------------------------------------------------- */

enum { PREFIX_TOKENS = KEYS }; /* maximum tokens per head */

static bo_status prefixes_alloc(bo_context *context, bo_prefixes *b)
{
    const char *what = "prefixes of sequences";
    size_t rows = b->count * b->tokens;
    b->q = bo_alloc(context, rows * b->dim, sizeof(float), what);
    b->k = bo_alloc(context, rows * b->dim, sizeof(float), what);
    b->v = bo_alloc(context, rows * b->value_dim, sizeof(float), what);
    b->out = bo_alloc_raw(context, rows * b->value_dim, sizeof(float), what);
    b->exact = bo_alloc(context, b->count * b->max_queries * b->value_dim, sizeof(double), what);
    return b->q && b->k && b->v && b->out && b->exact ? BO_OK : BO_MEMORY;
}

static bo_status fill_prefixes(bo_context *context, const source *from, bo_prefixes *b)
{
    for (size_t h = 0; h < b->count; h++) {
        size_t n = b->lengths[h], start = h * b->tokens;
        gather(from[h].q, b->dim, n, n, b->q + start * b->dim);
        gather(from[h].k, b->dim, n, n, b->k + start * b->dim);
        BO_TRY(gather_values(context, &from[h], b->value_dim, n, n, b->v + start * b->value_dim));
    }
    return BO_OK;
}

typedef struct prefix_job {
    const bo_prefixes *prefixes;
    const bo_attention *exact;
    double *rows; /* log weights, one row per worker */
} prefix_job;

static void prefix_task(void *arg, size_t index, int worker)
{
    const prefix_job *job = arg;
    const bo_prefixes *b = job->prefixes;
    size_t h = index / b->max_queries, i = index % b->max_queries, start = h * b->tokens;
    if (i >= b->queries[h]) return;
    size_t place = query_place(i, b->queries[h], b->lengths[h]);
    bo_compare_weights w = {.end = place + 1, .log = job->rows + (size_t)worker * b->tokens};
    bo_denominator sum = {0};
    bo_weights_softmax(job->exact->kernels, b->dim, job->exact->desc.scale, b->q + (start + place) * b->dim,
                       (bo_rows){b->k + start * b->dim, b->dim}, &w);
    bo_weights_mix(&w, (bo_rows){b->v + start * b->value_dim, b->value_dim}, b->value_dim, &sum,
                   b->exact + index * b->value_dim);
}

static bo_status compute_prefix_outputs(bo_context *context, const bo_attention *exact, const bo_prefixes *b)
{
    prefix_job job = {b, exact, NULL};
    job.rows = bo_alloc_raw(context, (size_t)bo_context_threads(context) * b->tokens, sizeof *job.rows,
                            "softmax attention of a query");
    if (!job.rows) return BO_MEMORY;
    bo_parallel(context, b->count * b->max_queries, prefix_task, &job);
    bo_free(job.rows);
    return BO_OK;
}

bo_status bo_prefixes_make(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                           size_t queries, bo_prefixes *out)
{
    const bo_attention_desc *d = &call->attention->desc;
    source from[HEADS];
    size_t sequence = 0;
    *out = (bo_prefixes){.dim = d->dim, .value_dim = d->value_dim, .count = bo_min(HEADS, d->heads)};
    for (size_t h = 0; h < out->count; h++) {
        find_sequence(call, h, out->count, &sequence); /* always succeeds: the survey found one */
        from[h] = source_of(call, q, k, v, sequence, spaced(h, out->count, d->heads));
        out->lengths[h] = bo_min(PREFIX_TOKENS, call->sequences[sequence].queries);
        out->queries[h] = bo_min(bo_max(1, queries / out->count), bo_max(1, out->lengths[h] / 2));
        out->tokens = bo_max(out->tokens, out->lengths[h]);
        out->max_queries = bo_max(out->max_queries, out->queries[h]);
    }
    BO_TRY(prefixes_alloc(context, out));
    BO_TRY(fill_prefixes(context, from, out));
    return compute_prefix_outputs(context, call->attention, out);
}

void bo_prefixes_free(bo_prefixes *b)
{
    void *const blocks[] = {b->q, b->k, b->v, b->out, b->exact};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    *b = (bo_prefixes){0};
}

/* Returns |out - exact| / |exact| over the queries that have a softmax output. */
static double prefixes_error(const bo_prefixes *b)
{
    double error = 0, norm = 0;
    for (size_t h = 0; h < b->count; h++)
        for (size_t i = 0; i < b->queries[h]; i++) {
            size_t place = query_place(i, b->queries[h], b->lengths[h]);
            const float *out = b->out + (h * b->tokens + place) * b->value_dim;
            const double *exact = b->exact + (h * b->max_queries + i) * b->value_dim;
            for (size_t c = 0; c < b->value_dim; c++) {
                error += ((double)out[c] - exact[c]) * ((double)out[c] - exact[c]);
                norm += exact[c] * exact[c];
            }
        }
    return bo_relative_error(error, norm);
}

bo_status bo_prefixes_evaluate(bo_context *context, const bo_prefixes *b, const bo_attention *attention, double *error)
{
    bo_attention_shape shape = {.sequences = 1, .tokens = b->tokens};
    bo_attention_inputs in = {.q = b->q, .k = b->k, .v = b->v};
    bo_status status = bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, b->out, NULL);
    *error = status == BO_OK ? prefixes_error(b) : INFINITY;
    return status == BO_NUMERIC ? BO_OK : status; /* overflow: *error stays INFINITY */
}

/* ---- trials of candidates ---------------------------------------------------------------------------------------- */

/* Trials of candidates on the problems of a survey: the measured error, and the error predicted by the variance
 * formula. Unlike in attention, the weights φ(q)·φ(k) are computed individually; the result is the same up to
 * rounding. */

enum {
    ROWS = BO_SIZE(64, 4),           /* rows per task that computes features */
    FLOATS = BO_SIZE(1 << 23, 1024), /* floats of key features per chunk */
    PREDICT_KEYS = 256,              /* keys per query for which the variance is computed */
};

/* One problem, and the map that is tested on it. */
typedef struct trial {
    const bo_survey *survey;
    const bo_advice_problem *problem;
    const bo_attention *attention;
    const bo_features *map;
    bo_row_transform transform;
    double *results; /* two doubles per query: error² and denominator, or its contribution to floor² and slope */
} trial;

static trial trial_of(const bo_survey *survey, const bo_attention *attention, size_t index)
{
    bo_carver nothing = {0}; /* neither σ nor M is used */
    return (trial){.survey = survey,
                   .problem = &survey->problems[index],
                   .attention = attention,
                   .map = attention->features[index],
                   .transform = bo_row_transform_make(attention, NULL, index, &nothing)};
}

static double distance2(size_t count, const double *a, const double *b)
{
    double sum = 0;
    for (size_t c = 0; c < count; c++) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

typedef struct features_job {
    const trial *trial;
    size_t rows;
    const float *x;
    float *z, *log_scale;
    char *scratch;
    size_t per_worker;
} features_job;

static void features_task(void *arg, size_t index, int worker)
{
    const features_job *job = arg;
    const trial *t = job->trial;
    size_t first = index * ROWS, rows = job->rows - first < ROWS ? job->rows - first : ROWS, dim = t->survey->dim, ld;
    size_t count = t->attention->count;
    char *scratch = job->scratch + (size_t)worker * job->per_worker;
    size_t block = bo_features_block_bytes(t->map, ROWS);
    const float *ready = bo_row_transform_forward(&t->transform, BO_OF_KEYS, rows, job->x + first * dim, dim,
                                                  /* queries and keys use the same code */
                                                  (float *)(scratch + block), &ld);
    bo_features_block(t->map, rows, ready, ld, job->z + first * count, count, job->log_scale + first, scratch);
}

/* ---- the kernel in closed form ----------------------------------------------------------------------------------- */

/* Inputs after the transform, and the logarithms of their kernel: queries x keys. */
typedef struct closed {
    float *transformed_q, *transformed_k;
    double *kernel_logs;
    const float *q, *k;
    size_t ldq, ldk;
    const double *log_kernel;
} closed;

static void closed_free(closed *c)
{
    bo_free(c->transformed_q);
    bo_free(c->transformed_k);
    bo_free(c->kernel_logs);
}

static bo_status log_kernels(const trial *t, closed *c)
{
    size_t queries = t->problem->queries, keys = t->problem->keys;
    BO_TRY(bo_kernel_matrix(t->survey->context, bo_features_describe(t->map), queries, c->q, c->ldq, keys, c->k, c->ldk,
                            c->kernel_logs, keys));
    for (size_t i = 0; i < queries * keys; i++) c->kernel_logs[i] = log(c->kernel_logs[i]);
    c->log_kernel = c->kernel_logs;
    return BO_OK;
}

/* The caller must free *c, also on failure. */
static bo_status closed_make(const trial *t, closed *c)
{
    bo_context *context = t->survey->context;
    const bo_advice_problem *p = t->problem;
    const char *what = "a kernel in closed form";
    size_t dim = t->survey->dim, width = t->transform.width;
    bool softmax = bo_features_describe(t->map)->kernel == BO_KERNEL_SOFTMAX;
    *c = (closed){.log_kernel = p->scores};
    c->transformed_q = bo_alloc_raw(context, p->queries * width, sizeof(float), what);
    c->transformed_k = bo_alloc_raw(context, p->keys * width, sizeof(float), what);
    c->kernel_logs = bo_alloc_raw(context, softmax ? 0 : p->queries * p->keys, sizeof(double), what);
    if (!c->transformed_q || !c->transformed_k || !c->kernel_logs) return BO_MEMORY;
    c->q = bo_row_transform_forward(&t->transform, BO_OF_QUERIES, p->queries, p->q, dim, c->transformed_q, &c->ldq);
    c->k = bo_row_transform_forward(&t->transform, BO_OF_KEYS, p->keys, p->k, dim, c->transformed_k, &c->ldk);
    return softmax ? BO_OK : log_kernels(t, c);
}

/* ---- the error --------------------------------------------------------------------------------------------------- */

/* Features of all queries and of some keys at a time, and their products. */
typedef struct products {
    size_t chunk;         /* keys processed at a time */
    float *zq, *zk;       /* queries x features, chunk x features */
    float *log_q, *log_k; /* one float per query, one per key */
    float *dots;          /* queries x keys */
    char *scratch;        /* scratch memory of features_task */
    size_t per_worker;
    double *rows; /* log weights, signs and an output per worker */
    size_t row_doubles;
} products;

static void products_free(products *p)
{
    void *const blocks[] = {p->zq, p->zk, p->log_q, p->log_k, p->dots, p->scratch, p->rows};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) bo_free(blocks[b]);
}

static bo_status products_alloc(const trial *t, products *p)
{
    bo_context *context = t->survey->context;
    size_t queries = t->problem->queries, keys = t->problem->keys, count = t->attention->count;
    size_t workers = (size_t)bo_context_threads(context);
    const char *what = "features of a sample";
    *p = (products){.chunk = FLOATS / count / ROWS * ROWS};
    if (p->chunk < ROWS) p->chunk = ROWS;
    if (p->chunk > keys) p->chunk = keys;
    p->per_worker = bo_features_block_bytes(t->map, ROWS) + bo_padded_bytes(ROWS * t->transform.width * sizeof(float));
    p->row_doubles = 2 * keys + t->survey->value_dim;
    p->zq = bo_alloc_raw(context, queries * count, sizeof(float), what);
    p->zk = bo_alloc_raw(context, p->chunk * count, sizeof(float), what);
    p->log_q = bo_alloc_raw(context, queries, sizeof(float), what);
    p->log_k = bo_alloc_raw(context, keys, sizeof(float), what);
    p->dots = bo_alloc_raw(context, queries * keys, sizeof(float), what);
    p->scratch = bo_alloc_raw(context, workers, p->per_worker, what);
    p->rows = bo_alloc_raw(context, workers * p->row_doubles, sizeof(double), what);
    return p->zq && p->zk && p->log_q && p->log_k && p->dots && p->scratch && p->rows ? BO_OK : BO_MEMORY;
}

static void make_features(const trial *t, const products *p, size_t rows, const float *x, float *z, float *log_scale)
{
    features_job job = {t, rows, x, z, log_scale, p->scratch, p->per_worker};
    bo_parallel(t->survey->context, (rows + ROWS - 1) / ROWS, features_task, &job);
}

static bo_status multiply(const trial *t, const products *p)
{
    const bo_advice_problem *problem = t->problem;
    size_t count = t->attention->count, dim = t->survey->dim;
    make_features(t, p, problem->queries, problem->q, p->zq, p->log_q);
    for (size_t first = 0; first < problem->keys; first += p->chunk) {
        size_t keys = problem->keys - first < p->chunk ? problem->keys - first : p->chunk;
        make_features(t, p, keys, problem->k + first * dim, p->zk, p->log_k + first);
        BO_TRY(bo_gemm(t->survey->context, false, true, problem->queries, keys, count, 1, p->zq, count, p->zk, count, 0,
                       p->dots + first, problem->keys));
    }
    return BO_OK;
}

typedef struct error_job {
    const trial *trial;
    const products *products;
    const double *log_kernel; /* log kernel for signed features: queries x keys */
} error_job;

/* Returns the sum of the weights divided by its value in closed form. */
static double denominator_share(const bo_compare_weights *weights, const double *log_kernel)
{
    double expected = bo_log_sum(weights->end, log_kernel), share = 0;
    for (size_t j = 0; j < weights->end; j++) share += weights->sign[j] * exp(weights->log[j] - expected);
    return weights->end ? share : 1;
}

static void error_task(void *arg, size_t i, int worker)
{
    const error_job *job = arg;
    const trial *t = job->trial;
    const products *p = job->products;
    const bo_attention_desc *desc = &t->attention->desc;
    size_t keys = t->problem->keys, value_dim = t->survey->value_dim;
    double *log_weights = p->rows + (size_t)worker * p->row_doubles, *sign = log_weights + keys, *out = sign + keys;
    double running = t->attention->scaled ? -INFINITY : 0;
    for (size_t j = 0; j < t->problem->visible[i]; j++) {
        double value = (double)p->dots[i * keys + j];
        log_weights[j] = log(fabs(value)) + (double)p->log_q[i] + (double)p->log_k[j];
        sign[j] = value < 0 ? -1 : 1;
        if (t->attention->scaled) running = fmax(running, (double)p->log_k[j]);
    }
    bo_compare_weights weights = {.end = t->problem->visible[i], .log = log_weights, .sign = sign};
    bo_denominator sum = {false, desc->clamp, (double)p->log_q[i] + running};
    bo_weights_mix(&weights, (bo_rows){t->problem->v, value_dim}, value_dim, &sum, out);
    t->results[2 * i] = distance2(value_dim, out, t->problem->exact + i * value_dim);
    t->results[2 * i + 1] = job->log_kernel ? denominator_share(&weights, job->log_kernel + i * keys) : INFINITY;
}

/* Adds to *error2 and lowers *min_denominator. */
static bo_status try_problem(trial *t, double *error2, double *min_denominator)
{
    products p;
    closed kernel = {0};
    size_t queries = t->problem->queries;
    bo_status status = products_alloc(t, &p);
    t->results = bo_alloc_raw(t->survey->context, 2 * queries, sizeof(double), "errors of a sample");
    if (!t->results) status = BO_MEMORY;
    if (status == BO_OK && !bo_features_nonnegative(t->map)) status = closed_make(t, &kernel);
    if (status == BO_OK) status = multiply(t, &p);
    if (status == BO_OK) {
        error_job job = {t, &p, kernel.log_kernel};
        bo_parallel(t->survey->context, queries, error_task, &job);
        for (size_t i = 0; i < queries; i++) {
            *error2 += t->results[2 * i];
            *min_denominator = fmin(*min_denominator, t->results[2 * i + 1]);
        }
    }
    bo_free(t->results);
    closed_free(&kernel);
    products_free(&p);
    return status;
}

bo_status bo_survey_evaluate(const bo_survey *survey, const bo_attention *attention, bo_survey_result *out)
{
    double error2 = 0;
    out->min_denominator = INFINITY;
    for (size_t n = 0; n < survey->count; n++) {
        trial t = trial_of(survey, attention, n);
        BO_TRY(try_problem(&t, &error2, &out->min_denominator));
    }
    out->error = bo_relative_error(error2, survey->norm);
    return BO_OK;
}

/* ---- the prediction ---------------------------------------------------------------------------------------------- */

typedef struct predict_job {
    const trial *trial;
    closed kernel;
    double *out; /* one output per worker */
} predict_job;

static void predict_task(void *arg, size_t i, int worker)
{
    const predict_job *job = arg;
    const trial *t = job->trial;
    const bo_advice_problem *p = t->problem;
    size_t value_dim = t->survey->value_dim, visible = p->visible[i],
           sampled_keys = visible < PREDICT_KEYS ? visible : PREDICT_KEYS;
    double *out = job->out + (size_t)worker * value_dim, slope = 0, m = (double)bo_features_frequencies(t->map);
    bo_compare_weights weights = {.end = visible, .log = (double *)job->kernel.log_kernel + i * p->keys};
    bo_denominator sum = {0};
    bo_weights_mix(&weights, (bo_rows){p->v, value_dim}, value_dim, &sum, out);
    double log_sum = bo_log_sum(visible, weights.log);
    for (size_t n = 0; n < sampled_keys; n++) {
        size_t j = n * visible / sampled_keys;
        const float *x = job->kernel.q + i * job->kernel.ldq, *y = job->kernel.k + j * job->kernel.ldk;
        double variance = m * bo_features_variance(t->map, x, y), distance = 0;
        for (size_t c = 0; c < value_dim; c++) {
            double difference = (double)p->v[j * value_dim + c] - out[c];
            distance += difference * difference;
        }
        slope += exp(log(variance) - 2 * log_sum) * distance; /* a² ρ = variance / (Σ_j k_ij)² */
    }
    t->results[2 * i] = distance2(value_dim, out, p->exact + i * value_dim);
    t->results[2 * i + 1] = sampled_keys ? slope * (double)visible / (double)sampled_keys : 0;
}

static bo_status predict_problem(trial *t, double *floor2, double *slope)
{
    bo_context *context = t->survey->context;
    size_t queries = t->problem->queries, workers = (size_t)bo_context_threads(context);
    predict_job job = {.trial = t};
    bo_status status = closed_make(t, &job.kernel);
    job.out = bo_alloc_raw(context, workers * t->survey->value_dim, sizeof(double), "predicting errors");
    t->results = bo_alloc_raw(context, 2 * queries, sizeof(double), "predicting errors");
    if (!job.out || !t->results) status = BO_MEMORY;
    if (status == BO_OK) {
        bo_parallel(context, queries, predict_task, &job);
        for (size_t i = 0; i < queries; i++) *floor2 += t->results[2 * i], *slope += t->results[2 * i + 1];
    }
    closed_free(&job.kernel);
    bo_free(job.out);
    bo_free(t->results);
    return status;
}

bo_status bo_survey_predict(const bo_survey *survey, const bo_attention *attention, bo_survey_prediction *out)
{
    double floor2 = 0, slope = 0;
    for (size_t n = 0; n < survey->count; n++) {
        trial t = trial_of(survey, attention, n);
        BO_TRY(predict_problem(&t, &floor2, &slope));
    }
    bool any = survey->norm > 0;
    *out = (bo_survey_prediction){any ? sqrt(floor2 / survey->norm) : 0, any ? slope / survey->norm : 0};
    return BO_OK;
}
