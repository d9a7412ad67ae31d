/* Second moments of the estimate that one frequency gives of the kernel, over data on both sides. They determine how
 * many frequencies are needed (Sernau, Bonacina, Saurous 2024, arXiv 2406.18802). */
#include <math.h>
#include "internal.h"

/* ---- over all pairs of two samples ------------------------------------------------------------------------------- */

/* Rows t = factor ∘ x multiplied by A (dim x dim, NULL: I): a = A t; norms: 2|a|² - |t|². */
typedef struct rotated {
    size_t count;
    double *a, *norms;
} rotated;

static void rotated_free(rotated *x)
{
    bo_free(x->a);
    bo_free(x->norms);
}

static bo_status rotate(bo_context *context, const bo_features *f, const bo_feature_sample *x, const double *by,
                        rotated *out)
{
    size_t dim = f->desc.dim, n = x->count;
    double *t = bo_alloc_raw(context, n * dim, sizeof *t, "rows in float64");
    *out = (rotated){n, bo_alloc_raw(context, n * dim, sizeof(double), "rows in float64"),
                     bo_alloc_raw(context, n, sizeof(double), "rows in float64")};
    bo_status status = t && out->a && out->norms ? BO_OK : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < n * dim; i++)
        out->a[i] = t[i] = (double)x->rows[i / dim * x->stride + i % dim] * f->factor[i % dim];
    if (status == BO_OK && by)
        status = bo_gemm64(context, false, true, n, dim, dim, 1, t, dim, by, dim, 0, out->a, dim);
    for (size_t i = 0; status == BO_OK && i < n; i++) {
        out->norms[i] = 0;
        for (size_t j = 0; j < dim; j++)
            out->norms[i] += 2 * out->a[i * dim + j] * out->a[i * dim + j] - t[i * dim + j] * t[i * dim + j];
    }
    bo_free(t);
    return status;
}

static double log_mean(size_t count, const double *x)
{
    double top = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) top = fmax(top, x[i]);
    if (!isfinite(top)) return top;
    for (size_t i = 0; i < count; i++) sum += exp(x[i] - top);
    return top + log(sum / (double)count);
}

/* Computes the log of the mean over pairs of exp(times a·b), or with `norms` of exp(norms_a + norms_b + times a·b). */
static bo_status log_mean_pairs(bo_context *context, size_t dim, const rotated *x, const rotated *y, double times,
                                bool norms, double *out)
{
    size_t n = x->count, m = y->count;
    double *logs = bo_alloc_raw(context, n * m, sizeof *logs, "pairs of rows");
    if (!logs) return BO_MEMORY;
    bo_status status = bo_gemm64(context, false, true, n, m, dim, times, x->a, dim, y->a, dim, 0, logs, m);
    for (size_t i = 0; norms && i < n * m; i++) logs[i] += x->norms[i / m] + y->norms[i % m];
    if (status == BO_OK) *out = log_mean(n * m, logs);
    bo_free(logs);
    return status;
}

/* The second moment of a pair is exp(spread + 2|A(t + t')|² - |t|² - |t'|²): see propose.c, with A = I for N(0, I). */
bo_status bo_features_log_second(bo_context *context, const bo_features *f, bool proposed, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_second)
{
    rotated x = {0}, y = {0};
    bool stretched = proposed && f->proposal;
    *log_second = INFINITY;
    if (stretched && !f->spread) return BO_OK;
    const double *by = stretched ? f->spread : NULL;
    bo_status status = rotate(context, f, q, by, &x);
    if (status == BO_OK) status = rotate(context, f, k, by, &y);
    if (status == BO_OK) status = log_mean_pairs(context, f->desc.dim, &x, &y, 4, true, log_second);
    if (status == BO_OK && stretched) *log_second += f->log_spread;
    rotated_free(&x);
    rotated_free(&y);
    return status;
}

static bo_status log_square_of_matrix(bo_context *context, const bo_features *f, const bo_feature_sample *q,
                                      const bo_feature_sample *k, double *out)
{
    size_t pairs = q->count * k->count;
    double *value = bo_alloc_raw(context, pairs, sizeof *value, "kernel values");
    if (!value) return BO_MEMORY;
    bo_status status = bo_kernel_matrix(context, &f->desc, q->count, q->rows, q->stride, k->count, k->rows, k->stride,
                                        value, k->count);
    for (size_t i = 0; status == BO_OK && i < pairs; i++) value[i] = 2 * log(fabs(value[i]));
    if (status == BO_OK) *out = log_mean(pairs, value);
    bo_free(value);
    return status;
}

bo_status bo_features_log_square(bo_context *context, const bo_features *f, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_square)
{
    if (f->desc.kernel != BO_KERNEL_SOFTMAX) return log_square_of_matrix(context, f, q, k, log_square);
    rotated x = {0}, y = {0};
    bo_status status = rotate(context, f, q, NULL, &x);
    if (status == BO_OK) status = rotate(context, f, k, NULL, &y);
    if (status == BO_OK) status = log_mean_pairs(context, f->desc.dim, &x, &y, 2, false, log_square);
    rotated_free(&x);
    rotated_free(&y);
    return status;
}

/* ---- of one pair, for resampled frequencies ---------------------------------------------------------------------- */

/* Each of the m kept frequencies gives one estimate g_i, m times its part of φ(x)·φ(y). Their mean has the variance Σ
 * (g_i - mean)² / (m (m - 1)). */
double bo_features_choice_variance(const bo_features *f, const float *zx, const float *zy)
{
    size_t m = f->frequencies, length = f->desc.features;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < m; i++) {
        double part = 0;
        for (size_t at = i; at < length; at += m) part += (double)zx[at] * (double)zy[at];
        sum += part;
        squares += part * part;
    }
    if (m < 2) return NAN;
    return fmax(0, squares - sum * sum / (double)m) * (double)m / (double)(m - 1);
}

/* An estimate from all candidates has the variance of as many frequencies as were drawn. */
double bo_features_candidate_variance(const bo_features *f, const float *x, const float *y)
{
    if (!f->function->variance) return NAN;
    bo_pair pair = bo_pair_make(&f->desc, f->factor, x, y);
    double drawn = f->proposal ? bo_proposal_variance(f, &pair, x, y) : f->function->variance(f, &pair);
    return drawn * (double)f->frequencies / (double)f->desc.candidates;
}
