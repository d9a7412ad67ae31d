/* A network's inside: layers wired into a graph without cycles, weights, and graphs over them for training and answers. */
#ifndef BO_NETWORK_H
#define BO_NETWORK_H

#include <bochner/network.h>
#include "../tape/graph.h"

typedef struct bo_layer bo_layer; /* internal.h */

/* The rows of an example: one; those of a sequence, size[1]; or the places of an image, size[0] x size[1]. */
typedef struct bo_shape {
    size_t rank;    /* 0, 1, 2 */
    size_t size[2]; /* 1 where the rank has none */
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

/* What data has to say of a description. */
typedef struct bo_facts {
    size_t dim, targets, classes;
} bo_facts;

/* x becomes (x - shift) scale, numbers in turns of `count`. */
typedef struct bo_network_scaling {
    size_t count; /* 0: x stays as it is */
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

/* Invariants: layers[order[i]] takes its inputs from the network's or from layers before it in the order, and reaches the
 * output, or the loss's target; objects of layers are made, weights declared. */
struct bo_network {
    char *text; /* the description, as JSON */
    bo_network_input input;
    bo_shape input_shape;
    bool standardize; /* numbers of the input, by channel */
    bo_layer *layers;
    size_t count;
    size_t *order;
    size_t output; /* the layer whose value comes out */
    bo_network_loss loss;
    int target; /* BO_NO_LAYER: the examples' targets; BO_INPUT_LAYER: the clean input; else a layer that no weight reaches */
    int masked; /* a layer of noise: only what it hid counts in training; BO_NO_LAYER: everything does */
    bo_facts facts;
    double multiplier;
    bo_parametrization parametrization;
    uint64_t seed;
    bo_network_scaling inputs, outputs; /* of x, and of targets */
    bo_schema *schema;                  /* NULL: of no file */
    bo_weights *weights;
    bo_network_facts report; /* what it says of itself; so do infos, in the order, whose texts are theirs */
    bo_layer_info *infos;
    struct bo_shape_label *shapes; /* internal.h */
};

/* ---- graphs ------------------------------------------------------------------------------------------------------------ */

typedef struct bo_network_graph_desc {
    const bo_examples *data;    /* of a graph: its nodes and edges. NULL: one node */
    size_t examples;            /* rows that are written: of a batch, or of the nodes that count */
    bool loss;                  /* targets -> loss */
    bool outputs;               /* what the network gives, examples x numbers */
    bool gradients, checkpoint; /* see bo_graph_compile_desc; need loss */
    bool bfloat16;              /* likewise */
    bool before;                /* outputs are what the last layer takes */
    bool hide;                  /* the masked layer hides without training too, by draws of its own: for evaluation */
    bool building;              /* the first of all: finds the layers' shapes and makes their objects */
    bool drawn;                 /* the input is a weight, "input", with a gradient: for timing */
} bo_network_graph_desc;

enum { BO_NETWORK_CONSTANTS = 32 };

/* Inputs that do not change from run to run. */
typedef struct bo_constant {
    bo_value value;
    void *data;    /* freed with the graph */
    size_t places; /* so many int32_t; 0: it is no table of places */
} bo_constant;

typedef struct bo_network_graph {
    bo_graph *graph; /* planned, not yet allocated */
    size_t examples;
    bo_value x, targets;        /* targets 0: none are needed */
    bool drawn;                 /* x is a weight and not written */
    bo_value first, neighbors;  /* of a graph, else 0 */
    bo_value chosen;            /* of a graph: the nodes that count */
    bo_value loss, outputs;     /* 0 where not asked for */
    const float *mask;          /* with `hide`: 0 where it hid, of what the layer gives */
    bo_value target;            /* with outputs: the layer or input that they are compared with */
    void *room;                 /* for x and targets on their way, of rows or of all nodes */
    const bo_examples *written; /* whose nodes and edges are there, and constants; NULL: none yet */
    size_t constants;
    bo_constant constant[BO_NETWORK_CONSTANTS];
} bo_network_graph;

bo_status bo_network_graph_create(bo_context *context, const bo_network *network, const bo_network_graph_desc *desc,
                                  bo_network_graph *out);
void bo_network_graph_destroy(bo_network_graph *graph);
/* Inputs and, where the graph has them, targets of desc.examples rows of `data`, into the graph's memory. */
bo_status bo_network_graph_fill(bo_context *context, const bo_network *network, bo_network_graph *graph,
                                const bo_examples *data, const size_t *rows);

/* ---- what trainers need ------------------------------------------------------------------------------------------------ */

/* Do these examples have the numbers, targets and edges that the network wants? */
bo_status bo_network_check(bo_context *context, const bo_network *network, const bo_examples *examples, bool targets);
/* Rows of examples `first` … of step `step`: the training part in an order of its own for each epoch. */
void bo_examples_batch(const bo_examples *examples, uint64_t seed, uint64_t step, size_t batch, size_t first,
                       size_t count, size_t *rows);
uint64_t bo_examples_fingerprint(const bo_examples *examples);
double bo_network_layer_numbers(const bo_network *network); /* that all layers together give for an example */

/* What bo_network_save writes; training writes the same into checkpoints. */
bo_status bo_network_write(bo_context *context, const bo_network *network, const char *folder);
/* Overwrites weights with those of a folder written for the same description. */
bo_status bo_network_read(bo_context *context, bo_network *network, const char *folder);
uint64_t bo_network_fingerprint(const bo_network *network); /* of description, parametrization and shapes */

#endif
