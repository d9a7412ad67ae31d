/* φ(x)_i = k(x, w_i), where the "frequencies" w_i are rows of data: the sections of the kernel, of which a function
 * fitted with the exact kernel is a linear combination (representer theorem). φ(x)·φ(y) is not the kernel, so that only
 * kernel machines create this map (bo_sections_create). */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < f->frequencies; i++) {
            bo_pair pair = {.product = 1, .product2 = 1};
            bo_form form = bo_kernel_find(f->desc.kernel)->form;
            const REAL *x = t + r * dim;
            const float *w = f->w + i * dim;
            double top_x = 0, top_w = 0;
            for (size_t j = 0; j < dim; j++) {
                top_x = fmax(top_x, fabs((double)x[j]));
                top_w = fmax(top_w, fabs((double)w[j] * f->factor[j]));
            }
            for (size_t j = 0; j < dim; j++) {
                double a = (double)x[j], b = (double)w[j] * f->factor[j];
                bo_pair_add(&pair, form, f->desc.gamma, a, b, a - b, top_x, top_w);
            }
            z[r * ldz + i] = (REAL)bo_kernel_value(&f->desc, &pair);
        }
}

#else
#include <math.h>
#include <string.h>
#include "../enums.h"
#include "../sections.h"
#include "common.h"

#define BO_TEMPLATE "functions/sections.c"
#include "../both_precisions.h"

bo_status bo_sections_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved)
{
    BO_TRY(bo_kernel_resolve(context, desc, resolved));
    if (bo_kernel_find(desc->kernel)->form == BO_FORM_NONE)
        return bo_fail(context, BO_UNSUPPORTED, "function sections needs a kernel with a closed form, found %s",
                       bo_kernel_name(desc->kernel));
    if (desc->features == 0 || desc->features > SIZE_MAX / sizeof(double) / desc->dim / 64)
        return bo_fail(context, BO_INVALID,
                       "function sections: expected at least one row that fits in memory, found %zu", desc->features);
    resolved->function = BO_FUNCTION_SECTIONS;
    resolved->draw = BO_DRAW_IID;
    resolved->sampling = BO_SAMPLING_DRAWN;
    return BO_OK;
}

bo_status bo_sections_create(bo_context *context, const bo_features_desc *desc, size_t rows, const float *x,
                             bo_features **out)
{
    bo_features_desc requested = *desc, resolved;
    *out = NULL;
    requested.features = rows;
    BO_TRY(bo_sections_resolve(context, &requested, &resolved));
    resolved.sample = NULL;
    resolved.sample_rows = resolved.sample_stride = 0;
    bo_features *features;
    BO_TRY(bo_features_begin(context, &resolved, &features));
    features->w = bo_alloc_raw(context, rows * resolved.dim, sizeof(float), "the rows of an exact kernel");
    bo_status status = features->w ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        memcpy(features->w, x, rows * resolved.dim * sizeof(float));
        status = bo_features_finish(context, features);
    }
    if (status != BO_OK) {
        bo_features_destroy(features);
        return status;
    }
    *out = features;
    return BO_OK;
}

bo_status bo_sections_matrix(bo_context *context, const bo_features *features, size_t rows, const float *x, size_t ldx,
                             double *k, size_t ldk)
{
    const bo_features_desc *desc = &features->desc;
    return bo_kernel_matrix(context, desc, rows, x, ldx, desc->features, features->w, desc->dim, k, ldk);
}

const float *bo_sections_rows(const bo_features *features)
{
    return features->w;
}

double bo_sections_diagonal(const bo_features *features, const float *x)
{
    bo_pair pair = bo_pair_make(&features->desc, features->factor, x, x);
    return bo_kernel_value(&features->desc, &pair);
}

const bo_function_definition bo_function_sections = {
    .name = "sections",
    .per_frequency = 1,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
};
#endif
