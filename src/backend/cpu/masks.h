/* Masks for dropout, noise and edges: item i uses random value i of a stream, so backward draws the same mask as
 * forward. */
#ifndef BO_BACKEND_CPU_MASKS_H
#define BO_BACKEND_CPU_MASKS_H

#include "../../device/cpu/kernels.h"

/* items at a time; divides the floats of a block */
enum { BO_MASK_STRIP = BO_SIZE(16 * BO_RANDOM_GROUP, BO_RANDOM_GROUP) };
_Static_assert(BO_MASK_STRIP % BO_RANDOM_GROUP == 0, "a strip is drawn in whole groups");

/* Computes the mask of items first … first + count - 1: 0 with probability `rate`, else `factor`. first is a multiple
 * of BO_RANDOM_GROUP, count at most BO_MASK_STRIP. */
void bo_mask_draw(const bo_kernels *kernels, uint64_t seed, uint64_t stream, double rate, float factor, size_t first,
                  size_t count, float *mask);

#endif
