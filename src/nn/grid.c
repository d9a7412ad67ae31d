/* Convolution, pooling, batch normalization. */
#include <math.h>
#include "internal.h"
#include "../backend/shapes.h"

/* ---- windows ----------------------------------------------------------------------------------------------------- */

bo_windows bo_nn_windows(bo_image image, size_t kernel, size_t stride, size_t padding)
{
    const bo_axis_windows axis = {.kernel = kernel, .stride = stride, .before = padding, .after = padding};
    bo_windows windows = {.height = axis, .width = axis};
    windows.height.size = image.height;
    windows.width.size = image.width;
    return windows;
}

static bo_axis_windows same(size_t size, size_t kernel, size_t stride)
{
    bo_axis_windows w = {.size = size, .kernel = kernel ? kernel : 1, .stride = stride ? stride : 1};
    size_t count = (size + w.stride - 1) / w.stride;
    size_t reach = count ? (count - 1) * w.stride + w.kernel : 0;
    size_t around = reach > size ? reach - size : 0;
    w.before = around / 2, w.after = around - around / 2;
    return w;
}

bo_windows bo_nn_windows_same(bo_image image, const size_t kernel[2], const size_t stride[2])
{
    return (bo_windows){.height = same(image.height, kernel[0], stride[0]),
                        .width = same(image.width, kernel[1], stride[1])};
}

bo_windows bo_nn_windows_all(bo_image image)
{
    return (bo_windows){.height = {.size = image.height, .kernel = image.height},
                        .width = {.size = image.width, .kernel = image.width}};
}

bo_image bo_nn_image_after(const bo_windows *windows)
{
    const bo_grid grid = bo_grid_of(windows);
    bo_image after = {bo_grid_count(&grid, 0), bo_grid_count(&grid, 1)};
    return after.height && after.width ? after : (bo_image){0};
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* A depthwise kernel counts as a vector for optimizers, since it contains no matrix. */
static bo_value kernel(bo_graph *graph, const char *prefix, size_t in, const bo_convolution_layer *desc)
{
    bo_grid windows = bo_grid_of(&desc->windows);
    size_t fan = windows.kernel[0] * windows.kernel[1] * in;
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    bo_weight_desc w = {.name = name.text,
                        .rows = desc->out,
                        .columns = fan,
                        .rank = 4,
                        .shape = (size_t[]){desc->out, windows.kernel[0], windows.kernel[1], in},
                        .role = in == 1 && desc->groups > 1 ? BO_WEIGHT_ROLE_VECTOR : BO_WEIGHT_ROLE_MATRIX,
                        .init = desc->init};
    if (w.init.kind == BO_WEIGHT_INIT_KIND_AUTO)
        w.init =
            (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = sqrt((desc->relu ? 2.0 : 1.0) / (double)fan)};
    if (bo_weights_rules(bo_graph_describe(graph)->weights)->kind == BO_PARAMETRIZATION_UNIT)
        bo_nn_factor_out_scale(&w, fan);
    return bo_graph_weight(graph, &w);
}

bo_value bo_nn_convolution(bo_graph *graph, const char *prefix, bo_value x, const bo_convolution_layer *desc)
{
    size_t groups = desc->groups ? desc->groups : 1, channels = bo_graph_columns(graph, x);
    bo_convolution_attributes attributes = {
        .windows = desc->windows, .groups = groups, .bias = desc->bias, .sequences = desc->sequences};
    /* the operation refuses channels that are not a multiple of groups */
    size_t in = channels / groups ? channels / groups : 1;
    bo_value inputs[3] = {x, kernel(graph, prefix, in, desc)};
    const bo_weight *weight = bo_graph_weight_of(graph, inputs[1]);
    if (weight) attributes.scale = weight->scale;
    if (desc->bias) inputs[2] = bo_nn_vector(graph, prefix, ".bias", desc->out, (bo_weight_init){0});
    return bo_graph_one(graph, BO_OPERATION_CONVOLUTION, &attributes, desc->bias ? 3 : 2, inputs);
}

bo_value bo_nn_pool(bo_graph *graph, bo_value x, bo_pool_kind kind, const bo_windows *windows)
{
    bo_pool_attributes attributes = {.windows = *windows, .kind = kind};
    return bo_graph_one(graph, BO_OPERATION_POOL, &attributes, 1, &x);
}

/* Declares running statistics: a weight, so that it is saved in files, without a gradient. */
static bo_value kept(bo_graph *graph, const char *prefix, const char *suffix, size_t count, bo_weight_init_kind kind)
{
    bo_nn_name name = bo_nn_join(prefix, suffix);
    return bo_graph_weight(graph, &(bo_weight_desc){.name = name.text,
                                                    .rank = 1,
                                                    .shape = (size_t[]){count},
                                                    .role = BO_WEIGHT_ROLE_VECTOR,
                                                    .init = {.kind = kind},
                                                    .frozen = true});
}

bo_value bo_nn_batch_norm(bo_graph *graph, const char *prefix, bo_value x, double epsilon, double momentum)
{
    size_t columns = bo_graph_columns(graph, x);
    bo_batch_norm_attributes attributes = {.epsilon = epsilon, .momentum = momentum};
    bo_value inputs[] = {
        x, bo_nn_vector(graph, prefix, ".weight", columns, (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_ONE}),
        bo_nn_vector(graph, prefix, ".bias", columns, (bo_weight_init){0}),
        kept(graph, prefix, ".running_mean", columns, BO_WEIGHT_INIT_KIND_ZERO),
        kept(graph, prefix, ".running_var", columns, BO_WEIGHT_INIT_KIND_ONE)};
    return bo_graph_one(graph, BO_OPERATION_BATCH_NORM, &attributes, 5, inputs);
}
