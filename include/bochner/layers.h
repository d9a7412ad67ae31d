/** @file
 * Layers that record their operations on a graph (graph.h) and declare their weights. Advanced tier: for custom
 * networks and layers (docs/guides/graph.md).
 *
 *     bo_value h = bo_nn_linear(graph, "up", x, &(bo_linear_layer){.out = 256, .bias = true});
 *     h = bo_graph_unary(graph, BO_UNARY_GELU, h);
 *     x = bo_nn_output(graph, "down", h, x, NULL);                     // x + h Wᵀ
 *
 * The names of weights start with a prefix: "up.weight", "up.bias". A layer with the same prefix in another graph over
 * the same set has the same weights. Layers follow the rules of the set: the parametrization, the adapters (LoRA) and
 * the 8-bit products of a model apply to custom layers within it. Zero means the default in every field whose comment
 * does not state otherwise.
 *
 * **Errors.** As all recording functions, these return 0 after an error, which bo_graph_compile() reports. The message
 * names the prefix if a field is invalid or a reserved member is not zero.
 *
 * **Ownership.** Prefixes and descriptors are copied or only read during the call. A feature map or an attention in a
 * descriptor must outlive the graph.
 *
 * **Threads.** As the functions of graph.h: a graph may be used by one thread at a time.
 */
#ifndef BOCHNER_LAYERS_H
#define BOCHNER_LAYERS_H

#include <bochner/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

/** A linear layer: y = factor x Wᵀ (+ b) (+ keep residual). Weights: `prefix.weight` (out x in) and `prefix.bias`. */
typedef struct bo_linear_layer {
    size_t out;               /**< columns of y; required */
    bool bias;                /**< add a bias */
    bo_weight_role role;      /**< role of the matrix */
    bo_weight_init init;      /**< initial values of the matrix (default: normal with standard deviation 1/√in) */
    bo_weight_init bias_init; /**< initial values of the bias (default: zeros) */
    bo_value residual;        /**< a tensor with the rows of x and `out` columns to add; 0: none */
    double factor;            /**< factor in addition to that of the parametrization (default: 1) */
    double keep;              /**< factor of the residual (default: 1) */
    uint64_t reserved[4];     /**< must be zero */
} bo_linear_layer;

/** Records a linear layer.
 *
 * @param graph   the graph
 * @param prefix  prefix of the names of the weights
 * @param x       the input, rows x in
 * @param desc    the layer
 * @return y, rows x out; 0 after an error
 */
BO_API bo_value bo_nn_linear(bo_graph *graph, const char *prefix, bo_value x, const bo_linear_layer *desc);

/** A norm of the summand that a layer adds to the residual stream. */
typedef struct bo_summand_norm {
    const char *prefix;                /**< prefix of the names of its weights */
    const struct bo_norm_layer *layer; /**< the norm */
} bo_summand_norm;

/** An output layer: residual + x Wᵀ, the projection back to the residual stream. */
typedef struct bo_output_layer {
    bool bias;                   /**< add a bias */
    double factor;               /**< factor of x, not of the bias (default: 1) */
    double dropout;              /**< dropout rate of the summand x Wᵀ */
    uint64_t stream;             /**< stream of the dropout (bo_dropout_attributes) */
    const bo_summand_norm *norm; /**< a norm of the summand x Wᵀ, before dropout; NULL: none */
    uint64_t reserved[4];        /**< must be zero */
} bo_output_layer;

/** Records an output layer.
 *
 * W starts at zero, so that the layer starts as the identity (1901.09321). In the unit-scaled parametrization, W is
 * random and both summands are weighted instead (2407.17465).
 *
 * @param graph     the graph
 * @param prefix    prefix of the names of the weights
 * @param x         the input, rows x in
 * @param residual  the residual stream, rows x width
 * @param desc      the layer; NULL: all defaults
 * @return the new residual stream, rows x width; 0 after an error
 */
BO_API bo_value bo_nn_output(bo_graph *graph, const char *prefix, bo_value x, bo_value residual,
                             const bo_output_layer *desc);

/** Records an embedding: rows of `prefix.weight` (vocab x width), whose initial values are normal with mean 0.
 *
 * @param graph      the graph
 * @param prefix     prefix of the name of the weight
 * @param tokens     rows of the table, n x 1, int32
 * @param vocab      rows of the table
 * @param width      columns of the table
 * @param deviation  standard deviation of the initial values
 * @return n x width; 0 after an error
 */
BO_API bo_value bo_nn_embedding(bo_graph *graph, const char *prefix, bo_value tokens, size_t vocab, size_t width,
                                double deviation);

/** A normalization of groups of columns. Weights: the gain `prefix.weight` and, for LayerNorm, `prefix.bias`. */
typedef struct bo_norm_layer {
    bo_norm kind;         /**< RMSNorm or LayerNorm */
    size_t width;         /**< columns of a group, a divisor of the columns (default: all columns) */
    double epsilon;       /**< added to the mean square or variance (default: 1e-6) */
    double gain;          /**< initial value of the gain (default: 1) */
    uint64_t reserved[4]; /**< must be zero */
} bo_norm_layer;

/** Records a normalization.
 *
 * @param graph   the graph
 * @param prefix  prefix of the names of the weights
 * @param x       the input
 * @param desc    the layer
 * @return a tensor of the shape of x; 0 after an error
 */
BO_API bo_value bo_nn_norm(bo_graph *graph, const char *prefix, bo_value x, const bo_norm_layer *desc);

/** Records dropout.
 *
 * @param graph   the graph
 * @param x       the input
 * @param rate    the dropout rate, in [0, 1); 0: x itself is returned
 * @param stream  a number that differs between the dropouts of a graph
 * @return a tensor of the shape of x; 0 after an error
 */
BO_API bo_value bo_nn_dropout(bo_graph *graph, bo_value x, double rate, uint64_t stream);

/** The values inside an attention layer, each with one row per token. */
typedef struct bo_attention_values {
    bo_value q;           /**< queries, after norm and RoPE: heads x dim columns */
    bo_value k;           /**< keys, after norm and RoPE: key_heads x dim columns */
    bo_value v;           /**< values: key_heads x value_dim columns */
    bo_value out;         /**< output of the heads, before norm and output projection: heads x value_dim columns */
    uint64_t reserved[4]; /**< zero */
} bo_attention_values;

/** An attention layer of any kind: projections, norms of q and k, RoPE, gates and parameters as the kind requires them,
 * and an output projection that is added to the residual. */
typedef struct bo_attention_layer {
    const bo_attention *attention; /**< required; must outlive the graph; sets heads, key_heads, dim and value_dim */
    bo_positions positions;        /**< ROPE and ROPE_NEIGHBORS rotate q and k; other values have no effect */
    double rope_base;              /**< base of RoPE (default: 10000) */
    bool query_norm;               /**< RMSNorm of q and k in each head */
    bool output_norm;              /**< RMSNorm of the output of each head */
    bool bias;                     /**< biases of the projections */
    double epsilon;                /**< epsilon of the norms (default: 1e-6) */
    double dropout;                /**< dropout rate of the summand that is added to the residual */
    /** Initial σ of RFA. With query_norm, also the initial length of √s q and √s k if features estimate softmax
     * (default: 1). */
    double sigma;
    double gate_first;    /**< initial bias of the gate of the first key head; gates between are evenly spaced */
    double gate_last;     /**< initial bias of the gate of the last key head */
    size_t layer;         /**< number of the layer, for states, calibration and dropout */
    size_t tokens;        /**< as in bo_attention_attributes */
    size_t max_sequences; /**< as in bo_attention_attributes */
    bool source;          /**< as in bo_attention_attributes */
    size_t key_tokens;    /**< cross attention: as in bo_attention_attributes */
    size_t rotated;       /**< RoPE: leading columns of a head that are rotated, even (default: all) */
    bo_rope_scaling rope_scaling; /**< RoPE: a change of the frequencies */
    bool joint_norm;              /**< query_norm normalizes all heads of q and k together */
    bool plain_output;            /**< no bias of the output projection, even if `bias` is set */
    double factor;                /**< factor of the summand that is added to the residual (default: 1) */
    const bo_summand_norm *norm;  /**< a norm of that summand; NULL: none */
    /** Filled in when the layer is recorded; bo_graph_keep() keeps a value for bo_graph_read(). NULL: not requested. */
    bo_attention_values *values;
    uint64_t reserved[4]; /**< must be zero */
} bo_attention_layer;

/** Records an attention layer.
 *
 * @param graph      the graph
 * @param prefix     prefix of the names of the weights
 * @param x          the input, typically the normalized residual stream
 * @param residual   the residual stream
 * @param positions  the position of each row, n x 1, int32; used by RoPE only, otherwise may be 0
 * @param desc       the layer
 * @return the new residual stream; 0 after an error
 */
BO_API bo_value bo_nn_attention(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                                const bo_attention_layer *desc);

/** An MLP layer. */
typedef struct bo_mlp_layer {
    bo_mlp kind;                 /**< any kind except CUSTOM; NONE: the residual is returned */
    size_t hidden;               /**< hidden columns; required. QUADRATIC: columns that enter the quadratic forms */
    const bo_features *features; /**< RANDOM_FEATURES: the map, of length `hidden`; must outlive the graph */
    size_t heads;                /**< DEGREE_d: groups of columns that are normalized separately (default: 1) */
    bool bias;                   /**< biases of the linear maps */
    double dropout;              /**< dropout rate of the summand that is added to the residual */
    double epsilon;              /**< QUADRATIC: epsilon of its norm (default: 1e-6) */
    size_t layer;                /**< number of the layer, for dropout */
    double factor;               /**< factor of the summand that is added to the residual (default: 1) */
    const bo_summand_norm *norm; /**< a norm of that summand; NULL: none */
    uint64_t reserved[4];        /**< must be zero */
} bo_mlp_layer;

/** Records an MLP layer and adds its output to the residual.
 *
 * @param graph     the graph
 * @param prefix    prefix of the names of the weights
 * @param x         the input, typically the normalized residual stream
 * @param residual  the residual stream
 * @param desc      the layer
 * @return the new residual stream; 0 after an error
 */
BO_API bo_value bo_nn_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc);

#ifdef __cplusplus
}
#endif
#endif
