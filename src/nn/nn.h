/* Layers beyond <bochner/layers.h>. Each records operations and declares their weights under a prefix, with the names
 * of Hugging Face transformers. */
#ifndef BO_NN_H
#define BO_NN_H

#include <bochner/blocks.h>
#include <bochner/layers.h>
#include <stdio.h>
#include "../tape/graph.h"

/* The name of a weight: a prefix and a suffix. */
typedef struct bo_nn_name {
    char text[256];
} bo_nn_name;
static inline bo_nn_name bo_nn_join(const char *prefix, const char *suffix)
{
    bo_nn_name name;
    snprintf(name.text, sizeof name.text, "%.200s%.50s", prefix, suffix);
    return name;
}

/* A residual rule: its name, and the norms of a layer, without the prefix of the layer; NULL: none. */
typedef struct bo_residual_rule {
    const char *name;
    const char *mixer, *mlp;                 /* the norms of the inputs of mixer and MLP; the same name is one norm */
    const char *mixer_summand, *mlp_summand; /* the norms of what mixer and MLP add to the residual stream */
    bool parallel;                           /* the MLP reads the residual stream before the mixer */
} bo_residual_rule;
const bo_residual_rule *bo_residual_rule_of(bo_residual residual);

/* Dropout streams: the embedding has stream 0, each layer has the next BO_NN_STREAMS. */
enum { BO_NN_STREAMS = 2 };
static inline uint64_t bo_nn_stream(size_t layer, size_t which)
{
    return 1 + (uint64_t)layer * BO_NN_STREAMS + which;
}

/* Records several projections of the same x: prefix + suffixes[i]. Either all have a bias or none. */
void bo_nn_linears(bo_graph *graph, const char *prefix, bo_value x, size_t count, const char *const *suffixes,
                   const bo_linear_layer *descs, bo_value *out);

/* Adds y to the residual stream like bo_nn_output adds its projection; y already includes its biases. */
bo_value bo_nn_add(bo_graph *graph, bo_value y, bo_value residual, const bo_output_layer *desc);

/* Declares a weight vector `prefix` + `suffix`, updated by AdamW. */
bo_value bo_nn_vector(bo_graph *graph, const char *prefix, const char *suffix, size_t count, bo_weight_init init);
/* Likewise with `rank` dimensions. */
bo_value bo_nn_parameter(bo_graph *graph, const char *prefix, const char *suffix, size_t rank, const size_t *shape,
                         bo_weight_init init);
bo_value bo_nn_unary(bo_graph *graph, bo_value x, bo_unary function, double factor, double offset);
/* Adds learned (context rows) or sinusoidal positions; returns x for RoPE and none. */
bo_value bo_nn_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                         size_t context);

/* The context of a mixer or an MLP of a block: everything that is not in the block. */
typedef struct bo_branch {
    const bo_block *block;         /* resolved, or with the members that its mixer or MLP uses */
    const bo_attention *attention; /* for mixers with attention, and for cross attention */
    const bo_features *features;   /* for the MLP of random features */
    size_t width;                  /* columns of x and of the residual stream */
    size_t context;                /* the mixer MLP: maximum tokens per sequence */
    double dropout;
    size_t layer, tokens, max_sequences, key_tokens; /* see bo_attention_layer */
    bool source;                                     /* see bo_attention_layer */
    const bo_summand_norm *norm;                     /* NULL: none */
    bo_attention_values *values;                     /* see bo_attention_layer */
} bo_branch;

/* The biases that a block has: of q, k and v, of the output projection of attention, and of the MLP. */
typedef struct bo_block_biases {
    bool attention, output, mlp;
} bo_block_biases;
bo_block_biases bo_block_biases_of(const bo_block *block);

/* Attention over q, k and v that another layer has recorded for the same x: the outputs of the heads. Gates and other
 * inputs that depend on x are computed from it. */
bo_value bo_nn_attend_given(bo_graph *graph, const char *prefix, bo_value x, const bo_attention_values *given,
                            const bo_branch *desc);
/* The norm and the projection of the outputs of the heads, without bias, dropout and residual stream. */
bo_value bo_nn_projected(bo_graph *graph, const char *prefix, bo_value out, size_t width, const bo_branch *desc);

/* Cross attention of any kind, with the parts and names of bo_nn_attention: tokens of x attend to the tokens of a
 * source, those of sequence s to all of source sequence s. Positions of target and source are not comparable, so no
 * rotary positions are applied; the embeddings of tokens contain their positions. `keys` is the output of the encoder;
 * 0: the states of the pass have read it. */
bo_value bo_nn_cross(bo_graph *graph, const char *prefix, bo_value x, bo_value keys, bo_value residual,
                     const bo_branch *desc);
/* Reads sources into the states of a pass, for bo_nn_cross without keys. Attention needs a query per read: `queries`
 * (heads · dim columns), one row per source, are zeros, and their outputs are discarded. */
void bo_nn_cross_read(bo_graph *graph, const char *prefix, bo_value queries, bo_value keys, const bo_branch *desc);

/* ---- mixers ------------------------------------------------------------------------------------------------------ */

bool bo_nn_mixer_attends(bo_mixer kind); /* True if the kind uses a bo_attention. */
/* Returns the attention of DEGREE_3 and DEGREE_4, as far as they determine it. */
bo_attention_desc bo_nn_mixer_attention(void);
size_t bo_nn_mixer_state_bytes(const bo_branch *desc);
/* Records the product of a mixer DEGREE_d, without norm, projection and residual stream. Without biases, it scales as
 * t^d if all tokens are multiplied by t. */
bo_value bo_nn_mixer_product(bo_graph *graph, const char *prefix, bo_value x, bo_value positions,
                             const bo_branch *desc);
/* The same, normalized in each head. */
bo_value bo_nn_mixer_degree(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, const bo_branch *desc);
/* The layer in which tokens interact, of any kind, projected and added to `residual`. Its state of a sequence is one
 * block of bytes, all zero for an empty state; for attention, it is the state of the attention. */
bo_value bo_nn_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                     const bo_branch *desc);

/* RNN, GRU or LSTM over the rows of each sequence. Returns h of every token. Weights: `prefix`.in_proj.weight (g size x
 * columns), .recurrent.weight (g size x size) and one bias for each of g gates, .bias.0 …; biases of forget gates start
 * at 1. */
typedef struct bo_recurrent_layer {
    bo_recurrence cell;
    size_t size;                         /* size of h */
    size_t layer, tokens, max_sequences; /* see bo_sequences */
    bool source;                         /* see bo_sequences */
} bo_recurrent_layer;
bo_value bo_nn_recurrent(bo_graph *graph, const char *prefix, bo_value x, const bo_recurrent_layer *desc);

/* Records P_d(x) = Π_k W_k x of DEGREE_d: `prefix`.factors.0.weight … (hidden x columns). Without biases, the output
 * scales as t^d if x is multiplied by t. */
bo_value bo_nn_degree_product(bo_graph *graph, const char *prefix, bo_value x, const bo_block *block);
/* The same, followed by a norm: P_d / √(mean P_d² + 1) over each of `heads` groups of columns, times
 * `prefix`.norm.weight. */
bo_value bo_nn_degree(bo_graph *graph, const char *prefix, bo_value x, const bo_block *block);
/* Records the MLP of a block, of any kind that bo_nn_mlp has, and adds its output to `residual`. */
bo_value bo_nn_block_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_branch *desc);

/* True for f(gate) ∘ up: SWIGLU, GEGLU and GEGLU_TANH. */
bool bo_nn_mlp_gated(bo_mlp kind);

/* True for an up projection, an activation function and a down projection, with or without a gate. */
bool bo_nn_mlp_token_wise(bo_mlp kind);

/* Compares rows of u and v: gelu([u, v, u ∘ v, u - v] Wᵀ + b), `prefix`.weight (hidden x 4 columns) and .bias. */
bo_value bo_nn_pair(bo_graph *graph, const char *prefix, bo_value u, bo_value v, size_t hidden);

/* Returns the initial γ of a feature map of normalized x: the γ at which two vectors of `width` independent values of
 * size 1 have scaled distance 1 or, for inner-product kernels, scaled length 1. */
double bo_nn_unit_gamma(bo_kernel kernel, size_t width);

/* State-space mixer (S4D, 2206.11893; gate and convolution as in 2312.00752): y = SSM(silu(conv(x W_u))) ∘ silu(x W_g),
 * projected and added to `residual`. Weights: `prefix`.in_proj, .gate_proj, .out_proj, .conv if there is a kernel, and
 * the parameters of the systems: .log_step, .a, .w, .b, .c, .d, .p, .q, depending on the kind (operations.h). */
typedef struct bo_ssm_layer {
    bo_ssm kind;
    bo_ssm_form form;
    size_t channels;              /* one system per channel */
    size_t size;                  /* size of the state of a system; 0: 16 */
    size_t rank;                  /* rank of CLOSED and LOW_RANK; 0: 1 */
    size_t kernel;                /* length of a causal depthwise convolution before the systems; 0: none */
    bool bias;                    /* bias of the projections */
    double dropout;               /* dropout of the output */
    size_t layer;                 /* layer number for states and dropout */
    size_t tokens, max_sequences; /* see bo_sequences */
    bool source;                  /* see bo_sequences */
} bo_ssm_layer;
bo_value bo_nn_ssm(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_ssm_layer *desc);
size_t bo_nn_ssm_state_bytes(const bo_ssm_layer *desc); /* bytes per sequence */
/* Records the systems of a state-space mixer alone, over the columns of u: without projections, gate and
 * convolution. */
bo_value bo_nn_systems(bo_graph *graph, const char *prefix, bo_value u, const bo_ssm_layer *desc);

/* ---- shapes and noise -------------------------------------------------------------------------------------------- */

/* Adds noise in training; amount 0: returns x. */
bo_value bo_nn_noise(bo_graph *graph, bo_value x, bo_noise_kind kind, double amount, uint64_t stream);

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Rows are the pixels of the images, image after image, row by row; columns are their channels. A sequence is an image
 * of height 1. */
typedef struct bo_image {
    size_t height, width;
} bo_image;

/* Square windows of `kernel` pixels every `stride` pixels (0: 1), with `padding` pixels around the image. */
bo_windows bo_nn_windows(bo_image image, size_t kernel, size_t stride, size_t padding);
/* Windows padded so that there are ⌈size / stride⌉ of them; an odd padding pixel is at the end. */
bo_windows bo_nn_windows_same(bo_image image, const size_t kernel[2], const size_t stride[2]);
/* One window over the whole image. */
bo_windows bo_nn_windows_all(bo_image image);
/* Returns the output image of the windows; 0 x 0 if they do not fit the input. */
bo_image bo_nn_image_after(const bo_windows *windows);

/* y = W * x (+ b): `prefix`.weight (out x kernel height x kernel width x channels per group), `prefix`.bias. */
typedef struct bo_convolution_layer {
    bo_windows windows; /* width.size 0: causal, within `sequences` (see bo_convolution_attributes) */
    size_t out, groups; /* groups 0: 1 */
    bool bias;
    /* true if ReLU follows: standard deviation √(2 / fan-in) instead of 1/√(fan-in) (1502.01852) */
    bool relu;
    bo_weight_init init; /* kind ZERO and a = 1: zeros; all zero: as above */
    bo_sequences sequences;
} bo_convolution_layer;
bo_value bo_nn_convolution(bo_graph *graph, const char *prefix, bo_value x, const bo_convolution_layer *desc);
bo_value bo_nn_pool(bo_graph *graph, bo_value x, bo_pool_kind kind, const bo_windows *windows);
/* Normalizes columns over the rows. Weights: `prefix`.weight, .bias and the running statistics .running_mean,
 * .running_var, which training updates and evaluation uses. epsilon 0: 1e-5, momentum 0: 0.1. */
bo_value bo_nn_batch_norm(bo_graph *graph, const char *prefix, bo_value x, double epsilon, double momentum);

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* A graph as lists of neighbors: those of node i are neighbors[first[i]] … neighbors[first[i + 1] - 1]. */
typedef struct bo_edges {
    bo_value first;     /* int32, (nodes + 1) x 1 */
    bo_value neighbors; /* int32, edges x 1; without edges, one entry that first[] does not refer to */
} bo_edges;

typedef struct bo_aggregate_layer {
    bo_aggregate_kind kind;
    double edge_dropout, node_dropout; /* shares of the edges, and of the node states, that are dropped in training */
    uint64_t stream;                   /* dropout stream; the next one is used too */
} bo_aggregate_layer;
/* Sum, mean or maximum of x over the neighbors; 0 if there are none. */
bo_value bo_nn_aggregate(bo_graph *graph, bo_value x, const bo_edges *edges, const bo_aggregate_layer *desc);
/* s_i + W_1 mean_j tanh(W_2 s_j) over the neighbors j, or their sum or maximum: `prefix`.message.weight (hidden x
 * width) and `prefix`.update.weight, which starts at zero. */
bo_value bo_nn_message(bo_graph *graph, const char *prefix, bo_value states, const bo_edges *edges, size_t hidden,
                       const bo_aggregate_layer *desc);

#endif
