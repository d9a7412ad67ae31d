#include "orthogonal.h"
#include "../../src/backend/backend.h"
#include "../../src/backend/updates.h"
#include <string.h>

bo_status lab_orthogonalize(bo_context *context, lab_newton_schulz iteration, size_t steps, size_t rows, size_t columns,
                            const float *g, float *x)
{
    bo_device *device = bo_device_cpu();
    const bo_rule rule = {.scale = 1, .rate = -1};
    const bo_muon_matrix matrix = {.rows = rows, .columns = columns, .g = g, .w = x, .rates = {.rate = 1, .factor = 1}};
    void *scratch = bo_buffer_allocate(
        context, device, bo_backend_of(device)->updates->bytes(context, 0, NULL, 1, &matrix), "memory for Muon");
    if (!scratch) return BO_MEMORY;
    memset(x, 0, rows * columns * sizeof *x);
    const bo_status status = bo_backend_of(device)->updates->muon(
        context, &rule, iteration == LAB_NEWTON_SCHULZ_CUBIC ? BO_NEWTON_SCHULZ_CUBIC : BO_NEWTON_SCHULZ_QUINTIC, steps,
        1, &matrix, scratch);
    bo_buffer_release(device, scratch);
    return status;
}
