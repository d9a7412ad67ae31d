/* Arguments of optimizers: device/updates.cu, device/muon.cu. Lists of vectors are arguments of a launch, so they have a
 * fixed maximum length. */
#ifndef BO_CUDA_ARGUMENTS_UPDATES_H
#define BO_CUDA_ARGUMENTS_UPDATES_H

enum {
    BO_CUDA_LIST = 64,            /* maximum length of a list: its arguments take less than 4 KiB */
    BO_CUDA_SUM_VECTOR = 1 << 14, /* numbers of a partial sum */
};

typedef enum bo_cuda_rule {
    BO_CUDA_RULE_COPY = 0,     /* w = g */
    BO_CUDA_RULE_APPROACH = 1, /* w += scale (g - w) */
    BO_CUDA_RULE_SWAP = 2,     /* exchanges m and w */
    BO_CUDA_RULE_SGD = 3,      /* the others as in ../updates.h, with w = keep w - rate u */
    BO_CUDA_RULE_SIGN = 4,
    BO_CUDA_RULE_ADAMW = 5,
} bo_cuda_rule;

typedef struct bo_cuda_vector {
    const float *g;
    float *m, *v, *w;
    size_t count;
    float rate, keep;
} bo_cuda_vector;

/* AdamW has the bias corrections in `rate` (divided by 1 - β₁ᵗ) and `correction` = 1 / √(1 - β₂ᵗ). */
typedef struct bo_cuda_update {
    bo_cuda_rule rule;
    float scale, momentum, rest; /* rest: 1 - momentum */
    bool nesterov;
    float beta1, rest1, beta2, rest2, correction, epsilon;
    size_t count;
    bo_cuda_vector list[BO_CUDA_LIST];
} bo_cuda_update;

/* out[i] = Σ x², or Σ |x|, of vector i, in float64. */
typedef struct bo_cuda_sum_vectors {
    bool sizes;
    size_t count;
    const float *x[BO_CUDA_LIST];
    size_t length[BO_CUDA_LIST];
    double *partial; /* one number per BO_CUDA_SUM_VECTOR numbers of each vector */
    double *out;
} bo_cuda_sum_vectors;

static inline size_t bo_cuda_sum_pieces(size_t length)
{
    return (length + BO_CUDA_SUM_VECTOR - 1) / BO_CUDA_SUM_VECTOR;
}

/* Matrices of Muon whose sides are equal: X is small x large; `tall`: the weight is large x small. One struct for three
 * launches:
 * muon_direction: u = nesterov ? (1 - μ) g + μ m : m after m = μ m + (1 - μ) g, with g times `scale`; m NULL: u = g
 * muon_load:      x = u / (√squares + 1e-7), transposed if tall
 * muon_store:     w = keep w - rate x, transposed if tall */
typedef struct bo_cuda_muon_list {
    size_t count, small, large, stride; /* stride: numbers between two matrices of u and of x */
    float scale, momentum, rest;
    bool nesterov;
    const double *squares;
    float *u;
    void *x;
    bo_cuda_type type; /* of x; float32 in muon_load */
    const float *g[BO_CUDA_LIST];
    float *m[BO_CUDA_LIST], *w[BO_CUDA_LIST];
    float rate[BO_CUDA_LIST], keep[BO_CUDA_LIST];
    bool tall[BO_CUDA_LIST];
} bo_cuda_muon_list;

#define BO_CUDA_LAUNCHES_UPDATES(X)                                                                                    \
    X(update, bo_cuda_update)                                                                                          \
    X(sum_vectors, bo_cuda_sum_vectors)                                                                                \
    X(muon_direction, bo_cuda_muon_list)                                                                               \
    X(muon_load, bo_cuda_muon_list)                                                                                    \
    X(muon_store, bo_cuda_muon_list)

#endif
