/* The delta rule (2406.06484; with a gate 2412.06464), a chunk of tokens at a time, from and to the memory of one key
 * head.
 *
 * Within a chunk. b_i: sum of the chunk's log gates up to and with token i (T: the last); S: the memory before it; x_i:
 * what the memory got wrong, u_i = β_i x_i what it learns. With D_ij = exp(b_i - b_j), all exponents being at most 0,
 *
 *     x_i = v_i - exp(b_i) Sᵀk_i - Σ_{j<i} P_ij u_j         P_ij = D_ij k_i·k_j
 *     o_i = exp(b_i) Sᵀ(s q_i) + Σ_{j<=i} A_ij u_j          A_ij = D_ij s q_i·k_j
 *     S' = exp(b_T) S + Σ_j exp(b_T - b_j) k_j u_jᵀ
 *
 * The first line is a triangular system, solved row after row: so a row depends on earlier ones only. No inverse is
 * formed; what the recurrence keeps bounded (β|k|² <= 2) stays bounded here. */
#ifndef BO_ATTENTION_DELTA_H
#define BO_ATTENTION_DELTA_H

#include "row_transform.h"
#include "segments.h"

/* Work space of one key head. Invariants: keys <= chunk; k … beta are of the chunk's keys; without a gate remains is 1,
 * and nobody asks for decay and weights. */
typedef struct bo_delta {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_row_transform transform;
    size_t chunk, dim, values;
    bool gated;
    float *s; /* the memory: dim x values */
    size_t keys;
    const float *k; /* keys after the transform … */
    size_t ldk;
    float *kt;         /* … and their transpose: dim x chunk */
    double *b;         /* chunk */
    float *decay;      /* D_ij for j <= i: chunk x chunk */
    float *remains;    /* exp(b_i) */
    float *weights;    /* exp(b_T - b_j) */
    float *products;   /* -P_ij, 0 for j >= i as far as bands of rows reach: chunk x chunk */
    float *x, *u;      /* chunk x values */
    float *learned;    /* weights u: chunk x values */
    const float *beta; /* β_i, `beta_stride` apart; NULL: 1 */
    size_t beta_stride;
    float *q;      /* s q of some queries after the transform: chunk x dim */
    float *scores; /* A_ij, 0 for j > i as far as bands reach: chunk x chunk */
    float *t;      /* keys after the transform, where there is one: chunk x dim */
} bo_delta;

/* One key head of one sequence: where its arrays are. */
typedef struct bo_delta_task {
    const bo_call *call;
    const bo_sequence *at;
    size_t sequence, key_head;
    bo_token_rows rows;
} bo_delta_task;
bo_delta_task bo_delta_task_make(const bo_call *call, size_t sequence, size_t key_head);

/* Rows of a product with a triangle are taken in bands that see nearly the same columns. */
enum { BO_DELTA_BAND = BO_SIZE(16, 4) };

bo_delta bo_delta_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                       bo_carver *carver);
/* The memory to begin with: that of a state, or nothing where it is NULL. */
void bo_delta_begin(bo_delta *work, const void *state, size_t key_head);
/* The next `keys` keys, from token `first` on (0: none, the memory is only asked): k … products. */
void bo_delta_keys(bo_delta *work, const bo_delta_task *task, size_t first, size_t keys);
/* x and u, from values v. */
void bo_delta_solve(bo_delta *work, const float *v, size_t ldv);
/* u, from x. */
void bo_delta_weigh(bo_delta *work);
/* q and A of some queries, one per key or, without keys, any number. */
void bo_delta_queries(bo_delta *work, size_t queries, const float *q, size_t ldq);
/* to = the memory after the chunk, which has keys; it may be work->s. */
void bo_delta_absorb(const bo_delta *work, float *to);

/* out_ij = x_i·y_j, where yt (depth x chunk) is the transpose of y, for all j that the band of i sees. */
void bo_delta_triangle(const bo_delta *work, size_t rows, size_t depth, const float *x, size_t ldx, const float *yt,
                       float *out);
/* row_j *= sign D_ij for j < seen; then zeros as far as the band of row i reaches. */
void bo_delta_decay_row(const bo_delta *work, size_t i, size_t seen, float sign, float *row);

static inline float bo_delta_beta(const bo_delta *work, size_t i)
{
    return work->beta ? work->beta[i * work->beta_stride] : 1;
}

/* Where the band of row i ends. */
static inline size_t bo_delta_reach(const bo_delta *work, size_t i)
{
    return bo_min(i / BO_DELTA_BAND * BO_DELTA_BAND + BO_DELTA_BAND, work->keys);
}

size_t bo_delta_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan);
void bo_delta_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

/* ---- backward -------------------------------------------------------------------------------------------------------- */

/* The backward pass of a chunk of the delta rule. With the letters of delta.h, G the gradient of the memory after the
 * chunk and dA_ij = do_i·u_j, sums over i also going over the query heads of the group:
 *
 *     du_j = exp(b_T - b_j) Gᵀk_j + Σ_{i>=j} A_ij do_i - Σ_{i>j} P_ij y_i      y_i = β_i du_i: solved from the last on
 *     dβ_i = du_i·x_i                    dv_i = y_i
 *     s⁻¹ dq_i = exp(b_i) S do_i + Σ_{j<=i} D_ij dA_ij k_j
 *     dk_j = exp(b_T - b_j) G u_j - exp(b_j) S y_j + Σ_{i>=j} D_ij dA_ij s q_i + Σ_{i>j} N_ij k_i + Σ_{i<j} N_ji k_i
 *                                        N_ij = -D_ij y_i·u_j
 *     G' = exp(b_T) G + Σ_i exp(b_i) (s q_i do_iᵀ - k_i y_iᵀ)
 *
 * A log gate a_t is in b_i for i >= t, so in every term that leads from before token t (a key j < t, or S) to t or
 * after (a query or key i >= t, or S'). Its gradient is the sum of these terms Z and of no others: nothing has to
 * cancel where a gate is closed.
 *
 *     da_t = Σ_{i>=t} Σ_{j<t} Z_ij      Z_ij = A_ij dA_ij - P_ij y_i·u_j,  from S: exp(b_i) (s q_i·S do_i - k_i·S y_i),
 *                                       to S': exp(b_T - b_j) u_j·Gᵀk_j,  from S to S': exp(b_T) ⟨S, G⟩ */

typedef struct bo_delta_back {
    bo_delta delta; /* its keys, x and u are those of the chunk, s the memory before it */
    float *g;       /* G after the chunk, then before it: dim x values */
    float *st, *gt; /* transposes of S and of G after the chunk: values x dim */
    float *ut;      /* of u: values x chunk */
    float *du, *y;  /* chunk x values */
    float *carried; /* exp(b_i) do_i, then -exp(b_i) y_i: chunk x values */
    float *pairs;   /* D_ij dA_ij, then N_ij: chunk x chunk */
    float *z;       /* Z_ij, j < i < T: chunk x chunk; only with a gate */
    double *from_s; /* Z from S, and to S': chunk */
    double *to_s;
    double through; /* from S to S' */
    float *dq, *dk; /* chunk x dim */
} bo_delta_back;

#endif
