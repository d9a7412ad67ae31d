/* Internals of networks: reading and checking descriptions, recording layers, filling in data.
 *
 * description.c  JSON to layers, sorted  layer_types.c  types and their options   layers*.c  one function per type
 * graph.c        recording, filling in   loss.c         losses                    network.c  creation
 * files.c        directories and files       scaling.c      units of the data         predict.c  prediction, evaluation
 * examples.c     data, edges, targets    readout.c      ridge regression          timing.c   time per layer */
#ifndef BO_NETWORK_INTERNAL_H
#define BO_NETWORK_INTERNAL_H

#include "../../nn/nn.h"
#include "../fields.h"
#include "../model.h"

/* Limits of a description. Larger values are treated as errors or attacks. */
enum { BO_NETWORK_LAYERS = 4096, BO_NETWORK_FROM = 8, BO_NETWORK_NAME = 64, BO_NETWORK_SIZE = BO_MAX_FIELD_VALUE };
/* The name of a layer with its prefix, for example of a block in a network. */
enum { BO_LAYER_NAME = 2 * BO_NETWORK_NAME + 16 };

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* Options of all types. The fields of a type list its options. Zero: not set. */
typedef struct bo_layer_options {
    bo_width width;  /* columns of the output */
    bo_width hidden; /* inner width */
    size_t kernel[2], stride[2];
    bo_padding padding;
    bool causal, global, bias, self;
    size_t groups, heads, dim, size, rank, length, height;
    unsigned kind, second, positions; /* enum values of the type's named options */
    bo_features_desc features;
    double rate, amount, epsilon, momentum, edges, scale;
} bo_layer_options;

typedef struct bo_layer_type bo_layer_type;

struct bo_layer {
    char name[BO_LAYER_NAME]; /* "conv1"; default: type and number, "relu.3"; within a block with its prefix */
    bool named;               /* by the description */
    size_t number;            /* position in the list, from 1 */
    size_t place;             /* likewise, but distinct for all layers of a model: for seeds, dropout and noise */
    const bo_layer_type *type;
    bo_layer_options options;
    int from[BO_NETWORK_FROM]; /* indices of layers, or BO_INPUT_LAYER */
    size_t inputs;
    bool reshapes_input;   /* its output consists of the values of the input, possibly reshaped */
    bool fixed;            /* its width is fixed by the output or input: not multiplied */
    bo_shape shape;        /* shape of the output */
    bo_features *features; /* objects that outlive graphs, by type; NULL: none */
    bo_attention *attention;
    bo_model_desc *block; /* of type block: a model with this block; NULL: another type */
    bo_network *inner;    /* of type block: the list of layers in the place of its MLP; NULL: another MLP */
};

/* For example "layer 3 (conv1)". */
typedef struct bo_layer_label {
    char text[BO_LAYER_NAME + 48];
} bo_layer_label;
bo_layer_label bo_layer_name(const bo_layer *layer);
/* For example "14 x 14 x 32". */
typedef struct bo_shape_label bo_shape_label;
struct bo_shape_label {
    char text[64];
};
bo_shape_label bo_shape_text(const bo_shape *shape);

/* ---- recording --------------------------------------------------------------------------------------------------- */

typedef struct bo_recorder {
    bo_context *context;
    const bo_network *network;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
    bool building; /* the first recording: determines shapes and creates the objects of layers */
    bo_graph *graph;
    size_t examples; /* examples in the recording; for a graph, its nodes */
    /* The layer being recorded: */
    const bo_layer *layer;
    const bo_layer_options *options;
    bo_value in[BO_NETWORK_FROM];
    bo_shape shapes[BO_NETWORK_FROM];
    bo_shape shape; /* shape of the output; initially the shape of the first input */
    bo_status status;
} bo_recorder;

/* Sets the error BO_FORMAT "layer 3 (conv1): " + message. Returns 0. */
bo_value bo_record_refuse(bo_recorder *r, const char *format, ...) BO_PRINTF(2, 3);
/* Records an input that is written once. Takes ownership of `data`, which may be NULL: out of memory. */
bo_value bo_record_constant(bo_recorder *r, const char *name, bo_element element, size_t rows, size_t columns,
                            void *data);
/* Likewise for row indices, one per row. Layers with equal indices share the input. */
bo_value bo_record_places(bo_recorder *r, const char *name, size_t rows, int32_t *data);
/* Returns the positions 0, 1, 2, … of every sequence of the first input. */
bo_value bo_record_positions(bo_recorder *r);
/* Returns the rows of the selected nodes of a graph; otherwise all rows. */
bo_value bo_record_chosen(bo_recorder *r, bo_value value);
/* Returns a stream for dropout and noise, `which` < 4. */
uint64_t bo_record_stream(const bo_layer *layer, size_t which);
/* Applies the noise of a layer to another value of the same shape. Applied to ones, it gives 0 at masked positions. */
bo_value bo_record_noise(bo_recorder *r, const bo_layer *layer, bo_value x);
bool bo_layer_hides(const bo_layer *layer); /* True if the layer is noise that sets values to 0. */

/* Records the layers in their order, with checkpoints between them or not. Returns their values by number, freed with
 * bo_free; NULL: r->status or the graph has an error. */
bo_value *bo_record_layers(bo_recorder *r, bool segments);
/* Records the layers once and, except within a block, the loss: declares weights, determines shapes and creates the
 * objects of layers. */
bo_status bo_network_declare(bo_context *context, bo_network *network);

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Input shapes that a type accepts, one bit per rank. */
enum { BO_ACCEPTS_ROW = 1, BO_ACCEPTS_SEQUENCE = 2, BO_ACCEPTS_IMAGE = 4, BO_ACCEPTS_ALL = 7, BO_ACCEPTS_PLACES = 6 };

struct bo_layer_type {
    const char *name;
    const bo_field *fields; /* in bo_layer_options */
    size_t field_count;
    size_t min_inputs, max_inputs; /* number of inputs; 0: 1 */
    unsigned accepts;              /* 0: all */
    bool graph;                    /* requires edges */
    bool sets_width;               /* an option sets the width of its output */
    /* Reads the layer from its object; NULL: its fields only. */
    bo_status (*read)(bo_context *context, const char *where, bo_layer *layer, const bo_json *json);
    /* Creates objects that outlive graphs; NULL: none. */
    bo_status (*create)(bo_context *context, bo_layer *layer, const bo_shape *in, const bo_network *network);
    bo_value (*record)(bo_recorder *r);
};

/* Tables of types, terminated by a type without a name. */
extern const bo_layer_type bo_layers_plain[], bo_layers_join[], bo_layers_noise[], bo_layers_grid[],
    bo_layers_features[], bo_layers_sequence[], bo_layers_graph[], bo_layers_block[];

const bo_layer_type *bo_layer_type_find(const char *name); /* NULL: none */
bo_nearest bo_layer_type_nearest(const char *name);        /* for suggestions in messages */

/* ---- reading a description --------------------------------------------------------------------------------------- */

/* Reads the options of a layer from its object. */
bo_status bo_layer_read(bo_context *context, const char *where, bo_layer *layer, const bo_json *json);
/* Reads everything except objects, shapes and weights. */
bo_status bo_network_describe(bo_context *context, const char *where, const bo_json *json, bo_network *network);
/* Returns which data the description needs. */
bo_status bo_network_find_needs(bo_context *context, const char *where, const bo_json *json, bo_description_needs *out);
/* The parameters of a network beside its description. */
typedef struct bo_build {
    bo_facts info;
    double multiplier; /* 0: 1 */
    bo_parametrization parametrization;
    uint64_t seed;
} bo_build;
/* Builds a network from a description. Its weights are declared but have no memory yet. */
bo_status bo_network_build(bo_context *context, const char *where, const bo_json *json, const bo_build *build,
                           bo_network **out);

/* Sets the schema of data from a file, which the network shares. */
void bo_network_set_schema(bo_network *network, bo_schema *schema);

/* Checks that the loss is defined for the targets. */
bo_status bo_targets_check(bo_context *context, const bo_network *network, const bo_examples *examples);
/* Checks the classes against the data that they were found in. */
bo_status bo_classes_check(bo_context *context, const bo_network *network, const bo_examples *examples);

/* bo_network_create without memory and values of the weights. */
bo_status bo_network_prepare(bo_context *context, const bo_description *desc, bo_network **out);

/* ---- loss, scaling ----------------------------------------------------------------------------------------------- */

const char *bo_network_loss_name(bo_network_loss loss);
/* Checks that the output fits the loss. */
bo_status bo_loss_check(bo_context *context, const bo_network *network);
/* Records the loss; `values` has the values of all layers by number. */
void bo_loss_record(bo_recorder *r, const bo_value *values);
/* Returns the loss of one example in double, from its output and its target (a class, or numbers). Only values with
 * mask 0 count; mask NULL: all values count. NAN: no value counts. */
double bo_loss_of(const bo_network *network, const float *output, const float *target, const float *mask,
                  int32_t label);
size_t bo_loss_columns(const bo_network *network);    /* columns per row of output and target, for the softmax of kl */
size_t bo_network_outputs(const bo_network *network); /* numbers per example of the output */
size_t bo_layer_weights(const bo_network *network, const bo_layer *layer); /* number of values of its weights */

/* Computes the inputs of the last layer for every row of the training part. */
bo_status bo_network_last_inputs(bo_context *context, const bo_model *model, const bo_examples *examples, float *out);
int32_t bo_examples_label(const bo_examples *examples, size_t row); /* negative: no label */

/* Fits the scalings of inputs and targets to the training part. */
bo_status bo_scaling_fit(bo_context *context, bo_network *network, const bo_examples *examples);
/* Creates a scaling with shift 0 and scale 1. */
bo_status bo_scaling_create(bo_context *context, size_t count, bo_network_scaling *out);
void bo_scaling_apply(const bo_network_scaling *scaling, size_t count, const float *from, float *to);
void bo_scaling_undo(const bo_network_scaling *scaling, size_t count, float *values);
void bo_scaling_free(bo_network_scaling *scaling);

#endif
