/* Shapes of the operations that polynomials and random features are made of. */
#include "shapes_internal.h"
#include "../features/block.h"

bo_status bo_shape_scale(bo_context *context, bo_op_call *call)
{
    BO_TRY(begin(context, call, "scale", 2));
    BO_TRY(check_floats(context, call, "scale", 1, "the factor", 0, 0));
    const bo_operand *x = &call->in[0], *s = &call->in[1];
    bool one = s->rows == 1 && s->columns == 1, column = s->rows == 1 && s->columns == x->columns,
         row = s->rows == x->rows && s->columns == 1;
    if (!one && !column && !row)
        REFUSE("scale: the factor is %zu x %zu floats, expected 1 x 1, 1 x %zu or %zu x 1", s->rows, s->columns,
               x->columns, x->rows);
    give_like_first(call);
    return BO_OK;
}

bo_status bo_shape_product(bo_context *context, bo_op_call *call)
{
    const bo_product_attributes *a = call->attributes;
    size_t most = sizeof a->powers / sizeof *a->powers;
    if (call->inputs < 1 || call->inputs > most) REFUSE("product: %zu factors, expected 1 to %zu", call->inputs, most);
    BO_TRY(begin(context, call, "product", call->inputs));
    for (size_t i = 0; i < call->inputs; i++) {
        double power = a->powers[i];
        if (power != 0 && !(power >= (double)FLT_MIN && is_float(power)))
            REFUSE("product: the power of factor %zu is %g, expected a positive number", i + 1, power);
        BO_TRY(check_floats(context, call, "product", i, "a factor", call->in[0].rows, call->in[0].columns));
    }
    give_like_first(call);
    return BO_OK;
}

bo_status bo_shape_features(bo_context *context, bo_op_call *call)
{
    const bo_features_attributes *a = call->attributes;
    if (!a->features) REFUSE("features: no map is given");
    const bo_features_desc *d = bo_features_describe(a->features);
    BO_TRY(begin(context, call, "features", 1));
    BO_TRY(check_floats(context, call, "features", 0, "the input", 0, d->dim));
    if (!bo_features_differentiable(a->features))
        REFUSE("features: function %s has no gradient: custom_backward is NULL", bo_function_name(d->function));
    give(call, 0, call->in[0].rows, d->features);
    return BO_OK;
}

bo_status bo_shape_quadratic(bo_context *context, bo_op_call *call)
{
    BO_TRY(begin(context, call, "quadratic", 2));
    size_t width = call->in[0].columns;
    BO_TRY(check_floats(context, call, "quadratic", 1, "the weight", 0, times(width, width)));
    give(call, 0, call->in[0].rows, call->in[1].rows);
    return BO_OK;
}
