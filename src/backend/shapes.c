/* Shapes of row and graph operations. Grids, sequences and attention are in separate files. */
#include "../features/enums.h"
#include "shapes_internal.h"
#include "../features/block.h"

bo_status bo_shape_embed(bo_context *context, bo_op_call *call)
{
    call->outputs = 0;
    BO_TRY(count_inputs(context, call, "embed", 2));
    BO_TRY(check_integers(context, call, "embed", 0, "the column of indices", 0));
    BO_TRY(check_stored(context, call, "embed", 1, "the table", 0, 0));
    set_output(call, 0, call->in[0].rows, call->in[1].columns);
    return BO_OK;
}

bo_status bo_shape_position(bo_context *context, bo_op_call *call)
{
    const bo_position_attributes *a = call->attributes;
    if (a->kind != BO_POSITION_KIND_LEARNED && a->kind != BO_POSITION_KIND_SINUSOIDAL)
        REFUSE("position: unknown kind %d", (int)a->kind);
    bool learned = a->kind == BO_POSITION_KIND_LEARNED;
    BO_TRY(begin(context, call, "position", learned ? 3 : 2));
    BO_TRY(check_integers(context, call, "position", 1, "the column of positions", call->in[0].rows));
    if (learned) BO_TRY(check_floats(context, call, "position", 2, "the table", 0, call->in[0].columns));
    set_output_like_input(call);
    return BO_OK;
}

/* x, W_1 … W_k [, b_1 … b_k] [, r] */
bo_status bo_shape_linear(bo_context *context, bo_op_call *call)
{
    const bo_linear_attributes *a = call->attributes;
    size_t k = a->weights, rows = call->in[0].rows;
    if (k < 1 || k > BO_OP_OUTPUTS) REFUSE("linear: %zu weights, expected 1 to %d", k, BO_OP_OUTPUTS);
    if (a->residual && k != 1) REFUSE("linear: a residual and %zu weights, expected 1", k);
    if (!is_float(a->scale) || !is_float(a->keep))
        REFUSE("linear: factors %g and %g, expected finite numbers", a->scale, a->keep);
    BO_TRY(begin(context, call, "linear", 1 + k + (a->bias ? k : 0) + a->residual));
    for (size_t i = 0; i < k; i++) {
        size_t out = call->in[1 + i].rows;
        BO_TRY(check_stored(context, call, "linear", 1 + i, "the weight", 0, call->in[0].columns));
        if (a->bias) BO_TRY(check_floats(context, call, "linear", 1 + k + i, "the bias", 1, out));
        set_output(call, i, rows, out);
    }
    if (a->residual)
        BO_TRY(check_floats(context, call, "linear", call->inputs - 1, "the residual", rows, call->in[1].rows));
    return BO_OK;
}

unsigned bo_passes_linear(const bo_op_call *call)
{
    const bo_linear_attributes *a = call->attributes;
    return a->residual && (a->keep == 0 || a->keep == 1) ? 1u << (call->inputs - 1) : 0;
}

bo_status bo_shape_norm(bo_context *context, bo_op_call *call)
{
    const bo_norm_attributes *a = call->attributes;
    if (a->kind != BO_NORM_RMS && a->kind != BO_NORM_LAYER) REFUSE("norm: unknown kind %d", (int)a->kind);
    BO_TRY(begin(context, call, "norm", (size_t)1 + a->gain + a->bias));
    if (!a->width || call->in[0].columns % a->width)
        REFUSE("norm: groups of %zu do not divide %zu columns", a->width, call->in[0].columns);
    if (!(a->epsilon >= 0 && isfinite(a->epsilon))) REFUSE("norm: epsilon is %g, expected at least 0", a->epsilon);
    if (a->gain) BO_TRY(check_floats(context, call, "norm", 1, "the gain", 1, a->width));
    if (a->bias) BO_TRY(check_floats(context, call, "norm", (size_t)1 + a->gain, "the bias", 1, a->width));
    set_output_like_input(call);
    return BO_OK;
}

bo_status bo_shape_dropout(bo_context *context, bo_op_call *call)
{
    const bo_dropout_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "dropout", 1));
    if (!(a->rate >= 0 && a->rate < 1)) REFUSE("dropout: the rate is %g, expected a number in [0, 1)", a->rate);
    set_output_like_input(call);
    return BO_OK;
}

static bo_status check_scaling(bo_context *context, const bo_rope_scaling *s)
{
    if ((unsigned)s->kind >= BO_ROPE_SCALING_COUNT) REFUSE("rope: unknown scaling %d", (int)s->kind);
    if (s->kind == BO_ROPE_SCALING_KIND_NONE) return BO_OK;
    if (!(s->factor > 0 && isfinite(s->factor)))
        REFUSE("rope: the factor of the scaling is %g, expected a positive number", s->factor);
    if (s->kind == BO_ROPE_SCALING_KIND_LINEAR) return BO_OK;
    if (!(s->low > 0 && s->high > s->low && isfinite(s->high)))
        REFUSE("rope: the scaling has low = %g and high = %g, expected 0 < low < high", s->low, s->high);
    if (!(s->original > 0 && isfinite(s->original)))
        REFUSE("rope: the scaling has original = %g, expected a positive number", s->original);
    return BO_OK;
}

bo_status bo_shape_rope(bo_context *context, bo_op_call *call)
{
    const bo_rope_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "rope", 2));
    BO_TRY(check_integers(context, call, "rope", 1, "the column of positions", call->in[0].rows));
    size_t rotated = a->rotated ? a->rotated : a->dim;
    if (!a->dim || call->in[0].columns % a->dim)
        REFUSE("rope: heads of %zu do not divide %zu columns", a->dim, call->in[0].columns);
    if (rotated > a->dim || rotated % 2)
        REFUSE("rope: %zu rotated columns per head, expected an even number up to %zu", rotated, a->dim);
    if (a->base != 0 && !(a->base >= 1 && isfinite(a->base))) /* below 1, frequencies would grow without bound */
        REFUSE("rope: the base is %g, expected at least 1", a->base);
    if (a->layout != BO_ROPE_LAYOUT_HALVES && a->layout != BO_ROPE_LAYOUT_NEIGHBORS)
        REFUSE("rope: unknown layout %d", (int)a->layout);
    BO_TRY(check_scaling(context, &a->scaling));
    set_output_like_input(call);
    return BO_OK;
}

static bo_status check_unary(bo_context *context, const char *op, const bo_unary_attributes *a)
{
    if ((unsigned)a->function >= BO_UNARY_COUNT) REFUSE("%s: unknown function %d", op, (int)a->function);
    if (!is_float(a->factor) || !is_float(a->offset))
        REFUSE("%s: factor %g and offset %g, expected finite numbers", op, a->factor, a->offset);
    return BO_OK;
}

bo_status bo_shape_unary(bo_context *context, bo_op_call *call)
{
    BO_TRY(check_unary(context, "unary", call->attributes));
    BO_TRY(begin(context, call, "unary", 1));
    set_output_like_input(call);
    return BO_OK;
}

/* Checks that a and b have the same shape. */
static bo_status shape_pair(bo_context *context, bo_op_call *call, const char *op)
{
    BO_TRY(begin(context, call, op, 2));
    return check_floats(context, call, op, 1, "input 1", call->in[0].rows, call->in[0].columns);
}

bo_status bo_shape_glu(bo_context *context, bo_op_call *call)
{
    const bo_unary_attributes *a = call->attributes;
    BO_TRY(check_unary(context, "glu", a));
    if (a->offset != 0) REFUSE("glu: the offset is %g, expected 0", a->offset);
    BO_TRY(shape_pair(context, call, "glu"));
    set_output_like_input(call);
    return BO_OK;
}

bo_status bo_shape_add(bo_context *context, bo_op_call *call)
{
    BO_TRY(shape_pair(context, call, "add"));
    set_output_like_input(call);
    return BO_OK;
}

unsigned bo_passes_add(const bo_op_call *call)
{
    (void)call;
    return 3;
}

bo_status bo_shape_cross_entropy(bo_context *context, bo_op_call *call)
{
    const bo_cross_entropy_attributes *a = call->attributes;
    if (!(a->teacher >= 0 && a->teacher <= 1))
        REFUSE("cross entropy: the weight of the teacher is %g, expected a number from 0 to 1", a->teacher);
    const size_t teacher = a->bias ? 4 : 3; /* index of the teacher's input */
    BO_TRY(begin(context, call, "cross entropy", teacher + (a->teacher > 0)));
    if (!is_float(a->scale)) REFUSE("cross entropy: the scale is %g, expected a finite number", a->scale);
    if (!(a->smoothing >= 0 && a->smoothing < 1))
        REFUSE("cross entropy: the smoothing is %g, expected a number in [0, 1)", a->smoothing);
    if (a->smoothing > 0 && a->teacher > 0)
        REFUSE("cross entropy: the smoothing is %g and the weight of the teacher is %g, expected 0 for one of them",
               a->smoothing, a->teacher);
    BO_TRY(check_stored(context, call, "cross entropy", 1, "the weight", 0, call->in[0].columns));
    BO_TRY(check_integers(context, call, "cross entropy", 2, "the column of targets", call->in[0].rows));
    if (a->bias) BO_TRY(check_floats(context, call, "cross entropy", 3, "the bias", 1, call->in[1].rows));
    if (a->teacher > 0)
        BO_TRY(check_floats(context, call, "cross entropy", teacher, "the teacher's x", call->in[0].rows,
                            call->in[0].columns));
    set_output(call, 0, 1, 1);
    set_output(call, 1, call->in[0].rows, 1);
    return BO_OK;
}

bo_status bo_shape_loss(bo_context *context, bo_op_call *call)
{
    const bo_loss_attributes *a = call->attributes;
    if ((unsigned)a->kind >= BO_LOSS_KIND_COUNT) REFUSE("loss: unknown kind %d", (int)a->kind);
    BO_TRY(shape_pair(context, call, "loss"));
    set_output(call, 0, 1, 1);
    return BO_OK;
}

/* ---- polynomials and random features ----------------------------------------------------------------------------- */

bo_status bo_shape_scale(bo_context *context, bo_op_call *call)
{
    BO_TRY(begin(context, call, "scale", 2));
    BO_TRY(check_floats(context, call, "scale", 1, "the factor", 0, 0));
    const bo_tensor *x = &call->in[0], *s = &call->in[1];
    bool one = s->rows == 1 && s->columns == 1, column = s->rows == 1 && s->columns == x->columns,
         row = s->rows == x->rows && s->columns == 1;
    if (!one && !column && !row)
        REFUSE("scale: the factor is %zu x %zu floats, expected 1 x 1, 1 x %zu or %zu x 1", s->rows, s->columns,
               x->columns, x->rows);
    set_output_like_input(call);
    return BO_OK;
}

bo_status bo_shape_product(bo_context *context, bo_op_call *call)
{
    if (call->inputs < 1 || call->inputs > BO_PRODUCT_FACTORS)
        REFUSE("product: %zu factors, expected 1 to %d", call->inputs, BO_PRODUCT_FACTORS);
    BO_TRY(begin(context, call, "product", call->inputs));
    for (size_t i = 0; i < call->inputs; i++) {
        double power = bo_product_power(call->attributes, i);
        if (power != 0 && !(power >= (double)FLT_MIN && is_float(power)))
            REFUSE("product: the power of factor %zu is %g, expected a positive number", i + 1, power);
        BO_TRY(check_floats(context, call, "product", i, "a factor", call->in[0].rows, call->in[0].columns));
    }
    set_output_like_input(call);
    return BO_OK;
}

bo_status bo_shape_features(bo_context *context, bo_op_call *call)
{
    const bo_features_attributes *a = call->attributes;
    if (!a->features) REFUSE("features: the map is NULL");
    const bo_features_desc *d = bo_features_describe(a->features);
    BO_TRY(begin(context, call, "features", 1));
    BO_TRY(check_floats(context, call, "features", 0, "the input", 0, d->dim));
    if (!bo_features_differentiable(a->features))
        REFUSE("features: function %s has no gradient: custom_backward is NULL", bo_function_name(d->function));
    set_output(call, 0, call->in[0].rows, d->features);
    return BO_OK;
}

bo_status bo_shape_quadratic(bo_context *context, bo_op_call *call)
{
    BO_TRY(begin(context, call, "quadratic", 2));
    size_t width = call->in[0].columns;
    BO_TRY(check_floats(context, call, "quadratic", 1, "the weight", 0, times(width, width)));
    set_output(call, 0, call->in[0].rows, call->in[1].rows);
    return BO_OK;
}

/* ---- graphs; operations that reorder or perturb values ----------------------------------------------------------- */

bo_status bo_shape_reshape(bo_context *context, bo_op_call *call)
{
    const bo_reshape_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "reshape", 1));
    size_t numbers = call->in[0].rows * call->in[0].columns;
    if (!a->columns || numbers % a->columns)
        REFUSE("reshape: rows of %zu numbers, expected a divisor of the input's %zu x %zu numbers", a->columns,
               call->in[0].rows, call->in[0].columns);
    set_output(call, 0, numbers / a->columns, a->columns);
    return BO_OK;
}

unsigned bo_passes_reshape(const bo_op_call *call)
{
    (void)call;
    return 1;
}

bo_status bo_shape_concat(bo_context *context, bo_op_call *call)
{
    size_t columns = 0;
    if (call->inputs < 1) REFUSE("concat: no inputs, expected 1 to %d", BO_OP_INPUTS);
    BO_TRY(begin(context, call, "concat", call->inputs));
    for (size_t i = 0; i < call->inputs; i++) {
        BO_TRY(check_floats(context, call, "concat", i, "an input", call->in[0].rows, 0));
        columns += call->in[i].columns;
    }
    set_output(call, 0, call->in[0].rows, columns);
    return BO_OK;
}

bo_status bo_shape_aggregate(bo_context *context, bo_op_call *call)
{
    const bo_aggregate_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "aggregate", 3));
    if ((unsigned)a->kind >= BO_AGGREGATE_COUNT) REFUSE("aggregate: unknown kind %d", (int)a->kind);
    if (!(a->dropout >= 0 && a->dropout < 1))
        REFUSE("aggregate: the dropout is %g, expected a number in [0, 1)", a->dropout);
    BO_TRY(check_integers(context, call, "aggregate", 1, "the column of first edges", 0));
    BO_TRY(check_integers(context, call, "aggregate", 2, "the column of neighbors", 0));
    if (call->in[1].rows < 2) REFUSE("aggregate: %zu first edges, expected one more than nodes", call->in[1].rows);
    set_output(call, 0, call->in[1].rows - 1, call->in[0].columns);
    return BO_OK;
}

bo_status bo_shape_noise(bo_context *context, bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "noise", 1));
    if ((unsigned)a->kind >= BO_NOISE_COUNT) REFUSE("noise: unknown kind %d", (int)a->kind);
    if (a->kind == BO_NOISE_NORMAL && !(a->amount >= 0 && is_float(a->amount)))
        REFUSE("noise: the standard deviation is %g, expected at least 0", a->amount);
    if (a->kind != BO_NOISE_NORMAL && !(a->amount >= 0 && a->amount < 1))
        REFUSE("noise: the probability is %g, expected a number in [0, 1)", a->amount);
    set_output_like_input(call);
    return BO_OK;
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

bo_status bo_shape_round(bo_context *context, bo_op_call *call)
{
    const bo_round_attributes *a = call->attributes;
    if ((unsigned)a->value >= BO_SMALL_FLOAT_COUNT || (unsigned)a->gradient >= BO_SMALL_FLOAT_COUNT)
        REFUSE("round: formats %d and %d, expected 0 to %d", (int)a->value, (int)a->gradient, BO_SMALL_FLOAT_COUNT - 1);
    BO_TRY(begin(context, call, "round", 1));
    set_output_like_input(call);
    return BO_OK;
}

unsigned bo_passes_round(const bo_op_call *call)
{
    const bo_round_attributes *a = call->attributes;
    return a->gradient == BO_SMALL_FLOAT_NONE ? 1 : 0;
}
