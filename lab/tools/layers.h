/* Layers of the library that the public API does not have, recorded in graphs of experiments (src/nn/nn.h). Weights
 * have the names of the library, under a prefix. */
#ifndef BO_LAB_TOOLS_LAYERS_H
#define BO_LAB_TOOLS_LAYERS_H

#include "../measurement.h"
#include <bochner/layers.h>

/* The name of a weight: a prefix and a suffix. */
typedef struct lab_name {
    char text[256];
} lab_name;
lab_name lab_join(const char *prefix, const char *suffix);

/* bo_graph_apply with attribute structs of this version of the library. */
bo_value lab_graph_one(bo_graph *graph, bo_operation operation, const void *attributes, size_t count,
                       const bo_value *inputs);

/* Rows of an image are its pixels, row by row. A sequence is an image of height 1. */
typedef struct lab_image {
    size_t height, width;
} lab_image;
/* Square windows of `kernel` pixels every `stride` pixels, with `padding` pixels around the image. */
bo_windows lab_windows(lab_image image, size_t kernel, size_t stride, size_t padding);
lab_image lab_image_after(const bo_windows *windows); /* 0 x 0 if the windows do not fit the input */
/* W * x with `prefix`.weight (out x kernel height x kernel width x channels), without a bias. */
bo_value lab_convolution(bo_graph *graph, const char *prefix, bo_value x, const bo_windows *windows, size_t out);
bo_value lab_pool(bo_graph *graph, bo_value x, bo_pool_kind kind, const bo_windows *windows);
bo_value lab_batch_norm(bo_graph *graph, const char *prefix, bo_value x, double epsilon, double momentum);

bo_value lab_noise(bo_graph *graph, bo_value x, bo_noise_kind kind, double amount, uint64_t stream); /* in training */
bo_value lab_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                       size_t context);
bo_value lab_recurrent(bo_graph *graph, const char *prefix, bo_value x, size_t size); /* an RNN over all rows */

/* A graph as lists of neighbors: those of node i are neighbors[first[i]] … neighbors[first[i + 1] - 1]; int32. */
typedef struct lab_edges {
    bo_value first, neighbors;
} lab_edges;
/* Sum, mean or maximum of x over the neighbors. */
bo_value lab_aggregate(bo_graph *graph, bo_value x, const lab_edges *edges, bo_aggregate_kind kind);
/* s_i + W_1 mean_j tanh(W_2 s_j) over the neighbors j: `prefix`.message.weight (hidden x width) and
 * `prefix`.update.weight. */
bo_value lab_message(bo_graph *graph, const char *prefix, bo_value states, const lab_edges *edges, size_t hidden,
                     bo_aggregate_kind kind);

/* The systems of a state-space mixer, one per column of u: `prefix`.log_step, .a, … */
typedef struct lab_systems_desc {
    bo_ssm kind;
    bo_ssm_form form;
    size_t channels, size; /* columns of u; size of the state of a system */
    size_t tokens;         /* of a sequence */
} lab_systems_desc;
bo_value lab_systems(bo_graph *graph, const char *prefix, bo_value u, const lab_systems_desc *desc);

/* A mixer of sequences of `tokens` rows with one head, projected and added to `residual`. */
bo_value lab_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_mixer kind, size_t width,
                   size_t tokens, size_t sequences);
/* P_d(x) = Π_k W_k x of the MLPs DEGREE_d. */
bo_value lab_degree_product(bo_graph *graph, const char *prefix, bo_value x, bo_mlp kind, size_t hidden);

#endif
