/* Arguments of attention with features: cuda/features_*.cu. */
#ifndef BO_DEVICE_GPU_LINEAR_H
#define BO_DEVICE_GPU_LINEAR_H

#include "attention.h"
#include "maps.h"

/* A feature map: u = w t, t the rows after the transform. The arrays are those of key head 0; those of the next follow
 * `stride` floats later. */
typedef struct bo_gpu_map {
    bo_map_form form;
    int dim, frequencies, features; /* columns of t, rows of w, length of φ */
    bool scaled;                    /* it has log scales */
    float norm, factor, constant;
    const float *w, *transposed;  /* frequencies x dim, and dim x frequencies */
    const float *offset, *weight; /* frequencies */
    const float *square, *common; /* dim, 1 */
    size_t stride;
} bo_gpu_map;

/* The memory of a call. Sums have the layout of bo_sums: log scale and padding (16 floats), z, S; floats 2 and 3 hold
 * the sum of the log gates of a segment, as a double. A segment has `segment` rows; those of a sequence are numbered as
 * tiles are (bo_gpu_rows). The array of segment i, key head h starts at (i key_heads + h) times its size. */
typedef struct bo_gpu_linear_attention {
    bo_gpu_attention call;
    bo_gpu_map map;
    bo_row_transform_type transform;
    bool gated, convex, divides; /* it has gates; the weight of a key is 1 - g; outputs are divided by Σ weights */
    float clamp;
    bool fast;   /* the kernels for bfloat16 on tensor cores, else those for all shapes */
    bool steps;  /* about one token per sequence, from and to states */
    int segment; /* rows */
    size_t sums_floats;
    /* HYBRID: keys enter the sums `delay` rows after their own (k and v are moved by as many rows), with these log
     * weights: rows of keys x key_heads, -INFINITY: no key. Outputs are not divided: their numerators (rows of
     * queries x heads x value_dim) and log scales (rows of queries x heads); `norms` receives the denominators. Else
     * NULL, 0. */
    const float *entries;
    float *numerators, *tops;
    int delay;
    /* written by forward */
    float *sums;          /* of the keys of each segment; then of all before it */
    float *totals;        /* of all keys of each sequence */
    float *begins, *ends; /* log scales of the sums before and after each segment */
    float *total_scales;  /* those of `totals` */
    /* rows of keys x key_heads: running log scale after each key; in the fast kernels, the logarithm of what remains of
     * the sums before the segment */
    float *scales;
    float *chunk_scales; /* fast: log scales before each chunk of 64 rows of each segment */
    float *norms;        /* the numbers that bo_normalize returns: rows of queries x heads */
    /* of backward */
    float *gradients;        /* gradient of the sums by the queries of each segment; then of those after it */
    float *after;            /* the latter, by segments of keys: `gradients` if causal */
    float *gradient_totals;  /* by all queries of each sequence */
    double *flow, *key_flow; /* f·df of queries (rows x heads) and keys (rows x key_heads); NULL: no gates */
    float *partials;         /* gradients of parameters by block, then key head */
    int blocks;              /* … and the number of these blocks */
    size_t partial_floats;   /* per key head: σ, M, W', b, b', as far as wanted */
} bo_gpu_linear_attention;

/* row_transform: t = M x + b for each head of rows of `heads` heads; each key head has an M and a b, which heads /
 * key_heads heads share. row_transform_back: dx = Mᵀ dt, dM = Σ dt xᵀ, db = Σ dt over the rows of these heads. Rows are
 * bfloat16 with BO_GPU_ROW_TRANSFORM_DIM columns per head, in t and dt without gaps. */
enum { BO_GPU_ROW_TRANSFORM_DIM = 64 };
typedef struct bo_gpu_row_transform {
    size_t rows, tokens; /* of all sequences, of one; tokens = rows if the strides of x and dx have no .sequence */
    int heads, key_heads;
    const void *x;
    void *t;
    bo_gpu_strides x_strides, dx_strides;
    const float *m, *bias; /* NULL: the identity, 0 */
    int parts;             /* blocks per head */
    /* backward */
    void *dt;             /* of t; read */
    void *dx;             /* NULL: not needed */
    float *dm, *dbias;    /* NULL: not needed */
    bool add_m, add_bias; /* dM += …, db += … */
    float *partials;      /* by part, then key head: dim (dim + 1) */
} bo_gpu_row_transform;

#define BO_GPU_LAUNCHES_LINEAR(X)                                                                                      \
    X(linear_attention, bo_gpu_linear_attention)                                                                       \
    X(linear_attention_back, bo_gpu_linear_attention)                                                                  \
    X(row_transform, bo_gpu_row_transform)                                                                             \
    X(row_transform_back, bo_gpu_row_transform)

#endif
