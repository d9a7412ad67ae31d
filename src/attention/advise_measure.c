/* Candidates on the problems of a survey: the error they make, and the one that the variance formula predicts. The
 * weights φ(q)·φ(k) are made one by one, as no attention does; what comes out is the same up to rounding. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "advise.h"
#include "compare.h"
#include "row_transform.h"

enum {
    ROWS = BO_SIZE(64, 4),           /* that one task makes features of */
    FLOATS = BO_SIZE(1 << 23, 1024), /* of key features held at a time */
    PREDICT_KEYS = 256,              /* pairs of a query that are asked for their variance */
};

/* One problem and the map that is tried on it. */
typedef struct trial {
    const bo_survey *survey;
    const bo_advice_problem *problem;
    const bo_attention *attention;
    const bo_features *map;
    bo_row_transform front;
    double *results; /* two a query: error² and denominator, or its part of floor² and slope */
} trial;

static trial trial_of(const bo_survey *survey, const bo_attention *attention, size_t index)
{
    bo_carver nothing = {0}; /* neither σ nor M */
    return (trial){.survey = survey,
                   .problem = &survey->problems[index],
                   .attention = attention,
                   .map = attention->features[index],
                   .front = bo_row_transform_make(attention, NULL, index, &nothing)};
}

static double distance2(size_t count, const double *a, const double *b)
{
    double sum = 0;
    for (size_t c = 0; c < count; c++) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

/* ---- features -------------------------------------------------------------------------------------------------- */

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
    const float *ready = bo_row_transform_forward(&t->front, BO_OF_KEYS, rows, job->x + first * dim, dim,
                                                  (float *)(scratch + block), &ld); /* both sides are alike */
    bo_features_block(t->map, rows, ready, ld, job->z + first * count, count, job->log_scale + first, scratch);
}

/* ---- the kernel in closed form --------------------------------------------------------------------------------- */

/* Inputs after the front, and the logarithms of their kernel: queries x keys. */
typedef struct closed {
    float *own_q, *own_k;
    double *own_logs;
    const float *q, *k;
    size_t ldq, ldk;
    const double *log_kernel;
} closed;

static void closed_free(closed *c)
{
    bo_free(c->own_q);
    bo_free(c->own_k);
    bo_free(c->own_logs);
}

static bo_status log_kernels(const trial *t, closed *c)
{
    size_t queries = t->problem->queries, keys = t->problem->keys;
    BO_TRY(bo_kernel_matrix(t->survey->context, bo_features_describe(t->map), queries, c->q, c->ldq, keys, c->k, c->ldk,
                            c->own_logs, keys));
    for (size_t i = 0; i < queries * keys; i++) c->own_logs[i] = log(c->own_logs[i]);
    c->log_kernel = c->own_logs;
    return BO_OK;
}

/* To be freed whatever it returns. */
static bo_status closed_make(const trial *t, closed *c)
{
    bo_context *context = t->survey->context;
    const bo_advice_problem *p = t->problem;
    const char *what = "a kernel in closed form";
    size_t dim = t->survey->dim, width = t->front.width;
    bool softmax = bo_features_describe(t->map)->kernel == BO_KERNEL_SOFTMAX;
    *c = (closed){.log_kernel = p->scores};
    c->own_q = bo_alloc_raw(context, p->queries * width, sizeof(float), what);
    c->own_k = bo_alloc_raw(context, p->keys * width, sizeof(float), what);
    c->own_logs = bo_alloc_raw(context, softmax ? 0 : p->queries * p->keys, sizeof(double), what);
    if (!c->own_q || !c->own_k || !c->own_logs) return BO_MEMORY;
    c->q = bo_row_transform_forward(&t->front, BO_OF_QUERIES, p->queries, p->q, dim, c->own_q, &c->ldq);
    c->k = bo_row_transform_forward(&t->front, BO_OF_KEYS, p->keys, p->k, dim, c->own_k, &c->ldk);
    return softmax ? BO_OK : log_kernels(t, c);
}

/* ---- the error ------------------------------------------------------------------------------------------------- */

/* Features of all queries and of some keys at a time, and their products. */
typedef struct products {
    size_t chunk;         /* keys at a time */
    float *zq, *zk;       /* queries x features, chunk x features */
    float *log_q, *log_k; /* queries, keys */
    float *dots;          /* queries x keys */
    char *scratch;        /* of features_task */
    size_t per_worker;
    double *rows; /* log weights, signs and an output for each worker */
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
    p->per_worker = bo_features_block_bytes(t->map, ROWS) + (ROWS * t->front.width * sizeof(float) + 63) / 64 * 64;
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
    const double *log_kernel; /* of signed features: queries x keys */
} error_job;

/* The sum of the weights over what it is in closed form */
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
    for (size_t j = 0; j < t->problem->seen[i]; j++) {
        double value = (double)p->dots[i * keys + j];
        log_weights[j] = log(fabs(value)) + (double)p->log_q[i] + (double)p->log_k[j];
        sign[j] = value < 0 ? -1 : 1;
        if (t->attention->scaled) running = fmax(running, (double)p->log_k[j]);
    }
    bo_compare_weights weights = {.end = t->problem->seen[i], .log = log_weights, .sign = sign};
    bo_denominator sum = {false, desc->clamp, (double)p->log_q[i] + running};
    bo_weights_mix(&weights, (bo_rows){t->problem->v, value_dim}, value_dim, &sum, out);
    t->results[2 * i] = distance2(value_dim, out, t->problem->exact + i * value_dim);
    t->results[2 * i + 1] = job->log_kernel ? denominator_share(&weights, job->log_kernel + i * keys) : INFINITY;
}

/* Adds to error2, lowers least. */
static bo_status try_problem(trial *t, double *error2, double *least)
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
            *least = fmin(*least, t->results[2 * i + 1]);
        }
    }
    bo_free(t->results);
    closed_free(&kernel);
    products_free(&p);
    return status;
}

bo_status bo_survey_try(const bo_survey *survey, const bo_attention *attention, bo_verdict *out)
{
    double error2 = 0;
    out->least = INFINITY;
    for (size_t n = 0; n < survey->count; n++) {
        trial t = trial_of(survey, attention, n);
        BO_TRY(try_problem(&t, &error2, &out->least));
    }
    out->error = bo_relative_error(error2, survey->norm);
    return BO_OK;
}

/* ---- the prediction -------------------------------------------------------------------------------------------- */

typedef struct predict_job {
    const trial *trial;
    closed kernel;
    double *out; /* for each worker */
} predict_job;

static void predict_task(void *arg, size_t i, int worker)
{
    const predict_job *job = arg;
    const trial *t = job->trial;
    const bo_advice_problem *p = t->problem;
    size_t value_dim = t->survey->value_dim, seen = p->seen[i], asked = seen < PREDICT_KEYS ? seen : PREDICT_KEYS;
    double *out = job->out + (size_t)worker * value_dim, slope = 0, m = (double)bo_features_frequencies(t->map);
    bo_compare_weights weights = {.end = seen, .log = (double *)job->kernel.log_kernel + i * p->keys};
    bo_denominator sum = {0};
    bo_weights_mix(&weights, (bo_rows){p->v, value_dim}, value_dim, &sum, out);
    double log_sum = bo_log_sum(seen, weights.log);
    for (size_t n = 0; n < asked; n++) {
        size_t j = n * seen / asked;
        const float *x = job->kernel.q + i * job->kernel.ldq, *y = job->kernel.k + j * job->kernel.ldk;
        double variance = m * bo_features_variance(t->map, x, y), apart = 0;
        for (size_t c = 0; c < value_dim; c++) {
            double difference = (double)p->v[j * value_dim + c] - out[c];
            apart += difference * difference;
        }
        slope += exp(log(variance) - 2 * log_sum) * apart; /* a² ρ = variance / (Σ_j k_ij)² */
    }
    t->results[2 * i] = distance2(value_dim, out, p->exact + i * value_dim);
    t->results[2 * i + 1] = asked ? slope * (double)seen / (double)asked : 0;
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

bo_status bo_survey_predict(const bo_survey *survey, const bo_attention *attention, bo_prediction *out)
{
    double floor2 = 0, slope = 0;
    for (size_t n = 0; n < survey->count; n++) {
        trial t = trial_of(survey, attention, n);
        BO_TRY(predict_problem(&t, &floor2, &slope));
    }
    bool any = survey->norm > 0;
    *out = (bo_prediction){any ? sqrt(floor2 / survey->norm) : 0, any ? slope / survey->norm : 0};
    return BO_OK;
}
