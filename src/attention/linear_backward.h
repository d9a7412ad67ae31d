/* The backward pass of a chunk. All matrices are transposed and augmented: S~ᵀ is (value_dim + 1) x features with z as
 * its last row, v~ = [v, 1], dn~ = [dL/dn, dL/d denominator], so that every product runs along rows in memory. In the
 * notation of linear.h, with W_ij = exp(c[j] + b[u] - r[u]), ρ_i = exp(r[0] + b[u] - r[u]), w_j = exp(c[j] + b[U] -
 * r[U]) and G the gradient of the sums after the chunk:
 *
 *     df_i = ρ_i S~ dn~_i + Σ_{j<t} P_ij f_j          P_ij = W_ij dn~_i·v~_j
 *     df_j = w_j G v~_j + Σ_i P_ij f_i
 *     dv_j = w_j Gᵀ f_j + Σ_i A_ij dn_i               A_ij = W_ij f_i·f_j
 *     G' = exp(r[0] + b[U] - r[U]) G + Σ_i ρ_i f_i dn~_iᵀ
 *
 * The running log scales are constants: outputs do not depend on them.
 *
 * If scores are closed, f(s) with s computed from the rows t, the sums over j and i above are not computed. Instead
 * P_ij f'(s_ij) times the other row is added to dt_i and dt_j; gradients through the sums are computed for a panel of
 * rows at a time. */
#ifndef BO_ATTENTION_LINEAR_BACKWARD_H
#define BO_ATTENTION_LINEAR_BACKWARD_H

#include "linear.h"
#include "stream.h"

/* Invariant: wide = value_dim + 1. */
typedef struct bo_linear_back {
    bo_linear linear;
    size_t wide;
    const float *st;     /* S~ᵀ before the chunk */
    float *gt;           /* Gᵀ after it, then before it */
    float *dn, *carried; /* dn~ and ρ dn~: chunk x wide */
    float *vt;           /* v~ᵀ: wide x chunk */
    float *vw;           /* w_j v~_j: chunk x wide */
    float *p;            /* chunk x chunk */
    float *dfq, *dfk;    /* panel x features; the same array if closed */
    float *ft;           /* closed: features of a panel, transposed */
    float *direct;       /* closed: gradients of keys from the chunk's queries, before the factors: chunk x width */
    float *dtk;          /* closed: gradients of keys through the sums: chunk x width */
    float *dvt;          /* value_dim x chunk */
    float *dt;           /* chunk x width of the transform */
    float *dx;           /* chunk x dim */
    float *dv;           /* chunk x value_dim */
    double *flow,
        *key_flow; /* f_i·df_i of each row summed over the group, and f_j·df_j of each key: for the gates' gradients */
    /* True if bo_linear_back_outputs and bo_linear_back_carry have already processed the queries: their results (fq,
     * lq, dn, carried) are used, and Gᵀ does not change. */
    bool ahead;
} bo_linear_back;

/* One query head: rows of q, dO, O and the tape's top and sum; dq (NULL: not requested) is overwritten or added to. */
typedef struct bo_query_rows {
    size_t rows;
    const float *q, *dout, *out;
    size_t ldq, lddout, ldout;
    const float *top, *sum;
    float *dq;
    size_t lddq;
    bool add;
} bo_query_rows;

bo_linear_back bo_linear_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                   size_t chunk, bo_carver *carver);
/* Copies the sums, transposed and augmented. */
void bo_sums_widen(const bo_linear_back *back, bo_sums sums, float *st);
/* Computes next = S~ᵀ after the current chunk (fk, weights, vw). */
void bo_linear_advance(const bo_linear_back *back, const float *st, float *next);
/* Computes w_j v~_j of the chunk's keys: vw. */
void bo_linear_back_values(bo_linear_back *back, const bo_key_rows *rows);
/* Computes the parts of df_j (dt_j if closed) and dv_j that come through the sums after the chunk; also computes fkt
 * and vt. */
void bo_linear_back_sums(bo_linear_back *back, const bo_key_rows *rows);
/* The same, then propagates Gᵀ to the start of the chunk, ready for the queries. */
void bo_linear_back_keys(bo_linear_back *back, const bo_key_rows *rows);
/* Computes the gradients of one query head's rows, adds those of the chunk's keys and of the sums before it. parameters
 * (NULL: not requested) receive the gradients of the transform. */
void bo_linear_back_queries(bo_linear_back *back, const bo_query_rows *rows, float *parameters);
/* Steps of the functions above that can run ahead, so that Gᵀ is known before each chunk: the mapped queries, dn~ and ρ
 * dn~ of one query head; Gᵀ propagated over the chunk's gates; the contribution of these queries to Gᵀ. */
void bo_linear_back_outputs(bo_linear_back *back, const bo_query_rows *rows);
void bo_linear_back_decay(bo_linear_back *back);
void bo_linear_back_carry(bo_linear_back *back, size_t queries);
/* Called after all query heads: computes dk and dv of the chunk's keys in back->dx and back->dv. */
void bo_linear_back_finish(bo_linear_back *back, const bo_key_rows *rows, float *parameters);

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* One key head of one sequence in the backward pass: bo_linear_backward, and the linear part of the hybrid. */
typedef struct bo_linear_reverse {
    const bo_call *call;
    size_t sequence, key_head;
    bo_key_stream keys;
    bo_gradient_stream d_keys;
    bool add;          /* add to dq, which already contains other gradients */
    float *parameters; /* gradients of the task's parameters */
    /* With a delay and a gate: f_j·df_j of the keys, row j of the stream at j % pending_count, until the token of the
     * key is reached; pending_count >= min(delay, tokens) + chunk. */
    double *pending;
    size_t pending_count;
    float *d_early_gate; /* gradients of keys.early_gate, overwritten; NULL: not requested */
} bo_linear_reverse;
void bo_linear_reverse_run(const bo_linear_reverse *reverse, void *scratch);
/* The pass with all threads on every head (linear_waves_backward.c). */
bo_status bo_linear_waves_backward(bo_context *context, bo_call *call, float *parameters, atomic_bool *too_large);
size_t bo_linear_waves_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);
/* Returns the reverse of a key head whose keys have no delay. */
bo_linear_reverse bo_linear_reverse_of(const bo_call *call, size_t sequence, size_t key_head, float *parameters);

/* ---- steps of the pass, shared by one thread (linear_backward.c) and many (linear_waves_backward.c) -------------- */

/* Features and sums of a segment of some chunks. */
typedef struct bo_linear_segment {
    float *fk, *log_scales;       /* features and log scales of the keys: chunks * chunk x depth, chunks * chunk */
    float *states, *state_scales; /* S~ᵀ before each chunk, and after the last; their log scales */
} bo_linear_segment;
bo_linear_segment bo_linear_segment_make(const bo_attention *attention, size_t chunk, size_t chunks, bo_carver *carver);

/* Results of bo_linear_back_outputs for a chunk. Query head g of the group starts at row g * stride. */
typedef struct bo_linear_ahead {
    float *fq, *lq, *dn, *carried;
    size_t stride;
} bo_linear_ahead;
/* Makes the chunk read and write the results of query head g in these arrays. */
void bo_linear_ahead_use(const bo_linear_ahead *ahead, size_t g, bo_linear_back *back);

typedef struct bo_reverse_work {
    bo_linear_back back;
    bo_linear_ahead ahead;     /* used if back.ahead */
    bo_linear_segment segment; /* the segment of the current chunk */
    float *k, *v;              /* stream buffers: chunk x dim, chunk x value_dim */
    double *entry;             /* stream buffer: chunk */
    double carried;            /* gradient of the log gates after the current chunk */
    double decay;              /* gradient of a fixed log gate: the sum over tokens */
    float *transform;          /* gradients of the transform from the current chunk; NULL: not requested */
} bo_reverse_work;
/* Does not set segment and transform. */
bo_reverse_work bo_reverse_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                size_t chunk, bo_carver *carver);

/* Sets Gᵀ at the end of the sequence. */
void bo_reverse_begin_gradient(const bo_linear_reverse *at, bo_reverse_work *work);
/* Called at the start of the sequence: writes the gradient of the initial state and of a fixed gate. */
void bo_reverse_end(const bo_linear_reverse *at, const bo_reverse_work *work);
/* Adds the gradients of the transform from one chunk to gradients of the task's parameters. NULL: none. */
void bo_reverse_add_parameters(const bo_linear_reverse *at, const float *transform);

/* Returns rows [first, first + rows) of query head g of the group. */
bo_query_rows bo_reverse_query_rows(const bo_linear_reverse *at, size_t g, size_t first, size_t rows);
/* True if their dO is finite. */
bool bo_reverse_finite(const bo_linear_reverse *at, const bo_query_rows *rows);

/* Causal: recomputes a segment's features and sums. If the gates need ⟨S_T, dS_T⟩ and this is the last segment, writes
 * it to *carried; gt: Gᵀ at the end of the sequence. */
void bo_reverse_replay(const bo_linear_reverse *at, bo_reverse_work *work, size_t segment, const float *gt,
                       double *carried);
bo_key_rows bo_reverse_load(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t rows);
/* Restores a chunk of the segment: features, log scales and sums from its arrays; exponents are recomputed. */
void bo_reverse_restore(bo_reverse_work *work, const bo_key_rows *rows, size_t index);
/* Computes chunk `index` of the segment, whose first token is `first`. False: stopped, or dO contains NaN or
 * infinity. */
bool bo_reverse_chunk(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, const bo_key_rows *rows,
                      size_t index);
/* Computes the gradients of the gates of a chunk. Later chunks must be processed before. */
void bo_reverse_gate_gradients(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t tokens,
                               const bo_key_rows *rows);

/* Bidirectional: loads the sums, S~ᵀ to st; computes some queries; then some keys; then the weight of the initial sums,
 * exp(before - after), in Gᵀ. */
void bo_reverse_begin_queries(const bo_linear_reverse *at, bo_reverse_work *work, float *st);
bool bo_reverse_queries(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t rows);
bool bo_reverse_keys(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t count);
void bo_reverse_end_keys(const bo_linear_reverse *at, bo_reverse_work *work);

#endif
