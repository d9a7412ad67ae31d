/* State-space systems on the CPU: what its files share.
 *
 * Channels go in groups of 16 side by side (kernels/channels.h). ssm_transition.c makes systems of the parameters (those of
 * modes ssm_modes.c), and gradients of the parameters of theirs; ssm_scan.c runs them token by token; ssm_convolution.c by
 * their kernels, which ssm_kernel.c makes. */
#ifndef BO_BACKEND_CPU_SSM_H
#define BO_BACKEND_CPU_SSM_H

#include <string.h>
#include "blocks.h"
#include "sequences.h"

typedef double _Complex bo_number;
static inline bo_number bo_number_of(double re, double im) /* C11's CMPLX, which not every compiler has */
{
    const double parts[2] = {re, im};
    bo_number z;
    memcpy(&z, parts, sizeof z);
    return z;
}

enum { BO_SSM_CHUNK = BO_SIZE(64, 4) }; /* tokens between states that forward leaves for backward */
_Static_assert((BO_SSM_CHUNK & (BO_SSM_CHUNK - 1)) == 0, "a power of two: transitions of a chunk are made by squaring");

/* A call as its files see it. */
typedef struct bo_ssm_view {
    const bo_op_call *call;
    const bo_ssm_attributes *attributes;
    const bo_channels *kernels;
    size_t channels, groups;
    size_t size, rank; /* of the systems that run; CLOSED has rank + 1 states whatever N is (ssm_transition.c) */
    size_t state;      /* floats of a group's states */
    size_t floats;     /* of a group's systems, or of their gradients */
    bo_spans spans;
    size_t parts; /* of the sequences, each a task of every group: a number that threads have no say in */
} bo_ssm_view;

/* Where a group's numbers are in `floats` floats. */
typedef struct bo_ssm_group {
    float *mu, *c, *b, *p, *q, *d; /* d: a row; b, p, q: NULL where rank is 0 */
} bo_ssm_group;

/* Without the sequences of a pass. */
bo_ssm_view bo_ssm_view_of(bo_context *context, const bo_op_call *call);
bo_ssm_group bo_ssm_group_at(const bo_ssm_view *view, float *floats);
bo_systems bo_ssm_systems_of(const bo_ssm_view *view, const bo_ssm_group *group);
bo_systems_gradients bo_ssm_gradients_of(const bo_ssm_group *group);

/* The systems of a group of DIAGONAL or LOW_RANK; all floats of the group are 0 before, and its d is left so. */
void bo_ssm_modes(const bo_ssm_view *view, const bo_kernels *kernels, size_t group, const bo_ssm_group *to);
/* groups * floats numbers of the systems that the parameters say. */
void bo_ssm_transition(bo_context *context, const bo_ssm_view *view, float *systems);
/* din of the parameters from the gradients of systems, one for each part and group: `sums` (part by part). */
void bo_ssm_transition_back(bo_context *context, const bo_ssm_view *view, size_t parts, const float *sums);

/* ---- rows --------------------------------------------------------------------------------------------------------- */

/* Channels of a group: 16, but maybe fewer in the last. */
static inline size_t bo_ssm_lanes(const bo_ssm_view *view, size_t group)
{
    size_t left = view->channels - group * BO_CHANNELS;
    return left < BO_CHANNELS ? left : BO_CHANNELS;
}

/* A group's columns of `tokens` rows of x or of a gradient, side by side; missing channels are 0. And back. */
void bo_ssm_take(const bo_ssm_view *view, size_t group, const float *rows, size_t tokens, float *out);
void bo_ssm_put(const bo_ssm_view *view, size_t group, const float *in, size_t tokens, bool add, float *rows);

/* ---- forms -------------------------------------------------------------------------------------------------------- */

/* Floats that each needs beside the systems, for `workers` at once; what forward saves for backward. */
size_t bo_ssm_scan_room(const bo_ssm_view *view, size_t workers, bool backward);
size_t bo_ssm_scan_saved(const bo_ssm_view *view);
/* keep: leave the states between chunks in `saved`, where there is one. */
void bo_ssm_scan(bo_context *context, const bo_ssm_view *view, bool keep, float *systems, float *room);
void bo_ssm_scan_back(bo_context *context, const bo_ssm_view *view, float *systems, float *room);

/* The kernel (D + CB, CAB, CA²B, …) of a group, `tokens` rows; `room` is work's. And from its gradient those of the systems,
 * which are written. */
size_t bo_ssm_kernel_room(const bo_ssm_view *view, size_t tokens);
void bo_ssm_kernel(const bo_ssm_view *view, const bo_ssm_group *group, size_t tokens, float *room, float *kernel);
void bo_ssm_kernel_back(const bo_ssm_view *view, const bo_ssm_group *group, size_t tokens, const float *dkernel,
                        float *room, const bo_ssm_group *sums);

/* For sequences of at most `tokens`. */
size_t bo_ssm_convolution_room(const bo_ssm_view *view, size_t workers, size_t tokens, bool backward);
void bo_ssm_convolve(bo_context *context, const bo_ssm_view *view, size_t tokens, float *systems, float *room);
void bo_ssm_convolve_back(bo_context *context, const bo_ssm_view *view, size_t tokens, float *systems, float *room);

#endif
