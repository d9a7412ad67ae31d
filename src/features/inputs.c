/* Checks rows of inputs. */
#include "inputs.h"
#include "../base/base.h"
#include "../io/sparse.h"

static bo_status check_dense(bo_context *context, const bo_inputs *inputs, size_t dim, const char *like)
{
    if (inputs->rows > 0 && !inputs->x)
        return bo_fail(context, BO_INVALID, "inputs: x is NULL, but there are %zu rows", inputs->rows);
    if (inputs->rows > 0 && bo_inputs_stride(inputs, dim) < dim)
        return bo_fail(context, BO_INVALID, "expected rows with %zu columns%s, found %zu", dim, like, inputs->stride);
    return BO_OK;
}

bo_status bo_check_inputs(bo_context *context, const bo_inputs *inputs, size_t dim, const char *like)
{
    BO_TRY(bo_check_reserved(context, "bo_inputs", inputs->reserved));
    const bo_sparse *sparse = inputs->sparse;
    if (!sparse) return check_dense(context, inputs, dim, like);
    if (inputs->x) return bo_fail(context, BO_INVALID, "inputs: expected x or sparse, found both");
    if (inputs->rows > 0 && inputs->rows != sparse->rows)
        return bo_fail(context, BO_INVALID, "inputs: expected %zu sparse rows, found %zu", inputs->rows, sparse->rows);
    if (sparse->dim != dim)
        return bo_fail(context, BO_INVALID, "expected sparse rows with %zu columns%s, found %zu", dim, like,
                       sparse->dim);
    return bo_sparse_check(context, sparse);
}
