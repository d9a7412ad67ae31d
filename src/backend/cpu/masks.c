/* Masks from random bits. */
#include "masks.h"
#include <assert.h>

void bo_mask_draw(const bo_kernels *kernels, uint64_t seed, uint64_t stream, double rate, float factor, size_t first,
                  size_t count, float *mask)
{
    uint32_t bits[BO_MASK_STRIP], threshold = (uint32_t)(rate * 0x1p32); /* < 2^32, since rate < 1 */
    assert(first % BO_RANDOM_GROUP == 0 && count <= BO_MASK_STRIP);
    kernels->random(seed, stream, first / BO_RANDOM_GROUP, (count + BO_RANDOM_GROUP - 1) / BO_RANDOM_GROUP, bits);
    for (size_t i = 0; i < count; i++) mask[i] = bits[i] >= threshold ? factor : 0;
}
