/* Bochner: layers that record their operations on a graph (graph.h) and declare their weights. Advanced tier: for
 * custom networks and layers (docs/guides/graph.md).
 *
 *     bo_value h = bo_nn_linear(graph, "up", x, &(bo_linear_layer){.out = 256, .bias = true});
 *     h = bo_graph_unary(graph, BO_UNARY_GELU, h);
 *     x = bo_nn_output(graph, "down", h, x, NULL);                     // x + h Wᵀ
 *
 * Weights are named by a prefix: "up.weight", "up.bias". A layer of the same prefix in another graph over the same set
 * has the same weights. Layers follow the rules of the set: parametrization, adapters (LoRA) and 8-bit products of a
 * model hold for custom layers within it. Descriptors are read during the call. Zero means the default in every
 * field whose comment says nothing else. */
#ifndef BOCHNER_NN_H
#define BOCHNER_NN_H

#include <bochner/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ===================================================================================================== */

/* y = factor x Wᵀ (+ b) (+ keep residual): `prefix`.weight (out x in), `prefix`.bias. */
typedef struct bo_linear_layer {
    size_t out; /* columns of y; must be given */
    bool bias;
    bo_weight_role role;
    bo_weight_init init; /* AUTO: normal with deviation 1/√in */
    bo_weight_init bias_init;
    bo_value residual;    /* rows of x, `out` columns; 0: none */
    double factor;        /* beside what the parametrization puts there; 0: 1 */
    double keep;          /* 0: 1 */
    uint64_t reserved[4]; /* zero */
} bo_linear_layer;
BO_API bo_value bo_nn_linear(bo_graph *graph, const char *prefix, bo_value x, const bo_linear_layer *desc);

/* residual + x Wᵀ: the projection back to the residual stream. W begins at zero, so that a layer begins as the identity
 * (1901.09321); at unit scale it takes its share of the sum instead (2407.17465). `desc` may be NULL. */
typedef struct bo_output_layer {
    bool bias;
    double factor;        /* of x; 0: 1 */
    double dropout;       /* of what is added */
    uint64_t stream;      /* of dropout (bo_dropout_attributes) */
    uint64_t reserved[4]; /* zero */
} bo_output_layer;
BO_API bo_value bo_nn_output(bo_graph *graph, const char *prefix, bo_value x, bo_value residual,
                             const bo_output_layer *desc);

/* Rows of `prefix`.weight (vocab x width), which begins normal with this deviation. */
BO_API bo_value bo_nn_embedding(bo_graph *graph, const char *prefix, bo_value tokens, size_t vocab, size_t width,
                                double deviation);

/* RMSNorm or LayerNorm of groups of `width` columns: `prefix`.weight, which begins at `gain`, and, of LayerNorm,
 * `prefix`.bias. */
typedef struct bo_norm_layer {
    bo_norm kind;
    size_t width;         /* divides the columns; 0: all */
    double epsilon;       /* 0: 1e-6 */
    double gain;          /* 0: 1 */
    uint64_t reserved[4]; /* zero */
} bo_norm_layer;
BO_API bo_value bo_nn_norm(bo_graph *graph, const char *prefix, bo_value x, const bo_norm_layer *desc);

/* rate 0: x itself. `stream`: another for each dropout of a graph. */
BO_API bo_value bo_nn_dropout(bo_graph *graph, bo_value x, double rate, uint64_t stream);

/* Attention of any kind: projections, norms of q and k, RoPE, gates and parameters as the kind wants them, output
 * projection added to `residual`. `positions` (int32, one per row) counts where positions turn q and k; else it may be
 * 0. */
typedef struct bo_attention_layer {
    const bo_attention *attention; /* must be given and outlive the graph; heads, key_heads, dim, value_dim are its */
    bo_positions positions;
    double rope_base; /* 0: 10000 */
    bool query_norm, output_norm, bias;
    double epsilon, dropout;
    double sigma; /* where σ of RFA, and |√s q|, |√s k| of query_norm before features of softmax, begin; 0: 1 */
    double gate_first, gate_last;  /* biases of the gates of the first and the last key head, and evenly between */
    size_t layer;                  /* numbers states, calibrations and dropout */
    size_t tokens, most_sequences; /* see bo_attention_attributes … */
    bool source;                   /* … as is this … */
    size_t key_tokens;             /* … and, of cross attention, this */
    uint64_t reserved[4];          /* zero */
} bo_attention_layer;
BO_API bo_value bo_nn_attention(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                                const bo_attention_layer *desc);

typedef struct bo_mlp_layer {
    bo_mlp kind;                 /* any but CUSTOM */
    size_t hidden;               /* must be given; QUADRATIC: of the x that its forms see */
    const bo_features *features; /* RANDOM_FEATURES: its map, which must outlive the graph; `hidden` is its length */
    size_t heads;                /* DEGREE_d: groups of columns, each normalized; 0: 1 */
    bool bias;
    double dropout;
    double epsilon;       /* of the norm within QUADRATIC; 0: 1e-6 */
    size_t layer;         /* numbers dropout */
    uint64_t reserved[4]; /* zero */
} bo_mlp_layer;
/* Added to `residual`; NONE: the residual itself. */
BO_API bo_value bo_nn_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc);

#ifdef __cplusplus
}
#endif
#endif
