/* Simplex random features (Reid et al. 2023): the rows of a block have equal obtuse angles, W = diag(norms) S R with R
 * Haar-distributed and S the unit vectors of a regular simplex,
 *
 *   s_i = √(d/(d-1)) e_i - (√d + 1)/(d-1)^{3/2} (1, …, 1, 0)  for i < d,    s_d = (1, …, 1, 0) / √(d-1),
 *
 * with pairwise inner products -1/(d-1). The direction of each single row is uniform, hence the features are unbiased.
 * S has rank d - 1, and its simple form makes S R cost O(d²). */
#include <math.h>
#include "../internal.h"

static bo_status check_simplex(bo_context *context, const bo_draw_request *request)
{
    if (request->dim < 2) return bo_fail(context, BO_UNSUPPORTED, "draw simplex needs dim >= 2, found 1; use iid");
    return BO_OK;
}

static void simplex_rows(const bo_draw_request *request, size_t first, const double *r, const double *sum, float *w)
{
    size_t dim = request->dim;
    double d = (double)dim, a = sqrt(d / (d - 1)), b = (sqrt(d) + 1) / pow(d - 1, 1.5), c = 1 / sqrt(d - 1);
    for (size_t i = 0; i < dim && first + i < request->count; i++) {
        bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.norms", first + i));
        double norm = bo_radial_norm(request, dim, &rng);
        for (size_t j = 0; j < dim; j++) {
            double s = i + 1 < dim ? a * r[i * dim + j] - b * sum[j] : c * sum[j];
            w[(first + i) * dim + j] = (float)(norm * s);
        }
    }
}

static bo_status draw_simplex(bo_context *context, const bo_draw_request *request, float *w)
{
    size_t dim = request->dim;
    double *r = bo_alloc_raw(context, dim + 1, dim * sizeof *r, "a simplex block of frequencies");
    if (!r) return BO_MEMORY;
    double *sum = r + dim * dim; /* sum of the first d - 1 rows of R */
    bo_status status = BO_OK;
    size_t last_report = 0;
    for (size_t first = 0; status == BO_OK && first < request->count; first += dim) {
        bo_fill_normal(context, "features.simplex", request->seed, first, dim, dim, r);
        status = bo_draw_progress(context, request, first, &last_report);
        if (status == BO_OK) status = bo_haar(context, dim, dim, r, dim);
        for (size_t j = 0; j < dim; j++) {
            sum[j] = 0;
            for (size_t i = 0; i + 1 < dim; i++) sum[j] += r[i * dim + j];
        }
        if (status == BO_OK) simplex_rows(request, first, r, sum, w);
    }
    bo_free(r);
    return status;
}

const bo_draw_definition bo_draw_simplex = {
    .name = "simplex", .needs_rotation = true, .check = check_simplex, .draw = draw_simplex};
