/* What happens to a row of q or k before its features: unit norm and σ (RFA), M (DARK), nothing (the others). */
#ifndef BO_ATTENTION_FRONT_H
#define BO_ATTENTION_FRONT_H

#include "internal.h"

/* Ready for one key head. Invariant: `width` is the dim of the feature map. */
typedef struct bo_front {
    bo_attention_kind kind;
    const bo_kernels *kernels;
    size_t dim, width;
    const float *sigma; /* dim; NULL: 1 */
    const float *m;     /* width x dim; NULL: the first rows of the identity */
    float *mt;          /* its transpose */
} bo_front;

/* The front of one key head; mt comes from the carver. With a carver that counts only, nothing is read. */
bo_front bo_front_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                       bo_carver *carver);
/* Kinds without a front: gradients of the map's inputs are those of the rows themselves. */
static inline bool bo_front_is_none(const bo_front *front)
{
    return front->kind != BO_ATTENTION_RFA && front->kind != BO_ATTENTION_DARK;
}

/* Rows ready for the feature map: x itself (*ldt = ldx) where nothing happens, else t (stride width). */
const float *bo_front_forward(const bo_front *front, size_t rows, const float *x, size_t ldx, float *t, size_t *ldt);
/* dx (overwritten) from dt (stride width); adds to `parameters`, the gradient of σ or of M (NULL: not wanted). */
void bo_front_backward(const bo_front *front, size_t rows, const float *x, size_t ldx, const float *dt, float *dx,
                       size_t lddx, float *parameters);
/* Floats of those parameters for one key head: dim (RFA), rank x dim (DARK), else 0. */
size_t bo_front_parameters(const bo_attention *attention);

#endif
