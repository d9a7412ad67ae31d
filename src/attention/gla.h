/* Gated linear attention (arXiv 2312.06635): o_t = s S_tᵀ q_t, S_t = diag(g_t) S_{t-1} + k_t v_tᵀ, in chunks of blocks.
 *
 * A block is at most BO_GATED_ROWS tokens a … e. Within a block, gates are multiplied individually (gated_scores of
 * kernels.h). Between blocks only these products of gates are used:
 *
 *     upto_t = g_a … g_t        after_t = g_{t+1} … g_e        total = g_a … g_e        (for each channel)
 *
 * Keys are stored as K̃_j = k_j ∘ (gates after j up to the start of the next block), so that the output of query i of a
 * block is
 *
 *     o_i = ((s q_i ∘ upto_i)·K̃_j) v_j   summed over keys j of the chunk before the block
 *         + Σ_c s q_i[c] g_{j+1}[c] … g_i[c] k_j[c] v_j   over the keys of the block
 *         + Sᵀ (s q_i ∘ upto_i ∘ since)   with S the state before the chunk, since: gates from there to the block.
 *
 * Every factor is in [0, 1] and there is no division, so gates may be 0 in float. */
#ifndef BO_ATTENTION_GLA_H
#define BO_ATTENTION_GLA_H

#include "row_transform.h"
#include "segments.h"

/* The gates, keys and queries of a block. */
typedef struct bo_gla_block {
    const bo_attention *attention;
    const bo_kernels *kernels;
    bo_row_transform transform;
    size_t dim, value_dim, rows;
    float *g, *upto, *after; /* rows x dim */
    float *total;            /* dim */
    const float *k;          /* keys after the transform, rows with stride ldk */
    size_t ldk;
    float *k_after; /* k ∘ after: rows x dim */
    float *q;       /* s q: rows x dim */
    float *q_upto;  /* s q ∘ upto */
    float *t;       /* rows of k after the transform */
} bo_gla_block;

bo_gla_block bo_gla_block_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                               bo_carver *carver);
/* Loads the gates and keys of the next `rows` tokens. */
void bo_gla_load(bo_gla_block *block, size_t rows, const float *k, size_t ldk, const float *log_gate, size_t ldg);
/* Computes s q after the transform: rows x dim. */
void bo_gla_scaled(const bo_gla_block *block, size_t rows, const float *q, size_t ldq, float *out);
/* Computes q and q_upto of the block's queries in one head. */
void bo_gla_load_queries(bo_gla_block *block, const float *q, size_t ldq);
/* Computes the scores of the block's queries and keys, with zeros above the diagonal: rows of stride ld. */
void bo_gla_scores(const bo_gla_block *block, float *scores, size_t ld);

/* Multiplies row c of S (dim x value_dim) by decay[c]. */
void bo_gla_decay(const bo_gla_block *block, const float *decay, float *s);

/* The arrays of one key head of one sequence. */
typedef struct bo_gla_task {
    const bo_call *call;
    size_t sequence, key_head, tokens;
    bo_token_rows rows;
} bo_gla_task;
bo_gla_task bo_gla_task_make(const bo_call *call, size_t sequence, size_t key_head);

/* Prefetches a block's rows from `first` on while another block is computed. Does nothing if there are no rows. */
void bo_gla_fetch(bo_rows rows, size_t first, size_t end, size_t width);

size_t bo_gla_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan);
void bo_gla_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

#endif
