/* The law of least variance: see dark.h. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "dark.h"

bo_status bo_eigen_of(bo_context *context, size_t dim, const double *matrix, double *vectors, double *values)
{
    memcpy(vectors, matrix, dim * dim * sizeof *vectors);
    return bo_eigen(context, dim, vectors, dim, values);
}

void bo_eigen_compose(size_t dim, const double *vectors, const double *f, double *out)
{
    memset(out, 0, dim * dim * sizeof *out);
    for (size_t i = 0; i < dim; i++)
        for (size_t r = 0; r < dim; r++) {
            double factor = f[i] * vectors[i * dim + r];
            for (size_t c = 0; c < dim; c++) out[r * dim + c] += factor * vectors[i * dim + c];
        }
}

typedef struct work {
    double *vectors, *values, *part;
} work;

/* precision -= 2Λ(I + 2Λ)⁻¹ */
static bo_status lower_precision(bo_context *context, size_t dim, const double *lambda, const work *w,
                                 double *precision)
{
    BO_TRY(bo_eigen_of(context, dim, lambda, w->vectors, w->values));
    for (size_t i = 0; i < dim; i++) {
        double value = fmax(0, w->values[i]); /* rounding may leave it just below */
        w->values[i] = 2 * value / (1 + 2 * value);
    }
    bo_eigen_compose(dim, w->vectors, w->values, w->part);
    for (size_t i = 0; i < dim * dim; i++) precision[i] -= w->part[i];
    return BO_OK;
}

/* What follows from the eigenvalues p of P; leaves those of C in `w->values`. */
static void judge(size_t dim, const work *w, bo_law *law)
{
    double isotropic = 0, proposal = 0;
    law->isotropic_finite = law->proposal_finite = true;
    for (size_t i = 0; i < dim; i++) {
        double p = w->values[i], c = fmax(p, BO_LEAST_PRECISION);
        law->clipped += c > p;
        law->isotropic_finite &= 2 * p > 1;
        law->proposal_finite &= 2 * p > c;
        isotropic -= 0.5 * log(2 * p - 1);
        proposal -= 0.5 * (log(c) + log(2 * p - c));
        law->log_det += log(c);
        w->values[i] = c;
    }
    if (!law->isotropic_finite) isotropic = INFINITY;
    law->log_gain = law->proposal_finite ? isotropic - proposal : NAN;
}

static bo_status make(bo_context *context, size_t dim, const double *lambda_q, const double *lambda_k, const work *w,
                      bo_law *law)
{
    for (size_t j = 0; j < dim; j++) law->shape[j * dim + j] = 1;
    BO_TRY(lower_precision(context, dim, lambda_q, w, law->shape));
    BO_TRY(lower_precision(context, dim, lambda_k, w, law->shape));
    BO_TRY(bo_eigen_of(context, dim, law->shape, w->vectors, w->values));
    judge(dim, w, law);
    bo_eigen_compose(dim, w->vectors, w->values, law->shape);
    for (size_t i = 0; i < dim; i++) w->values[i] = 1 / sqrt(w->values[i]);
    bo_eigen_compose(dim, w->vectors, w->values, law->root);
    return BO_OK;
}

bo_status bo_law_make(bo_context *context, size_t dim, const double *lambda_q, const double *lambda_k, bo_law *out)
{
    *out = (bo_law){0};
    out->root = bo_alloc(context, dim, dim * sizeof *out->root, "the law of frequencies");
    out->shape = bo_alloc(context, dim, dim * sizeof *out->shape, "the law of frequencies");
    double *buffer = bo_alloc_raw(context, dim * (2 * dim + 1), sizeof *buffer, "the law of frequencies");
    bo_status status = BO_MEMORY;
    if (out->root && out->shape && buffer) {
        work w = {buffer, buffer + 2 * dim * dim, buffer + dim * dim};
        status = make(context, dim, lambda_q, lambda_k, &w, out);
    }
    bo_free(buffer);
    if (status != BO_OK) bo_law_free(out);
    return status;
}

void bo_law_free(bo_law *law)
{
    bo_free(law->root);
    bo_free(law->shape);
    *law = (bo_law){0};
}
