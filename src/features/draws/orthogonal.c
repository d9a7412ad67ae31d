/* Orthogonal random features (Yu et al. 2016): each block of dim rows is a Haar-distributed orthogonal matrix whose
 * rows are scaled to independent norms of the spectrum. Every single row has exactly the distribution of an independent
 * one (unbiased), and the rows of a block are orthogonal. The last block is truncated. */
#include "../internal.h"

static bo_status draw_orthogonal(bo_context *context, const bo_draw_request *request, float *w)
{
    size_t dim = request->dim, block_rows = request->count < dim ? request->count : dim;
    double *q = bo_alloc_raw(context, block_rows, dim * sizeof *q, "an orthogonal block of frequencies");
    if (!q) return BO_MEMORY;
    bo_status status = BO_OK;
    size_t last_report = 0;
    for (size_t first = 0; status == BO_OK && first < request->count; first += dim) {
        size_t rows = request->count - first < dim ? request->count - first : dim;
        bo_fill_normal(context, "features.orthogonal", request->seed, first, rows, dim, q);
        status = bo_draw_progress(context, request, first, &last_report);
        if (status == BO_OK) status = bo_haar(context, rows, dim, q, dim);
        for (size_t r = 0; status == BO_OK && r < rows; r++) {
            bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.norms", first + r));
            double norm = bo_radial_norm(request, dim, &rng);
            for (size_t j = 0; j < dim; j++) w[(first + r) * dim + j] = (float)(norm * q[r * dim + j]);
        }
    }
    bo_free(q);
    return status;
}

const bo_draw_definition bo_draw_orthogonal = {.name = "orthogonal", .needs_rotation = true, .draw = draw_orthogonal};
