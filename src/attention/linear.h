/* Attention with features, a chunk of tokens at a time (causal), from and to the sums of one key head.
 *
 * Within a chunk. t keys have been absorbed before query row i (t = i + 1 - lag, never less than 0: the hybrid's keys
 * lag behind). b[t]: sum of log gates of the chunk's first t keys; r[t]: running log scale after them; c[j] = ℓ_j +
 * log input weight - b[j + 1]. Then, all exponents being at most 0,
 *
 *     n_i = exp(r[0] + b[t] - r[t]) Sᵀ f_i + Σ_{j<t} exp(c[j] + b[t] - r[t]) (f_i·f_j) v_j
 *     S' = exp(r[0] + b[T] - r[T]) S + Σ_j exp(c[j] + b[T] - r[T]) f_j v_jᵀ
 *
 * and the same for the denominator with v = 1 and z instead of S (Katharopoulos et al. 2020 in chunks; gates as in
 * 2103.02143; running maximum instead of one over the sequence, which would leak the future).
 *
 * Where features have no log scale (r = 0) and gates leave at least e^-8 of what was before the chunk, the weights come
 * apart: n_i = exp(b[t]) (Sᵀ f_i + Σ_{j<t} (f_i·f_j) exp(c[j]) v_j), and forward takes exponentials of keys and of rows
 * instead of pairs.
 *
 * Where f_i·f_j has a closed form (linear.h), a chunk holds rows instead of features; these are made for a panel of
 * rows at a time, when the sums are asked or take keys in, and stay in the second cache with the sums. */
#ifndef BO_ATTENTION_LINEAR_H
#define BO_ATTENTION_LINEAR_H

#include "row_transform.h"
#include "segments.h"
#include "stream.h"

/* ---- rows to features ------------------------------------------------------------------------------------------------ */

/* Rows of q and k to features, by way of the transform; and kernels that are a short function of s = γ x·y, for which
 * within a chunk features are not needed: a product of d numbers gives what one of D features would. */

typedef struct bo_mapper {
    bo_row_transform transform;
    const bo_features *map;
    size_t count; /* features */
    float *t;     /* rows after the transform: rows x width */
    void *block;  /* features/block.h's scratch */
} bo_mapper;

/* For up to `rows` rows of one key head. */
bo_mapper bo_mapper_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t rows,
                         bo_carver *carver);
/* Features (rows x count) and log scales. */
void bo_mapper_features(const bo_mapper *mapper, bo_role role, size_t rows, const float *x, size_t ldx, float *features,
                        float *log_scale);

/* k(x, y) = f(s), s = Σ_j factor_j x_j y_j of rows after the transform. */
typedef struct bo_closed {
    bool used;   /* features are many more than columns */
    bool taylor; /* f = 1 + s + s²/2, else (1 + s)^degree */
    int degree;
    float *factor; /* γ / (length scale)² of each column */
} bo_closed;

/* ---- a chunk --------------------------------------------------------------------------------------------------------- */

/* Work space of one key head. Invariants: keys <= chunk; c, b, r are those of the chunk's keys; `weighted` is false
 * exactly when every exponent above is 0 (no gate, features without log scale). With gate FIXED and features without log
 * scale they are the same for every chunk: `settled`. */
typedef struct bo_linear {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_mapper mapper;
    bo_closed closed;
    size_t chunk, count, value_dim;
    size_t depth; /* of a row of fk and fq: count, where closed the transform's width */
    size_t panel; /* rows whose features are made at a time: chunk, where closed fewer */
    bool weighted, settled;
    bo_sums sums;    /* the state so far: in scratch */
    size_t keys;     /* of the chunk at hand */
    float *fk, *fkt; /* features of the keys, where closed their rows (chunk x depth), and the transpose, where closed
                         times the factors (depth x chunk) */
    float *fq;       /* of the queries (chunk x depth) */
    float *features; /* of a panel: panel x count; NULL unless closed */
    float *lk, *lq;  /* log scales of the keys and the queries */
    double *b, *c;   /* chunk + 1, chunk and up to a multiple of 16 */
    float *r;        /* chunk + 1; 0 where not weighted */
    float *remains;  /* exp(r[0] + b[t] - r[t]), what the sums before are worth after t keys: chunk + 1 */
    float *apart;    /* exp(c[j]) of the first `mild` keys, 1 where not weighted */
    size_t mild;     /* rows that see no more keys than this take weights apart; all where not weighted */
    bool whole;      /* never apart, as backward wants it */
    float *factors;  /* room for a number per row */
    float *weights;  /* of the keys in the sums: exp(c + b[T] - r[T]), 1 where not weighted */
    float *scores;   /* chunk x chunk */
    float *slopes;   /* f' of the scores where closed and gradients are wanted, else NULL */
    float *values;   /* values times weights: chunk x value_dim */
} bo_linear;

/* The depth of its rows. */
size_t bo_linear_depth(const bo_attention *attention);
bo_linear bo_linear_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                         bo_carver *carver);
/* Sums to begin with: those of a state, or nothing where it is NULL. */
void bo_linear_begin(bo_linear *work, const void *state, size_t key_head);
void bo_sums_copy(const bo_attention *attention, bo_sums to, bo_sums from);

/* Features, exponents of the next `keys` keys. log_gate: one per key with this stride, or NULL. */
void bo_linear_keys(bo_linear *work, size_t keys, const float *k, size_t ldk, const float *log_gate,
                    size_t gate_stride);
/* The same where fk and lk are there already: b, r, c, what remains and the weights. */
void bo_linear_take(bo_linear *work, size_t keys, const float *log_gate, size_t gate_stride);
/* The keys at hand transposed (fkt): what queries need. */
void bo_linear_transpose(const bo_linear *work);
/* What fk or fq holds of any rows of k or q, and their log scales; of some queries: fq, lq. */
void bo_linear_map(const bo_linear *work, bo_role role, size_t rows, const float *x, size_t ldx, float *mapped,
                   float *log_scale);
void bo_linear_map_queries(bo_linear *work, size_t queries, const float *q, size_t ldq);
/* Features of rows [first, first + rows) of fk or fq, rows <= panel: where they lie, or made in `features`. */
const float *bo_linear_features(const bo_linear *work, const float *mapped, size_t first, size_t rows);
/* Numerators n (queries x value_dim) and denominators of queries whose features are in fq, against sums and the chunk's
 * keys (values v); both are relative to exp(top), top = lq + running log scale (-INFINITY before the first key). Without
 * a normalizer denominators are 1. */
void bo_linear_queries(const bo_linear *work, size_t queries, size_t lag, const float *v, size_t ldv, float *n,
                       size_t ldn, float *denominator, float *top);
/* The sums take the chunk's keys in. */
void bo_linear_absorb(bo_linear *work, const float *v, size_t ldv);

/* The sums have a denominator to give. */
static inline bool bo_linear_divides(const bo_linear *work)
{
    return work->attention->desc.normalizer == BO_NORMALIZER_SUM;
}

/* Scores f_i·f_j of row i for j < visible(i), times exp(c[j] + b[t] - r[t]) unless the weights come apart, then zeros;
 * sums (NULL: not wanted) gets each row's sum, apart Σ_j (f_i·f_j) exp(c[j]). Rows are taken in bands that see nearly the
 * same keys. */
enum { BO_BAND = BO_SIZE(16, 4) };
void bo_linear_scores(const bo_linear *work, size_t queries, size_t lag, float *sums);

/* Keys that the row sees. */
static inline size_t bo_visible(size_t row, size_t lag, size_t keys)
{
    size_t count = row + 1 > lag ? row + 1 - lag : 0;
    return count < keys ? count : keys;
}

/* Log scales are of a size that leaves exp of their rounding in float: |ℓ| < 2^30. */
bool bo_log_scales_fit(size_t n, const float *log_scale);
/* Neither denominator nor numerator has left float. */
bool bo_linear_finite(const bo_attention *attention, float denominator, const float *n);
/* out = n / denominator under the descriptor's rules; also what the tape keeps as `sum` (internal.h). */
float bo_normalize(const bo_attention *attention, float denominator, const float *n, float *out);

/* log (1 - g) of a convex gate, never less than log 1e-30; 0 for the others. */
float bo_log_input(const bo_attention *attention, float log_gate);

/* row[j] *= exp(c[j] + b[t] - r[t]) for j < t; returns the row's sum. */
float bo_linear_weigh(const bo_linear *work, size_t t, float *row);
/* d log (1 - g) / d log g of a convex gate: -g / (1 - g), and 0 where 1 - g is at its least. */
double bo_input_slope(float log_gate);

/* One key: the running log scale after it, what the sums before are worth then, and what the key is. */
typedef struct bo_token {
    float log_scale, decay, weight;
} bo_token;
bo_token bo_linear_token(const bo_attention *attention, float log_scale, float lk, const float *log_gate);
/* The sums take a key in (features fk, which are scaled in place, log scale lk; v NULL: none) and answer the group's
 * queries, features at fq with stride ldq: numerators n (group x value_dim). */
void bo_sums_step(const bo_attention *attention, bo_sums sums, float *fk, float lk, const float *v,
                  const float *log_gate, const float *fq, size_t ldq, float *n);

/* Are keys taken in token by token (causal), or all before the first query (bidirectional, or no keys at all)? */
static inline bool bo_linear_sweeps(const bo_call *call, size_t sequence)
{
    return call->attention->desc.causal && call->sequences[sequence].keys > 0;
}

void bo_linear_plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys,
                    bo_attention_cost *plan);
size_t bo_linear_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan);
void bo_linear_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);
/* Work space of a step: features of `count` sequences' tokens together. */
typedef struct bo_linear_step_work {
    bo_mapper mapper;
    float *fk, *lk; /* count x features, count */
    float *fq, *lq; /* group x count x features, group x count */
    float *n;       /* group x value_dim */
} bo_linear_step_work;
bo_linear_step_work bo_linear_step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                        size_t count, bo_carver *carver);
/* Features of the queries of every head of the group. */
void bo_linear_step_queries(const bo_attention *attention, const bo_linear_step_work *work,
                            const bo_attention_inputs *in, size_t first, size_t count, size_t key_head);
bo_token_operations bo_linear_operations(const bo_attention *attention);

/* ---- a sequence ------------------------------------------------------------------------------------------------------ */

/* The forward pass of attention with features: what a task of one key head (linear.c) and the waves of a few heads on many
 * threads share. */

/* One key head of one sequence: where its arrays are. */
typedef struct bo_linear_task {
    const bo_call *call;
    const bo_sequence *at;
    size_t sequence, key_head;
    bo_rows k, v, gate;
} bo_linear_task;

typedef struct bo_linear_forward {
    bo_linear linear;
    float *n, *denominator, *top; /* of a chunk's queries */
} bo_linear_forward;

#endif
