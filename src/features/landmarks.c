/* The landmarks of the Nyström method: m rows Z of a sample, chosen uniformly without repetition or by ridge leverage
 * scores, and the factor W of φ(x) = W k(Z, x) with WᵀW = (K + ε diag K)⁻¹, K the kernel matrix of Z: W is the inverse
 * of a Cholesky factor. Then φ(x)·φ(y) = k(x, Z) (K + ε diag K)⁻¹ k(Z, y) (Williams and Seeger 2001). A landmark that
 * the other landmarks explain up to 1e-6 is dropped (equal rows, kernels of low rank): W would be too large for
 * float32, and the change of the kernel is negligible. ε = 1e-9 covers the rounding of the factorization.
 *
 * The leverage score of row i of a sample of n rows is [K (K + λI)⁻¹]_ii, where K is the kernel matrix of the sample.
 * It is estimated with a uniform pilot sample J of p rows (Alaoui and Mahoney 2015; Rudi et al. 2018, arXiv
 * 1810.13258):
 *
 *     score_i = (k_ii - k_iJ (K_JJ + λ p/n I)⁻¹ k_Ji) / λ,   at most 1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "landmarks.h"

/* ε; the larger one is used if rounding makes the factorization fail with the smaller one. */
static const double small_jitter = 1e-9, large_jitter = 1e-7;
/* W is at most 1/√negligible times as large as 1/√k(z, z). */
static const double negligible = 1e-6;
/* Part of the probability of leverage sampling that is uniform, as in sampling.c. */
static const double even_share = 0.05;

/* ---- the choice -------------------------------------------------------------------------------------------------- */

enum { PILOT_ROWS = BO_SIZE(1024, 6), SCORED_ROWS = BO_SIZE(2048, 5) };

static void copy_rows(const bo_features_desc *desc, const size_t *index, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * desc->dim, desc->sample + index[i] * desc->sample_stride, desc->dim * sizeof *out);
}

static double diagonal_of(const bo_features *f, const float *x)
{
    const bo_pair pair = bo_pair_make(&f->desc, f->factor, x, x);
    return bo_kernel_value(&f->desc, &pair);
}

typedef struct scoring {
    const bo_features *features;
    size_t rows;     /* of the pilot sample */
    float *pilot;    /* rows x dim */
    double *factor;  /* rows x rows */
    double *columns; /* rows x SCORED_ROWS */
} scoring;

/* Draws the pilot sample, the first rows of `order`, and factorizes K_JJ + λ p/n I. */
static bo_status begin_scoring(bo_context *context, const bo_features *f, const size_t *order, scoring *s)
{
    const bo_features_desc *desc = &f->desc;
    const size_t p = bo_min(PILOT_ROWS, desc->sample_rows);
    *s = (scoring){.features = f, .rows = p};
    s->pilot = bo_alloc_raw(context, p * desc->dim, sizeof *s->pilot, "a pilot sample");
    s->factor = bo_alloc_raw(context, p * p, sizeof *s->factor, "the kernel matrix of a pilot sample");
    s->columns = bo_alloc_raw(context, p * SCORED_ROWS, sizeof *s->columns, "the kernel matrix of a pilot sample");
    if (!s->pilot || !s->factor || !s->columns) return BO_MEMORY;
    copy_rows(desc, order, p, s->pilot);
    BO_TRY(bo_kernel_matrix(context, desc, p, s->pilot, desc->dim, p, s->pilot, desc->dim, s->factor, p));
    for (size_t i = 0; i < p; i++)
        s->factor[i * p + i] += desc->leverage_lambda * (double)p / (double)desc->sample_rows;
    return bo_cholesky(context, p, s->factor, p, NULL);
}

static bo_status score_rows(bo_context *context, const scoring *s, size_t first, size_t rows, double *score)
{
    const bo_features_desc *desc = &s->features->desc;
    const float *x = desc->sample + first * desc->sample_stride;
    const size_t p = s->rows;
    BO_TRY(bo_kernel_matrix(context, desc, p, s->pilot, desc->dim, rows, x, desc->sample_stride, s->columns, rows));
    BO_TRY(bo_solve_lower(context, p, rows, s->factor, p, s->columns, rows));
    for (size_t i = 0; i < rows; i++) score[i] = diagonal_of(s->features, x + i * desc->sample_stride);
    for (size_t j = 0; j < p; j++)
        for (size_t i = 0; i < rows; i++) score[i] -= s->columns[j * rows + i] * s->columns[j * rows + i];
    for (size_t i = 0; i < rows; i++) score[i] = fmin(1, fmax(0, score[i] / desc->leverage_lambda));
    return BO_OK;
}

static bo_status leverage_scores(bo_context *context, const bo_features *f, const size_t *order, double *score)
{
    const size_t all = f->desc.sample_rows;
    scoring s;
    bo_status status = begin_scoring(context, f, order, &s);
    for (size_t first = 0; status == BO_OK && first < all; first += SCORED_ROWS) {
        status = bo_progress(context, "choosing landmarks", (double)first, (double)all);
        if (status == BO_OK) status = score_rows(context, &s, first, bo_min(SCORED_ROWS, all - first), score + first);
    }
    bo_free(s.pilot);
    bo_free(s.factor);
    bo_free(s.columns);
    return status;
}

typedef struct ticket {
    double key;
    size_t row;
} ticket;

static int compare_tickets(const void *a, const void *b)
{
    const ticket *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key ? 1 : x->row < y->row ? -1 : x->row > y->row;
}

/* Sorts the rows by exponential variables of rate `score`: the first m are a sample without repetition (Efraimidis and
 * Spirakis 2006). */
static bo_status order_by_scores(bo_context *context, const bo_features_desc *desc, const double *score, size_t *order)
{
    const size_t rows = desc->sample_rows;
    ticket *tickets = bo_alloc_raw(context, rows, sizeof *tickets, "the choice of landmarks");
    if (!tickets) return BO_MEMORY;
    bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("features.landmarks.scores", 0));
    double sum = 0;
    for (size_t i = 0; i < rows; i++) sum += score[i];
    for (size_t i = 0; i < rows; i++) {
        const double share = sum > 0 ? (1 - even_share) * score[i] / sum : 0;
        tickets[i] = (ticket){-log(bo_rng_uniform(&rng)) / (share + even_share / (double)rows), i};
    }
    qsort(tickets, rows, sizeof *tickets, compare_tickets);
    for (size_t i = 0; i < rows; i++) order[i] = tickets[i].row;
    bo_free(tickets);
    return BO_OK;
}

/* Puts the rows of the sample in the order in which they become landmarks. */
static bo_status order_rows(bo_context *context, const bo_features *f, size_t *order)
{
    const bo_features_desc *desc = &f->desc;
    bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("features.landmarks", 0));
    bo_rng_permutation(&rng, desc->sample_rows, order);
    if (desc->sampling != BO_SAMPLING_LEVERAGE) return BO_OK;
    double *score = bo_alloc_raw(context, desc->sample_rows, sizeof *score, "leverage scores");
    bo_status status = score ? leverage_scores(context, f, order, score) : BO_MEMORY;
    if (status == BO_OK) status = order_by_scores(context, desc, score, order);
    bo_free(score);
    return status;
}

static bo_status check_sample(bo_context *context, const bo_features_desc *desc)
{
    if (!desc->sample) return bo_fail(context, BO_INVALID, "function landmarks needs a sample of the data, found none");
    for (size_t i = 0; i < desc->sample_rows; i++)
        for (size_t j = 0; j < desc->dim; j++)
            if (!isfinite(desc->sample[i * desc->sample_stride + j]))
                return bo_fail(context, BO_NUMERIC, "row %zu of the sample, column %zu must be finite, found %g", i, j,
                               (double)desc->sample[i * desc->sample_stride + j]);
    return BO_OK;
}

static bo_status choose(bo_context *context, bo_features *f)
{
    BO_TRY(check_sample(context, &f->desc));
    size_t *order = bo_alloc_raw(context, f->desc.sample_rows, sizeof *order, "the choice of landmarks");
    bo_status status = order ? order_rows(context, f, order) : BO_MEMORY;
    if (status == BO_OK) copy_rows(&f->desc, order, f->landmarks->count, f->landmarks->rows);
    bo_free(order);
    return status;
}

/* ---- the factor -------------------------------------------------------------------------------------------------- */

/* Computes L with L Lᵀ = K + ε diag K, in the place of K; `diagonal` receives the diagonal of K. */
static bo_status factorize(bo_context *context, const bo_features *f, double jitter, double *k, double *diagonal)
{
    const bo_landmarks *l = f->landmarks;
    const size_t m = l->count, dim = f->desc.dim;
    double mean = 0;
    BO_TRY(bo_progress(context, "factorizing the kernel of the landmarks", 0, 1));
    BO_TRY(bo_kernel_matrix(context, &f->desc, m, l->rows, dim, m, l->rows, dim, k, m));
    for (size_t i = 0; i < m; i++) mean += k[i * m + i] / (double)m;
    if (!isfinite(mean))
        return bo_fail(context, BO_NUMERIC,
                       "the kernel matrix of %zu landmarks is not finite: the sample has values too large for this "
                       "kernel",
                       m);
    for (size_t i = 0; i < m; i++) {
        diagonal[i] = k[i * m + i];
        k[i * m + i] += jitter * (diagonal[i] > 0 ? diagonal[i] : mean > 0 ? mean : 1);
    }
    return bo_cholesky(context, m, k, m, NULL);
}

static bo_status factorize_safely(bo_context *context, const bo_features *f, double *k, double *diagonal)
{
    bo_status status = factorize(context, f, small_jitter, k, diagonal);
    return status == BO_NUMERIC ? factorize(context, f, large_jitter, k, diagonal) : status;
}

/* Drops the landmarks that earlier landmarks explain up to a fraction `negligible` of k(z, z). Returns true if any were
 * dropped. */
static bool drop_explained(bo_features *f, const double *factor, const double *diagonal)
{
    bo_landmarks *l = f->landmarks;
    const size_t m = l->count, dim = f->desc.dim;
    size_t kept = 0;
    for (size_t i = 0; i < m; i++) {
        const double pivot = factor[i * m + i] * factor[i * m + i];
        if (i > 0 && !(pivot > negligible * diagonal[i])) continue;
        memmove(l->rows + kept++ * dim, l->rows + i * dim, dim * sizeof *l->rows);
    }
    l->count = kept;
    return kept < m;
}

static bo_status make_factor(bo_context *context, bo_features *f)
{
    bo_landmarks *l = f->landmarks;
    const size_t capacity = l->count;
    double *k = bo_alloc_raw(context, capacity, capacity * sizeof *k, "the kernel matrix of the landmarks");
    double *inverse = bo_alloc_raw(context, capacity, capacity * sizeof *k, "the factor of the landmarks");
    bo_status status = k && inverse ? factorize_safely(context, f, k, inverse) : BO_MEMORY;
    if (status == BO_OK && drop_explained(f, k, inverse)) status = factorize_safely(context, f, k, inverse);
    if (status == BO_OK) status = bo_inverse_factor(context, l->count, k, l->count, inverse);
    for (size_t i = 0, at = 0; status == BO_OK && i < l->count; i++)
        for (size_t j = 0; j <= i; j++, at++) l->lower[at] = (float)inverse[i * l->count + j];
    bo_free(k);
    bo_free(inverse);
    return status;
}

bo_status bo_landmarks_prepare(bo_context *context, bo_features *f)
{
    const size_t count = bo_min(f->desc.features, f->desc.sample ? f->desc.sample_rows : 0);
    BO_TRY(bo_landmarks_create(context, &f->desc, count, true, &f->landmarks));
    BO_TRY(choose(context, f));
    return make_factor(context, f);
}

/* ---- the object -------------------------------------------------------------------------------------------------- */

static size_t lower_count(size_t m)
{
    return m * (m + 1) / 2;
}

static size_t panel_count(size_t m)
{
    return bo_ceil_div(m, BO_LANDMARK_PANEL);
}

void bo_landmarks_destroy(bo_landmarks *l)
{
    if (!l) return;
    for (size_t p = 0; l->panels && p < panel_count(l->count); p++) bo_packed_destroy(l->panels[p]);
    bo_free(l->panels);
    bo_packed_destroy(l->packed);
    bo_free(l->rows);
    bo_free(l->lower);
    bo_free(l->t);
    bo_free(l->norm);
    bo_free(l->pairs);
    bo_free(l->weight);
    bo_free(l);
}

bo_status bo_landmarks_create(bo_context *context, const bo_features_desc *desc, size_t count, bool whitened,
                              bo_landmarks **out)
{
    *out = NULL;
    bo_landmarks *l = bo_alloc(context, 1, sizeof *l, "landmarks");
    if (!l) return BO_MEMORY;
    l->count = count;
    l->rows = bo_alloc_raw(context, count * desc->dim, sizeof(float), "landmarks");
    if (whitened) l->lower = bo_alloc_raw(context, lower_count(count), sizeof(float), "the factor of the landmarks");
    if (!l->rows || (whitened && !l->lower)) {
        bo_landmarks_destroy(l);
        return BO_MEMORY;
    }
    *out = l;
    return BO_OK;
}

size_t bo_landmarks_bytes(const bo_features_desc *desc)
{
    const size_t m = desc->sample ? bo_min(desc->features, desc->sample_rows) : desc->features;
    const size_t columns = bo_lifted_columns(bo_kernel_find(desc->kernel)->form, desc->dim);
    const bo_kernel_definition *kernel = bo_kernel_find(desc->kernel);
    size_t panels = kernel->form == BO_FORM_PRODUCT ? desc->dim : 0;
    if (kernel->shift_invariant || bo_form_of_products(kernel->form)) panels += bo_round_up(m, BO_PAIR_ROWS) * columns;
    for (size_t p = 0; p < panel_count(m); p++) {
        const size_t end = bo_min(m, (p + 1) * BO_LANDMARK_PANEL);
        panels += bo_round_up(end - p * BO_LANDMARK_PANEL, 64) * end;
    }
    return sizeof(bo_landmarks) + 2 * m * sizeof(double) + panel_count(m) * sizeof(bo_packed *) +
           (m * (desc->dim + columns) + lower_count(m) + panels) * sizeof(float);
}

/* Scales and lifts the landmarks. */
static void fill_scaled(const bo_features *f)
{
    bo_landmarks *l = f->landmarks;
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    const size_t dim = f->desc.dim, columns = bo_lifted_columns(form, dim);
    for (size_t i = 0; i < l->count; i++) {
        float *t = l->t + i * columns;
        for (size_t j = 0; j < dim; j++) t[j] = (float)((double)l->rows[i * dim + j] * f->factor[j]);
        bo_landmark_lift(form, dim, t, t, &l->norm[i], &l->norm[l->count + i]);
    }
}

/* Arranges the scaled rows in panels for the compute kernels on pairs. */
static bo_status make_pairs(bo_context *context, const bo_features *f)
{
    bo_landmarks *l = f->landmarks;
    const size_t dim = f->desc.dim;
    const bool product = bo_kernel_find(f->desc.kernel)->form == BO_FORM_PRODUCT;
    l->pairs = bo_alloc(context, bo_round_up(l->count, BO_PAIR_ROWS), dim * sizeof(float), "landmarks");
    if (product) l->weight = bo_alloc_raw(context, dim, sizeof(float), "landmarks");
    if (!l->pairs || (product && !l->weight)) return BO_MEMORY;
    for (size_t i = 0; i < l->count; i += BO_PAIR_ROWS)
        f->kernels->transpose(bo_min(BO_PAIR_ROWS, l->count - i), dim, l->t + i * dim, dim, l->pairs + i * dim,
                              BO_PAIR_ROWS);
    for (size_t j = 0; product && j < dim; j++) l->weight[j] = (float)(f->desc.gamma * f->desc.gamma);
    return BO_OK;
}

/* Packs W in panels of rows, each with the columns up to its diagonal. */
static bo_status pack_lower(bo_context *context, bo_landmarks *l)
{
    const size_t m = l->count, panel = bo_min(BO_LANDMARK_PANEL, m);
    l->panels = bo_alloc(context, panel_count(m), sizeof *l->panels, "the factor of the landmarks");
    float *dense = bo_alloc_raw(context, panel * m, sizeof *dense, "the factor of the landmarks");
    bo_status status = l->panels && dense ? BO_OK : BO_MEMORY;
    for (size_t p = 0; status == BO_OK && p < panel_count(m); p++) {
        const size_t first = p * BO_LANDMARK_PANEL, end = bo_min(m, first + BO_LANDMARK_PANEL);
        memset(dense, 0, (end - first) * end * sizeof *dense);
        for (size_t i = first; i < end; i++)
            memcpy(dense + (i - first) * end, l->lower + lower_count(i), (i + 1) * sizeof *dense);
        status = bo_packed_create(context, BO_PRECISION_FLOAT32, end - first, end, dense, end, &l->panels[p]);
    }
    bo_free(dense);
    return status;
}

bo_status bo_landmarks_finish(bo_context *context, bo_features *f)
{
    bo_landmarks *l = f->landmarks;
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    const size_t columns = bo_lifted_columns(form, f->desc.dim);
    l->t = bo_alloc_raw(context, l->count * columns, sizeof(float), "landmarks");
    l->norm = bo_alloc_raw(context, 2 * l->count, sizeof(double), "landmarks");
    if (!l->t || !l->norm) return BO_MEMORY;
    fill_scaled(f);
    if (bo_kernel_find(f->desc.kernel)->shift_invariant && isnormal(bo_kernel_radial(&f->desc).scale))
        BO_TRY(make_pairs(context, f));
    if (bo_form_of_products(form))
        BO_TRY(bo_packed_create(context, BO_PRECISION_FLOAT32, l->count, columns, l->t, columns, &l->packed));
    return l->lower ? pack_lower(context, l) : BO_OK;
}

/* ---- for kernel machines ----------------------------------------------------------------------------------------- */

bo_status bo_landmarks_bare(bo_context *context, const bo_features *features, bo_features **out)
{
    const bo_landmarks *from = features->landmarks;
    bo_features *bare;
    *out = NULL;
    BO_TRY(bo_features_begin(context, &features->desc, &bare));
    bo_status status = bo_landmarks_create(context, &features->desc, from->count, false, &bare->landmarks);
    if (status == BO_OK) {
        memcpy(bare->landmarks->rows, from->rows, from->count * features->desc.dim * sizeof(float));
        status = bo_features_finish(context, bare);
    }
    if (status != BO_OK) {
        bo_features_destroy(bare);
        return status;
    }
    *out = bare;
    return BO_OK;
}

bool bo_landmarks_is_bare(const bo_features *features)
{
    return features->landmarks && !features->landmarks->lower;
}

size_t bo_landmarks_count(const bo_features *features)
{
    return features->landmarks->count;
}

const float *bo_landmarks_rows(const bo_features *features)
{
    return features->landmarks->rows;
}

typedef struct product {
    const bo_landmarks *landmarks;
    size_t features, outputs;
    const double *in;
    double *out;
} product;

/* Row i of W in. */
static void multiply_task(void *arg, size_t i, int worker)
{
    const product *job = arg;
    const size_t t = job->outputs;
    double *out = job->out + i * t;
    (void)worker;
    memset(out, 0, t * sizeof *out);
    if (i >= job->landmarks->count) return;
    const float *w = job->landmarks->lower + lower_count(i);
    for (size_t j = 0; j <= i; j++)
        for (size_t k = 0; k < t; k++) out[k] += (double)w[j] * job->in[j * t + k];
}

enum { STRIP = BO_SIZE(64, 3) };

/* STRIP rows of Wᵀ in: the columns of W are read in pieces of whole lines. */
static void multiply_transposed_task(void *arg, size_t index, int worker)
{
    const product *job = arg;
    const size_t t = job->outputs, m = job->landmarks->count, first = index * STRIP;
    const size_t end = bo_min(first + STRIP, job->features);
    (void)worker;
    memset(job->out + first * t, 0, (end - first) * t * sizeof *job->out);
    for (size_t i = first; i < m; i++) {
        const float *w = job->landmarks->lower + lower_count(i);
        for (size_t j = first; j < end && j <= i; j++)
            for (size_t k = 0; k < t; k++) job->out[j * t + k] += (double)w[j] * job->in[i * t + k];
    }
}

bo_status bo_landmarks_multiply(bo_context *context, const bo_features *features, bool transposed, size_t outputs,
                                const double *in, double *out)
{
    product job = {features->landmarks, features->desc.features, outputs, in, out};
    if (transposed)
        bo_parallel(context, bo_ceil_div(job.features, STRIP), multiply_transposed_task, &job);
    else
        bo_parallel(context, job.features, multiply_task, &job);
    return BO_OK;
}
