/* The ridge system in its primal form: (ZᵀZ + D) β = ZᵀY with the intercept taken out by centering,
 *
 *     A = ZᵀZ - s sᵀ/n,  b = ZᵀY - s tᵀ/n,  (A + D) β = b,  intercept = t/n        (s, t: sums; n: total weight)
 *
 * so that f(x) = β·(φ(x) - s/n) + t/n. */
#include "internal.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

void bo_penalty_fill(const bo_penalty *penalty, double weight, size_t features, const double *squares, double *out)
{
    double uniform = penalty->lambda + weight * penalty->noise * penalty->noise;
    double ratio = penalty->dropout / (1 - penalty->dropout);
    for (size_t j = 0; j < features; j++) out[j] = uniform + ratio * squares[j];
}

void bo_ridge_free(bo_machine_ridge *ridge)
{
    bo_free(ridge->factor);
    bo_free(ridge->beta);
    bo_free(ridge->intercept);
    bo_free(ridge->center);
    bo_free(ridge->rss);
    *ridge = (bo_machine_ridge){0};
}

static bo_status allocate(bo_context *context, const bo_moments *moments, bo_machine_ridge *out)
{
    size_t n = moments->features, t = moments->outputs;
    *out = (bo_machine_ridge){.features = n, .outputs = t};
    out->factor = bo_alloc_raw(context, n * n, sizeof *out->factor, "the factor of the Gram matrix");
    out->beta = bo_alloc_raw(context, n * t, sizeof *out->beta, "the coefficients");
    out->intercept = bo_alloc(context, t, sizeof *out->intercept, "the coefficients");
    out->center = bo_alloc(context, n, sizeof *out->center, "the coefficients");
    out->rss = bo_alloc(context, t, sizeof *out->rss, "the residuals");
    return out->factor && out->beta && out->intercept && out->center && out->rss ? BO_OK : BO_MEMORY;
}

typedef struct assembly {
    const bo_moments *moments;
    const double *penalty;
    bo_machine_ridge *out;
} assembly;

enum { ASSEMBLY_ROWS = 32 };

/* Rows of the upper triangle of A + D into the factor's storage, of the right-hand side into beta. */
static void assemble_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const assembly *job = arg;
    bo_machine_ridge *out = job->out;
    size_t n = out->features, outputs = out->outputs, size = job->moments->size, end = (index + 1) * ASSEMBLY_ROWS;
    for (size_t i = index * ASSEMBLY_ROWS; i < end && i < n; i++) {
        const double *g = job->moments->gram + i * size;
        double pull = out->center[i] * out->weight;
        for (size_t j = i; j < n; j++) out->factor[i * n + j] = g[j] - pull * out->center[j];
        out->factor[i * n + i] += job->penalty[i];
        for (size_t t = 0; t < outputs; t++) out->beta[i * outputs + t] = g[n + t] - pull * out->intercept[t];
    }
}

static void assemble(bo_context *context, const bo_moments *moments, const double *penalty, bool intercept,
                     bo_machine_ridge *out)
{
    size_t n = moments->features, size = moments->size, last = size - 1;
    const double *g = moments->gram;
    out->weight = g[last * size + last];
    out->rows = (double)moments->rows;
    for (size_t j = 0; intercept && j < n; j++) out->center[j] = g[j * size + last] / out->weight;
    for (size_t t = 0; intercept && t < moments->outputs; t++)
        out->intercept[t] = g[(n + t) * size + last] / out->weight;
    assembly job = {moments, penalty, out};
    bo_parallel(context, (n + ASSEMBLY_ROWS - 1) / ASSEMBLY_ROWS, assemble_rows, &job);
}

/* RSS = yᵀy - bᵀβ - βᵀDβ, all centered (from (A + D)β = b). Rounding may leave it slightly negative: clamped. */
static void residuals(const bo_moments *moments, const double *penalty, const double *rhs, bo_machine_ridge *out)
{
    size_t n = moments->features, outputs = moments->outputs, size = moments->size;
    for (size_t t = 0; t < outputs; t++) {
        double total = moments->gram[(n + t) * size + n + t] - out->weight * out->intercept[t] * out->intercept[t];
        double explained = 0;
        for (size_t j = 0; j < n; j++) {
            double beta = out->beta[j * outputs + t];
            explained += beta * (rhs[j * outputs + t] + penalty[j] * beta);
        }
        out->rss[t] = fmax(total - explained, 1e-14 * total);
    }
}

/* tr(D (A + D)⁻¹) = E |L⁻¹ D^½ v|² over random signs v (Hutchinson). The same signs for every λ, so that comparisons of
 * λ share their error. */
static bo_status trace_of_penalty(bo_context *context, const bo_machine_ridge *ridge, const double *penalty,
                                  uint64_t seed, double *trace)
{
    enum { PROBES = 32 };
    size_t n = ridge->features;
    double *v = bo_alloc_raw(context, n * PROBES, sizeof *v, "a trace estimate");
    if (!v) return BO_MEMORY;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("machines.trace", 0));
    for (size_t j = 0; j < n; j++) {
        uint64_t bits = bo_rng_bits(&rng);
        for (size_t p = 0; p < PROBES; p++) v[j * PROBES + p] = (bits >> p & 1 ? 1 : -1) * sqrt(penalty[j]);
    }
    bo_status status = bo_solve_lower(context, n, PROBES, ridge->factor, n, v, PROBES);
    double sum = 0;
    for (size_t k = 0; status == BO_OK && k < n * PROBES; k++) sum += v[k] * v[k];
    *trace = sum / PROBES;
    bo_free(v);
    return status;
}

static double gcv_score(const bo_machine_ridge *ridge)
{
    double left = 1 - ridge->freedom / ridge->rows, score = 0;
    if (left <= 1e-9) return INFINITY;
    for (size_t t = 0; t < ridge->outputs; t++) score += ridge->rss[t] / ridge->weight / (left * left);
    return score;
}

static bo_status solve(bo_context *context, const bo_moments *moments, const double *penalty, bool intercept,
                       uint64_t seed, double *rhs, bo_machine_ridge *out)
{
    size_t n = moments->features, outputs = moments->outputs;
    assemble(context, moments, penalty, intercept, out);
    memcpy(rhs, out->beta, n * outputs * sizeof *rhs);
    size_t pivot = 0;
    bo_status status = bo_cholesky(context, n, out->factor, n, &pivot);
    if (status == BO_NUMERIC) {
        char reason[256];
        strncpy(reason, bo_context_error(context), sizeof reason - 1);
        reason[sizeof reason - 1] = 0;
        return bo_fail(context, BO_NUMERIC,
                       "the ridge system is not positive definite at lambda %g (%s); a larger lambda would help",
                       penalty[0], reason);
    }
    BO_TRY(status);
    BO_TRY(bo_solve_lower(context, n, outputs, out->factor, n, out->beta, outputs));
    BO_TRY(bo_solve_lower_t(context, n, outputs, out->factor, n, out->beta, outputs));
    double trace;
    BO_TRY(trace_of_penalty(context, out, penalty, seed, &trace));
    out->freedom = (double)n - trace + (intercept ? 1 : 0);
    residuals(moments, penalty, rhs, out);
    out->gcv = gcv_score(out);
    return BO_OK;
}

bo_status bo_ridge_solve(bo_context *context, const bo_moments *moments, const bo_penalty *penalty, bool intercept,
                         uint64_t seed, bo_machine_ridge *out)
{
    size_t n = moments->features, size = moments->size;
    bo_status status = allocate(context, moments, out);
    double *diagonal = bo_alloc_raw(context, 2 * n, sizeof *diagonal, "the penalty");
    double *rhs = bo_alloc_raw(context, n * moments->outputs, sizeof *rhs, "the right-hand side");
    if (!diagonal || !rhs) status = BO_MEMORY;
    if (status == BO_OK) {
        for (size_t j = 0; j < n; j++) diagonal[n + j] = moments->gram[j * size + j];
        bo_penalty_fill(penalty, moments->gram[size * size - 1], n, diagonal + n, diagonal);
        status = solve(context, moments, diagonal, intercept, seed, rhs, out);
    }
    bo_free(diagonal);
    bo_free(rhs);
    if (status != BO_OK) bo_ridge_free(out);
    return status;
}
