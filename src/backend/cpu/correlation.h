/* Correlation of images with a kernel, for convolution and for the gradient of its input. With pixels as vectors of
 * channels, y(i, j) = Σ_uv x(i step + first + u, j step + first + v) w(u, v), where w(u, v) is a matrix of channels x
 * columns.
 *
 * The pixels under a row of the kernel are contiguous, so a row of y is a sum of matrix products of the image, in
 * place, with the rows of the kernel (bo_kernels.multiply_runs). Only the kernel is packed, and only images with a
 * border are copied, one patch at a time. */
#ifndef BO_BACKEND_CPU_CORRELATION_H
#define BO_BACKEND_CPU_CORRELATION_H

#include "patches.h"

enum { BO_PANEL = BO_SIZE(64, 16) }; /* columns of y at a time */

typedef struct bo_correlation {
    bo_images from;
    ptrdiff_t first[2];
    size_t step[2], taps[2]; /* no taps: y is 0 */
    /* The kernel as panels of BO_PANEL columns: line (u, v, channel) of each panel has that many floats. */
    const float *panels;
    size_t columns;
    float *y;
    size_t places[2];         /* pixels of y per image */
    size_t place, row, image; /* floats of y between consecutive pixels, rows and images */
    const float *bias;        /* initial row of y; NULL: zeros */
    bool add;                 /* add to y */
} bo_correlation;

/* Returns the number of floats of the panels. */
static inline size_t bo_panel_floats(size_t depth, size_t columns)
{
    return (columns + BO_PANEL - 1) / BO_PANEL * BO_PANEL * depth;
}

/* Returns the floats of workspace per thread. */
size_t bo_correlation_workspace(const bo_correlation *correlation);
void bo_correlate(bo_context *context, const bo_correlation *correlation, float *workspaces);

#endif
