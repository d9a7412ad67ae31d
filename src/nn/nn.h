/* Layers beyond <bochner/nn.h>: each records operations and declares the weights they need under a prefix, with Hugging Face's
 * names. */
#ifndef BO_NN_H
#define BO_NN_H

#include <bochner/attention.h>
#include <bochner/layers.h>
#include <bochner/nn.h>
#include <stdio.h>
#include "../tape/graph.h"

/* A weight's name: a prefix and a word or two. */
typedef struct bo_nn_name {
    char text[256];
} bo_nn_name;
static inline bo_nn_name bo_nn_join(const char *prefix, const char *suffix)
{
    bo_nn_name name;
    snprintf(name.text, sizeof name.text, "%.200s%.50s", prefix, suffix);
    return name;
}

/* Streams of dropout: the embedding's is 0, a layer has the next ones. */
enum { BO_NN_STREAMS = 2 };
static inline uint64_t bo_nn_stream(size_t layer, size_t which)
{
    return 1 + (uint64_t)layer * BO_NN_STREAMS + which;
}

/* Several projections of one x at once: prefix + suffixes[i]; all have a bias or none has. */
void bo_nn_linears(bo_graph *graph, const char *prefix, bo_value x, size_t count, const char *const *suffixes,
                   const bo_linear_layer *descs, bo_value *out);

/* A vector of weights, `prefix` + `suffix`, for AdamW. */
bo_value bo_nn_vector(bo_graph *graph, const char *prefix, const char *suffix, size_t count, bo_weight_init init);
/* Likewise with `rank` sizes. */
bo_value bo_nn_parameter(bo_graph *graph, const char *prefix, const char *suffix, size_t rank, const size_t *shape,
                         bo_weight_init init);
bo_value bo_nn_unary(bo_graph *graph, bo_value x, bo_unary function, double factor, double offset);
/* Learned (context rows) or sinusoidal positions added; for RoPE and none x itself. */
bo_value bo_nn_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                         size_t context);

/* Cross attention of any kind, with the parts and names of bo_nn_attention: tokens of x ask the tokens of a source, those of
 * sequence s all of its sequence s. Positions of the two cannot be compared, so that none are turned; what tokens should know
 * of their places they bring with them. `keys` is the encoder's output, or 0: the pass has states that have read it. */
bo_value bo_nn_cross(bo_graph *graph, const char *prefix, bo_value x, bo_value keys, bo_value residual,
                     const bo_attention_layer *desc);
/* Reads sources into the states of a pass, for bo_nn_cross without keys. Attention asks as it reads: `queries` (heads · dim
 * columns), one row a source, are zeros, and what they are answered goes nowhere. */
void bo_nn_cross_read(bo_graph *graph, const char *prefix, bo_value queries, bo_value keys,
                      const bo_attention_layer *desc);

/* What lets tokens see each other, of any kind, projected and added to `residual`. Its memory of a sequence is one run of
 * bytes, of which zeros are the memory of nothing; of a kind that attends it is the attention's. */
typedef struct bo_mixer_layer {
    bo_mixer kind;
    bo_attention_layer attention; /* of a kind that attends */
    size_t width;                 /* of x and the residual */
    size_t heads;                 /* MLP: columns are mixed in so many groups */
    size_t context;               /* MLP: most tokens of a sequence */
    bo_ssm ssm;
    size_t state_size, state_rank, kernel; /* see bo_model_desc */
    bool bias;
    double epsilon, dropout;
    size_t layer, tokens, most_sequences; /* see bo_attention_layer … */
    bool source;                          /* … as is this */
} bo_mixer_layer;
bool bo_nn_mixer_attends(bo_mixer kind); /* It is made of a bo_attention. */
/* Of which: DEGREE_3, _4 and _E, as far as the kind says. */
void bo_nn_mixer_attention(bo_mixer kind, bo_attention_desc *out);
size_t bo_nn_mixer_state_bytes(const bo_mixer_layer *desc);
bo_value bo_nn_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                     const bo_mixer_layer *desc);

/* RNN, GRU or LSTM over the rows of each sequence: h of every token. `prefix`.in_proj.weight (g size x columns),
 * .recurrent.weight (g size x size) and a bias for each of g gates, .bias.0 …; forget gates begin at 1. */
typedef struct bo_recurrent_layer {
    bo_recurrence cell;
    size_t size;                          /* h */
    size_t layer, tokens, most_sequences; /* see bo_sequences … */
    bool source;                          /* … as is this */
} bo_recurrent_layer;
bo_value bo_nn_recurrent(bo_graph *graph, const char *prefix, bo_value x, const bo_recurrent_layer *desc);

/* The product of DEGREE_d, normalized, without what brings it back to the residual. */
bo_value bo_nn_degree_product(bo_graph *graph, const char *prefix, bo_value x, const bo_mlp_layer *desc);

/* Rows of u and v compared: gelu([u, v, u ∘ v, u - v] Wᵀ + b), `prefix`.weight (hidden x 4 columns) and .bias. */
bo_value bo_nn_pair(bo_graph *graph, const char *prefix, bo_value u, bo_value v, size_t hidden);

/* The γ at which two vectors of `width` independent numbers of size 1 are at distance one for this kernel, or of length one
 * where it is one of inner products: where a map of normalized x should begin. */
double bo_nn_unit_gamma(bo_kernel kernel, size_t width);

/* State-space mixer (S4D, 2206.11893; gate and convolution as in 2312.00752): y = SSM(silu(conv(x W_u))) ∘ silu(x W_g),
 * projected and added to `residual`. `prefix`.in_proj, .gate_proj, .out_proj, .conv where there is a kernel, and the systems'
 * parameters: .log_step, .a, .w, .b, .c, .d, .p, .q as the kind has them (operations.h). */
typedef struct bo_ssm_layer {
    bo_ssm kind;
    bo_ssm_form form;
    size_t channels;               /* a system each */
    size_t size;                   /* numbers of a system's state; 0: 16 */
    size_t rank;                   /* of CLOSED and LOW_RANK; 0: 1 */
    size_t kernel;                 /* tokens of a causal depthwise convolution before the systems; 0: none */
    bool bias;                     /* of the projections */
    double dropout;                /* of the output */
    size_t layer;                  /* numbers states and dropout */
    size_t tokens, most_sequences; /* see bo_sequences … */
    bool source;                   /* … as is this */
} bo_ssm_layer;
bo_value bo_nn_ssm(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_ssm_layer *desc);
size_t bo_nn_ssm_state_bytes(const bo_ssm_layer *desc); /* of a sequence */
/* The systems of a state-space mixer alone, over the columns of u: no projections, gate or convolution. */
bo_value bo_nn_systems(bo_graph *graph, const char *prefix, bo_value u, const bo_ssm_layer *desc);

/* ---- shapes and noise ------------------------------------------------------------------------------------------------ */

/* In training only. amount 0: x itself. */
bo_value bo_nn_noise(bo_graph *graph, bo_value x, bo_noise_kind kind, double amount, uint64_t stream);

/* ---- images ---------------------------------------------------------------------------------------------------------- */

/* Rows are the places of images one after the other, row by row; columns are their channels. A sequence is one of
 * height 1. */
typedef struct bo_image {
    size_t height, width;
} bo_image;

/* Square windows of `kernel` places every `stride` places (0: 1), with `padding` places around the image. */
bo_windows bo_nn_windows(bo_image image, size_t kernel, size_t stride, size_t padding);
/* Windows with as many places around the image as give ⌈size / stride⌉ of them; an odd one is after it. */
bo_windows bo_nn_windows_same(bo_image image, const size_t kernel[2], const size_t stride[2]);
/* One window: all of the image. */
bo_windows bo_nn_windows_all(bo_image image);
/* What windows make of an image; 0 x 0 where they do not fit it. */
bo_image bo_nn_image_after(const bo_windows *windows);

/* y = W * x (+ b): `prefix`.weight (out x height x width of the kernel x channels of a group), `prefix`.bias. */
typedef struct bo_convolution_layer {
    bo_windows windows; /* width.size 0: causal, within `sequences` (see bo_convolution_attributes) */
    size_t out, groups; /* groups 0: 1 */
    bool bias;
    bool relu;           /* follows: deviation √(2 / fan in) instead of 1/√(fan in) (1502.01852) */
    bo_weight_init init; /* law ZERO and a = 1: zeros; the zero value: as above */
    bo_sequences sequences;
} bo_convolution_layer;
bo_value bo_nn_convolution(bo_graph *graph, const char *prefix, bo_value x, const bo_convolution_layer *desc);
bo_value bo_nn_pool(bo_graph *graph, bo_value x, bo_pool_kind kind, const bo_windows *windows);
/* Columns normalized over the rows: `prefix`.weight, .bias and what evaluation uses and training moves: .running_mean,
 * .running_var. epsilon 0: 1e-5, momentum 0: 0.1. */
bo_value bo_nn_batch_norm(bo_graph *graph, const char *prefix, bo_value x, double epsilon, double momentum);

/* ---- graphs ---------------------------------------------------------------------------------------------------------- */

/* A graph as its rows of neighbors: those of node i are neighbors[first[i]] … neighbors[first[i + 1] - 1]. */
typedef struct bo_edges {
    bo_value first;     /* int32, (nodes + 1) x 1 */
    bo_value neighbors; /* int32, edges x 1; without any edge one that first[] does not speak of */
} bo_edges;

typedef struct bo_aggregate_layer {
    bo_aggregate_kind kind;
    double edge_dropout, node_dropout; /* in training: edges, and the states of nodes, that are not there */
    uint64_t stream;                   /* and the next: of dropout */
} bo_aggregate_layer;
/* Sum, mean or largest of x over the neighbors; 0 where there are none. */
bo_value bo_nn_aggregate(bo_graph *graph, bo_value x, const bo_edges *edges, const bo_aggregate_layer *desc);
/* s_i + W_1 mean_j tanh(W_2 s_j) over the neighbors j, or their sum or largest: `prefix`.message.weight (hidden x width) and
 * `prefix`.update.weight, which begins at zero. */
bo_value bo_nn_message(bo_graph *graph, const char *prefix, bo_value states, const bo_edges *edges, size_t hidden,
                       const bo_aggregate_layer *desc);

#endif
