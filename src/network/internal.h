/* The network room: a description read, wired, checked; layers recorded; data on its way in.
 *
 * description.c  JSON to layers, wired   layer_types.c  types and their options   layers*.c  a small function each
 * graph.c        recording, filling in   loss.c         what is minimized         network.c  life
 * files.c        the folder              scaling.c      units of data             predict.c  answers
 * examples.c     data, edges, targets    readout.c      the last layer, solved    timing.c   layer by layer */
#ifndef BO_NETWORK_INTERNAL_H
#define BO_NETWORK_INTERNAL_H

#include "../io/json.h"
#include "../nn/nn.h"
#include "network.h"

/* Limits of a description: what is beyond is a mistake, or hostile. */
enum { BO_NETWORK_LAYERS = 4096, BO_NETWORK_FROM = 8, BO_NETWORK_NAME = 64, BO_NETWORK_SIZE = 1 << 24 };

/* ---- layers ------------------------------------------------------------------------------------------------------------ */

/* A width: a number, or what the data says. */
typedef enum bo_symbol { BO_SYMBOL_NUMBER = 0, BO_SYMBOL_CLASSES, BO_SYMBOL_TARGETS, BO_SYMBOL_INPUT } bo_symbol;
typedef struct bo_width {
    size_t value;
    bo_symbol symbol;
} bo_width;

/* Options of every type; a type's fields say which are its own. Zero: not given. */
typedef struct bo_layer_options {
    bo_width width;  /* of what comes out */
    bo_width hidden; /* inside */
    size_t kernel[2], stride[2], padding[2];
    bool same, causal, global, bias, self;
    size_t groups, heads, dim, size, rank, length, height;
    unsigned kind, second, positions; /* numbers of the enums that the type's names belong to */
    bo_features_desc features;
    double rate, amount, epsilon, momentum, edges, scale;
} bo_layer_options;

typedef struct bo_layer_type bo_layer_type;

struct bo_layer {
    char name[BO_NETWORK_NAME]; /* "conv1"; where none was given "relu.3" */
    bool named;
    size_t number; /* in the file, from 1 */
    const bo_layer_type *type;
    bo_layer_options options;
    int from[BO_NETWORK_FROM]; /* layers, or BO_INPUT_LAYER */
    size_t inputs;
    bool given;            /* its numbers are the input's, in another shape at most */
    bool fixed;            /* its width is that of the output or given: never multiplied */
    bo_shape shape;        /* of what comes out */
    bo_features *features; /* what outlives graphs, by type; NULL: not its kind */
    bo_attention *attention;
};

/* "layer 3 (conv1)" */
typedef struct bo_layer_label {
    char text[BO_NETWORK_NAME + 48];
} bo_layer_label;
bo_layer_label bo_layer_name(const bo_layer *layer);
/* "14 x 14 x 32" */
typedef struct bo_shape_label bo_shape_label;
struct bo_shape_label {
    char text[64];
};
bo_shape_label bo_shape_text(const bo_shape *shape);

/* ---- recording --------------------------------------------------------------------------------------------------------- */

typedef struct bo_recorder {
    bo_context *context;
    const bo_network *network;
    const bo_network_graph_desc *desc;
    bo_network_graph *out;
    bo_graph *graph;
    size_t examples; /* of the recording: of a graph, its nodes */
    /* of the layer being recorded */
    const bo_layer *layer;
    const bo_layer_options *options;
    bo_value in[BO_NETWORK_FROM];
    bo_shape shapes[BO_NETWORK_FROM];
    bo_shape shape; /* of what comes out; the first input's unless the layer says otherwise */
    bo_status status;
} bo_recorder;

/* BO_FORMAT, "layer 3 (conv1): " and the words; no value. */
bo_value bo_record_refuse(bo_recorder *r, const char *format, ...) BO_PRINTF(2, 3);
/* An input that is written once. Takes `data`, which may be NULL: out of memory. */
bo_value bo_record_constant(bo_recorder *r, const char *name, bo_element element, size_t rows, size_t columns,
                            void *data);
/* Likewise of places, one per row: layers that have the same share it. */
bo_value bo_record_places(bo_recorder *r, const char *name, size_t rows, int32_t *data);
/* Of a graph the rows of the nodes that count; else all of it. */
bo_value bo_record_chosen(bo_recorder *r, bo_value value);
/* Numbers of dropout and noise, `which` below 4. */
uint64_t bo_record_stream(const bo_layer *layer, size_t which);
/* A layer's noise on another value of the same shape: where x is 1 and it hides, there is 0. */
bo_value bo_record_noise(bo_recorder *r, const bo_layer *layer, bo_value x);
bool bo_layer_hides(const bo_layer *layer); /* It is noise that sets parts to 0. */

/* ---- types ------------------------------------------------------------------------------------------------------------- */

typedef enum bo_field_kind {
    BO_FIELD_COUNT,   /* size_t, 1 or more */
    BO_FIELD_PAIR,    /* size_t[2]: one for both, or [height, width] */
    BO_FIELD_PADDING, /* "same", a number or a pair */
    BO_FIELD_WIDTH,   /* bo_width */
    BO_FIELD_REAL,    /* double within [least, most) */
    BO_FIELD_BOOL,
    BO_FIELD_NAME, /* unsigned, one of `names` */
} bo_field_kind;
typedef struct bo_layer_field {
    const char *name;
    bo_field_kind kind;
    size_t offset; /* in bo_layer_options */
    bool required;
    double least, most;
    const char *(*names)(unsigned value); /* NULL where they end */
    const char *(*find)(const char *name); /* the name that an alias stands for, or NULL; NULL: no aliases */
    double otherwise;                     /* where it is not given: of a number or a name, or true */
} bo_layer_field;

/* Shapes that a type takes, a bit a rank. */
enum { BO_TAKES_ROW = 1, BO_TAKES_SEQUENCE = 2, BO_TAKES_IMAGE = 4, BO_TAKES_ALL = 7, BO_TAKES_PLACES = 6 };

struct bo_layer_type {
    const char *name;
    const bo_layer_field *fields;
    size_t field_count;
    size_t least, most; /* inputs; 0: 1 */
    unsigned takes;     /* 0: all */
    bool graph;         /* needs edges */
    bool sets_width;    /* its output's, by an option */
    /* Objects that outlive graphs; NULL: none. */
    bo_status (*make)(bo_context *context, bo_layer *layer, const bo_shape *in, uint64_t seed);
    bo_value (*record)(bo_recorder *r);
};

/* Tables; each ends with a type without a name. */
extern const bo_layer_type bo_layers_plain[], bo_layers_join[], bo_layers_noise[], bo_layers_grid[],
    bo_layers_features[], bo_layers_sequence[], bo_layers_graph[];

const bo_layer_type *bo_layer_type_find(const char *name); /* NULL: none */
const char *bo_layer_type_nearest(const char *name);       /* for messages; NULL: none is near */
/* How many letters must change; for suggestions. */
size_t bo_word_distance(const char *a, const char *b);

/* ---- reading a description --------------------------------------------------------------------------------------------- */

/* "…: "name" should be …, found …"; and "has no field …" for a member that is not among the names. */
bo_status bo_json_refuse(bo_context *context, const char *where, const char *name, const char *expected,
                         const cJSON *item);
bo_status bo_json_known(bo_context *context, const char *where, const cJSON *json, size_t count,
                        const char *const *names);
/* Options of a layer out of its object. */
bo_status bo_fields_read(bo_context *context, const char *where, const bo_layer *layer, const cJSON *json,
                         bo_layer_options *out);
/* Everything but objects, shapes and weights. */
bo_status bo_description_read(bo_context *context, const char *where, const cJSON *json, bo_network *network);
/* What it asks of data. */
bo_status bo_description_needs(bo_context *context, const char *where, const cJSON *json, bo_network_needs *out);
/* What a network is made by, beside its description. */
typedef struct bo_build {
    bo_facts facts;
    double multiplier; /* 0: 1 */
    bo_parametrization parametrization;
    uint64_t seed;
} bo_build;
/* A network of a description whose weights are declared and have no memory yet. */
bo_status bo_network_build(bo_context *context, const char *where, const cJSON *json, const bo_build *build,
                           bo_network **out);

/* Data of a file has a schema, which the network shares. */
void bo_network_set_schema(bo_network *network, bo_schema *schema);

/* network.json, without the weights that go with it. */
bo_status bo_network_parse(bo_context *context, const char *where, const char *text, size_t length, bo_network **out);

/* Are the targets such that the loss has a meaning? */
bo_status bo_targets_check(bo_context *context, const bo_network *network, const bo_examples *examples);
/* And the classes, of the data that they were found in? */
bo_status bo_classes_check(bo_context *context, const bo_network *network, const bo_examples *examples);

/* bo_network_create but for memory and values of the weights. */
bo_status bo_network_prepare(bo_context *context, const bo_network_desc *desc, bo_network **out);

/* ---- loss, scaling ----------------------------------------------------------------------------------------------------- */

const char *bo_network_loss_name(bo_network_loss loss);
/* Checks that the output fits the loss. */
bo_status bo_loss_check(bo_context *context, const bo_network *network);
/* Records it; values of all layers are given by number. */
void bo_loss_record(bo_recorder *r, const bo_value *values);
/* Of one example, from what came out and what should have: class or numbers. In double. mask NULL: all numbers count, else
 * those where it is 0; NAN: none does. */
double bo_loss_of(const bo_network *network, const float *output, const float *target, const float *mask,
                  int32_t label);
size_t bo_loss_columns(const bo_network *network);    /* of a row of the output beside its target: kl's softmax */
size_t bo_network_outputs(const bo_network *network); /* numbers of an example that come out */
size_t bo_layer_weights(const bo_network *network, const bo_layer *layer); /* numbers in its weights */

/* What the last layer takes, of every row of the training part. */
bo_status bo_network_last_inputs(bo_context *context, const bo_network *network, const bo_examples *examples,
                                 float *out);
int32_t bo_examples_label(const bo_examples *examples, size_t row); /* negative: none */

/* Of inputs and targets, from the training part. */
bo_status bo_scaling_fit(bo_context *context, bo_network *network, const bo_examples *examples);
bo_status bo_scaling_create(bo_context *context, size_t count, bo_network_scaling *out); /* shift 0, scale 1 */
void bo_scaling_apply(const bo_network_scaling *scaling, size_t count, const float *from, float *to);
void bo_scaling_undo(const bo_network_scaling *scaling, size_t count, float *values);
void bo_scaling_free(bo_network_scaling *scaling);

#endif
