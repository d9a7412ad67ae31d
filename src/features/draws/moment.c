/* Moment matching: the standard normal factors g of a radial spectrum (or the coordinates of a product spectrum) are
 * centered and multiplied by the inverse Cholesky factor of their covariance, so that the sample has exactly the mean
 * and covariance of its distribution. The mixing variable stays independent.
 *
 * The result is biased. A whitened coordinate of m normals is √(m-1) times a coordinate of a uniform point of the
 * sphere in m - 1 dimensions, whose fourth moment is 3(m-1)/(m+1) instead of 3. For trigonometric features at distance
 * z the mean is too low by z⁴ e^{-z²/2} / (4(m+1)) to first order, at most 0.55/m. */
#include <math.h>
#include "../enums.h"
#include "../internal.h"

static bo_status check_moment(bo_context *context, const bo_draw_request *request)
{
    if (!request->spectrum->finite_variance)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "draw moment cannot be used with kernel %s: its spectrum has no finite variance; use iid or sobol",
            bo_kernel_name(request->desc->kernel));
    if (request->count <= request->dim)
        return bo_fail(context, BO_INVALID,
                       "draw moment needs more than dim = %zu frequencies to whiten them, found %zu; use orthogonal",
                       request->dim, request->count);
    return BO_OK;
}

/* Laplace(γ) has variance 2γ²; whitening gives unit variance. */
static double product_variance(const bo_draw_request *request)
{
    return 2 * request->desc->gamma * request->desc->gamma;
}

static void center(size_t rows, size_t columns, double *g)
{
    for (size_t j = 0; j < columns; j++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++) sum += g[i * columns + j];
        for (size_t i = 0; i < rows; i++) g[i * columns + j] -= sum / (double)rows;
    }
}

/* Makes the columns of g orthonormal, up to the factor √rows: g := g L⁻ᵀ with L Lᵀ = gᵀg / rows. `transposed` is a
 * workspace of the size of g. */
static bo_status whiten(bo_context *context, size_t rows, size_t columns, double *g, double *transposed,
                        double *covariance)
{
    BO_TRY(bo_gemm64(context, true, false, columns, columns, rows, 1.0 / (double)rows, g, columns, g, columns, 0,
                     covariance, columns));
    BO_TRY(bo_cholesky(context, columns, covariance, columns, NULL));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) transposed[j * rows + i] = g[i * columns + j];
    BO_TRY(bo_solve_lower(context, columns, rows, covariance, columns, transposed, rows));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) g[i * columns + j] = transposed[j * rows + i];
    return BO_OK;
}

static void fill_product(const bo_draw_request *request, double *g)
{
    for (size_t i = 0; i < request->count; i++) {
        bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.moment", i));
        for (size_t j = 0; j < request->dim; j++)
            g[i * request->dim + j] = request->spectrum->quantile(request->desc, bo_rng_uniform(&rng));
    }
}

static void write_rows(const bo_draw_request *request, const double *g, float *w)
{
    const bo_spectrum *spectrum = request->spectrum;
    for (size_t i = 0; i < request->count; i++) {
        bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.mixing", i));
        double mixing = spectrum->mixing ? spectrum->mixing(request->desc, &rng) : 1;
        double scale = sqrt(spectrum->radial ? mixing : product_variance(request));
        if (spectrum->radial) scale *= spectrum->scale(request->desc);
        for (size_t j = 0; j < request->dim; j++) w[i * request->dim + j] = (float)(scale * g[i * request->dim + j]);
    }
}

static bo_status draw_moment(bo_context *context, const bo_draw_request *request, float *w)
{
    size_t dim = request->dim, count = request->count;
    double *g = bo_alloc_raw(context, count * dim, sizeof *g, "frequencies to whiten");
    double *transposed = bo_alloc_raw(context, count * dim, sizeof *g, "frequencies to whiten");
    double *covariance = bo_alloc_raw(context, dim, dim * sizeof *g, "the frequencies' covariance");
    bo_status status = g && transposed && covariance ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        if (request->spectrum->radial)
            bo_fill_normal(context, "features.moment", request->seed, 0, count, dim, g);
        else
            fill_product(request, g);
        center(count, dim, g);
        status = whiten(context, count, dim, g, transposed, covariance);
    }
    if (status == BO_OK) write_rows(request, g, w);
    bo_free(g);
    bo_free(transposed);
    bo_free(covariance);
    return status;
}

const bo_draw_definition bo_draw_moment = {.name = "moment", .check = check_moment, .draw = draw_moment};
