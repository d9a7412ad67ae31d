/* Declarations shared by the files of convolution. */
#ifndef BO_BACKEND_CPU_CONVOLUTION_H
#define BO_BACKEND_CPU_CONVOLUTION_H

#include "../shapes.h"
#include "correlation.h"
#include "../sequences.h"

/* A call, or its part for one sequence of a pass. Addresses are NULL before memory is allocated. Invariant: windows are
 * resolved, and their size equals the size of every image. */
typedef struct bo_convolving {
    bo_grid windows;
    size_t images, places[2];     /* number of images; pixels of y per image */
    size_t groups, in, out, taps; /* in, out: channels per group; taps: taps of the kernel */
    const float *x, *weight, *bias, *dy;
    float *y, *dx;
    const float *memory; /* windows.before[1] rows before x; NULL: zeros */
    float scale;         /* scale of the weight */
    bool add;            /* add to dx */
    size_t blocks;       /* number of blocks of the weight gradient; equal for all parts of a call */
} bo_convolving;

/* True for depthwise convolution, which uses elementwise products instead of matrix products. */
static inline bool bo_is_depthwise(const bo_convolving *c)
{
    return c->in == 1 && c->out == 1;
}

/* Returns the number of floats of the weight and its gradient. */
static inline size_t bo_weight_floats(const bo_convolving *c)
{
    return c->groups * c->out * c->taps * c->in;
}

/* The weight gradient. Blocks of tiles of y are summed in `sums` (c->blocks times the floats of the weight). The first
 * part of a call writes `sums`, later parts (`begun`) add to it, and finally the sums are written to dw. `workspaces`:
 * bo_weight_gradient_workspace floats per thread. */
size_t bo_weight_gradient_blocks(const bo_convolving *c, size_t rows);
size_t bo_weight_gradient_workspace(const bo_convolving *c);
void bo_weight_gradient_add(bo_context *context, const bo_convolving *c, bool begun, float *sums, float *workspaces);
void bo_weight_gradient_end(bo_context *context, const bo_convolving *c, const float *sums, bool add, float *dw);

/* Depthwise convolution. `turned` is the weight as taps x channels, and so are the sums of the gradient. */
void bo_depthwise_forward(bo_context *context, const bo_convolving *c, const float *turned);
void bo_depthwise_input_gradient(bo_context *context, const bo_convolving *c, const float *turned);
void bo_depthwise_weight_gradient(bo_context *context, const bo_convolving *c, bool begun, float *sums);

#endif
