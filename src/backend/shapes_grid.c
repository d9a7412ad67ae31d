/* Shapes of operations on grids: convolution, pooling, batch normalization. */
#include <math.h>
#include "shapes_internal.h"

/* ---- windows ----------------------------------------------------------------------------------------------------- */

bo_grid bo_grid_of(const bo_windows *windows)
{
    const bo_axis_windows *axes[2] = {&windows->height, &windows->width};
    bo_grid grid;
    for (size_t i = 0; i < 2; i++) {
        grid.size[i] = axes[i]->size;
        grid.kernel[i] = axes[i]->kernel ? axes[i]->kernel : 1;
        grid.stride[i] = axes[i]->stride ? axes[i]->stride : 1;
        grid.before[i] = axes[i]->before;
        grid.after[i] = axes[i]->after;
    }
    return grid;
}

static size_t padded(const bo_grid *w, size_t axis)
{
    return w->before[axis] + w->size[axis] + w->after[axis];
}

size_t bo_grid_count(const bo_grid *w, size_t axis)
{
    size_t size = padded(w, axis);
    return size < w->kernel[axis] ? 0 : (size - w->kernel[axis]) / w->stride[axis] + 1;
}

static bo_status check_axis(bo_context *context, const char *op, const bo_grid *w, size_t axis)
{
    static const char *const names[] = {"height", "width"};
    size_t largest = w->size[axis] | w->kernel[axis] | w->stride[axis] | w->before[axis] | w->after[axis];
    if (largest >> 31) REFUSE("%s: a %s or its padding is 2^31 or more", op, names[axis]);
    if (!bo_grid_count(w, axis))
        REFUSE("%s: the kernel's %s is %zu, expected at most %zu, that of the padded image (%zu + %zu + %zu)", op,
               names[axis], w->kernel[axis], padded(w, axis), w->before[axis], w->size[axis], w->after[axis]);
    return BO_OK;
}

/* Checks that the rows are a multiple of the image size, and that windows fit. */
static bo_status check_windows(bo_context *context, const char *op, const bo_grid *w, size_t rows)
{
    if (!w->size[0] || !w->size[1])
        REFUSE("%s: images have %zu x %zu pixels, expected at least 1 x 1", op, w->size[0], w->size[1]);
    for (size_t axis = 0; axis < 2; axis++) BO_TRY(check_axis(context, op, w, axis));
    if (times(padded(w, 0), padded(w, 1)) >> 31) /* pixels are indexed by int32 */
        REFUSE("%s: images have %zu x %zu pixels with padding, expected less than 2^31 pixels", op, padded(w, 0),
               padded(w, 1));
    if (rows % (w->size[0] * w->size[1]))
        REFUSE("%s: images of %zu x %zu pixels do not divide %zu rows", op, w->size[0], w->size[1], rows);
    return BO_OK;
}

static size_t rows_of_windows(const bo_grid *w, size_t rows)
{
    return times(rows / (w->size[0] * w->size[1]), bo_grid_count(w, 0) * bo_grid_count(w, 1));
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

/* In sequences, a window ends at its token. */
static bo_status check_causal(bo_context *context, const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    bo_grid w = bo_grid_of(&a->windows);
    if (w.size[0] > 1 || w.kernel[0] != 1 || w.before[0] || w.after[0])
        REFUSE("convolution: within sequences, the height of images and kernel must be 1, found %zu and %zu", w.size[0],
               w.kernel[0]);
    if (w.kernel[1] >> 31) REFUSE("convolution: the kernel's width is %zu, expected less than 2^31", w.kernel[1]);
    if (w.stride[0] != 1 || w.stride[1] != 1)
        REFUSE("convolution: within sequences, the stride must be 1, found %zu", w.stride[1]);
    if (w.before[1] != w.kernel[1] - 1 || w.after[1])
        REFUSE("convolution: within sequences, a kernel of %zu needs a padding of %zu before and 0 after, found %zu "
               "and %zu",
               w.kernel[1], w.kernel[1] - 1, w.before[1], w.after[1]);
    return check_tokens(context, call, "convolution", a->sequences.tokens);
}

bo_status bo_shape_convolution(bo_context *context, bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    bo_grid w = bo_grid_of(&a->windows);
    BO_TRY(begin(context, call, "convolution", (size_t)2 + a->bias));
    size_t rows = call->in[0].rows, in = call->in[0].columns, out = call->in[1].rows,
           groups = a->groups ? a->groups : 1;
    bool causal = !a->windows.width.size;
    if (causal)
        BO_TRY(check_causal(context, call));
    else
        BO_TRY(check_windows(context, "convolution", &w, rows));
    if (in % groups || out % groups)
        REFUSE("convolution: %zu groups do not divide %zu input channels and %zu output channels", groups, in, out);
    BO_TRY(
        check_floats(context, call, "convolution", 1, "the weight", 0, times(w.kernel[0] * w.kernel[1], in / groups)));
    if (!is_float(a->scale))
        REFUSE("convolution: the scale is %g, expected a number in the range of float32", a->scale);
    if (a->bias) BO_TRY(check_floats(context, call, "convolution", 2, "the bias", 1, out));
    set_output(call, 0, causal ? rows : rows_of_windows(&w, rows), out);
    return BO_OK;
}

size_t bo_convolution_state_bytes(const bo_convolution_attributes *attributes, size_t channels)
{
    return attributes ? (bo_grid_of(&attributes->windows).kernel[1] - 1) * channels * sizeof(float) : 0;
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

bo_status bo_shape_pool(bo_context *context, bo_op_call *call)
{
    const bo_pool_attributes *a = call->attributes;
    bo_grid w = bo_grid_of(&a->windows);
    if ((unsigned)a->kind >= BO_POOL_COUNT) REFUSE("pool: unknown kind %d", (int)a->kind);
    BO_TRY(begin(context, call, "pool", 1));
    BO_TRY(check_windows(context, "pool", &w, call->in[0].rows));
    for (size_t i = 0; i < 2; i++) /* so that every window contains a pixel of the image */
        if (w.before[i] >= w.kernel[i] || w.after[i] >= w.kernel[i])
            REFUSE("pool: the padding is %zu before and %zu after, expected less than the window size %zu", w.before[i],
                   w.after[i], w.kernel[i]);
    set_output(call, 0, rows_of_windows(&w, call->in[0].rows), call->in[0].columns);
    return BO_OK;
}

/* ---- batch normalization ----------------------------------------------------------------------------------------- */

bo_status bo_shape_batch_norm(bo_context *context, bo_op_call *call)
{
    static const char *const names[] = {"x", "the gain", "the bias", "the mean", "the variance"};
    const bo_batch_norm_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "batch norm", 5));
    for (size_t i = 1; i < 5; i++)
        BO_TRY(check_floats(context, call, "batch norm", i, names[i], 1, call->in[0].columns));
    if (!(a->epsilon >= 0 && isfinite(a->epsilon)))
        REFUSE("batch norm: epsilon is %g, expected at least 0", a->epsilon);
    if (!(a->momentum >= 0 && a->momentum <= 1)) REFUSE("batch norm: the momentum is %g, expected 0 to 1", a->momentum);
    set_output_like_input(call);
    return BO_OK;
}
