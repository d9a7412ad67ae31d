/* Arguments of linear attention with feature maps: cuda/features_*.cu. */
#ifndef BO_DEVICE_GPU_LINEAR_H
#define BO_DEVICE_GPU_LINEAR_H

#include "attention.h"
#include "maps.h"

/* A feature map: u = w t, t the rows after the transform. The arrays belong to key head 0; the arrays of the next key
 * head follow `stride` floats later. */
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

/* The arrays of a call. Sums have the layout of bo_sums: log scale and padding (16 floats), z, S; floats 2 and 3 hold
 * the sum of the log gates of a segment, as a double. A segment has `segment` rows; segments are numbered like tiles
 * (bo_gpu_rows). The array of segment i, key head h starts at (i key_heads + h) times its size. */
typedef struct bo_gpu_linear_attention {
    bo_gpu_attention call;
    bo_gpu_map map;
    bo_row_transform_type transform;
    bool gated, convex, divides; /* gated: there are gates; convex: the weight of a key is 1 - g; divides: outputs are
                                    divided by Σ weights */
    float clamp;
    bool fast;   /* the tensor-core kernels for bfloat16, else the general kernels */
    bool stored; /* the tensor-core kernels with features in memory (features_stored.cuh); `fast` is set, too */
    bool steps;  /* about one token per sequence, from and to states */
    int segment; /* rows */
    size_t sums_floats;
    /* HYBRID: keys enter the sums `delay` rows later (k and v are shifted by `delay` rows), with the log weights
     * `entries`: rows of keys x key_heads, -INFINITY: no key. Outputs are not divided: `numerators` (rows of queries x
     * heads x value_dim) and log scales `tops` (rows of queries x heads) are written, and `norms` receives the
     * denominators. Else NULL, 0. */
    const float *entries;
    float *numerators, *tops;
    int delay;
    /* written by forward */
    float *sums;          /* sums over the keys of each segment; then over all earlier keys */
    float *totals;        /* sums over all keys of each sequence */
    float *begins, *ends; /* log scales of the sums before and after each segment */
    float *total_scales;  /* log scales of `totals` */
    /* rows of keys x key_heads: running log scale after each key; in the fast kernels, the log decay of the sums before
     * the segment */
    float *scales;
    float *chunk_scales; /* fast: log scales before each chunk of 64 rows of each segment */
    float *norms;        /* the results of bo_normalize: rows of queries x heads */
    /* stored: bfloat16 arrays are void. A row of features has `stored_dim` elements, zeros after the last feature; a
     * wide row has value_dim + 8 elements, the last 8 of which hold a number as a sum of bfloat16 numbers. */
    int stored_dim;
    void *fq, *fk;                    /* features: rows x heads x stored_dim */
    float *query_scales, *key_scales; /* their log scales: rows x heads */
    float *shifts, *gate_sums;        /* of rows of keys x key_heads: stored_exponents */
    float *kept;                      /* the factor of the sums before each segment in the sums after it */
    void *before, *all; /* wide sums: before each segment, after each sequence; key_heads x features rows each */
    /* of backward */
    void *later;             /* stored: gradients of the sums after each segment of keys, like `before` */
    void *dn;                /* stored: gradients of numerators and denominators: rows x heads wide rows */
    void *dfq, *dfk;         /* stored: gradients of the features */
    float *gradients;        /* gradient of the sums from the queries of each segment; then from all later queries */
    float *after;            /* gradient from later queries, by segment of keys: `gradients` if causal */
    float *gradient_totals;  /* gradient from all queries of each sequence */
    double *flow, *key_flow; /* f·df of queries (rows x heads) and keys (rows x key_heads); NULL: no gates */
    float *partials;         /* partial parameter gradients by block, then key head */
    int blocks;              /* … and the number of blocks */
    size_t partial_floats;   /* per key head: σ, M, W', b, b', as far as requested */
    float *flow_parts, *key_flow_parts; /* stored, if there is a flow: f·df of each tile of features, then of rows */
} bo_gpu_linear_attention;

/* row_transform: t = M x + b for each head of rows of `heads` heads; each key head has an M and a b, which heads /
 * key_heads heads share. row_transform_back: dx = Mᵀ dt, dM = Σ dt xᵀ, db = Σ dt over the rows of these heads. Rows are
 * bfloat16, in t and dt without gaps. BO_GPU_ROW_TRANSFORM_DIM: columns of x and t in the tuned kernels. */
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
    float *partials;      /* by part, then key head: width (dim + 1) */
    int dim, width;       /* columns of x and of t; multiples of 8 */
} bo_gpu_row_transform;

#define BO_GPU_LAUNCHES_LINEAR(X)                                                                                      \
    X(linear_attention, bo_gpu_linear_attention)                                                                       \
    X(linear_attention_back, bo_gpu_linear_attention)                                                                  \
    X(row_transform, bo_gpu_row_transform)                                                                             \
    X(row_transform_back, bo_gpu_row_transform)

#endif
