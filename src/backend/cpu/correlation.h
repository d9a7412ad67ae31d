/* Correlation of images with a kernel, for convolution and for the gradient of its input: with places as vectors of
 * channels, y(i, j) = Σ_uv x(i step + first + u, j step + first + v) w(u, v), w(u, v) a matrix of channels x
 * columns.
 *
 * The places under a row of the kernel lie side by side, so that a row of y is a product of a matrix that is there
 * already with row by row of the kernel (bo_kernels.multiply_runs): nothing is packed but the kernel, and only
 * images with a border are copied, a patch at a time. */
#ifndef BO_BACKEND_CPU_CORRELATION_H
#define BO_BACKEND_CPU_CORRELATION_H

#include "patches.h"

enum { BO_PANEL = BO_SIZE(64, 16) }; /* columns of y at a time */

typedef struct bo_correlation {
    bo_images from;
    ptrdiff_t first[2];
    size_t step[2], taps[2]; /* no taps: y is 0 */
    /* The kernel, a panel of BO_PANEL columns after the other: line (u, v, channel) of each has that many floats. */
    const float *panels;
    size_t columns;
    float *y;
    size_t places[2];         /* of y, in each image */
    size_t place, row, image; /* floats of y from one to the next */
    const float *bias;        /* a row that y begins with; NULL: none */
    bool add;                 /* to what y holds */
} bo_correlation;

/* Floats of the panels. */
static inline size_t bo_panel_floats(size_t depth, size_t columns)
{
    return (columns + BO_PANEL - 1) / BO_PANEL * BO_PANEL * depth;
}

/* Floats of room for each thread. */
size_t bo_correlation_room(const bo_correlation *correlation);
void bo_correlate(bo_context *context, const bo_correlation *correlation, float *rooms);

#endif
