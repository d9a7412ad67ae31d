/* The network of a model of the task `predict`: layers connected to an acyclic graph, weights, and graphs over them for
 * training and prediction. */
#ifndef BO_NETWORK_H
#define BO_NETWORK_H

#include <bochner/network.h>
#include "../../io/json.h"
#include "../../nn/weight_files.h"
#include "../../tape/graph.h"

typedef struct bo_layer bo_layer; /* internal.h */
typedef struct bo_network bo_network;

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
    bool within;   /* a list in place of an MLP: its output is not the output of the model */
    bo_network_loss loss;
    /* BO_NO_LAYER: targets of the examples; BO_INPUT_LAYER: the clean input; else a layer without weights before it */
    int target;
    int masked; /* noise layer: only the values it masks count in training; BO_NO_LAYER: all values count */
    bo_facts info;
    double multiplier;
    bo_parametrization parametrization;
    uint64_t seed;
    bo_network_scaling inputs, outputs; /* of inputs and of targets */
    bo_schema *schema;                  /* NULL: not from a file */
    bo_weights *weights;
    bo_network_info report; /* info, and infos of the layers in their order, with their texts */
    bo_layer_info *infos;
    struct bo_shape_label *shapes; /* internal.h */
};

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

enum { BO_NETWORK_CONSTANTS = 32 };

/* Constant inputs. */
typedef struct bo_constant {
    bo_value value;
    void *data;    /* freed with the graph */
    size_t places; /* number of int32_t; 0: not a table of row indices */
} bo_constant;

/* The part of a graph that only networks have (bo_model_graph). */
typedef struct bo_network_inputs {
    size_t examples;            /* per run, or selected nodes */
    bo_value x;                 /* the input */
    bool drawn;                 /* x is a weight and is not written */
    bo_value first, neighbors;  /* for a graph, else 0 */
    const float *mask;          /* with `hide`: mask of the layer's output, 0 where values are masked */
    bo_value target;            /* with outputs: the layer or input that the outputs are compared with */
    void *buffer;               /* buffer for x and targets of the rows or of all nodes */
    const bo_examples *written; /* examples whose nodes, edges and constants have been written; NULL: none yet */
    size_t constants;
    bo_constant constant[BO_NETWORK_CONSTANTS];
} bo_network_inputs;

/* Records the network of a model (bo_model_graph_create). */
typedef struct bo_model_graph bo_model_graph;
typedef struct bo_model_graph_desc bo_model_graph_desc;
bo_status bo_network_graph_record(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out);
/* Writes the inputs and, if the graph has them, the targets of rows of `data`. Their number is that of the graph. */
bo_status bo_network_graph_fill(bo_context *context, const bo_network *network, bo_model_graph *graph,
                                const bo_examples *data, const size_t *rows);
void bo_network_inputs_release(bo_network_inputs *inputs);

/* ---- functions for training -------------------------------------------------------------------------------------- */

/* Checks that the examples have the columns, targets and edges that the network needs. */
/* The number of rows of a part, and the row of an item; SIZE_MAX: the index is past the end. */
size_t bo_examples_rows(const bo_examples *examples, bo_split part);
size_t bo_examples_row(const bo_examples *examples, bo_split part, size_t index);
/* Assigns rows to parts at random. Rows without a target are in no part. BO_INVALID: no rows remain for training. */
bo_status bo_examples_split(bo_context *context, bo_examples *examples, double valid, double test, uint64_t seed);
bo_status bo_network_check(bo_context *context, const bo_network *network, const bo_examples *examples, bool targets);
/* Returns the rows of examples `first` … of step `step`: the training part, shuffled in each epoch. */
void bo_examples_batch(const bo_examples *examples, uint64_t seed, uint64_t step, size_t batch, size_t first,
                       size_t count, size_t *rows);
uint64_t bo_examples_fingerprint(const bo_examples *examples);
double bo_network_layer_numbers(const bo_network *network); /* values per example of all layers together */

uint64_t bo_network_fingerprint(const bo_network *network); /* of description, parametrization and shapes */

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

bo_status bo_network_create(bo_context *context, const bo_description *desc, bo_network **out);
void bo_network_destroy(bo_network *network); /* accepts NULL */

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The name of the file that described a network in earlier versions, and the metadata key of its checksum. */
#define BO_NETWORK_FORMER_FILE "network.json"
/* Writes config.json. The text is freed with bo_free, also after a failure. */
bo_status bo_network_config_write(bo_context *context, const bo_network *network, bo_json_text *text);
/* True if a text is the config.json of a network. */
bo_status bo_network_config_is(bo_context *context, const char *where, const char *text, size_t length, bool *out);
/* Reads config.json, or network.json of an earlier version, without the weights. */
bo_status bo_network_parse(bo_context *context, const char *where, const char *text, size_t length, bo_network **out);
/* Adds weights, scalings and the maps of random features. */
bo_status bo_network_pack(bo_context *context, const bo_network *network, bo_package *package);
/* Reads them. */
bo_status bo_network_fill(bo_context *context, bo_network *network, const bo_tensors *file);
/* The maps alone: their number, writing, reading (`used` marks the tensors). */
size_t bo_network_maps(const bo_network *network);
bo_status bo_network_pack_maps(bo_context *context, const bo_network *network, bo_package *package);
bo_status bo_network_read_maps(bo_context *context, bo_network *network, const bo_tensors *file, bool *used);

/* ---- layers within a block --------------------------------------------------------------------------------------- */

/* The position of a list of layers in a model. */
typedef struct bo_layers_place {
    const char *prefix; /* of the names of its weights */
    size_t width, number;
    uint64_t seed;
} bo_layers_place;
/* Returns the text of a list as in files, freed with bo_free. */
bo_status bo_layers_normalize(bo_context *context, const char *layers, char **out);
/* Likewise with all widths multiplied and rounded, at least 1. */
bo_status bo_layers_widen(bo_context *context, const char *layers, double share, char **out);
/* Reads a list of layers in place of an MLP, which maps rows of `width` numbers to rows of the same width. The list has
 * no weights. It declares them in the graphs in which it is recorded. */
bo_status bo_network_of_layers(bo_context *context, const char *layers, const bo_layers_place *place, bo_network **out);
bo_value bo_network_record(bo_graph *graph, const bo_network *network, bo_value x);
/* Copies the maps of random features of another list (NULL: none) whose layers have the same names and maps of the same
 * form. *copied is false if some were not copied. */
bo_status bo_network_adopt_maps(bo_context *context, bo_network *network, const bo_network *from, bool *copied);
/* Returns how many numbers the frequencies of its random features have. */
uint64_t bo_network_frequencies(const bo_network *network);
/* Returns a hash of its random features; 0: it has none. */
uint64_t bo_network_maps_fingerprint(const bo_network *network);

#endif
