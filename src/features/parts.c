/* Feature maps as plain numbers: parts.h. */
#include "parts.h"
#include <math.h>
#include <string.h>
#include "internal.h"

static bo_map_form form_of(const bo_features *f)
{
    switch (f->desc.function) {
    case BO_FUNCTION_POSITIVE:
    case BO_FUNCTION_OPRF:
        return BO_MAP_EXP;
    case BO_FUNCTION_HYPERBOLIC:
    case BO_FUNCTION_EXPONENTIAL:
        return BO_MAP_EXP_BOTH;
    case BO_FUNCTION_SINCOS:
        return BO_MAP_SINCOS;
    case BO_FUNCTION_COSBIAS:
        return BO_MAP_COS;
    case BO_FUNCTION_RELU:
    case BO_FUNCTION_RECTIFIER:
        return BO_MAP_RELU;
    case BO_FUNCTION_ELU:
        return BO_MAP_ELU;
    case BO_FUNCTION_IDENTITY:
        return BO_MAP_IDENTITY;
    case BO_FUNCTION_HEDGEHOG:
        return BO_MAP_HEDGEHOG;
    default:
        return BO_MAP_NONE;
    }
}

bo_map_parts bo_features_parts(const bo_features *f)
{
    bo_map_parts parts = {.form = form_of(f),
                          .dim = f->desc.dim,
                          .frequencies = f->frequencies ? f->frequencies : f->desc.dim,
                          .features = f->desc.features,
                          .scaled = bo_features_scaled(f),
                          .weighted = f->weights && !f->function->exponential,
                          .shifted = f->offset || f->bias,
                          .factor = f->frequencies ? (float)(1 / sqrt((double)f->frequencies)) : 1};
    if (parts.scaled && f->frequencies) parts.norm = parts.form == BO_MAP_SINCOS ? 1 : -1;
    if (parts.form == BO_MAP_COS) parts.factor *= sqrtf(2);
    parts.constant = (float)(-0.5 * log((double)parts.features));
    return parts;
}

static bo_status frequencies_of(bo_context *context, const bo_features *f, float *w)
{
    const size_t dim = f->desc.dim, count = f->frequencies;
    if (!count) {
        memset(w, 0, dim * dim * sizeof *w);
        for (size_t j = 0; j < dim; j++) w[j * dim + j] = f->slope[j];
        return BO_OK;
    }
    double *wide = bo_alloc_raw(context, count * dim, sizeof *wide, "frequencies");
    if (!wide) return BO_MEMORY;
    bo_status status = bo_features_dense_f64(context, f, wide);
    for (size_t i = 0; status == BO_OK && i < count * dim; i++)
        w[i] = (float)(wide[i] * f->factor[i % dim] * f->u_scale);
    bo_free(wide);
    return status;
}

bo_status bo_features_numbers(bo_context *context, const bo_features *f, float *w, float *offset, float *weight,
                              float *square, float *common)
{
    const bo_map_parts parts = bo_features_parts(f);
    for (size_t i = 0; i < parts.frequencies; i++) {
        offset[i] = f->bias ? f->bias[i] : f->offset ? (float)f->offset[i] : 0;
        weight[i] = parts.weighted ? f->weights[i] : 1;
    }
    for (size_t j = 0; j < parts.dim; j++) square[j] = (float)(f->factor[j] * f->factor[j]);
    *common = parts.form == BO_MAP_EXP_BOTH && !f->frequencies ? -parts.constant : (float)f->log_d;
    return frequencies_of(context, f, w);
}
