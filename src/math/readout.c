/* Ridge regression of a readout by a direct solve: moments of [Z, Y] in chunks of rows, then a Cholesky factorization,
 * all in float64. */
#include <math.h>
#include <string.h>
#include "linalg.h"

enum { CHUNK = BO_SIZE(512, 4) };

/* Computes the upper triangle of [Z, Y]ᵀ[Z, Y]. */
static bo_status gather(bo_context *context, const bo_readout *r, float *both, double *g)
{
    size_t all = r->features + r->outputs;
    for (size_t first = 0; first < r->rows; first += CHUNK) {
        size_t count = r->rows - first < CHUNK ? r->rows - first : CHUNK;
        for (size_t i = 0; i < count; i++) {
            memcpy(both + i * all, r->z + (first + i) * r->features, r->features * sizeof *both);
            memcpy(both + i * all + r->features, r->y + (first + i) * r->outputs, r->outputs * sizeof *both);
        }
        BO_TRY(bo_gram(context, all, count, both, all, g, all, true));
    }
    return BO_OK;
}

/* Solves (ZᵀZ + λI) X = ZᵀY in place: X is written to the last columns of G. */
static bo_status solve(bo_context *context, const bo_readout *r, double *g, float *w)
{
    size_t n = r->features, all = n + r->outputs;
    double *x = g + n;
    for (size_t i = 0; i < n; i++) g[i * all + i] += r->lambda;
    BO_TRY(bo_cholesky(context, n, g, all, NULL));
    BO_TRY(bo_solve_lower(context, n, r->outputs, g, all, x, all));
    BO_TRY(bo_solve_lower_t(context, n, r->outputs, g, all, x, all));
    for (size_t o = 0; o < r->outputs; o++)
        for (size_t i = 0; i < n; i++) w[o * n + i] = (float)x[i * all + o];
    return BO_OK;
}

bo_status bo_ridge_readout(bo_context *context, const bo_readout *r, float *w)
{
    size_t all = r->features + r->outputs;
    if (!r->rows || !r->features || !r->outputs)
        return bo_fail(context, BO_INVALID,
                       "readout: found %zu rows, %zu features and %zu outputs, expected at least 1 of each", r->rows,
                       r->features, r->outputs);
    if (!(r->lambda >= 0 && isfinite(r->lambda)))
        return bo_fail(context, BO_INVALID, "readout: λ is %g, expected at least 0", r->lambda);
    float *both = bo_alloc_raw(context, CHUNK * all, sizeof *both, "rows of a readout");
    double *g = bo_alloc(context, all * all, sizeof *g, "moments of a readout");
    bo_status status = both && g ? gather(context, r, both, g) : BO_MEMORY;
    if (status == BO_OK) status = solve(context, r, g, w);
    bo_free(both);
    bo_free(g);
    return status;
}
