/* Shapes of rounding. */
#include "shapes_internal.h"

bo_status bo_shape_round(bo_context *context, bo_op_call *call)
{
    const bo_round_attributes *a = call->attributes;
    if ((unsigned)a->value >= BO_SMALL_COUNT || (unsigned)a->gradient >= BO_SMALL_COUNT)
        REFUSE("round: formats %d and %d, expected 0 to %d", (int)a->value, (int)a->gradient, BO_SMALL_COUNT - 1);
    BO_TRY(begin(context, call, "round", 1));
    give_like_first(call);
    return BO_OK;
}

unsigned bo_passes_round(const bo_op_call *call)
{
    const bo_round_attributes *a = call->attributes;
    return a->gradient == BO_SMALL_NONE ? 1 : 0;
}
