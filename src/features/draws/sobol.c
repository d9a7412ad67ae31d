#include "../internal.h"
static bo_status draw_sobol(bo_context *context, const bo_draw_request *request, float *w)
{
    (void)request, (void)w;
    return bo_fail(context, BO_UNSUPPORTED, "draw sobol is not there yet");
}
const bo_draw_definition bo_draw_sobol = {.name = "sobol", .draw = draw_sobol};
