/* Internals of a network: layers connected to an acyclic graph, weights, and graphs over them for training and
 * prediction. */
#ifndef BO_NETWORK_H
#define BO_NETWORK_H

#include <bochner/network.h>
#include "../tape/graph.h"

typedef struct bo_layer bo_layer; /* internal.h */

/* The rows of an example: one; size[1] for a sequence; size[0] x size[1] for the pixels of an image. */
typedef struct bo_shape {
    size_t rank;    /* 0, 1, 2 */
    size_t size[2]; /* 1 for dimensions above the rank */
    size_t channels;
} bo_shape;
static inline size_t bo_shape_places(const bo_shape *shape)
{
    return shape->size[0] * shape->size[1];
}
static inline size_t bo_shape_numbers(const bo_shape *shape)
{
    return bo_shape_places(shape) * shape->channels;
}

/* Facts that the data contributes to a description. */
typedef struct bo_facts {
    size_t dim, targets, classes;
} bo_facts;

/* x becomes (x - shift) scale, with period `count` along the columns. */
typedef struct bo_network_scaling {
    size_t count; /* 0: x is not scaled */
    float *shift, *scale;
} bo_network_scaling;

typedef enum bo_network_loss {
    BO_NETWORK_MSE = 0, /* the first four as bo_loss_kind */
    BO_NETWORK_L1 = 1,
    BO_NETWORK_BCE = 2,
    BO_NETWORK_KL = 3,
    BO_NETWORK_CROSS_ENTROPY = 4,
    BO_NETWORK_LOSS_COUNT = 5
} bo_network_loss;

enum { BO_NO_LAYER = -1, BO_INPUT_LAYER = -2 };

/* Invariants: layers[order[i]] reads from the input or from layers before it in the order, and contributes to the
 * output or to the target of the loss; objects of layers exist, weights are declared. */
struct bo_network {
    char *text; /* the description, as JSON */
    bo_network_input input;
    bo_shape input_shape;
    bool standardize; /* standardize the input by channel */
    bo_layer *layers;
    size_t count;
    size_t *order;
    size_t output; /* index of the output layer */
    bo_network_loss loss;
    /* BO_NO_LAYER: targets of the examples; BO_INPUT_LAYER: the clean input; else a layer without weights before it */
    int target;
    int masked; /* noise layer: only the values it masks count in training; BO_NO_LAYER: all values count */
    bo_facts facts;
    double multiplier;
    bo_parametrization parametrization;
    uint64_t seed;
    bo_network_scaling inputs, outputs; /* of inputs and of targets */
    bo_schema *schema;                  /* NULL: not from a file */
    bo_weights *weights;
    bo_network_facts report; /* facts, and infos of the layers in their order, with their texts */
    bo_layer_info *infos;
    struct bo_shape_label *shapes; /* internal.h */
};

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

typedef struct bo_network_graph_desc {
    const bo_examples *data;    /* nodes and edges of a graph. NULL: one node */
    size_t examples;            /* rows per batch, or number of selected nodes */
    bool loss;                  /* inputs targets, output loss */
    bool outputs;               /* outputs of the network, examples x numbers */
    bool gradients, checkpoint; /* see bo_graph_compile_desc; require loss */
    bool bfloat16;              /* see bo_graph_compile_desc */
    bool before;                /* the outputs are the inputs of the last layer */
    bool hide;                  /* apply the masked layer outside training too, with a fixed mask: for evaluation */
    bool building;              /* the first recording: determines shapes and creates the objects of layers */
    bool drawn;                 /* the input is a weight, "input", with a gradient: for timing */
} bo_network_graph_desc;

enum { BO_NETWORK_CONSTANTS = 32 };

/* Inputs that are the same in every run. */
typedef struct bo_constant {
    bo_value value;
    void *data;    /* freed with the graph */
    size_t places; /* number of int32_t; 0: not a table of row indices */
} bo_constant;

typedef struct bo_network_graph {
    bo_graph *graph; /* planned, not yet allocated */
    size_t examples;
    bo_value x, targets;        /* targets 0: not needed */
    bool drawn;                 /* x is a weight and is not written */
    bo_value first, neighbors;  /* for a graph, else 0 */
    bo_value chosen;            /* selected nodes of a graph */
    bo_value loss, outputs;     /* 0: not requested */
    const float *mask;          /* with `hide`: mask of the layer's output, 0 where values are masked */
    bo_value target;            /* with outputs: the layer or input that they are compared with */
    void *room;                 /* buffer for x and targets of the rows or of all nodes */
    const bo_examples *written; /* examples whose nodes, edges and constants have been written; NULL: none yet */
    size_t constants;
    bo_constant constant[BO_NETWORK_CONSTANTS];
} bo_network_graph;

bo_status bo_network_graph_create(bo_context *context, const bo_network *network, const bo_network_graph_desc *desc,
                                  bo_network_graph *out);
void bo_network_graph_destroy(bo_network_graph *graph);
/* Writes the inputs and, if the graph has them, the targets of desc.examples rows of `data` into the graph. */
bo_status bo_network_graph_fill(bo_context *context, const bo_network *network, bo_network_graph *graph,
                                const bo_examples *data, const size_t *rows);

/* ---- functions for training -------------------------------------------------------------------------------------- */

/* Checks that the examples have the columns, targets and edges that the network needs. */
bo_status bo_network_check(bo_context *context, const bo_network *network, const bo_examples *examples, bool targets);
/* Returns the rows of examples `first` … of step `step`: the training part, shuffled in each epoch. */
void bo_examples_batch(const bo_examples *examples, uint64_t seed, uint64_t step, size_t batch, size_t first,
                       size_t count, size_t *rows);
uint64_t bo_examples_fingerprint(const bo_examples *examples);
double bo_network_layer_numbers(const bo_network *network); /* values per example of all layers together */

/* Writes the files that bo_network_save writes. Training writes the same files into checkpoints. */
bo_status bo_network_write(bo_context *context, const bo_network *network, const char *folder);
/* Overwrites weights with those of a folder written for the same description. */
bo_status bo_network_read(bo_context *context, bo_network *network, const char *folder);
uint64_t bo_network_fingerprint(const bo_network *network); /* of description, parametrization and shapes */

#endif
