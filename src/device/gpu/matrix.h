/* Arguments of GEMM (cuda/gemm.cu) and of the operations built on it: cuda/linear.cu, cuda/cross_entropy.cu,
 * cuda/quadratic.cu. */
#ifndef BO_DEVICE_GPU_MATRIX_H
#define BO_DEVICE_GPU_MATRIX_H

/* D = alpha op(A) op(B) + beta C + bias, all row-major: op(A) is m x k, op(B) is k x n. `ta`: A is stored as k x m;
 * `tb`: B is stored as n x k. A and B have the type `factors`; C and D have the type `result`. Sums are float32; with
 * factors F32 products are float32 too, unless `tf32` is set: then factors are rounded to 11 significant bits. Results
 * are bitwise reproducible. Factors F64 have results F64 and float64 sums. Factors I8 have exact results I32; they
 * require tb without ta, alpha 1, beta 0 or 1, no bias, and sizes and strides that are multiples of 16. */
typedef struct bo_gpu_gemm {
    size_t m, n, k;
    bool ta, tb;
    const void *a, *b, *c; /* c NULL: D itself if beta is not 0 */
    void *d;
    size_t lda, ldb, ldc, ldd; /* strides between stored rows, in elements */
    bo_element factors, result;
    bool tf32;
    float alpha, beta;
    const void *bias; /* n elements of type `result`, or NULL */
    size_t batch;     /* number of products; 0 means 1 */
    size_t stride_a, stride_b, stride_c, stride_d;
} bo_gpu_gemm;

/* ---- linear layers ----------------------------------------------------------------------------------------------- */

typedef struct bo_gpu_recast_item {
    const void *from; /* rows x columns */
    void *to;         /* padded_rows x columns; rows after `rows` become zero */
    size_t rows, padded_rows, columns;
    bo_element stored;
    bo_element to_type;
} bo_gpu_recast_item;

enum { BO_GPU_RECASTS = 10 };

/* Converts all matrices of an operation to the element type of its GEMMs in one launch. */
typedef struct bo_gpu_recast {
    size_t count;
    bo_gpu_recast_item items[BO_GPU_RECASTS];
} bo_gpu_recast;

/* y = scale x Wᵀ + bias + keep residual for a few bfloat16 rows x and one to four weights, which are read once in their
 * storage type. `columns` is a multiple of BO_GPU_FEW_COLUMNS. */
enum { BO_GPU_FEW_COLUMNS = 32, BO_GPU_FEW_WEIGHTS = 4 };

typedef struct bo_gpu_few_item {
    const void *w;    /* n x columns */
    const void *bias; /* NULL: absent */
    void *y;
    size_t n;
    bo_element bias_type, y_type;
} bo_gpu_few_item;

typedef struct bo_gpu_few_rows {
    size_t rows, columns;
    const void *x;
    const void *residual; /* only with a single weight; may be NULL */
    bo_element residual_type;
    float scale, keep;
    bo_element stored; /* of all weights */
    size_t count;
    bo_gpu_few_item items[BO_GPU_FEW_WEIGHTS];
} bo_gpu_few_rows;

/* to = factor from; accumulate: to += factor from. */
typedef struct bo_gpu_store_scaled {
    size_t count;
    bo_element from_type, to_type;
    float factor;
    bool accumulate;
    const void *from;
    void *to;
} bo_gpu_store_scaled;

/* out[j] = Σ_i x[i][j], or out[j] += …: partial sums over BO_GPU_SUM_ROWS rows, or more if there are more than
 * BO_GPU_SUM_PARTS of them, then their sum in order. */
enum { BO_GPU_SUM_ROWS = 64, BO_GPU_SUM_PARTS = 128 };
typedef struct bo_gpu_sum_columns {
    bo_element type, out_type;
    size_t rows, columns, ld;
    bool accumulate;
    const void *x;
    void *out;
    size_t parts;   /* bo_gpu_sum_parts(rows) */
    float *partial; /* parts x columns */
} bo_gpu_sum_columns;

static inline size_t bo_gpu_sum_parts(size_t rows)
{
    const size_t parts = (rows + BO_GPU_SUM_ROWS - 1) / BO_GPU_SUM_ROWS;
    return parts < BO_GPU_SUM_PARTS ? parts : (size_t)BO_GPU_SUM_PARTS;
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */

/* counted = the number of nonnegative targets. */
typedef struct bo_gpu_count_targets {
    size_t rows;
    const int32_t *targets;
    float *counted;
} bo_gpu_count_targets;

/* The losses of some rows of logits l, and the gradients of the loss with respect to l, which replace l. With t the
 * target distribution ((1 - smoothing) e_target + smoothing / columns, or with a teacher (1 - α) e_target + α p'), the
 * gradient is (p - t) (dmean / counted + dlosses[row]). Rows with a negative target have loss and gradient 0; the loss
 * of a target outside the classes is NaN. The padding after `columns` of a row becomes 0. */
typedef struct bo_gpu_softmax_loss {
    bo_element type; /* of the logits */
    size_t rows, columns, ld;
    void *logits;
    const void *teacher; /* logits of the teacher, with the same ld, or NULL */
    const int32_t *targets;
    float *losses;
    double smoothing, alpha;
    bool gradients;
    const float *counted, *dmean, *dlosses; /* dmean, dlosses NULL: 0 */
} bo_gpu_softmax_loss;

/* mean = Σ losses / counted, 0 if counted is 0. */
typedef struct bo_gpu_mean_loss {
    size_t rows;
    const float *losses, *counted;
    float *mean;
} bo_gpu_mean_loss;

/* ---- quadratic forms --------------------------------------------------------------------------------------------- */

/* The pairs (i, j), i <= j < width, in the order of i, then j. Arguments of four launches:
 * quadratic_fold:     v[o][i j] = w[o][i][j] + w[o][j][i] (i < j), w[o][i][i]: w float32 or bfloat16, v of `type`
 * quadratic_unfold:   w[o][i][j] and w[o][j][i] = v[o][i j], or +=: v float32
 * quadratic_expand:   v[r][i j] = x[r][i] x[r][j]: v of `type`
 * quadratic_contract: dx[r][k] = Σ_{j >= k} v[r][k j] x[r][j] + Σ_{i <= k} v[r][i k] x[r][i], or +=: v float32 */
typedef struct bo_gpu_quadratic {
    bo_element type;       /* of factors of products */
    bo_element outer_type; /* of w, or of x and dx */
    size_t count, width;   /* count: outputs, or rows */
    size_t ld;             /* of v: at least the number of pairs; expand and fold write zeros to the padding */
    bool accumulate;
    void *w, *v, *dx;
    const void *x;
} bo_gpu_quadratic;

#define BO_GPU_LAUNCHES_MATRIX(X)                                                                                      \
    X(gemm, bo_gpu_gemm)                                                                                               \
    X(recast, bo_gpu_recast)                                                                                           \
    X(few_rows, bo_gpu_few_rows)                                                                                       \
    X(store_scaled, bo_gpu_store_scaled)                                                                               \
    X(sum_columns, bo_gpu_sum_columns)                                                                                 \
    X(count_targets, bo_gpu_count_targets)                                                                             \
    X(softmax_loss, bo_gpu_softmax_loss)                                                                               \
    X(mean_loss, bo_gpu_mean_loss)                                                                                     \
    X(quadratic_fold, bo_gpu_quadratic)                                                                                \
    X(quadratic_unfold, bo_gpu_quadratic)                                                                              \
    X(quadratic_expand, bo_gpu_quadratic)                                                                              \
    X(quadratic_contract, bo_gpu_quadratic)

#endif
