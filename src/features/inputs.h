/* Rows of inputs as callers pass them. */
#ifndef BO_FEATURES_INPUTS_H
#define BO_FEATURES_INPUTS_H

#include <bochner/features.h>

/* BO_INVALID unless the rows have `dim` columns. `like` names the origin of the columns in messages: ", as in the fit"
 * or
 * "". */
bo_status bo_check_inputs(bo_context *context, const bo_inputs *inputs, size_t dim, const char *like);
static inline size_t bo_inputs_rows(const bo_inputs *inputs)
{
    return inputs->sparse ? inputs->sparse->rows : inputs->rows;
}
static inline size_t bo_inputs_stride(const bo_inputs *inputs, size_t dim)
{
    return inputs->stride ? inputs->stride : dim;
}

#endif
