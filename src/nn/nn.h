/* Layers: each records operations and declares the weights they need under a prefix, with Hugging Face's names. */
#ifndef BO_NN_NN_H
#define BO_NN_NN_H

#include <bochner/attention.h>
#include <bochner/layers.h>
#include "../tape/graph.h"

/* y = x Wᵀ (+ b): `prefix`.weight (out x in), `prefix`.bias. */
typedef struct bo_linear_desc {
    size_t out;
    bool bias;
    bo_weight_role role;
    bo_init init; /* law ZERO and a = 1: zeros; the zero value: normal with deviation 1/√in */
    bo_value residual;
} bo_linear_desc;
bo_value bo_nn_linear(bo_graph *graph, const char *prefix, bo_value x, const bo_linear_desc *desc);
/* Several projections of one x at once: prefix + suffixes[i]. */
void bo_nn_linears(bo_graph *graph, const char *prefix, bo_value x, size_t count, const char *const *suffixes,
                   const bo_linear_desc *descs, bo_value *out);

bo_value bo_nn_embedding(bo_graph *graph, const char *prefix, bo_value tokens, size_t vocab, size_t width);
/* RMSNorm or LayerNorm of groups of `width` columns: `prefix`.weight and, of LayerNorm, `prefix`.bias. */
bo_value bo_nn_norm(bo_graph *graph, const char *prefix, bo_value x, bo_norm kind, size_t width, double epsilon);
bo_value bo_nn_dropout(bo_graph *graph, bo_value x, double rate, uint64_t stream); /* rate 0: x itself */
/* Learned (context rows) or sinusoidal positions added; for RoPE and none x itself. */
bo_value bo_nn_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                         size_t context);

/* Attention of any kind: projections, norms of q and k, RoPE, gates and parameters as the kind wants them, output
 * projection added to `residual`. */
typedef struct bo_attention_layer {
    bo_attention *attention; /* heads, key_heads, dim, value_dim are its */
    bo_positions positions;
    double rope_base;
    bool query_norm, output_norm, bias;
    double epsilon, dropout;
    size_t layer;                  /* numbers states, calibrations and dropout */
    size_t layers;                 /* in all: the output projection begins smaller in deep models */
    size_t tokens, most_sequences; /* see bo_attention_attributes */
} bo_attention_layer;
bo_value bo_nn_attention(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                         const bo_attention_layer *desc);

typedef struct bo_mlp_layer {
    bo_mlp kind;
    size_t hidden;
    bool bias;
    double dropout;
    size_t layer, layers;
} bo_mlp_layer;
/* Added to `residual`; no MLP: the residual itself. */
bo_value bo_nn_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc);

#endif
