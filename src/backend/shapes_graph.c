/* Shapes of operations on graphs, and of those that move or disturb numbers. */
#include "shapes_internal.h"

bo_status bo_shape_reshape(bo_context *context, bo_op_call *call)
{
    const bo_reshape_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "reshape", 1));
    size_t numbers = call->in[0].rows * call->in[0].columns;
    if (!a->columns || numbers % a->columns)
        REFUSE("reshape: rows of %zu numbers, expected a divisor of the %zu x %zu there are", a->columns,
               call->in[0].rows, call->in[0].columns);
    give(call, 0, numbers / a->columns, a->columns);
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
    give(call, 0, call->in[0].rows, columns);
    return BO_OK;
}

bo_status bo_shape_aggregate(bo_context *context, bo_op_call *call)
{
    const bo_aggregate_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "aggregate", 3));
    if ((unsigned)a->kind >= BO_AGGREGATE_COUNT) REFUSE("aggregate: no kind %d", (int)a->kind);
    if (!(a->dropout >= 0 && a->dropout < 1)) REFUSE("aggregate: dropout of %g, expected one in [0, 1)", a->dropout);
    BO_TRY(check_integers(context, call, "aggregate", 1, "the column of first edges", 0));
    BO_TRY(check_integers(context, call, "aggregate", 2, "the column of neighbors", 0));
    if (call->in[1].rows < 2) REFUSE("aggregate: %zu first edges, expected one more than nodes", call->in[1].rows);
    give(call, 0, call->in[1].rows - 1, call->in[0].columns);
    return BO_OK;
}

bo_status bo_shape_noise(bo_context *context, bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    BO_TRY(begin(context, call, "noise", 1));
    if ((unsigned)a->kind >= BO_NOISE_COUNT) REFUSE("noise: no kind %d", (int)a->kind);
    if (a->kind == BO_NOISE_NORMAL && !(a->amount >= 0 && is_float(a->amount)))
        REFUSE("noise: a deviation of %g, expected one of at least 0", a->amount);
    if (a->kind != BO_NOISE_NORMAL && !(a->amount >= 0 && a->amount < 1))
        REFUSE("noise: a probability of %g, expected one in [0, 1)", a->amount);
    give_like_first(call);
    return BO_OK;
}
