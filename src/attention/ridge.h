/* Ridge attention (arXiv 2506.05233), computed in chunks of tokens: o_t = G_tᵀ x_t, (H_t + Λ) x_t = q_t.
 *
 * If attention is not causal, all queries read the same G and H, and o = Wᵀq with W = (H + Λ)⁻¹ G: ridge_pool.c. The
 * rest describes the causal form.
 *
 * Given x it is linear attention: G and H together are the sums S of keys k and values [v, k] weighted by β. Let b_i be
 * the sum of the log gates of the chunk's tokens up to i, and G, H the sums before the chunk. Then
 *
 *     H_iᵀ p = exp(b_i) Hᵀ p + Σ_{j<=i} exp(b_i - b_j) (p·k_j) β_j k_j          G_iᵀ x likewise with v_j as the last
 * factor
 *
 * for all rows of a chunk by matrix products (bo_ridge_product). Without a gate, systems are solved by a factor of H +
 * Λ that is updated with each token; with a gate, by conjugate gradients on the whole chunk, or by a new factor in
 * double if they do not converge (ridge_solve.c).
 *
 * Memory of a key head: G (dim x value_dim), H (dim x dim); without a gate also the factor and the Λ that it was
 * computed for (zeros: no factor yet). Each is padded to a multiple of 16 floats. */
#ifndef BO_ATTENTION_RIDGE_H
#define BO_ATTENTION_RIDGE_H

#include "row_transform.h"
#include "segments.h"

/* ---- the factor -------------------------------------------------------------------------------------------------- */

/* H + Λ = UᵀU and, next to U, a tail T = U⁻ᵀM, in double, for M = G (then o = Tᵀ U⁻ᵀ q) or the identity (then Tᵀ U⁻ᵀ q
 * is (H + Λ)⁻¹ q). Rows of [U T] are consecutive and have `width` columns, without the groups of columns before the
 * diagonal. */
typedef struct bo_ridge_factor {
    size_t dim, width;
    double *rows;
} bo_ridge_factor;

/* The sums in double, and scratch memory. */
typedef struct bo_ridge_exact {
    size_t dim, values, width;
    double rounding;       /* relative rounding errors of the sums */
    double *sums;          /* [H, G]: dim x width */
    double *token, *zeros; /* [k, v] of a token; zeros: width numbers each */
    double *side, *x;      /* right-hand side and solution of a system: dim */
} bo_ridge_exact;
bo_ridge_exact bo_ridge_exact_make(size_t dim, size_t values, bo_carver *carver);
/* Only the symmetric part of H is used. */
void bo_ridge_exact_load(const bo_ridge_exact *exact, const float *g, const float *h);

size_t bo_ridge_width(size_t dim, size_t tail);
size_t bo_ridge_factor_numbers(size_t dim, size_t width);
/* Computes the factor from the sums; the tail is that of the first `values` columns of G. */
void bo_ridge_factor_fit(bo_ridge_factor factor, size_t values, const bo_ridge_exact *exact, const bo_kernels *kernels,
                         const float *lambda);
/* Copies U with the tail of the identity. */
void bo_ridge_factor_invert(bo_ridge_factor factor, bo_ridge_factor from);
/* Replaces x by (H + Λ)⁻¹ x. */
void bo_ridge_factor_solve(bo_ridge_factor factor, double *x);
/* The same for the columns of x (dim x columns). scratch: dim doubles. */
void bo_ridge_factor_solve_columns(bo_ridge_factor factor, const bo_kernels *kernels, size_t columns, double *x,
                                   double *scratch);
/* Computes W = U⁻¹T (dim x columns) of the first columns of the tail: (H + Λ)⁻¹ G. */
void bo_ridge_factor_weights(bo_ridge_factor factor, const bo_kernels *kernels, size_t columns, double *w,
                             double *scratch);

/* Tokens √β [k, v] (overwritten), and `sides` right-hand sides [q, 0] per token, which become [0, -Tᵀ U⁻ᵀ q] with the
 * factor after the token. */
enum { BO_RIDGE_BLOCK = BO_SIZE(8, 2) };
typedef struct bo_ridge_block {
    size_t width, sides;
    double *tokens;    /* BO_RIDGE_BLOCK x width */
    double *rhs;       /* BO_RIDGE_BLOCK x sides x width */
    double *c, *s, *z; /* rotations of a row, and multiples of the row for the sides */
} bo_ridge_block;
bo_ridge_block bo_ridge_block_make(size_t width, size_t sides, bo_carver *carver);
void bo_ridge_factor_update(bo_ridge_factor factor, const bo_kernels *kernels, const bo_ridge_block *block,
                            size_t count);

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* Workspace of one key head. Invariants: rows <= chunk; keys is rows, or 0 if there are only queries; k and q are
 * transformed; without a gate, all of remains and reach (j <= i) are 1. */
typedef struct bo_attention_ridge {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_row_transform transform;
    size_t dim, value_dim, chunk;
    bool gated;
    float *memory; /* scratch memory, or the memory of a state that absorbs a token */
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
    float *x, *r, *p, *hp; /* vectors of the iteration: chunk x dim */
    float *inverse;        /* 1 / diagonal of H_i + Λ: chunk x dim */
    float *z;              /* dim */
    double *rz, *goal;     /* chunk */
    double *diagonal;      /* diagonal of H after the current row: dim */
    size_t *active;        /* chunk; initially 0, 1, 2, … */
    bo_ridge_block block;  /* used without a gate */
    bo_ridge_exact exact;  /* with a gate: the sums after `absorbed` tokens of the chunk */
    bo_ridge_factor direct;
    size_t absorbed;
    bool *left;       /* marks the systems to be solved directly: sides x chunk */
    bool measures;    /* residuals are requested */
    bo_solves solves; /* counts of this task */
} bo_attention_ridge;

/* sides: the number of right-hand sides per row. */
bo_attention_ridge bo_ridge_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                 size_t chunk, size_t sides, bo_carver *carver);
/* Returns the floats of the memory of a key head. */
size_t bo_ridge_memory(const bo_attention *attention);
static inline float *bo_ridge_h(const bo_attention_ridge *work)
{
    return work->memory + bo_padded(work->dim * work->value_dim);
}
bo_ridge_factor bo_ridge_factor_of(const bo_attention_ridge *work);
/* Sets the initial memory from a state, or to zeros if it is NULL. */
void bo_ridge_begin(bo_attention_ridge *work, const float *memory);
/* Recomputes the factor if it is missing or was computed for another Λ. */
void bo_ridge_refit(bo_attention_ridge *work);
/* Sets G, H and the factor from the sums in `exact`, where only the upper triangle of H is required. */
void bo_ridge_fit(bo_attention_ridge *work);
/* True if G and H are finite. */
bool bo_ridge_finite(const bo_attention_ridge *work);

/* Copies transformed rows contiguously. False: a value is NaN or infinite. */
bool bo_ridge_rows(const bo_attention_ridge *work, bo_role role, size_t rows, bo_rows from, float *to);
/* Loads the chunk [first, first + rows): its keys (none if k is NULL), and the queries of one head of the group. False:
 * a value is NaN or infinite. */
bool bo_ridge_keys(bo_attention_ridge *work, const bo_token_rows *at, size_t first, size_t rows);
bool bo_ridge_queries(bo_attention_ridge *work, size_t member, bo_rows q, size_t first);
/* Adds the chunk's keys to G and H (the factor already contains them). */
void bo_ridge_absorb(bo_attention_ridge *work);
/* Adds the chunk's keys to the memory including the factor; there are no queries. */
void bo_ridge_absorb_keys(bo_attention_ridge *work);

/* One of the sums as a linear map of a chunk's rows: out_i = exp(b_i) Mᵀ p_i + Σ_{j<=i} exp(b_i - b_j) (p_i·a_j)
 * c_j. */
typedef struct bo_ridge_sums {
    const float *m;  /* width x out_width */
    const float *at; /* aᵀ: width x chunk */
    const float *c;  /* keys x out_width */
    size_t width, out_width;
} bo_ridge_sums;
/* Applies the map to `count` rows p (count x width); row s is row index[s] of the chunk, ascending. */
void bo_ridge_product(const bo_attention_ridge *work, const bo_ridge_sums *sums, size_t count, const size_t *index,
                      const float *p, float *out, size_t ldo);

/* Without a gate: updates a factor with the chunk's tokens and solves for the right-hand sides of each. */
typedef struct bo_ridge_sweep {
    bo_ridge_factor factor;
    const bo_ridge_block *block;
    bool values;      /* tokens add their v to the tail */
    const float *rhs; /* block->sides x chunk x dim */
    float *out;       /* Tᵀ U⁻ᵀ q of row i and side a: tail floats at out + a * side + i * row */
    size_t tail, row, side;
} bo_ridge_sweep;
void bo_ridge_sweep_run(const bo_attention_ridge *work, const bo_ridge_sweep *sweep);

/* With a gate: computes x (rows x dim) for right-hand sides q (rows x dim) by conjugate gradients, and counts them in
 * work->solves. Call bo_ridge_precondition first, once per chunk. Rows of side `side` that do not converge are marked
 * in `left`. */
void bo_ridge_precondition(bo_attention_ridge *work);
void bo_ridge_iterate(bo_attention_ridge *work, size_t side, const float *q, float *x);
/* Returns the first row from i on with a marked side and prepares it for a direct solve; work->rows if there is none.
 * Rows must ascend. */
size_t bo_ridge_direct_next(bo_attention_ridge *work, size_t sides, size_t i);
/* Computes x for q, or for G dout, in exact.x; then o = Gᵀx. */
void bo_ridge_direct_query(bo_attention_ridge *work, const float *q);
void bo_ridge_direct_pull(bo_attention_ridge *work, const float *dout);
void bo_ridge_direct_output(const bo_attention_ridge *work, float *out);

/* ---- the engine -------------------------------------------------------------------------------------------------- */

/* Adds the counts of a task to those of the call (NULL: not requested). */
void bo_ridge_report(bo_solves *to, const bo_solves *from);
size_t bo_ridge_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan);
void bo_ridge_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

/* The same functions for non-causal attention. */
size_t bo_ridge_pool_bytes(const bo_attention *attention, const bo_attention_cost *plan, bool backward);
void bo_ridge_pool_forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch);
void bo_ridge_pool_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

#endif
