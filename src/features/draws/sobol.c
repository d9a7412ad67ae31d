/* Quasi-Monte-Carlo frequencies (Yang et al. 2014): scrambled Sobol points, mapped by the inverse distribution function
 * of each coordinate. The mixing variable of a radial spectrum uses an additional coordinate. Each point is uniform on
 * the cube, hence the features are unbiased. */
#include <math.h>
#include "../enums.h"
#include "../internal.h"
#include "../../math/sobol.h"
#include "../../math/special.h"

static size_t coordinates(const bo_draw_request *request)
{
    return request->dim + (request->spectrum->mixing ? 1 : 0);
}

static bo_status check_sobol(bo_context *context, const bo_draw_request *request)
{
    if (coordinates(request) > BO_SOBOL_MAX_DIMENSIONS)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "draw sobol needs %zu coordinates for dim %zu and kernel %s, but at most %d are supported; use orthogonal "
            "or iid",
            coordinates(request), request->dim, bo_kernel_name(request->desc->kernel), BO_SOBOL_MAX_DIMENSIONS);
    return BO_OK;
}

typedef struct sobol_job {
    const bo_draw_request *request;
    const double *points;
    float *w;
} sobol_job;

static void sobol_task(void *arg, size_t row, int worker)
{
    const sobol_job *job = arg;
    const bo_draw_request *request = job->request;
    const bo_spectrum *spectrum = request->spectrum;
    const double *point = job->points + row * coordinates(request);
    double scale = 1;
    (void)worker;
    if (spectrum->radial) scale = spectrum->scale(request->desc);
    if (spectrum->mixing) scale *= sqrt(spectrum->mixing_quantile(request->desc, point[request->dim]));
    for (size_t j = 0; j < request->dim; j++) {
        double value = spectrum->radial ? bo_normal_quantile(point[j]) : spectrum->quantile(request->desc, point[j]);
        job->w[row * request->dim + j] = (float)(scale * value);
    }
}

static bo_status draw_sobol(bo_context *context, const bo_draw_request *request, float *w)
{
    size_t count = request->count;
    double *points = bo_alloc_raw(context, count, coordinates(request) * sizeof *points, "Sobol points");
    if (!points) return BO_MEMORY;
    bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.sobol", 0));
    bo_status status = bo_sobol_points(context, coordinates(request), count, bo_rng_bits(&rng), points);
    sobol_job job = {request, points, w};
    if (status == BO_OK) bo_parallel(context, count, sobol_task, &job);
    bo_free(points);
    return status;
}

const bo_draw_definition bo_draw_sobol = {.name = "sobol", .check = check_sobol, .draw = draw_sobol};
