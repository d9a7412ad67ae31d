/* Arguments of optimizers: cuda/updates.cu, cuda/muon.cu. Lists of vectors are launch arguments with a fixed maximum
 * length. */
#ifndef BO_DEVICE_GPU_UPDATES_H
#define BO_DEVICE_GPU_UPDATES_H

enum {
    BO_GPU_LIST = 64,            /* maximum length of a list: keeps launch arguments below 4 KiB */
    BO_GPU_SUM_VECTOR = 1 << 14, /* elements of a partial sum */
};

typedef enum bo_gpu_rule {
    BO_GPU_RULE_COPY = 0,     /* w = g */
    BO_GPU_RULE_APPROACH = 1, /* w += scale (g - w) */
    BO_GPU_RULE_SWAP = 2,     /* exchanges m and w */
    BO_GPU_RULE_SGD = 3,      /* this and the following rules as in ../updates.h, with w = keep w - rate u */
    BO_GPU_RULE_SIGN = 4,
    BO_GPU_RULE_ADAMW = 5,
} bo_gpu_rule;

typedef struct bo_gpu_vector {
    const float *g;
    float *m, *v, *w;
    size_t count;
    float rate, keep;
} bo_gpu_vector;

/* AdamW has the bias corrections in `rate` (divided by 1 - β₁ᵗ) and `correction` = 1 / √(1 - β₂ᵗ). */
typedef struct bo_gpu_update {
    bo_gpu_rule rule;
    float scale, momentum, rest; /* rest: 1 - momentum */
    bool nesterov;
    float beta1, rest1, beta2, rest2, correction, epsilon;
    size_t count;
    bo_gpu_vector list[BO_GPU_LIST];
} bo_gpu_update;

/* out[i] = Σ x², or Σ |x|, of vector i, in float64. */
typedef struct bo_gpu_sum_vectors {
    bool sizes;
    size_t count;
    const float *x[BO_GPU_LIST];
    size_t length[BO_GPU_LIST];
    double *partial; /* one value per BO_GPU_SUM_VECTOR elements of each vector */
    double *out;
} bo_gpu_sum_vectors;

static inline size_t bo_gpu_sum_pieces(size_t length)
{
    return (length + BO_GPU_SUM_VECTOR - 1) / BO_GPU_SUM_VECTOR;
}

/* Muon matrices of equal shape: X is small x large; `tall`: the weight is large x small. Arguments of three
 * launches:
 * muon_direction: u = nesterov ? (1 - μ) g + μ m : m after m = μ m + (1 - μ) g, with g times `scale`; m NULL: u = g
 * muon_load:      x = u / (√squares + 1e-7), transposed if tall
 * muon_store:     w = keep w - rate x, transposed if tall */
typedef struct bo_gpu_muon_list {
    size_t count, small, large, stride; /* stride: elements between two matrices of u and of x */
    float scale, momentum, rest;
    bool nesterov;
    const double *squares;
    float *u;
    void *x;
    bo_element type; /* of x; float32 in muon_load */
    const float *g[BO_GPU_LIST];
    float *m[BO_GPU_LIST], *w[BO_GPU_LIST];
    float rate[BO_GPU_LIST], keep[BO_GPU_LIST];
    bool tall[BO_GPU_LIST];
} bo_gpu_muon_list;

#define BO_GPU_LAUNCHES_UPDATES(X)                                                                                     \
    X(update, bo_gpu_update)                                                                                           \
    X(sum_vectors, bo_gpu_sum_vectors)                                                                                 \
    X(muon_direction, bo_gpu_muon_list)                                                                                \
    X(muon_load, bo_gpu_muon_list)                                                                                     \
    X(muon_store, bo_gpu_muon_list)

#endif
