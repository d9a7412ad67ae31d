/* The projections of maps, with all factors included. */
#include "projection.h"
#include <math.h>
#include "internal.h"

static bool is_exponential(bo_function function)
{
    return function == BO_FUNCTION_POSITIVE || function == BO_FUNCTION_OPRF;
}

bool bo_projection_exists(const bo_features *features)
{
    const bo_function function = features->desc.function;
    return !features->desc.sparse && (function == BO_FUNCTION_SINCOS || function == BO_FUNCTION_COSBIAS ||
                                      function == BO_FUNCTION_RELU || is_exponential(function));
}

void bo_projection_free(bo_projection *projection)
{
    bo_free(projection->w);
    bo_free(projection->shift);
    bo_free(projection->amplitude);
    bo_free(projection->square);
    *projection = (bo_projection){0};
}

/* The sign of |t|²/2 in the exponent of the features; 0: it is not part of them. */
static double sign_of_norm(const bo_features *f)
{
    if (is_exponential(f->desc.function)) return -1;
    return f->desc.function == BO_FUNCTION_SINCOS && f->desc.kernel == BO_KERNEL_SOFTMAX ? 1 : 0;
}

static void fill(const bo_features *f, double sign, bo_projection *out)
{
    const size_t m = f->frequencies, dim = f->desc.dim;
    const bool exponential = is_exponential(f->desc.function), phases = f->desc.function == BO_FUNCTION_COSBIAS;
    const double size = sqrt((phases ? 2 : 1) / (double)m), constant = f->log_d - 0.5 * log((double)m);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < dim; j++)
            out->w[i * dim + j] = (float)((double)out->w[i * dim + j] * (f->factor[j] * f->u_scale));
        out->shift[i] = f->bias ? f->bias[i] : exponential ? (float)(constant + (f->offset ? f->offset[i] : 0)) : 0;
        out->amplitude[i] = (float)(size * (f->weights && !exponential ? (double)f->weights[i] : 1));
    }
    for (size_t j = 0; out->square && j < dim; j++) out->square[j] = (float)(0.5 * sign * f->factor[j] * f->factor[j]);
}

bo_status bo_projection_create(bo_context *context, const bo_features *features, bo_projection *out)
{
    const size_t m = features->frequencies, dim = features->desc.dim;
    const double sign = sign_of_norm(features);
    const char *what = "the projection of a map";
    *out = (bo_projection){features->desc.function, dim, m, features->desc.features, NULL, NULL, NULL, NULL};
    out->w = bo_alloc_raw(context, m * dim, sizeof *out->w, what);
    out->shift = bo_alloc_raw(context, m, sizeof *out->shift, what);
    out->amplitude = bo_alloc_raw(context, m, sizeof *out->amplitude, what);
    if (sign != 0) out->square = bo_alloc_raw(context, dim, sizeof *out->square, what);
    bo_status status = out->w && out->shift && out->amplitude && (sign == 0 || out->square)
                           ? bo_features_dense_f32(context, features, out->w)
                           : BO_MEMORY;
    if (status == BO_OK)
        fill(features, sign, out);
    else
        bo_projection_free(out);
    return status;
}
