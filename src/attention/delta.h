/* The delta rule (arXiv 2406.06484; with a gate arXiv 2412.06464), computed in chunks of tokens, with the memory matrix
 * of one key head as state.
 *
 * Within a chunk: b_i is the sum of the chunk's log gates up to and including token i (T: the last); S is the memory
 * before the chunk; x_i is the error of the memory, and u_i = β_i x_i is the update. With D_ij = exp(b_i - b_j), where
 * all exponents are at most 0,
 *
 *     x_i = v_i - exp(b_i) Sᵀk_i - Σ_{j<i} P_ij u_j         P_ij = D_ij k_i·k_j
 *     o_i = exp(b_i) Sᵀ(s q_i) + Σ_{j<=i} A_ij u_j          A_ij = D_ij s q_i·k_j
 *     S' = exp(b_T) S + Σ_j exp(b_T - b_j) k_j u_jᵀ
 *
 * The first line is a triangular system that is solved row by row, so a row depends only on earlier rows. No inverse is
 * formed; quantities that are bounded in the recurrence (β|k|² <= 2) are bounded here too. */
#ifndef BO_ATTENTION_DELTA_H
#define BO_ATTENTION_DELTA_H

#include "row_transform.h"
#include "segments.h"

/* Workspace of one key head. Invariants: keys <= chunk; k … beta belong to the chunk's keys; without a gate remains is
 * 1, and decay and weights are not used. */
typedef struct bo_delta {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_row_transform transform;
    size_t chunk, dim, values;
    bool gated;
    float *s; /* the memory: dim x values */
    size_t keys;
    const float *k; /* keys after the transform */
    size_t ldk;
    float *kt;         /* transpose of k: dim x chunk */
    double *b;         /* chunk */
    float *decay;      /* D_ij for j <= i: chunk x chunk */
    float *remains;    /* exp(b_i) */
    float *weights;    /* exp(b_T - b_j) */
    float *products;   /* -P_ij, 0 for j >= i up to the end of the band of row i: chunk x chunk */
    float *x, *u;      /* chunk x values */
    float *learned;    /* weights times u: chunk x values */
    const float *beta; /* β_i with stride `beta_stride`; NULL: 1 */
    size_t beta_stride;
    float *q;      /* s q of some queries after the transform: chunk x dim */
    float *scores; /* A_ij, 0 for j > i up to the end of the band of row i: chunk x chunk */
    float *t;      /* keys after the transform, if there is one: chunk x dim */
} bo_delta;

/* The arrays of one key head of one sequence. */
typedef struct bo_delta_task {
    const bo_call *call;
    const bo_sequence *at;
    size_t sequence, key_head;
    bo_token_rows rows;
} bo_delta_task;
bo_delta_task bo_delta_task_make(const bo_call *call, size_t sequence, size_t key_head);

/* Rows of a product with a triangle are processed in bands that use nearly the same columns. */
enum { BO_DELTA_BAND = BO_SIZE(16, 4) };

bo_delta bo_delta_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                       bo_carver *carver);
/* Sets the initial memory from a state, or to zeros if it is NULL. */
void bo_delta_begin(bo_delta *work, const void *state, size_t key_head);
/* Loads `keys` keys from token `first` on (0: the memory is only read): sets k … products. */
void bo_delta_keys(bo_delta *work, const bo_delta_task *task, size_t first, size_t keys);
/* Computes x and u from values v. */
void bo_delta_solve(bo_delta *work, const float *v, size_t ldv);
/* Computes u from x. */
void bo_delta_weigh(bo_delta *work);
/* Computes q and A for some queries: one per key or, without keys, any number. */
void bo_delta_queries(bo_delta *work, size_t queries, const float *q, size_t ldq);
/* Computes to = the memory after the chunk, which has keys; it may be work->s. */
void bo_delta_absorb(const bo_delta *work, float *to);

/* Computes out_ij = x_i·y_j, where yt (depth x chunk) is the transpose of y, for all j in the band of row i. */
void bo_delta_triangle(const bo_delta *work, size_t rows, size_t depth, const float *x, size_t ldx, const float *yt,
                       float *out);
/* Computes row_j *= sign D_ij for j < visible; writes zeros up to the end of the band of row i. */
void bo_delta_decay_row(const bo_delta *work, size_t i, size_t visible, float sign, float *row);

static inline float bo_delta_beta(const bo_delta *work, size_t i)
{
    return work->beta ? work->beta[i * work->beta_stride] : 1;
}

/* Returns the end of the band of row i. */
static inline size_t bo_delta_reach(const bo_delta *work, size_t i)
{
    return bo_min(i / BO_DELTA_BAND * BO_DELTA_BAND + BO_DELTA_BAND, work->keys);
}

size_t bo_delta_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan);
void bo_delta_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The backward pass of a chunk of the delta rule. In the notation above, let G be the gradient of the memory after the
 * chunk and dA_ij = do_i·u_j; sums over i also run over the query heads of the group:
 *
 *     du_j = exp(b_T - b_j) Gᵀk_j + Σ_{i>=j} A_ij do_i - Σ_{i>j} P_ij y_i      y_i = β_i du_i: solved from the last row
 * on
 *     dβ_i = du_i·x_i                    dv_i = y_i
 *     s⁻¹ dq_i = exp(b_i) S do_i + Σ_{j<=i} D_ij dA_ij k_j
 *     dk_j = exp(b_T - b_j) G u_j - exp(b_j) S y_j + Σ_{i>=j} D_ij dA_ij s q_i + Σ_{i>j} N_ij k_i + Σ_{i<j} N_ji k_i
 *                                        N_ij = -D_ij y_i·u_j
 *     G' = exp(b_T) G + Σ_i exp(b_i) (s q_i do_iᵀ - k_i y_iᵀ)
 *
 * A log gate a_t is part of b_i for i >= t, hence of every term that leads from before token t (a key j < t, or S) to t
 * or later (a query or key i >= t, or S'). Its gradient is the sum of exactly these terms Z, so nothing has to cancel
 * if a gate is closed.
 *
 *     da_t = Σ_{i>=t} Σ_{j<t} Z_ij      Z_ij = A_ij dA_ij - P_ij y_i·u_j,  from S: exp(b_i) (s q_i·S do_i - k_i·S y_i),
 *                                       to S': exp(b_T - b_j) u_j·Gᵀk_j,  from S to S': exp(b_T) ⟨S, G⟩ */

typedef struct bo_delta_back {
    bo_delta delta; /* keys, x and u of the chunk; s: the memory before it */
    float *g;       /* G after the chunk, then before it: dim x values */
    float *st, *gt; /* transposes of S and of G after the chunk: values x dim */
    float *ut;      /* transpose of u: values x chunk */
    float *du, *y;  /* chunk x values */
    float *carried; /* exp(b_i) do_i, then -exp(b_i) y_i: chunk x values */
    float *pairs;   /* D_ij dA_ij, then N_ij: chunk x chunk */
    float *z;       /* Z_ij, j < i < T: chunk x chunk; only with a gate */
    double *from_s; /* Z from S, and Z to S': one number per token of the chunk */
    double *to_s;
    double through; /* Z from S to S' */
    float *dq, *dk; /* chunk x dim */
} bo_delta_back;

#endif
