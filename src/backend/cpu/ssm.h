/* State-space systems on the CPU: declarations shared by the files.
 *
 * Channels are processed in groups of 16 (device/cpu/channels.h). ssm_transition.c computes systems from the parameters
 * (ssm_modes.c: systems of modes), and parameter gradients from system gradients. ssm_scan.c runs the systems token by
 * token. ssm_convolution.c convolves with their kernels, which ssm_kernel.c computes. */
#ifndef BO_BACKEND_CPU_SSM_H
#define BO_BACKEND_CPU_SSM_H

#include <string.h>
#include "blocks.h"
#include "../sequences.h"

typedef double _Complex bo_number;
static inline bo_number bo_number_of(double re, double im) /* CMPLX of C11, which not every compiler has */
{
    const double parts[2] = {re, im};
    bo_number z;
    memcpy(&z, parts, sizeof z);
    return z;
}

enum { BO_SSM_CHUNK = BO_SIZE(64, 4) }; /* tokens between states that forward saves for backward */
_Static_assert((BO_SSM_CHUNK & (BO_SSM_CHUNK - 1)) == 0,
               "a power of two: transitions of a chunk are computed by squaring");

/* A call. */
typedef struct bo_ssm_view {
    const bo_op_call *call;
    const bo_ssm_attributes *attributes;
    const bo_channels *kernels;
    size_t channels, groups;
    size_t size, rank; /* of the systems that run; CLOSED has rank + 1 states for any N (ssm_transition.c) */
    size_t state;      /* floats of the states of a group */
    size_t floats;     /* floats of the systems of a group, or of their gradients */
    bo_spans spans;
    /* number of parts of the sequences; each part is one task per group. Does not depend on the number of threads */
    size_t parts;
} bo_ssm_view;

/* Pointers to the values of a group within `floats` floats. */
typedef struct bo_ssm_group {
    float *mu, *c, *b, *p, *q, *d; /* d: a row; b, p, q: NULL if rank is 0 */
} bo_ssm_group;

/* Creates a view without the sequences of a pass. */
bo_ssm_view bo_ssm_view_of(bo_context *context, const bo_op_call *call);
bo_ssm_group bo_ssm_group_at(const bo_ssm_view *view, float *floats);
bo_systems bo_ssm_systems_of(const bo_ssm_view *view, const bo_ssm_group *group);
bo_systems_gradients bo_ssm_gradients_of(const bo_ssm_group *group);

/* Computes the systems of a group of DIAGONAL or LOW_RANK. All floats of the group must be 0; d stays 0. */
void bo_ssm_modes(const bo_ssm_view *view, const bo_kernels *kernels, size_t group, const bo_ssm_group *to);
/* Computes the groups * floats values of the systems from the parameters. */
void bo_ssm_transition(bo_context *context, const bo_ssm_view *view, float *systems);
/* Computes din of the parameters from the gradients of the systems, one per part and group: `sums` (part by part). */
void bo_ssm_transition_back(bo_context *context, const bo_ssm_view *view, size_t parts, const float *sums);

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Returns the channels of a group: 16, or fewer in the last. */
static inline size_t bo_ssm_lanes(const bo_ssm_view *view, size_t group)
{
    size_t left = view->channels - group * BO_CHANNELS;
    return left < BO_CHANNELS ? left : BO_CHANNELS;
}

/* Copies a group's columns of `tokens` rows of x or of a gradient to contiguous memory, with 0 for missing channels;
 * and back. */
void bo_ssm_gather(const bo_ssm_view *view, size_t group, const float *rows, size_t tokens, float *out);
void bo_ssm_scatter(const bo_ssm_view *view, size_t group, const float *in, size_t tokens, bool add, float *rows);

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* Workspace of the scan in floats, without the systems, for `workers` threads; and the floats that forward saves for
 * backward. */
size_t bo_ssm_scan_workspace(const bo_ssm_view *view, size_t workers, bool backward);
size_t bo_ssm_scan_saved(const bo_ssm_view *view);
/* keep: store the states between chunks in `saved`, if it exists. */
void bo_ssm_scan(bo_context *context, const bo_ssm_view *view, bool keep, float *systems, float *workspace);
void bo_ssm_scan_back(bo_context *context, const bo_ssm_view *view, float *systems, float *workspace);

/* Computes the kernel (D + CB, CAB, CA²B, …) of a group, `tokens` rows, using `workspace`; and computes the gradients
 * of the systems from the gradient of the kernel. */
size_t bo_ssm_kernel_workspace(const bo_ssm_view *view, size_t tokens);
void bo_ssm_kernel(const bo_ssm_view *view, const bo_ssm_group *group, size_t tokens, float *workspace, float *kernel);
void bo_ssm_kernel_back(const bo_ssm_view *view, const bo_ssm_group *group, size_t tokens, const float *dkernel,
                        float *workspace, const bo_ssm_group *sums);

/* For sequences of at most `tokens` tokens. */
size_t bo_ssm_convolution_workspace(const bo_ssm_view *view, size_t workers, size_t tokens, bool backward);
void bo_ssm_convolve(bo_context *context, const bo_ssm_view *view, size_t tokens, float *systems, float *workspace);
void bo_ssm_convolve_back(bo_context *context, const bo_ssm_view *view, size_t tokens, float *systems,
                          float *workspace);

#endif
