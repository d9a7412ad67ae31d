/* The largest eigenvalues of a symmetric positive semidefinite matrix and their eigenvectors: subspace iteration with
 * the Rayleigh-Ritz procedure (Halko, Martinsson and Tropp 2011), or bo_eigen if the matrix is small, if many values
 * are requested, or if the iteration converges slowly. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "../base/trace.h"
#include "linalg.h"

/* Below SMALL rows, and if the block would have more than a quarter of them, bo_eigen is faster. STEPS products with
 * the matrix cost about as much as bo_eigen at that width. */
enum { SMALL = BO_SIZE(256, 24), MARGIN = BO_SIZE(24, 4), STEPS = 40 };
/* |A v - θ v| of an eigenvector is at most `tolerance` times its own eigenvalue, which may be far below the largest
 * one, or `rounding` √n times the largest one: the products are not more accurate. */
static const double tolerance = 1e-9, rounding = 10 * DBL_EPSILON;

/* All matrices are width x n. */
typedef struct subspace {
    size_t n, width;
    const double *a;
    double *basis, *image, *rotated; /* Q, orthonormal rows; Q A; a buffer */
    double *small, *ritz;            /* width x width; width */
} subspace;

static void subspace_free(subspace *s)
{
    bo_free(s->basis);
    bo_free(s->image);
    bo_free(s->rotated);
    bo_free(s->small);
    bo_free(s->ritz);
}

static bo_status subspace_create(bo_context *context, size_t n, size_t width, const double *a, subspace *out)
{
    *out = (subspace){.n = n, .width = width, .a = a};
    out->basis = bo_alloc_raw(context, width * n, sizeof(double), "a basis of eigenvectors");
    out->image = bo_alloc_raw(context, width * n, sizeof(double), "a basis of eigenvectors");
    out->rotated = bo_alloc_raw(context, width * n, sizeof(double), "a basis of eigenvectors");
    out->small = bo_alloc_raw(context, width * width, sizeof(double), "a basis of eigenvectors");
    out->ritz = bo_alloc_raw(context, width, sizeof(double), "a basis of eigenvectors");
    return out->basis && out->image && out->rotated && out->small && out->ritz ? BO_OK : BO_MEMORY;
}

static double norm_of(size_t n, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* Orthonormalizes the rows of the basis: rows of unit length, then Q = L⁻¹ Y with Y Yᵀ = L Lᵀ, twice. BO_NUMERIC: the
 * rows are dependent. */
static bo_status orthonormalize(bo_context *context, subspace *s)
{
    for (size_t i = 0; i < s->width; i++) {
        double *row = s->basis + i * s->n, norm = norm_of(s->n, row);
        if (!(norm > 0)) return BO_NUMERIC;
        for (size_t j = 0; j < s->n; j++) row[j] /= norm;
    }
    for (int pass = 0; pass < 2; pass++) {
        BO_TRY(bo_gemm64(context, false, true, s->width, s->width, s->n, 1, s->basis, s->n, s->basis, s->n, 0, s->small,
                         s->width));
        BO_TRY(bo_cholesky(context, s->width, s->small, s->width, NULL));
        BO_TRY(bo_solve_lower(context, s->width, s->n, s->small, s->width, s->basis, s->n));
    }
    return BO_OK;
}

static bo_status rotate(bo_context *context, subspace *s, double **rows)
{
    BO_TRY(bo_gemm64(context, false, false, s->width, s->n, s->width, 1, s->small, s->width, *rows, s->n, 0, s->rotated,
                     s->n));
    double *other = *rows;
    *rows = s->rotated;
    s->rotated = other;
    return BO_OK;
}

/* One step: Ritz vectors of the basis, ascending, and whether the last `count` of them are accurate. */
static bo_status ritz_step(bo_context *context, subspace *s, size_t count, bool *accurate)
{
    size_t n = s->n, w = s->width;
    BO_TRY(bo_gemm64(context, false, false, w, n, n, 1, s->basis, n, s->a, n, 0, s->image, n));
    BO_TRY(bo_gemm64(context, false, true, w, w, n, 1, s->image, n, s->basis, n, 0, s->small, w));
    BO_TRY(bo_eigen(context, w, s->small, w, s->ritz));
    BO_TRY(rotate(context, s, &s->basis));
    BO_TRY(rotate(context, s, &s->image));
    *accurate = true;
    const double rounding_error = rounding * sqrt((double)n) * s->ritz[w - 1];
    for (size_t i = w - count; i < w; i++) {
        const double *v = s->basis + i * n, *av = s->image + i * n;
        double sum = 0;
        for (size_t j = 0; j < n; j++) sum += (av[j] - s->ritz[i] * v[j]) * (av[j] - s->ritz[i] * v[j]);
        *accurate &= sqrt(sum) <= fmax(tolerance * s->ritz[i], rounding_error);
    }
    return BO_OK;
}

static bo_status iterate(bo_context *context, subspace *s, size_t count, double *values, double *vectors,
                         bool *converged)
{
    bo_rng rng = bo_rng_make(0, bo_rng_stream("math.eigen_top", 0));
    for (size_t i = 0; i < s->width * s->n; i++) s->basis[i] = bo_rng_normal(&rng);
    *converged = false;
    for (int step = 0; step < STEPS && !*converged; step++) {
        bo_status status = orthonormalize(context, s);
        if (status == BO_NUMERIC) return BO_OK; /* the rank is below the width */
        if (status == BO_OK) status = ritz_step(context, s, count, converged);
        if (status == BO_OK) status = bo_progress(context, "eigenvectors", step + 1, STEPS);
        if (status != BO_OK) return status;
        if (*converged) break;
        double *image = s->image;
        s->image = s->basis;
        s->basis = image;
    }
    for (size_t i = 0; *converged && i < count; i++) {
        values[i] = s->ritz[s->width - 1 - i];
        memcpy(vectors + i * s->n, s->basis + (s->width - 1 - i) * s->n, s->n * sizeof *vectors);
    }
    return BO_OK;
}

static bo_status all(bo_context *context, size_t n, size_t count, double *a, double *values, double *vectors)
{
    double *all_values = bo_alloc_raw(context, n, sizeof *all_values, "eigenvalues");
    bo_status status = all_values ? bo_eigen(context, n, a, n, all_values) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < count; i++) {
        values[i] = all_values[n - 1 - i];
        memcpy(vectors + i * n, a + (n - 1 - i) * n, n * sizeof *vectors);
    }
    bo_free(all_values);
    return status;
}

bo_status bo_eigen_top(bo_context *context, size_t n, size_t count, double *a, double *values, double *vectors)
{
    BO_SPAN(context, "math", "largest eigenvectors");
    size_t width = 2 * count + MARGIN;
    bool converged = false;
    bo_symmetrize(context, n, a, n);
    if (n > SMALL && 4 * width <= n) {
        subspace s;
        bo_status status = subspace_create(context, n, width, a, &s);
        if (status == BO_OK) status = iterate(context, &s, count, values, vectors, &converged);
        subspace_free(&s);
        BO_TRY(status);
    }
    return converged ? BO_OK : all(context, n, count, a, values, vectors);
}
