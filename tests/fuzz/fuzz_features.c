#include "container.h"
#include <bochner/features.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float x[FUZZ_APPLIED_ROWS * FUZZ_MAX_DIM], z[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS];
    bo_context *context = fuzz_context();
    bo_features *map;
    uint8_t *image = fuzz_image(data, size);
    const bool loaded = fuzz_ok(context, bo_features_load(context, &(bo_source){.bytes = image, .size = size}, &map));
    free(image);
    if (!loaded) return 0;
    const bo_features_desc *desc = bo_features_describe(map);
    const size_t dim = desc->dim, length = desc->features;
    if (dim <= FUZZ_MAX_DIM && length <= FUZZ_MAX_OUTPUTS) {
        fuzz_inputs(FUZZ_APPLIED_ROWS * dim, x);
        fuzz_ok(context, bo_features_apply(context, map, &(bo_inputs){.rows = FUZZ_APPLIED_ROWS, .x = x, .stride = dim},
                                           z, length));
    }
    bo_features_destroy(map);
    return 0;
}
