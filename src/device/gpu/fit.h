/* Arguments of fits and predictions of kernel machines: cuda/feature_round.cu, cuda/gram.cu, cuda/cholesky.cu,
 * cuda/predict.cu. */
#ifndef BO_DEVICE_GPU_FIT_H
#define BO_DEVICE_GPU_FIT_H

/* q = z / quantum, rounded to integers from -127 to 127 and transposed (features x ldq); z = q quantum. */
typedef struct bo_gpu_feature_round {
    size_t rows, features;
    float quantum;
    double *z;
    size_t ldz;
    int8_t *q;
    size_t ldq; /* columns from `rows` on are set to 0 */
} bo_gpu_feature_round;

/* G += scale S. */
typedef struct bo_gpu_gram_add {
    bo_element type; /* of S: F32 or I32 */
    size_t rows, columns;
    double scale;
    const void *s;
    size_t lds;
    double *g;
    size_t ldg;
} bo_gpu_gram_add;

/* columns = G[:, first …] (size x (size - first)), diagonal = diag(G) (size). */
typedef struct bo_gpu_gram_margins {
    size_t size, first;
    const double *g;
    size_t ldg;
    double *columns, *diagonal;
} bo_gpu_gram_margins;

/* Copies the upper triangle to the lower. */
typedef struct bo_gpu_gram_mirror {
    size_t n;
    double *g;
    size_t ldg;
} bo_gpu_gram_mirror;

/* A = G - weight c cᵀ + diag(penalty): the upper triangle of n x n. */
typedef struct bo_gpu_ridge_assemble {
    size_t n;
    const double *g;
    size_t ldg;
    double weight;
    const double *center, *penalty;
    double *a;
    size_t lda;
} bo_gpu_ridge_assemble;

/* The first pivot that is not positive. */
typedef struct bo_gpu_pivot {
    double value;
    int64_t place; /* its index plus 1; 0: all pivots are positive */
} bo_gpu_pivot;

enum { BO_GPU_CHOLESKY = 64 };

/* Factorizes the upper triangle of a block A (n x n, n <= BO_GPU_CHOLESKY) as UᵀU, and inverts U. Does nothing if
 * pivot->place is not 0. Below their diagonals, U and its inverse (stride BO_GPU_CHOLESKY) are 0. */
typedef struct bo_gpu_cholesky_block {
    size_t n, first; /* first: the index of its first pivot in the whole matrix */
    const double *a;
    size_t lda;
    double *u;
    size_t ldu;
    double *inverse;
    bo_gpu_pivot *pivot;
} bo_gpu_cholesky_block;

/* packed = the rows of L = Uᵀ up to the diagonal, one after the other, as floats. */
typedef struct bo_gpu_factor_pack {
    size_t n;
    const double *u;
    size_t ldu;
    float *packed;
} bo_gpu_factor_pack;

/* wide = z - center, in float64, and picks[i][k] = z[i][picked[k]]; quantum > 0: z is first rounded to multiples of it,
 * as by feature_round. */
typedef struct bo_gpu_feature_center {
    size_t rows, features;
    float quantum;
    const float *z; /* rows x features */
    const double *center;
    double *wide; /* rows x features */
    size_t picks_count;
    const uint32_t *picked;
    double *picks; /* rows x picks_count */
} bo_gpu_feature_center;

/* The lower triangle of L, n x ldl, from its packed rows. */
typedef struct bo_gpu_factor_unpack {
    bo_element type; /* of packed: F32 or F64 */
    size_t n;
    const void *packed;
    double *l;
    size_t ldl;
} bo_gpu_factor_unpack;

/* out[i] = Σ_j x[i][j]² / divisor[j]; subtract: out[i] = max(out[i] - the sum, 0). */
typedef struct bo_gpu_row_squares {
    size_t rows, columns, ld;
    const double *x, *divisor; /* divisor NULL: all 1 */
    bool subtract;
    double *out;
} bo_gpu_row_squares;

#define BO_GPU_LAUNCHES_FIT(X)                                                                                         \
    X(feature_round, bo_gpu_feature_round)                                                                             \
    X(gram_add, bo_gpu_gram_add)                                                                                       \
    X(gram_margins, bo_gpu_gram_margins)                                                                               \
    X(gram_mirror, bo_gpu_gram_mirror)                                                                                 \
    X(ridge_assemble, bo_gpu_ridge_assemble)                                                                           \
    X(cholesky_block, bo_gpu_cholesky_block)                                                                           \
    X(factor_pack, bo_gpu_factor_pack)                                                                                 \
    X(feature_center, bo_gpu_feature_center)                                                                           \
    X(factor_unpack, bo_gpu_factor_unpack)                                                                             \
    X(row_squares, bo_gpu_row_squares)

#endif
