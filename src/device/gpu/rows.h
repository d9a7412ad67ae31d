/* Arguments of operations on elements and rows: cuda/add.cu, convert.cu, curves.cu, masks.cu, elementwise.cu, norm.cu,
 * sort.cu, scatter.cu, rope.cu, batch.cu, pool.cu, edges.cu, maps.cu, loss.cu. */
#ifndef BO_DEVICE_GPU_ROWS_H
#define BO_DEVICE_GPU_ROWS_H

/* Tensors whose types may differ within a call: activations may be BF16 while weights are F32. */
typedef struct bo_gpu_source {
    const void *at; /* NULL: absent */
    bo_element type;
} bo_gpu_source;

typedef struct bo_gpu_target {
    void *at; /* NULL: not needed */
    bo_element type;
    bool add; /* accumulates instead of overwriting */
} bo_gpu_target;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* y = a + b; accumulate: y += a + b. b NULL: y = a, or y += a. */
typedef struct bo_gpu_add {
    bo_element type;
    size_t count;
    const void *a, *b;
    void *y;
    bool accumulate;
} bo_gpu_add;

/* to[i] = from[i] in another type, rounded to nearest, ties to even. */
typedef struct bo_gpu_convert {
    size_t count;
    bo_element from_type, to_type;
    const void *from;
    void *to;
} bo_gpu_convert;

/* *out = 1 if all elements are finite, else 0. */
typedef struct bo_gpu_finite {
    bo_element type;
    size_t count;
    const void *x;
    int32_t *out;
} bo_gpu_finite;

/* out[r] = argmax of row r (the first column if several are equal). */
typedef struct bo_gpu_largest {
    size_t rows, columns;
    const float *x;
    int32_t *out;
} bo_gpu_largest;

/* y = a + b; b.at NULL: y = a. */
typedef struct bo_gpu_plus {
    size_t count;
    bo_gpu_source a, b;
    bo_gpu_target y;
} bo_gpu_plus;

/* y = (factor f(x) + offset) b; b.at NULL: without b. function: bo_unary. */
typedef struct bo_gpu_curve {
    size_t count;
    bo_unary function;
    float factor, offset;
    bo_gpu_source x, b;
    bo_gpu_target y;
} bo_gpu_curve;

/* dx = factor f'(x) b dy, db = factor f(x) dy. */
typedef struct bo_gpu_curve_back {
    size_t count;
    bo_unary function;
    float factor;
    bo_gpu_source x, b, dy;
    bo_gpu_target dx, db;
} bo_gpu_curve_back;

/* y = x m, where m is 0 with probability threshold / 2^32, else `factor`. Element i uses random value i of the stream,
 * as on the CPU. row_columns > 0: one random value per row of row_columns elements. */
typedef struct bo_gpu_mask {
    size_t count, row_columns;
    const bo_gpu_pass *pass;
    uint64_t stream;
    uint32_t threshold;
    float factor;
    bo_gpu_source x;
    bo_gpu_target y;
} bo_gpu_mask;

/* y = x + amount ε, ε ~ N(0, 1). */
typedef struct bo_gpu_normal_noise {
    size_t count;
    const bo_gpu_pass *pass;
    uint64_t stream;
    float amount;
    bo_gpu_source x;
    bo_gpu_target y;
} bo_gpu_normal_noise;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Groups of `width` columns: y = gain ∘ (x - mean) r + bias with r = 1 / √(mean (x - mean)² + ε); without `centered`,
 * mean is 0. */
typedef struct bo_gpu_norm {
    size_t groups, width, processors; /* processors: multiprocessors of the GPU */
    bool centered;
    float epsilon;
    bo_gpu_source x, gain, bias;
    bo_gpu_target y;
    float *rate, *mean; /* of each group; NULL: not stored */
} bo_gpu_norm;

/* If dgain or dbias is needed, at most `blocks` blocks write their sums of both to `partial`: blocks x 2 x width
 * floats. */
enum { BO_GPU_NORM_WIDEST = 8192 }; /* columns */
typedef struct bo_gpu_norm_back {
    size_t groups, width;
    bo_gpu_source x, gain, dy;
    const float *rate, *mean; /* mean NULL: not centered */
    bo_gpu_target dx, dgain, dbias;
    size_t processors, blocks; /* multiprocessors of the GPU */
    float *partial;
} bo_gpu_norm_back;

/* y[r] = table[index[r]] (+ x[r]); NaNs if the index is out of range. */
typedef struct bo_gpu_gather {
    size_t rows, columns, table_rows;
    const int32_t *index;
    bo_gpu_source table, x;
    bo_gpu_target y;
} bo_gpu_gather;

/* A stable sort of 0 … count - 1 by key: keys[order[i]] ascends. Keys outside 0 … limit - 1 become `limit` and are
 * last. workspace: 2 count integers, and 2^BO_GPU_SORT_BITS per tile. */
typedef struct bo_gpu_sort {
    size_t count, limit;
    const int32_t *keys;
    int32_t *sorted, *order;
    void *workspace;
} bo_gpu_sort;

/* One block ranks the keys of a tile of BO_GPU_SORT_TILE elements, BO_GPU_SORT_BITS bits per pass. */
enum { BO_GPU_SORT_TILE = 1024, BO_GPU_SORT_BITS = 8 };

/* dtable[key] = (or +=) Σ dy[order[i]] over the entries i of `sorted` with this key. Rows of other keys are
 * not written. partial: 2 x tiles x columns floats, with tiles of BO_GPU_SCATTER_TILE entries. */
enum { BO_GPU_SCATTER_TILE = 32 };
typedef struct bo_gpu_scatter {
    size_t count, columns, table_rows;
    const int32_t *sorted, *order;
    bo_gpu_source dy;
    bo_gpu_target dtable;
    float *partial;
} bo_gpu_scatter;

/* to[i] = numbers[i]: the host computes the frequencies and passes them as launch arguments. */
enum { BO_GPU_TURNS = 128 };
typedef struct bo_gpu_turns {
    double *to;
    size_t count;
    double numbers[BO_GPU_TURNS];
} bo_gpu_turns;

/* Rotates pairs of columns of each head by sign position turns; see backend/cpu/angles.h for high and low. Pair i has
 * the columns i step and i step + partner; columns from `rotated` on are copied. Few frequencies are launch arguments;
 * then high and low are NULL. */
enum { BO_GPU_FEW_TURNS = 64 };
typedef struct bo_gpu_rope {
    size_t rows, heads, dim, rotated, partner, step;
    const double *high, *low;
    double few_high[BO_GPU_FEW_TURNS], few_low[BO_GPU_FEW_TURNS];
    const int32_t *position;
    float sign;
    bo_gpu_source x;
    bo_gpu_target y;
} bo_gpu_rope;

/* y = x + sin, cos of position turns in columns 2 i, 2 i + 1. */
typedef struct bo_gpu_sinusoids {
    size_t rows, columns;
    const double *high, *low;
    const int32_t *position;
    bo_gpu_source x;
    bo_gpu_target y;
} bo_gpu_sinusoids;

/* ---- further operations ------------------------------------------------------------------------------------------ */

/* y = x rounded to a format of bo_small_float, stored in the type of y. */
typedef struct bo_gpu_round {
    size_t count;
    bo_small_float format;
    bo_gpu_source x;
    bo_gpu_target y;
} bo_gpu_round;

/* y = Π f_i(a_i) with f_i(a) = a (power 0) or |a|^power. */
enum { BO_GPU_FACTORS = 4 };
typedef struct bo_gpu_product {
    size_t count;
    int factors;
    float power[BO_GPU_FACTORS];
    bo_gpu_source a[BO_GPU_FACTORS];
    bo_gpu_target y;
} bo_gpu_product;

/* da_i = dy f_i'(a_i) Π_{j≠i} f_j(a_j). */
typedef struct bo_gpu_product_back {
    size_t count;
    int factors;
    float power[BO_GPU_FACTORS];
    bo_gpu_source a[BO_GPU_FACTORS], dy;
    bo_gpu_target da[BO_GPU_FACTORS];
} bo_gpu_product_back;

/* The elements that share an entry of s. */
typedef enum bo_gpu_scale_axis { BO_GPU_ALL = 0, BO_GPU_COLUMN = 1, BO_GPU_ROW = 2 } bo_gpu_scale_axis;

/* y = x ∘ s */
typedef struct bo_gpu_scale {
    size_t rows, columns;
    bo_gpu_scale_axis by;
    bo_gpu_source x, s;
    bo_gpu_target y;
} bo_gpu_scale;

/* ds = Σ dy ∘ x over the elements that share an entry. partial: BO_GPU_COLUMN_PARTS x columns doubles, unless by ROW.
 */
enum { BO_GPU_COLUMN_PARTS = 64 };
typedef struct bo_gpu_scale_sums {
    size_t rows, columns;
    bo_gpu_scale_axis by;
    bo_gpu_source x, dy;
    bo_gpu_target ds;
    double *partial;
} bo_gpu_scale_sums;

/* Copies columns between matrices: y[r][to + c] = x[r][from + c]. */
typedef struct bo_gpu_slice {
    size_t rows, columns;
    size_t from, from_columns, to, to_columns; /* first column, and number of columns of the matrix */
    bo_gpu_source x;
    bo_gpu_target y;
} bo_gpu_slice;

/* Batch normalization: mean and rate of every column come from the batch (training) or from the running values.
 * partial: BO_GPU_COLUMN_PARTS x 2 x columns doubles. */
typedef struct bo_gpu_batch_norm {
    size_t rows, columns;
    bool training, moves; /* moves: the running values are updated */
    double epsilon, momentum;
    bo_gpu_source x, gain, bias;
    float *running_mean, *running_variance;
    float *mean, *rate;
    bo_gpu_target y;
    double *partial;
} bo_gpu_batch_norm;

typedef struct bo_gpu_batch_norm_back {
    size_t rows, columns;
    bool training;
    bo_gpu_source x, gain, dy;
    const float *mean, *rate;
    bo_gpu_target dx, dgain, dbias;
    double *partial; /* as above, and 2 x columns more */
} bo_gpu_batch_norm_back;

/* Windows of images by axis (0: height, 1: width); bo_grid of backend/shapes.h. */
typedef struct bo_gpu_windows {
    size_t images, channels, size[2], kernel[2], stride[2], before[2], places[2];
} bo_gpu_windows;

/* y: the maximum or the mean of each window. chosen: the pixel of the maximum of each element of y; NULL: not stored.
 */
typedef struct bo_gpu_pool {
    bo_gpu_windows windows;
    bool mean;
    bo_gpu_source x;
    bo_gpu_target y;
    int32_t *chosen;
} bo_gpu_pool;

typedef struct bo_gpu_pool_back {
    bo_gpu_windows windows;
    bool mean;
    bo_gpu_source dy;
    const int32_t *chosen;
    bo_gpu_target dx;
} bo_gpu_pool_back;

/* A graph as in AGGREGATE. weight: of each edge, written by edge_weights: 1 or `factor`, 0 if the edge is dropped, and
 * divided by their sum over the edges of a target if `mean`. into, keys, if not NULL: the target of each edge, and its
 * source, or `nodes` if the edge is dropped. */
typedef struct bo_gpu_edges {
    size_t nodes, targets, edges, columns;
    const int32_t *first, *neighbors;
    float *weight;
} bo_gpu_edges;

typedef struct bo_gpu_edge_weights {
    bo_gpu_edges graph;
    const bo_gpu_pass *pass;
    bool dropping, mean;
    uint64_t stream;
    uint32_t threshold;
    float factor;
    int32_t *into, *keys;
} bo_gpu_edge_weights;

/* y_i = Σ weight x over the neighbors, or their maximum, with its edges in `which` (-1: no edge; NULL: not stored). */
typedef struct bo_gpu_aggregate {
    bo_gpu_edges graph;
    bool largest;
    bo_gpu_source x;
    bo_gpu_target y;
    int32_t *which;
} bo_gpu_aggregate;

/* dx of every node from its edges: sorted, order (bo_gpu_sort of keys). which NULL: sums. */
typedef struct bo_gpu_aggregate_back {
    bo_gpu_edges graph;
    const int32_t *sorted, *order, *into, *which;
    bo_gpu_source dy;
    bo_gpu_target dx;
} bo_gpu_aggregate_back;

/* φ from u = w x, and gradients (maps.h, without a gradient of w). Offsets and weights have m elements, squares dim.
 * ldx, ldphi: row strides of x, and of phi and its gradient. root: factor of φ per row; NULL: all 1. IDENTITY reads
 * only u and root. phi may be float64, without `add`. */
typedef struct bo_gpu_map_features {
    bo_map_form form;
    size_t rows, dim, frequencies, features, ldx, ldphi;
    float norm, factor, constant;
    const float *offset, *weight, *square, *common;
    const float *x, *u; /* rows x dim, rows x m */
    const float *root;  /* rows */
    bo_gpu_target phi;
} bo_gpu_map_features;

/* du (rows x m), and dt, the sum of the gradients of norm |t|²/2 in each row. COS: du contains u before. */
typedef struct bo_gpu_map_features_back {
    bo_gpu_map_features of; /* without x, u, root and phi */
    bo_gpu_source phi, dphi;
    float *du, *dt;
} bo_gpu_map_features_back;

/* dx = product + norm square ∘ x dt */
typedef struct bo_gpu_map_features_input {
    size_t rows, dim;
    float norm;
    const float *square, *product, *dt;
    bo_gpu_source x;
    bo_gpu_target dx;
} bo_gpu_map_features_input;

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* kind: bo_loss_kind. `items` elements, or for KL rows of `columns` elements. partial: 2 x BO_GPU_LOSS_BLOCKS doubles.
 * totals: Σ of the losses of items, and Σ t² for RELATIVE; NULL: not stored. */
enum { BO_GPU_LOSS_BLOCKS = 512 };
typedef struct bo_gpu_loss {
    bo_loss_kind kind;
    size_t items, columns;
    bo_gpu_source p, t;
    float *loss;
    double *partial, *totals;
} bo_gpu_loss;

typedef struct bo_gpu_loss_back {
    bo_loss_kind kind;
    size_t items, columns;
    bo_gpu_source p, t;
    const float *dloss;
    const double *totals; /* RELATIVE */
    bo_gpu_target dp, dt;
} bo_gpu_loss_back;

#define BO_GPU_LAUNCHES_ROWS(X)                                                                                        \
    X(add, bo_gpu_add)                                                                                                 \
    X(convert, bo_gpu_convert)                                                                                         \
    X(finite, bo_gpu_finite)                                                                                           \
    X(largest, bo_gpu_largest)                                                                                         \
    X(plus, bo_gpu_plus)                                                                                               \
    X(curve, bo_gpu_curve)                                                                                             \
    X(curve_back, bo_gpu_curve_back)                                                                                   \
    X(mask, bo_gpu_mask)                                                                                               \
    X(normal_noise, bo_gpu_normal_noise)                                                                               \
    X(norm, bo_gpu_norm)                                                                                               \
    X(norm_back, bo_gpu_norm_back)                                                                                     \
    X(gather, bo_gpu_gather)                                                                                           \
    X(sort, bo_gpu_sort)                                                                                               \
    X(scatter, bo_gpu_scatter)                                                                                         \
    X(turns, bo_gpu_turns)                                                                                             \
    X(rope, bo_gpu_rope)                                                                                               \
    X(sinusoids, bo_gpu_sinusoids)                                                                                     \
    X(round, bo_gpu_round)                                                                                             \
    X(product, bo_gpu_product)                                                                                         \
    X(product_back, bo_gpu_product_back)                                                                               \
    X(scale, bo_gpu_scale)                                                                                             \
    X(scale_sums, bo_gpu_scale_sums)                                                                                   \
    X(slice, bo_gpu_slice)                                                                                             \
    X(batch_norm, bo_gpu_batch_norm)                                                                                   \
    X(batch_norm_back, bo_gpu_batch_norm_back)                                                                         \
    X(pool, bo_gpu_pool)                                                                                               \
    X(pool_back, bo_gpu_pool_back)                                                                                     \
    X(edge_weights, bo_gpu_edge_weights)                                                                               \
    X(aggregate, bo_gpu_aggregate)                                                                                     \
    X(aggregate_back, bo_gpu_aggregate_back)                                                                           \
    X(map_features, bo_gpu_map_features)                                                                               \
    X(map_features_back, bo_gpu_map_features_back)                                                                     \
    X(map_features_input, bo_gpu_map_features_input)                                                                   \
    X(loss, bo_gpu_loss)                                                                                               \
    X(loss_back, bo_gpu_loss_back)

#endif
