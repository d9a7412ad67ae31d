#include "common.h"
static bo_status check(bo_context *context, bo_features_desc *desc)
{
    (void)desc;
    return bo_fail(context, BO_UNSUPPORTED, "function tensorsketch is not there yet");
}
void bo_sketch_destroy(bo_sketch *sketch)
{
    (void)sketch;
}
const bo_function_definition bo_function_tensorsketch = {
    .name = "tensorsketch", .kernels = BO_KERNEL_BIT(BO_KERNEL_POLYNOMIAL), .check = check};
bo_status bo_sketch_create(bo_context *context, size_t dim, size_t features, int degree, bo_sketch **out)
{
    (void)context, (void)dim, (void)features, (void)degree, (void)out;
    return BO_UNSUPPORTED;
}
int32_t *bo_sketch_hashes(bo_sketch *sketch)
{
    (void)sketch;
    return NULL;
}
float *bo_sketch_signs(bo_sketch *sketch)
{
    (void)sketch;
    return NULL;
}
