/* Attention with features, computed in chunks of tokens (causal), with the sums of one key head as state.
 *
 * Within a chunk: the first `lag` rows have no key (keys of the hybrid are delayed); row lag + j has key j. At query
 * row i, u = i + 1 rows have been absorbed, with the first t = max(u - lag, 0) keys. b[u]: sum of the log gates of the
 * chunk's first u rows; r[u]: running log scale after them; c[j] = ℓ_j + log weight of the key when it enters - b[lag +
 * j + 1]. With all exponents at most 0,
 *
 *     n_i = exp(r[0] + b[u] - r[u]) Sᵀ f_i + Σ_{j<t} exp(c[j] + b[u] - r[u]) (f_i·f_j) v_j
 *     S' = exp(r[0] + b[U] - r[U]) S + Σ_j exp(c[j] + b[U] - r[U]) f_j v_jᵀ
 *
 * and the same for the denominator with v = 1 and z instead of S (Katharopoulos et al. 2020 in chunks; gates as in
 * arXiv 2103.02143; a running maximum instead of one over the whole sequence, which would leak the future).
 *
 * If features have no log scale (r = 0) and the gates reduce the earlier sums by a factor of at least e^-8, the weights
 * factorize: n_i = exp(b[u]) (Sᵀ f_i + Σ_{j<t} (f_i·f_j) exp(c[j]) v_j), and forward computes exponentials per key and
 * per row instead of per pair.
 *
 * If f_i·f_j has a closed form (bo_closed), a chunk stores rows instead of features. Features are computed for one
 * panel of rows at a time, when the sums are read or absorb keys, and stay in the second-level cache with the sums. */
#ifndef BO_ATTENTION_LINEAR_H
#define BO_ATTENTION_LINEAR_H

#include "../math/block.h"
#include "row_transform.h"
#include "segments.h"
#include "stream.h"

/* ---- rows to features -------------------------------------------------------------------------------------------- */

/* Conversion of rows of q and k to features, through the transform; and kernels with a closed form in s = γ x·y. With a
 * closed form, no features are needed within a chunk: a dot product of length d replaces one of length D. */

typedef struct bo_mapper {
    bo_row_transform transform;
    const bo_features *map;
    size_t count; /* features */
    float *t;     /* rows after the transform: rows x width */
    void *block;  /* scratch memory of features/block.h */
} bo_mapper;

/* Creates a mapper for up to `rows` rows of one key head. */
bo_mapper bo_mapper_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t rows,
                         bo_carver *carver);
/* Computes features (rows x count) and log scales. */
void bo_mapper_features(const bo_mapper *mapper, bo_role role, size_t rows, const float *x, size_t ldx, float *features,
                        float *log_scale);

/* k(x, y) = f(s), s = Σ_j factor_j x_j y_j for rows after the transform. */
typedef struct bo_closed {
    bool used;   /* true if there are many more features than columns */
    bool taylor; /* f = 1 + s + s²/2, else (1 + s)^degree */
    int degree;
    float *factor; /* γ / (length scale)² per column */
} bo_closed;

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Workspace of one key head. Invariants: lag + keys <= chunk; c, b, r belong to the chunk's rows; `weighted` is false
 * if and only if every exponent above is 0 (no gate, features without log scale). With gate FIXED, no delay and
 * features without log scale the exponents are the same for every chunk: `settled`. */
typedef struct bo_linear {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_multiplier products;
    bo_mapper mapper;
    bo_closed closed;
    size_t chunk, count, value_dim;
    size_t depth; /* numbers per row of fk and fq: count, or the transform's width if closed */
    size_t panel; /* rows per panel of features: chunk, or fewer if closed */
    size_t band;  /* rows per band of scores: BO_BAND, or the chunk in bfloat16 */
    bool weighted, settled;
    bo_sums sums; /* the current sums, in scratch memory */
    size_t keys;  /* keys of the current chunk … */
    size_t lag;   /* … and rows before the first of them */
    /* features of the keys (rows after the transform if closed; chunk x depth), and their transpose (times the factors
     * if closed; depth x chunk) */
    float *fk, *fkt;
    float *fq;          /* the same for the queries (chunk x depth) */
    float *features;    /* features of a panel: panel x count; NULL unless closed */
    float *lk, *lq;     /* log scales of the keys and the queries */
    double *b, *c;      /* chunk + 1; chunk, padded to a multiple of 16 */
    float *r;           /* chunk + 1 numbers; 0 if not weighted */
    float *remains;     /* exp(r[0] + b[u] - r[u]), the factor of the earlier sums after u rows: chunk + 1 numbers */
    float *key_factors; /* exp(c[j]) of the first `factored` keys, 1 if not weighted */
    size_t factored;    /* rows that see at most this many keys use factorized weights; all rows if not weighted */
    bool no_factors;    /* never factorize weights (required by backward) */
    float *factors;     /* scratch memory, one float per row */
    float *weights;     /* weights of the keys in the sums: exp(c + b[U] - r[U]), 1 if not weighted */
    float *scores;      /* chunk x chunk */
    float *derivatives; /* f' of the scores if closed and gradients are requested, else NULL */
    float *values;      /* values times weights: chunk x value_dim */
} bo_linear;

/* Returns the depth of its rows. */
size_t bo_linear_depth(const bo_attention *attention);
bo_linear bo_linear_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                         bo_carver *carver);
/* Sets the initial sums from a state, or to zeros if it is NULL. */
void bo_linear_begin(bo_linear *work, const void *state, size_t key_head);
void bo_sums_copy(const bo_attention *attention, bo_sums to, bo_sums from);

/* Begins a chunk, after fk and lk of its keys are computed: sets b, r, c, remains and the weights. Of the rows, only
 * lag, keys and gates are used. */
void bo_linear_begin_chunk(bo_linear *work, const bo_key_rows *rows);
/* Transposes the current keys (fkt), as queries require. */
void bo_linear_transpose(const bo_linear *work);
/* Computes rows of fk or fq for rows of k or q, and their log scales; map_queries writes fq and lq. */
void bo_linear_map(const bo_linear *work, bo_role role, size_t rows, const float *x, size_t ldx, float *mapped,
                   float *log_scale);
void bo_linear_map_queries(bo_linear *work, size_t queries, const float *q, size_t ldq);
/* Returns the features of rows [first, first + rows) of fk or fq, rows <= panel: in place, or computed in
 * `features`. */
const float *bo_linear_features(const bo_linear *work, const float *mapped, size_t first, size_t rows);
/* Computes numerators n (queries x value_dim) and denominators of queries whose features are in fq, from the sums and
 * the chunk's keys (values v). Both are relative to exp(top), top = lq + running log scale (-INFINITY before the first
 * key). Without a normalizer, denominators are 1. */
void bo_linear_queries(const bo_linear *work, size_t queries, const float *v, size_t ldv, float *n, size_t ldn,
                       float *denominator, float *top);
/* Applies the chunk's gates to the sums and adds its keys. */
void bo_linear_absorb(bo_linear *work, const float *v, size_t ldv);

/* True if the sums have a denominator. */
static inline bool bo_linear_divides(const bo_linear *work)
{
    return work->attention->desc.normalizer == BO_NORMALIZER_SUM;
}

/* Computes the scores f_i·f_j of row i for j < visible(i), times exp(c[j] + b[u] - r[u]) unless the weights factorize,
 * then zeros. sums (NULL: not requested) receives the sum of each row; for factorized weights Σ_j (f_i·f_j) exp(c[j]).
 * Rows are processed in bands that see nearly the same keys. */
enum { BO_BAND = BO_SIZE(16, 4) };
void bo_linear_scores(const bo_linear *work, size_t queries, float *sums);

/* Returns the number u of the chunk's rows that have been absorbed at a query row. */
static inline size_t bo_elapsed(const bo_linear *work, size_t row)
{
    size_t rows = work->lag + work->keys;
    return row < rows ? row + 1 : rows;
}

/* Returns the number of keys that a row sees. */
static inline size_t bo_visible(const bo_linear *work, size_t row)
{
    size_t rows = bo_elapsed(work, row);
    return rows > work->lag ? rows - work->lag : 0;
}

/* True if log scales are small enough that exp of their rounding error is finite: |ℓ| < 2^30. */
bool bo_log_scales_fit(size_t n, const float *log_scale);
/* True if neither denominator nor numerator overflowed. */
bool bo_linear_finite(const bo_attention *attention, float denominator, const float *n);
/* Computes out = n / denominator by the rules of the descriptor. Returns the `sum` of the tape (internal.h). */
float bo_normalize(const bo_attention *attention, float denominator, const float *n, float *out);

/* Minimum input weight 1 - g, with a finite logarithm. A clamped weight does not depend on g. */
#define BO_MIN_INPUT_WEIGHT 1e-30f
/* Returns log (1 - g) of a convex gate, at least log BO_MIN_INPUT_WEIGHT; 0 for other gates. */
float bo_log_input(const bo_attention *attention, float log_gate);

/* Computes row[j] *= exp(c[j] + b[lag + t] - r[lag + t]) for j < t. Returns the row's sum. */
float bo_linear_weigh(const bo_linear *work, size_t t, float *row);
/* Returns d log (1 - g) / d log g of a convex gate: -g / (1 - g), and 0 if 1 - g is clamped. */
double bo_input_derivative(double log_gate);

/* One token: the running log scale after it, the factor of the earlier sums, and the weight of its key. */
typedef struct bo_sums_token {
    float log_scale, decay, weight;
} bo_sums_token;
/* log_key: ℓ plus the log weight with which the key enters; -INFINITY: no key. log_gate NULL: no gate. */
bo_sums_token bo_linear_token(const bo_attention *attention, float log_scale, double log_key, const float *log_gate);
/* Returns the log gate of token `at` of a step (sequence * key_heads + key_head); NULL: no gate. */
const float *bo_step_gate(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t at);
/* Applies a token (NULL: none) to the sums. Its key has the features fk, which are scaled in place, and the value v
 * (NULL: no key). Then multiplies the sums by the group's queries, whose features are at fq with stride ldq, and writes
 * the numerators n (group x value_dim). */
void bo_sums_step(const bo_attention *attention, bo_sums sums, const bo_sums_token *token, float *fk, const float *v,
                  const float *fq, size_t ldq, float *n);

/* True if keys are absorbed token by token (causal). False: all keys are absorbed before the first query (bidirectional
 * or no keys). */
static inline bool bo_linear_sweeps(const bo_call *call, size_t sequence)
{
    return call->attention->desc.causal && call->sequences[sequence].keys > 0;
}

void bo_linear_plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys,
                    bo_attention_cost *plan);
size_t bo_linear_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan);
void bo_linear_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);
/* Workspace of a step: features of the tokens of `count` sequences. */
typedef struct bo_linear_step_work {
    bo_mapper mapper;
    float *fk, *lk; /* count x features, count */
    float *fq, *lq; /* group x count x features, group x count */
    float *n;       /* group x value_dim */
} bo_linear_step_work;
bo_linear_step_work bo_linear_step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                        size_t count, bo_carver *carver);
/* Computes the features of the queries of every head of the group. */
void bo_linear_step_queries(const bo_attention *attention, const bo_linear_step_work *work,
                            const bo_attention_inputs *in, size_t first, size_t count, size_t key_head);
bo_token_operations bo_linear_operations(const bo_attention *attention);

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The forward pass of attention with features: shared by tasks of one key head (linear.c) and by waves with all threads
 * on few heads (linear_waves.c). */

/* The arrays of one key head of one sequence. */
typedef struct bo_linear_task {
    const bo_call *call;
    const bo_sequence *at;
    size_t sequence, key_head;
    bo_rows k, v, gate;
} bo_linear_task;

typedef struct bo_linear_forward {
    bo_linear linear;
    float *n, *denominator, *top; /* results for the queries of a chunk */
} bo_linear_forward;

bo_linear_forward bo_linear_forward_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                         size_t chunk, bo_carver *carver);
bo_linear_task bo_linear_task_make(const bo_call *call, size_t sequence, size_t key_head);
/* Computes rows of fk for keys [first, first + keys), and their log scales. False: a value is NaN, infinite or too
 * large. */
bool bo_linear_map_keys(const bo_linear_task *at, bo_linear *linear, size_t first, size_t keys, float *mapped,
                        float *log_scale);
/* Called before the chunk that starts at token `first`: the tape stores the sums at the start of a segment. */
void bo_linear_record(const bo_linear_task *at, const bo_linear *linear, size_t first);
/* Computes queries [first, first + queries) of every head of the group from the sums and the chunk's keys. False: a
 * value is NaN or infinite. */
bool bo_linear_forward_queries(const bo_linear_task *at, bo_linear_forward *work, size_t first, size_t queries);

/* The pass with all threads on every head, with bit-identical results. */
bo_status bo_linear_waves(bo_context *context, bo_call *call);
bool bo_linear_waves_pay(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);
size_t bo_linear_waves_bytes(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);

#endif
