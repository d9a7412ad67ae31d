/* Ridge attention (2506.05233), a chunk of tokens at a time: o_t = G_tᵀ x_t, (H_t + Λ) x_t = q_t.
 *
 * Given x it is linear attention: G and H together are the sums S of keys k and values [v, k] weighed by β, so that with b_i
 * the sum of the log gates of the chunk's tokens up to i, and G, H those before the chunk,
 *
 *     H_iᵀ p = exp(b_i) Hᵀ p + Σ_{j<=i} exp(b_i - b_j) (p·k_j) β_j k_j          G_iᵀ x alike with v_j in the last place
 *
 * for all rows of a chunk at once by products of matrices (bo_ridge_product). The systems: without a gate by a factor of
 * H + Λ that takes each token in (ridge_factor.c), with one by conjugate gradients on the whole chunk (ridge_solve.c).
 *
 * Memory of a key head: G (dim x value_dim), H (dim x dim); without a gate then the factor, and the Λ it is for, whose zeros
 * say that there is none yet. Each padded to a multiple of 16 floats. */
#ifndef BO_ATTENTION_RIDGE_H
#define BO_ATTENTION_RIDGE_H

#include "front.h"

/* ---- the factor ------------------------------------------------------------------------------------------------ */

/* H + Λ = UᵀU and Γ = U⁻ᵀG, in double: (H + Λ)⁻¹ = U⁻¹U⁻ᵀ and o = Γᵀ U⁻ᵀ q. Row i holds U_ii … U_i,dim-1, then Γ_i; rows lie
 * one after the other. */
typedef struct bo_ridge_factor {
    size_t dim, value_dim;
    double *rows;
} bo_ridge_factor;

static inline size_t bo_ridge_factor_numbers(size_t dim, size_t value_dim)
{
    return dim * (dim + 1) / 2 + dim * value_dim;
}
/* From sums: the symmetric part of H counts. */
void bo_ridge_factor_fit(bo_ridge_factor factor, const float *g, const float *h, const float *lambda);
/* Takes in √β [k, v] (dim + value_dim numbers, destroyed). */
void bo_ridge_factor_take(bo_ridge_factor factor, double *token);
/* [q, 0] becomes [U⁻ᵀq, -o]. */
void bo_ridge_factor_ask(bo_ridge_factor factor, double *asked);
/* z = Γ dout. */
void bo_ridge_factor_pull(bo_ridge_factor factor, const float *dout, double *z);
/* z becomes U⁻¹z. */
void bo_ridge_factor_back(bo_ridge_factor factor, double *z);

/* ---- a chunk --------------------------------------------------------------------------------------------------- */

/* Work space of one key head. Invariants: rows <= chunk; keys is rows, or 0 where only queries are asked; k, q are as the
 * front leaves them; without a gate every remains and reach (j <= i) is 1. */
typedef struct bo_ridge {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_front front;
    size_t dim, value_dim, chunk;
    bool gated;
    float *memory; /* its own, or a state's */
    float *lambda; /* dim */
    size_t rows, keys;
    float *k, *kt;         /* chunk x dim, dim x chunk */
    float *kb, *vb;        /* β k, β v: chunk x dim, chunk x value_dim */
    float *v;              /* chunk x value_dim */
    float *beta;           /* chunk */
    float *q;              /* of each query head of the group: chunk x dim */
    double *b;             /* chunk + 1 */
    float *remains;        /* exp(b_i): chunk */
    float *reach;          /* exp(b_i - b_j), 0 for j > i: chunk x chunk */
    float *scores;         /* chunk x chunk */
    float *x, *r, *p, *hp; /* of the iteration: chunk x dim */
    float *inverse;        /* 1 / diagonal of H_i + Λ: chunk x dim */
    float *z;              /* dim */
    double *rz, *goal;     /* chunk */
    size_t *active;        /* chunk; also 0, 1, 2, … */
    double *token;         /* dim + value_dim */
    double *asked;         /* dim + value_dim */
    bool measures;         /* residuals are wanted */
    bo_solves solves;      /* so far */
} bo_ridge;

bo_ridge bo_ridge_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                       bo_carver *carver);
/* Floats of the memory of a key head. */
size_t bo_ridge_memory(const bo_attention *attention);
static inline float *bo_ridge_h(const bo_ridge *work)
{
    return work->memory + bo_padded(work->dim * work->value_dim);
}
bo_ridge_factor bo_ridge_factor_of(const bo_ridge *work);
/* The memory to begin with: that of a state, or nothing where it is NULL. */
void bo_ridge_begin(bo_ridge *work, const float *memory);
/* Where the factor is none, or for another Λ, it is made anew. */
void bo_ridge_refit(bo_ridge *work);

/* Where the rows of one key head are. */
typedef struct bo_ridge_rows {
    bo_rows k, v, gate, beta;
} bo_ridge_rows;
bo_ridge_rows bo_ridge_rows_at(const bo_call *call, size_t sequence, size_t key_head);
/* The chunk [first, first + rows): its keys (none where k is NULL), and the queries of one head of the group. False: numbers
 * that are not finite. */
bool bo_ridge_keys(bo_ridge *work, const bo_ridge_rows *at, size_t first, size_t rows);
bool bo_ridge_queries(bo_ridge *work, size_t member, bo_rows q, size_t first);
/* G and H take the chunk's keys in (the factor has them already). */
void bo_ridge_absorb(bo_ridge *work);

/* One of the sums, as a linear map of a chunk's rows: out_i = exp(b_i) Mᵀ p_i + Σ_{j<=i} exp(b_i - b_j) (p_i·a_j) c_j. */
typedef struct bo_ridge_sums {
    const float *m;  /* width x out_width */
    const float *at; /* aᵀ: width x chunk */
    const float *c;  /* keys x out_width */
    size_t width, out_width;
} bo_ridge_sums;
/* For `count` rows p (count x width), row s being row index[s] of the chunk, ascending. */
void bo_ridge_product(const bo_ridge *work, const bo_ridge_sums *sums, size_t count, const size_t *index,
                      const float *p, float *out, size_t ldo);
bo_ridge_sums bo_ridge_sums_g(const bo_ridge *work);

/* x (rows x dim) of right-hand sides q (rows x dim), by conjugate gradients; counts in work->solves. */
void bo_ridge_precondition(bo_ridge *work);
void bo_ridge_solve(bo_ridge *work, const float *q, float *x);

/* ---- the engine ------------------------------------------------------------------------------------------------ */

/* Every query of the chunk at hand, without a gate: tokens are taken into the factor one by one. `answer` is called
 * for each row and query head, member by member of the group, with [U⁻ᵀq, -o] in work->asked. */
typedef void bo_ridge_answer(bo_ridge *work, size_t member, size_t row, void *context);
void bo_ridge_sweep(bo_ridge *work, bo_ridge_answer *answer, void *context);

size_t bo_ridge_backward_bytes(const bo_attention *attention, const bo_attention_plan *plan);
void bo_ridge_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

#endif
