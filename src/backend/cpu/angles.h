/* Sines and cosines of position times frequency, for the frequencies base^(-2i / width) of column pairs i, which a
 * scaling may change. Angles are
 * measured in turns, and whole turns are removed before they cost digits: exact to float for every int32 position. */
#ifndef BO_BACKEND_CPU_ANGLES_H
#define BO_BACKEND_CPU_ANGLES_H

#include "blocks.h"

/* Turns per position of each frequency: `high` has so few bits that its product with a position is exact; the remainder
 * is separate. */
typedef struct bo_angles {
    size_t pairs;
    double *high, *low;
} bo_angles;

enum { BO_ANGLES = BO_SIZE(64, 4) }; /* maximum frequencies per call */

size_t bo_angles_bytes(size_t width);
/* Returns the angles in memory of bo_angles_bytes, unchanged; bo_angles_fill must be called once before use. */
bo_angles bo_angles_in(size_t width, void *workspace);
/* Computes the frequencies first … first + count - 1. */
void bo_angles_part(size_t width, double base, const bo_rope_scaling *scaling, size_t first, size_t count, double *high,
                    double *low);
void bo_angles_fill(size_t width, double base, const bo_rope_scaling *scaling, void *workspace);
/* Computes sine and cosine of frequencies first … first + count - 1, count <= BO_ANGLES. */
void bo_angles_sincos(const bo_angles *angles, const bo_kernels *kernels, int32_t position, size_t first, size_t count,
                      float *sine, float *cosine);

#endif
