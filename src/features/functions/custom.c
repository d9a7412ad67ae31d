/* A user-defined function of u and t, by callbacks in float. */
#include "../enums.h"
#include "common.h"

static bo_status check(bo_context *context, bo_features_desc *desc)
{
    if (!desc->custom) return bo_fail(context, BO_INVALID, "function custom needs the callback `custom`, found NULL");
    if (desc->custom_per_frequency == 0) desc->custom_per_frequency = 1;
    if (desc->sampling != BO_SAMPLING_DRAWN)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "sampling %s cannot be used with function custom: the features of a single frequency are not known; use "
            "drawn",
            bo_sampling_name(desc->sampling));
    return BO_OK;
}

static void forward(const bo_features *f, size_t rows, const float *u, const float *t, float *z, size_t ldz,
                    void *scratch)
{
    size_t features = f->desc.features;
    float *out = ldz == features ? z : scratch;
    f->desc.custom(f->desc.custom_user, rows, f->frequencies, u, f->desc.dim, t, features, out);
    for (size_t r = 0; out != z && r < rows; r++)
        for (size_t j = 0; j < features; j++) z[r * ldz + j] = out[r * features + j];
}

static void backward(const bo_features *f, size_t rows, const float *u, const float *t, const float *dz, size_t lddz,
                     float *du, float *dt, void *scratch)
{
    size_t features = f->desc.features;
    float *copy = scratch;
    const float *in = lddz == features ? dz : copy;
    for (size_t r = 0; in == copy && r < rows; r++)
        for (size_t j = 0; j < features; j++) copy[r * features + j] = dz[r * lddz + j];
    f->desc.custom_backward(f->desc.custom_user, rows, f->frequencies, u, f->desc.dim, t, features, in, du, dt);
}

static size_t scratch(const bo_features *f)
{
    return BO_BLOCK_ROWS * f->desc.features * sizeof(float);
}

const bo_function_definition bo_function_custom = {
    .name = "custom",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_CUSTOM),
    .per_frequency = 1, /* or the value in the descriptor */
    .check = check,
    .scratch = scratch,
    .forward_f32 = forward,
    .backward_f32 = backward,
};
