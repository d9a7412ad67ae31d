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
#ifndef BO_ATTENTION_DELTA_GRADIENT_H
#define BO_ATTENTION_DELTA_GRADIENT_H

#include "delta.h"

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

bo_delta_back bo_delta_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                 size_t chunk, bo_carver *carver);

/* What comes through the memory after the chunk; G is carried over to the chunk's beginning but for what queries and
 * keys owe to S. Without keys: ready for the queries. */
void bo_delta_back_memory(bo_delta_back *back);
/* One query head, whose q and A are in delta: dout (queries x values) is taken into all that it is part of; dq is left
 * with respect to s q after the front. */
void bo_delta_back_queries(bo_delta_back *back, size_t queries, const float *dout, size_t lddout);
/* After every query head: y (which is dv), dk with respect to k after the front, G before the chunk. */
void bo_delta_back_keys(bo_delta_back *back);
/* dβ and da of the chunk's tokens, `stride` apart. */
void bo_delta_back_beta(const bo_delta_back *back, float *dbeta, size_t stride);
void bo_delta_back_gates(bo_delta_back *back, float *dgate, size_t stride);

#endif
