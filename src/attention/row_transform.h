/* The transform of a row of q or k before its features: unit norm and σ (RFA; without σ also GLA, DELTA, RIDGE), M
 * (DARK, HYBRID with a rank), W and b (learned maps), or none. */
#ifndef BO_ATTENTION_ROW_TRANSFORM_H
#define BO_ATTENTION_ROW_TRANSFORM_H

#include "../math/block.h"
#include "internal.h"

typedef enum bo_role { BO_OF_QUERIES = 0, BO_OF_KEYS = 1 } bo_role;

/* The e of x / (|x| + e): a zero row stays zero. */
#define BO_NORM_EPSILON 1e-3

/* The matrix and the bias of one side. */
typedef struct bo_affine {
    const float *m;    /* width x dim; NULL: the first rows of the identity */
    float *mt;         /* its transpose */
    const float *bias; /* width; NULL: 0 */
    size_t dm, dbias;  /* indices at which their gradients start in a task's `parameters` */
} bo_affine;

/* The transform of one key head. Invariant: `width` is the dim of the feature map; for kinds without a map it is the
 * dim of q. */
typedef struct bo_row_transform {
    bo_row_transform_type type;
    const bo_kernels *kernels;
    bo_multiplier products;
    size_t dim, width;
    const float *sigma; /* dim; NULL: 1 */
    bool has_sigma;     /* σ is a parameter */
    bo_affine sides[2]; /* of queries, of keys */
} bo_row_transform;

/* Creates the transform of one key head; transposes are allocated from the carver. With a counting carver, nothing is
 * read. */
bo_row_transform bo_row_transform_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                       bo_carver *carver);
/* True if there is no transform: gradients of t are gradients of the rows. */
static inline bool bo_row_transform_is_none(const bo_row_transform *transform)
{
    return transform->type == BO_ROW_TRANSFORM_NONE;
}

/* Returns the transformed rows: x itself (*ldt = ldx) if there is no transform, else t (rows x width). */
const float *bo_row_transform_forward(const bo_row_transform *transform, bo_role role, size_t rows, const float *x,
                                      size_t ldx, float *t, size_t *ldt);
/* Computes dx (overwritten) from dt (rows x width); adds the gradients of the transform's parameters to a task's
 * `parameters` (NULL: not requested). dx may be dt if there is no matrix and no σ. */
void bo_row_transform_backward(const bo_row_transform *transform, bo_role role, size_t rows, const float *x, size_t ldx,
                               const float *dt, float *dx, size_t lddx, float *parameters);
/* True if the gradient of some parameter of the transforms is requested. */
bool bo_row_transform_gradients_requested(const bo_attention_gradients *gradients);

#endif
