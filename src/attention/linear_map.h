/* Rows of q and k to features, by way of the front; and kernels that are a short function of s = γ x·y, for which
 * within a chunk features are not needed: a product of d numbers gives what one of D features would. */
#ifndef BO_ATTENTION_LINEAR_MAP_H
#define BO_ATTENTION_LINEAR_MAP_H

#include "row_transform.h"

typedef struct bo_mapper {
    bo_row_transform front;
    const bo_features *map;
    size_t count; /* features */
    float *t;     /* rows after the front: rows x width */
    void *block;  /* features/block.h's scratch */
} bo_mapper;

/* For up to `rows` rows of one key head. */
bo_mapper bo_mapper_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t rows,
                         bo_carver *carver);
/* Features (rows x count) and log scales. */
void bo_mapper_features(const bo_mapper *mapper, bo_role role, size_t rows, const float *x, size_t ldx, float *features,
                        float *log_scale);

/* k(x, y) = f(s), s = Σ_j factor_j x_j y_j of rows after the front. */
typedef struct bo_closed {
    bool used;   /* features are many more than columns */
    bool taylor; /* f = 1 + s + s²/2, else (1 + s)^degree */
    int degree;
    float *factor; /* γ / (length scale)² of each column */
} bo_closed;

bool bo_closed_used(const bo_attention *attention);
bo_closed bo_closed_make(const bo_attention *attention, bo_carver *carver);
/* s becomes f(s); slope (NULL: not wanted) gets f'(s). */
void bo_closed_apply(const bo_closed *closed, size_t n, float *s, float *slope);

#endif
