/* Arguments of operations on numbers and rows: device/add.cu, convert.cu, curves.cu, masks.cu, elementwise.cu, norm.cu,
 * sort.cu, scatter.cu, rope.cu, batch.cu, pool.cu, edges.cu, maps.cu,
 * loss.cu. */
#ifndef BO_CUDA_ARGUMENTS_ROWS_H
#define BO_CUDA_ARGUMENTS_ROWS_H

/* Tensors whose types may differ within a call: values may be BF16 where weights are F32. */
typedef struct bo_cuda_source {
    const void *at; /* NULL: none */
    bo_cuda_type type;
} bo_cuda_source;

typedef struct bo_cuda_target {
    void *at; /* NULL: not needed */
    bo_cuda_type type;
    bool add; /* numbers are added to those at `at` */
} bo_cuda_target;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* y = a + b; accumulate: y += a + b. b NULL: y = a, or y += a. */
typedef struct bo_cuda_add {
    bo_cuda_type type;
    size_t count;
    const void *a, *b;
    void *y;
    bool accumulate;
} bo_cuda_add;

/* to[i] = from[i] in another type, rounded to nearest, ties to even. */
typedef struct bo_cuda_convert {
    size_t count;
    bo_cuda_type from_type, to_type;
    const void *from;
    void *to;
} bo_cuda_convert;

/* *out = 1 if all numbers are finite, else 0. */
typedef struct bo_cuda_finite {
    bo_cuda_type type;
    size_t count;
    const void *x;
    int32_t *out;
} bo_cuda_finite;

/* out[r] = the column of the largest number of row r; the first of equal ones. */
typedef struct bo_cuda_largest {
    size_t rows, columns;
    const float *x;
    int32_t *out;
} bo_cuda_largest;

/* y = a + b; b.at NULL: y = a. */
typedef struct bo_cuda_plus {
    size_t count;
    bo_cuda_source a, b;
    bo_cuda_target y;
} bo_cuda_plus;

/* y = (factor f(x) + offset) b; b.at NULL: without b. function: bo_unary. */
typedef struct bo_cuda_curve {
    size_t count;
    int function;
    float factor, offset;
    bo_cuda_source x, b;
    bo_cuda_target y;
} bo_cuda_curve;

/* dx = factor f'(x) b dy, db = factor f(x) dy. */
typedef struct bo_cuda_curve_back {
    size_t count;
    int function;
    float factor;
    bo_cuda_source x, b, dy;
    bo_cuda_target dx, db;
} bo_cuda_curve_back;

/* y = x m, where m is 0 with probability least / 2^32 and `factor` otherwise, drawn as by the CPU: number i has word i
 * of the stream. row_columns > 0: words are for rows of so many numbers. */
typedef struct bo_cuda_mask {
    size_t count, row_columns;
    const bo_cuda_pass *pass;
    uint64_t stream;
    uint32_t least;
    float factor;
    bo_cuda_source x;
    bo_cuda_target y;
} bo_cuda_mask;

/* y = x + amount ε, ε ~ N(0, 1). */
typedef struct bo_cuda_normal_noise {
    size_t count;
    const bo_cuda_pass *pass;
    uint64_t stream;
    float amount;
    bo_cuda_source x;
    bo_cuda_target y;
} bo_cuda_normal_noise;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Groups of `width` columns: y = gain ∘ (x - mean) r + bias with r = 1 / √(mean (x - mean)² + ε); without `centered`,
 * mean is 0. */
typedef struct bo_cuda_norm {
    size_t groups, width, processors; /* processors: multiprocessors of the GPU */
    bool centered;
    float epsilon;
    bo_cuda_source x, gain, bias;
    bo_cuda_target y;
    float *rate, *mean; /* of each group; NULL: not kept */
} bo_cuda_norm;

/* If dgain or dbias is needed, at most `blocks` blocks write their sums of both to `partial`: blocks x 2 x width
 * floats. */
enum { BO_CUDA_NORM_WIDEST = 8192 }; /* columns */
typedef struct bo_cuda_norm_back {
    size_t groups, width;
    bo_cuda_source x, gain, dy;
    const float *rate, *mean; /* mean NULL: not centered */
    bo_cuda_target dx, dgain, dbias;
    size_t processors, blocks; /* multiprocessors of the GPU */
    float *partial;
} bo_cuda_norm_back;

/* y[r] = table[index[r]] (+ x[r]); NANs if the index is not in the table. */
typedef struct bo_cuda_gather {
    size_t rows, columns, table_rows;
    const int32_t *index;
    bo_cuda_source table, x;
    bo_cuda_target y;
} bo_cuda_gather;

/* A stable sort of 0 … count - 1 by key: keys[order[i]] ascends. Keys that are not in 0 … limit - 1 become `limit`, so
 * that they are last. room: 2 count integers, and 2^BO_CUDA_SORT_BITS per tile. */
typedef struct bo_cuda_sort {
    size_t count, limit;
    const int32_t *keys;
    int32_t *sorted, *order;
    void *room;
} bo_cuda_sort;

/* The keys of a tile of BO_CUDA_SORT_TILE numbers are ranked by one block, by BO_CUDA_SORT_BITS bits at a time. */
enum { BO_CUDA_SORT_TILE = 1024, BO_CUDA_SORT_BITS = 8 };

/* dtable[key] = (or +=) Σ dy[order[i]] over the entries i of `sorted` with this key. Rows of other keys are
 * not written. partial: 2 x tiles x columns floats, with tiles of BO_CUDA_SCATTER_TILE entries. */
enum { BO_CUDA_SCATTER_TILE = 32 };
typedef struct bo_cuda_scatter {
    size_t count, columns, table_rows;
    const int32_t *sorted, *order;
    bo_cuda_source dy;
    bo_cuda_target dtable;
    float *partial;
} bo_cuda_scatter;

/* to[i] = numbers[i]: frequencies that the host computes are part of the launch. */
enum { BO_CUDA_TURNS = 128 };
typedef struct bo_cuda_turns {
    double *to;
    size_t count;
    double numbers[BO_CUDA_TURNS];
} bo_cuda_turns;

/* Rotates pairs of columns of each head by sign position turns; see backend/cpu/angles.h for high and low. Pair i has
 * the columns i step and i step + partner; columns from `rotated` on are copied. Few frequencies are part of the launch:
 * then high and low are NULL. */
enum { BO_CUDA_FEW_TURNS = 64 };
typedef struct bo_cuda_rope {
    size_t rows, heads, dim, rotated, partner, step;
    const double *high, *low;
    double few_high[BO_CUDA_FEW_TURNS], few_low[BO_CUDA_FEW_TURNS];
    const int32_t *position;
    float sign;
    bo_cuda_source x;
    bo_cuda_target y;
} bo_cuda_rope;

/* y = x + sin, cos of position turns in columns 2 i, 2 i + 1. */
typedef struct bo_cuda_sinusoids {
    size_t rows, columns;
    const double *high, *low;
    const int32_t *position;
    bo_cuda_source x;
    bo_cuda_target y;
} bo_cuda_sinusoids;

/* ---- further operations ------------------------------------------------------------------------------------------ */

/* y = x rounded to a format of bo_small_float, stored in its own type. */
typedef struct bo_cuda_round {
    size_t count;
    int format; /* bo_small_float */
    bo_cuda_source x;
    bo_cuda_target y;
} bo_cuda_round;

/* y = Π f_i(a_i) with f_i(a) = a (power 0) or |a|^power. */
enum { BO_CUDA_FACTORS = 4 };
typedef struct bo_cuda_product {
    size_t count;
    int factors;
    float power[BO_CUDA_FACTORS];
    bo_cuda_source a[BO_CUDA_FACTORS];
    bo_cuda_target y;
} bo_cuda_product;

/* da_i = dy f_i'(a_i) Π_{j≠i} f_j(a_j). */
typedef struct bo_cuda_product_back {
    size_t count;
    int factors;
    float power[BO_CUDA_FACTORS];
    bo_cuda_source a[BO_CUDA_FACTORS], dy;
    bo_cuda_target da[BO_CUDA_FACTORS];
} bo_cuda_product_back;

/* The numbers that share an entry of s. */
typedef enum bo_cuda_serves { BO_CUDA_ALL = 0, BO_CUDA_COLUMN = 1, BO_CUDA_ROW = 2 } bo_cuda_serves;

/* y = x ∘ s */
typedef struct bo_cuda_scale {
    size_t rows, columns;
    bo_cuda_serves by;
    bo_cuda_source x, s;
    bo_cuda_target y;
} bo_cuda_scale;

/* ds = Σ dy ∘ x over the numbers that share an entry. partial: BO_CUDA_COLUMN_PARTS x columns doubles, unless by ROW. */
enum { BO_CUDA_COLUMN_PARTS = 64 };
typedef struct bo_cuda_scale_sums {
    size_t rows, columns;
    bo_cuda_serves by;
    bo_cuda_source x, dy;
    bo_cuda_target ds;
    double *partial;
} bo_cuda_scale_sums;

/* Copies columns of a matrix to columns of another one: y[r][to + c] = x[r][from + c]. */
typedef struct bo_cuda_slice {
    size_t rows, columns;
    size_t from, from_columns, to, to_columns; /* first column, and columns of the matrix */
    bo_cuda_source x;
    bo_cuda_target y;
} bo_cuda_slice;

/* Batch normalization: mean and rate of every column are computed from the batch (training) or from the running values.
 * partial: BO_CUDA_COLUMN_PARTS x 2 x columns doubles. */
typedef struct bo_cuda_batch_norm {
    size_t rows, columns;
    bool training, moves; /* moves: the running values are updated */
    double epsilon, momentum;
    bo_cuda_source x, gain, bias;
    float *running_mean, *running_variance;
    float *mean, *rate;
    bo_cuda_target y;
    double *partial;
} bo_cuda_batch_norm;

typedef struct bo_cuda_batch_norm_back {
    size_t rows, columns;
    bool training;
    bo_cuda_source x, gain, dy;
    const float *mean, *rate;
    bo_cuda_target dx, dgain, dbias;
    double *partial; /* as above, and 2 x columns more */
} bo_cuda_batch_norm_back;

/* Windows of images by axis (0: height, 1: width); bo_grid of backend/shapes.h. */
typedef struct bo_cuda_windows {
    size_t images, channels, size[2], kernel[2], stride[2], before[2], places[2];
} bo_cuda_windows;

/* y: the maximum or the mean of each window. chosen: the pixel of the maximum of each number of y; NULL: not kept. */
typedef struct bo_cuda_pool {
    bo_cuda_windows windows;
    bool mean;
    bo_cuda_source x;
    bo_cuda_target y;
    int32_t *chosen;
} bo_cuda_pool;

typedef struct bo_cuda_pool_back {
    bo_cuda_windows windows;
    bool mean;
    bo_cuda_source dy;
    const int32_t *chosen;
    bo_cuda_target dx;
} bo_cuda_pool_back;

/* A graph as in AGGREGATE. weight: of each edge, written by edge_weights: 1 or `factor`, 0 if the edge is dropped, and
 * divided by their sum over the edges of a target if `mean`. into, keys, if not NULL: the target of each edge, and its
 * source or `nodes` if the edge is not used. */
typedef struct bo_cuda_edges {
    size_t nodes, targets, edges, columns;
    const int32_t *first, *neighbors;
    float *weight;
} bo_cuda_edges;

typedef struct bo_cuda_edge_weights {
    bo_cuda_edges graph;
    const bo_cuda_pass *pass;
    bool dropping, mean;
    uint64_t stream;
    uint32_t least;
    float factor;
    int32_t *into, *keys;
} bo_cuda_edge_weights;

/* y_i = Σ weight x over the neighbors, or their maximum, whose edges are kept in `which` (-1: none; NULL: not kept). */
typedef struct bo_cuda_aggregate {
    bo_cuda_edges graph;
    bool largest;
    bo_cuda_source x;
    bo_cuda_target y;
    int32_t *which;
} bo_cuda_aggregate;

/* dx of every node from its edges: sorted, order (bo_cuda_sort of keys). which NULL: sums. */
typedef struct bo_cuda_aggregate_back {
    bo_cuda_edges graph;
    const int32_t *sorted, *order, *into, *which;
    bo_cuda_source dy;
    bo_cuda_target dx;
} bo_cuda_aggregate_back;

/* φ from u = w x, and gradients (bo_map_parts of features/parts.h, without a gradient of w). numbers: offsets and weights
 * (m each), squares (dim) and `common`. */
typedef struct bo_cuda_map_features {
    int form; /* bo_map_form */
    size_t rows, dim, frequencies, features;
    float norm, factor, constant;
    const float *offset, *weight, *square, *common;
    const float *x, *u; /* rows x dim, rows x m */
    bo_cuda_target phi;
} bo_cuda_map_features;

/* du (rows x m), and dt, the sum of the gradients of norm |t|²/2 in each row. */
typedef struct bo_cuda_map_features_back {
    bo_cuda_map_features of; /* without x, u and phi */
    bo_cuda_source phi, dphi;
    float *du, *dt;
} bo_cuda_map_features_back;

/* dx = product + norm square ∘ x dt */
typedef struct bo_cuda_map_features_input {
    size_t rows, dim;
    float norm;
    const float *square, *product, *dt;
    bo_cuda_source x;
    bo_cuda_target dx;
} bo_cuda_map_features_input;

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* kind: bo_loss_kind. `items` numbers, or for KL rows of `columns` numbers. partial: 2 x BO_CUDA_LOSS_BLOCKS doubles.
 * totals: Σ of the losses of items, and Σ t² for RELATIVE; NULL: not kept. */
enum { BO_CUDA_LOSS_BLOCKS = 512 };
typedef struct bo_cuda_loss {
    int kind;
    size_t items, columns;
    bo_cuda_source p, t;
    float *loss;
    double *partial, *totals;
} bo_cuda_loss;

typedef struct bo_cuda_loss_back {
    int kind;
    size_t items, columns;
    bo_cuda_source p, t;
    const float *dloss;
    const double *totals; /* RELATIVE */
    bo_cuda_target dp, dt;
} bo_cuda_loss_back;

#define BO_CUDA_LAUNCHES_ROWS(X)                                                                                       \
    X(add, bo_cuda_add)                                                                                                \
    X(convert, bo_cuda_convert)                                                                                        \
    X(finite, bo_cuda_finite)                                                                                          \
    X(largest, bo_cuda_largest)                                                                                        \
    X(plus, bo_cuda_plus)                                                                                              \
    X(curve, bo_cuda_curve)                                                                                            \
    X(curve_back, bo_cuda_curve_back)                                                                                  \
    X(mask, bo_cuda_mask)                                                                                              \
    X(normal_noise, bo_cuda_normal_noise)                                                                              \
    X(norm, bo_cuda_norm)                                                                                              \
    X(norm_back, bo_cuda_norm_back)                                                                                    \
    X(gather, bo_cuda_gather)                                                                                          \
    X(sort, bo_cuda_sort)                                                                                              \
    X(scatter, bo_cuda_scatter)                                                                                        \
    X(turns, bo_cuda_turns)                                                                                            \
    X(rope, bo_cuda_rope)                                                                                              \
    X(sinusoids, bo_cuda_sinusoids)                                                                                    \
    X(round, bo_cuda_round)                                                                                            \
    X(product, bo_cuda_product)                                                                                        \
    X(product_back, bo_cuda_product_back)                                                                              \
    X(scale, bo_cuda_scale)                                                                                            \
    X(scale_sums, bo_cuda_scale_sums)                                                                                  \
    X(slice, bo_cuda_slice)                                                                                            \
    X(batch_norm, bo_cuda_batch_norm)                                                                                  \
    X(batch_norm_back, bo_cuda_batch_norm_back)                                                                        \
    X(pool, bo_cuda_pool)                                                                                              \
    X(pool_back, bo_cuda_pool_back)                                                                                    \
    X(edge_weights, bo_cuda_edge_weights)                                                                              \
    X(aggregate, bo_cuda_aggregate)                                                                                    \
    X(aggregate_back, bo_cuda_aggregate_back)                                                                          \
    X(map_features, bo_cuda_map_features)                                                                              \
    X(map_features_back, bo_cuda_map_features_back)                                                                    \
    X(map_features_input, bo_cuda_map_features_input)                                                                  \
    X(loss, bo_cuda_loss)                                                                                              \
    X(loss_back, bo_cuda_loss_back)

#endif
