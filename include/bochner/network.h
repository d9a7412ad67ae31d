/* Bochner: networks of any layers, described by a file, on arrays, images or graphs.
 *
 *     bo_examples *examples;
 *     bo_examples_load(context, &(bo_examples_desc){.data = {.path = "train.csv", .target = "kind"}, .valid = 0.1}, NULL,
 *                      &examples);
 *     bo_network *network;
 *     bo_network_create(context, &(bo_network_desc){.model = json, .examples = examples}, &network);
 *     …                                                                  // bo_trainer_run of train.h
 *     bo_network_predict(context, network, examples, BO_SPLIT_VALID, out);
 *     bo_network_save(context, network, "folder");
 *
 * docs/guides/network.md has the format of a description. A network is immutable but for training, and may be shared by threads
 * that each bring a context of their own. */
#ifndef BOCHNER_NETWORK_H
#define BOCHNER_NETWORK_H

#include <bochner/data.h>
#include <bochner/layers.h>
#include <bochner/profile.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

typedef struct bo_network bo_network;

/* ---- examples: what a network learns from and answers about ------------------------------------------------------ */

typedef struct bo_examples_desc {
    /* one row per example: numbers of an array, pixels of an image, features of a node; and its target */
    bo_data_desc data;
    /* Rows are the nodes of a graph whose edges are in this file: two columns of node numbers from 0, `from` and `to`, each
     * node seeing those that point to it. NULL: rows have nothing to do with each other. */
    const char *edges;
    bool undirected; /* every edge is there both ways */
    bool self_loops; /* every node sees itself too */
    /* Which part a row belongs to: a file with one column of "train", "valid", "test" or "none" (0, 1, 2, -1), one line per
     * row; or fractions of the rows, chosen by `seed`. NULL and 0: every row is in every part. */
    const char *split;
    double valid, test;
    uint64_t seed;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_examples_desc;

/* Made by the library and read-only to callers; later versions may add members at its end. */
typedef struct bo_examples {
    size_t rows, dim, targets;
    size_t classes;  /* 0: regression, or no targets */
    const float *x;  /* rows x dim, as in the file */
    const double *y; /* rows x targets, for classes the number of the class (negative: none); NULL: no targets */
    const bo_schema *schema; /* NULL: made from arrays */
    size_t edges;
    const int32_t *first; /* of a graph: node i sees neighbors[first[i]] … neighbors[first[i + 1] - 1]; else NULL */
    const int32_t *neighbors; /* `edges` numbers */
} bo_examples;

/* `network` NULL: columns and classes are found in the file; otherwise they are read as the network has them. Edges that are
 * not whole, negative or past the last node are BO_FORMAT, with their line. */
BO_API bo_status bo_examples_load(bo_context *context, const bo_examples_desc *desc, const bo_network *network,
                                  bo_examples **out);
BO_API void bo_examples_destroy(bo_examples *examples);
/* The number of rows of a part. */
BO_API size_t bo_examples_rows(const bo_examples *examples, bo_split part);
/* The row number in the table of item `index` of a part, in ascending order; SIZE_MAX past the end. */
BO_API size_t bo_examples_row(const bo_examples *examples, bo_split part, size_t index);

/* ---- create, save, load ------------------------------------------------------------------------------------------ */

typedef struct bo_network_desc {
    const char *model; /* the description: JSON text */
    const char *where; /* what messages call it (default: "model") */
    const bo_examples
        *examples; /* what the description leaves open: width of the input, classes, standardization; or NULL */
    double width_multiplier;            /* of every hidden width (default: 1) */
    bo_parametrization parametrization; /* MUP, UNIT: the base is the same description with multiplier 1 */
    uint64_t seed;                      /* of weights and frequencies */
    uint64_t reserved[4];               /* zero: room for later versions */
} bo_network_desc;

/* Random weights. What is wrong with a description is BO_FORMAT, naming the layer. */
BO_API bo_status bo_network_create(bo_context *context, const bo_network_desc *desc, bo_network **out);
BO_API void bo_network_destroy(bo_network *network);
/* A folder with network.json and model.safetensors. */
BO_API bo_status bo_network_save(bo_context *context, const bo_network *network, const char *folder);
BO_API bo_status bo_network_load(bo_context *context, const char *folder, bo_network **out);

/* ---- predict, evaluate ------------------------------------------------------------------------------------------- */

/* Of every row of a part, in its order: probabilities of classes, or numbers in the unit of the targets (of the inputs, where
 * they are the target); bo_examples_rows x outputs. In blocks; the same bits for any number of threads. */
BO_API bo_status bo_network_predict(bo_context *context, const bo_network *network, const bo_examples *examples,
                                    bo_split part, float *out);

typedef struct bo_network_evaluation {
    double loss;       /* mean over the examples, of the loss that was trained */
    double accuracy;   /* NAN: no classes */
    double rmse;       /* in the unit of the targets; NAN: classes */
    uint64_t examples; /* that have a target */
    double seconds;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_network_evaluation;
BO_API bo_status bo_network_evaluate(bo_context *context, const bo_network *network, const bo_examples *examples,
                                     bo_split part, bo_network_evaluation *out);

/* ==== Advanced ==================================================================================================== */

/* ---- examples from arrays ---------------------------------------------------------------------------------------- */

/* Arrays that stay where they are while the examples are in use. */
typedef struct bo_examples_arrays {
    size_t rows, dim, targets;
    size_t classes;  /* 0: regression, or no targets */
    const float *x;  /* rows x dim */
    const double *y; /* rows x targets, for classes the number of the class (negative: none); NULL: no targets */
    size_t edges;
    const int32_t *first;     /* of a graph, as in bo_examples; else NULL */
    const int32_t *neighbors; /* `edges` numbers */
    uint64_t reserved[4];     /* zero: room for later versions */
} bo_examples_arrays;

/* Numbers that are not finite, classes and edges out of their range are BO_INVALID. */
BO_API bo_status bo_examples_create(bo_context *context, const bo_examples_arrays *arrays, bo_examples **out);
/* Assigns rows to parts at random, of rows that have a target: shares for validation and test, the others are for training. */
BO_API bo_status bo_examples_split(bo_context *context, bo_examples *examples, double valid, double test,
                                   uint64_t seed);

/* ---- networks in memory ------------------------------------------------------------------------------------------ */

/* One safetensors image: the tensors of model.safetensors, and the text of network.json in its metadata under
 * "network.json". *bytes is released with bo_free. */
BO_API bo_status bo_network_save_memory(bo_context *context, const bo_network *network, void **bytes, size_t *size);
/* The bytes are not needed afterwards. */
BO_API bo_status bo_network_load_memory(bo_context *context, const void *bytes, size_t size, bo_network **out);

/* ---- facts ------------------------------------------------------------------------------------------------------- */

typedef enum bo_network_input {
    BO_NETWORK_INPUT_ARRAY = 0,
    BO_NETWORK_INPUT_SEQUENCE = 1, /* length x channels */
    BO_NETWORK_INPUT_IMAGE = 2,    /* height x width x channels */
    BO_NETWORK_INPUT_GRAPH = 3,    /* nodes with features */
} bo_network_input;
/* "array", "sequence", "image", "graph"; NULL outside the enum. */
BO_API const char *bo_network_input_name(bo_network_input kind);
BO_API bool bo_network_input_parse(const char *name, bo_network_input *out);

/* What a description asks of data, before there is any. */
typedef struct bo_network_needs {
    bo_network_input input;
    bool targets; /* false: it reconstructs its input */
    bo_task task;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_network_needs;
/* `where`: what messages call it, or NULL. */
BO_API bo_status bo_network_inspect(bo_context *context, const char *model, const char *where, bo_network_needs *out);

/* Made by the library; later versions may add members at its end. */
typedef struct bo_network_facts {
    bo_network_input input;
    size_t dim;          /* numbers of an example */
    size_t outputs;      /* numbers that bo_network_predict gives for one */
    size_t classes;      /* 0: none */
    bool reconstructs;   /* the target is the input */
    const char *loss;    /* "cross-entropy", "mse", … */
    uint64_t parameters; /* trained numbers */
    double width_multiplier;
    bo_parametrization parametrization;
    const bo_schema *schema; /* NULL: of no file */
} bo_network_facts;
/* Owned by the network. */
BO_API const bo_network_facts *bo_network_report(const bo_network *network);

/* Made by the library; later versions may add members at its end. */
typedef struct bo_layer_info {
    const char *name, *type;
    const char *shape; /* what comes out for one example: "14 x 14 x 32" */
    uint64_t weights;  /* numbers, trained or not */
} bo_layer_info;
BO_API size_t bo_network_layers(const bo_network *network);
/* Layers in the order in which they are computed; NULL past the last. Owned by the network. */
BO_API const bo_layer_info *bo_network_layer(const bo_network *network, size_t index);

/* ---- the last layer, solved -------------------------------------------------------------------------------------- */

/* The last linear layer by exact ridge regression on the training part, |Z Wᵀ - Y|² + λ (|W|² + |b|²), Z what it takes; the
 * other weights stay. Loss mse, or classes: then toward 1 for the class and 0 for the others. */
BO_API bo_status bo_network_solve(bo_context *context, bo_network *network, const bo_examples *examples, double lambda);

/* ---- profile ------------------------------------------------------------------------------------------------------ */

/* Shapes, bytes and times of the operations of one step (profile.h). On graphs: `batch` nodes, each of which sees the one before
 * it. desc or NULL: all defaults. */
BO_API bo_status bo_network_profile(bo_context *context, bo_network *network, const bo_profile_desc *desc,
                                    bo_profile **out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* Seconds of forward and backward of a description on all of desc.examples at once, with the gradients of its weights and of
 * its input, as a layer within a model has them, and of its loss: the median of `repeats` (1 to 99) after one that warms up.
 * *operations: useful ones; may be NULL. The input is drawn, N(0, 1). */
BO_API bo_status bo_network_time(bo_context *context, const bo_network_desc *desc, size_t repeats, double *seconds,
                                 double *operations);

#endif

#ifdef __cplusplus
}
#endif
#endif
