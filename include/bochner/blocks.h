/** @file
 * Blocks of models: the parts of a layer.
 *
 *     bo_block block = {.heads = 4, .mlp = BO_MLP_SWIGLU};
 *     bo_attention_preset("rfa-gate", &block.attention);
 *     bo_model_desc desc = {.layers = 6, .width = 256, .context = 1024, .block = block};   // model.h
 *
 * A block is a plain struct whose zero value means the default in every field whose comment does not state otherwise.
 * The creation of a model checks it and fills in the defaults.
 *
 * **Ownership.** Models copy blocks with their texts. The object that `user` of a custom layer points to must outlive
 * the model.
 *
 * **Threads.** Blocks are values and can be used by any thread.
 */
#ifndef BOCHNER_BLOCKS_H
#define BOCHNER_BLOCKS_H

#include <bochner/attention.h>
#include <bochner/graph.h>
#include <bochner/kinds.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** A choice with an automatic default. */
typedef enum bo_choice {
    BO_CHOICE_AUTO = 0, /**< chosen by the library */
    BO_CHOICE_NO = 1,   /**< no */
    BO_CHOICE_YES = 2   /**< yes */
} bo_choice;

/** Where a custom layer is recorded. Owned by the library, valid during the call. */
typedef struct bo_custom_place {
    void *user;                        /**< `user` of the layer */
    const char *prefix;                /**< prefix of the names of its weights: "model.layers.3.mlp" */
    size_t layer;                      /**< number of the layer, from 0 */
    bo_value x;                        /**< the normalized residual stream, rows x width */
    bo_value residual;                 /**< the residual stream, rows x width */
    uint64_t stream;                   /**< a stream for a dropout of the layer (bo_dropout_attributes) */
    const struct bo_model_desc *model; /**< the model, with defaults filled in: width, dropout, … */
    const struct bo_block *block;      /**< the block of the layer, with defaults filled in: hidden, bias, … */
} bo_custom_place;

/** A custom layer in place of the MLP, between the mixers.
 *
 * `record` records the layer on the graph with graph.h and layers.h and returns the new residual stream, for example
 * the result of bo_nn_output(graph, "….down", hidden, place->residual, …). Each row of x must be processed separately.
 * The names of weights must start with the prefix. The function is called once per layer and graph, with a different
 * number of rows each time, and at a different width if the parametrization compares with a base model. It must record
 * the same layer each time. Threads that share the model may call it at the same time. It reports errors with `return
 * bo_graph_fail(graph, "…")`. */
typedef struct bo_custom_layer {
    const char *name; /**< the name in config.json, by which bo_model_load() finds the layer; copied */
    /** Records the layer; returns the new residual stream, or 0 after an error. */
    bo_value (*record)(bo_graph *graph, const bo_custom_place *place);
    void *user;           /**< passed to `record`; must outlive the model */
    uint64_t reserved[4]; /**< must be zero */
} bo_custom_layer;

/** A block: the mixer and the MLP of a layer, their norms, and how they are joined to the residual stream. Zero means
 * the default, except in `heads`. */
typedef struct bo_block {
    size_t repeat;    /**< number of consecutive layers with this block (default: 1) */
    bo_mixer mixer;   /**< the mixer (default: ATTENTION) */
    size_t heads;     /**< number of query heads */
    size_t key_heads; /**< number of key heads, a divisor of heads (default: heads) */
    size_t head_dim;  /**< columns per head (default: width / heads) */
    /** ATTENTION: the attention (default: softmax attention). Start from a preset (bo_attention_preset()), then set any
     * field of attention.h. heads, key_heads, dim, value_dim and causal are filled in. features.features (default:
     * 128 if the map does not determine it); features.seed (default: derived from the seed of the model). */
    bo_attention_desc attention;
    bo_mlp mlp; /**< the MLP (default: RELU2) */
    /** Hidden width of the MLP (default: 4 width; SWIGLU, GEGLU, DEGREE_2 and DEGREE_E 8/3 width, DEGREE_3 2 width,
     * DEGREE_4 8/5 width, QUADRATIC √(8 width), which all give the same number of weights). */
    size_t hidden;
    bo_residual residual;   /**< how mixer and MLP are joined to the residual stream (default: SEQUENTIAL) */
    double residual_scale;  /**< factor of the outputs of mixer and MLP in the residual stream (default: 1) */
    bo_norm norm;           /**< the normalization (default: RMS) */
    double norm_epsilon;    /**< epsilon of the norms (default: 1e-6) */
    bool bias;              /**< biases of linear layers */
    bo_positions positions; /**< the positions (default: ROPE); all blocks have the same, but ROPE and NONE can mix */
    double rope_base;       /**< base of RoPE (default: 10000) */
    size_t rotated;         /**< RoPE: leading columns of a head that are rotated, even (default: all) */
    bo_rope_scaling rope_scaling; /**< RoPE: a change of the frequencies */
    bo_choice query_norm;         /**< RMSNorm of q and k in each head; AUTO: unless the kind already normalizes them */
    bo_choice output_norm;        /**< RMSNorm of the output of each head; AUTO: if attention has no normalizer */
    bool joint_norm;              /**< query_norm normalizes all heads of q and k together */
    bo_choice attention_bias;     /**< attention: biases of q, k and v; AUTO: `bias` */
    bo_choice output_bias;        /**< attention: bias of the output projection; AUTO: attention_bias */
    bo_choice mlp_bias;           /**< biases of the MLP; AUTO: `bias` */
    /** Initial σ of RFA. With query_norm, also the initial length of √s q and √s k before features of softmax (default:
     * 1, for HYBRID 3). */
    double sigma;
    /** Initial bias b of the gate of the first key head, which starts at σ(b). Biases are evenly spaced between the
     * first and the last key head. If both are 0, they are 1 and 5. */
    double gate_first;
    double gate_last;    /**< initial bias of the gate of the last key head */
    bo_ssm ssm;          /**< SSM: the transition matrix (default: DIAGONAL) */
    size_t state_size;   /**< SSM: numbers in the state of a channel (default: 16) */
    size_t state_rank;   /**< SSM: columns of P (default: 1) */
    size_t kernel;       /**< kernel size of a convolution in tokens (default: 4 in an SSM mixer, otherwise 64) */
    size_t degree_heads; /**< DEGREE_d: groups of columns that are normalized separately (default: 1) */
    /** RANDOM_FEATURES: the map, with any kernel, function and draw. dim and features (= hidden) are filled in. kernel
     * (default: RBF); gamma (default: normalized x are at distance one); seed (default: derived from the seed of the
     * model). */
    bo_features_desc mlp_features;
    /** LAYERS, which is implied: a list of layers as JSON text, of any type that acts on single rows, which maps the
     * normalized residual stream to its update (docs/guides/network.md). */
    const char *layers;
    bo_custom_layer custom_mlp; /**< CUSTOM: the layer; it can read `hidden` */
    /** TRANSLATE, in the decoder: cross attention, filled in likewise. All zero: `attention` without its causal parts
     * (gate, window; HYBRID: only the features) if the mixer is attention, otherwise softmax attention. */
    bo_attention_desc cross_attention;
    /** The softmax attention that `attention` replaces in a linearized model, filled in likewise: the attention of the
     * teacher. All zero: none. */
    bo_attention_desc replaced;
    uint64_t reserved[4]; /**< must be zero */
} bo_block;

#ifdef __cplusplus
}
#endif
#endif
