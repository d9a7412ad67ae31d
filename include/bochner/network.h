/** @file
 * Models of any layers for arrays, images, sequences of numbers and graphs: the task `predict`.
 *
 *     bo_examples *examples;
 *     bo_examples_load(context, &(bo_examples_desc){.data = {.path = "train.csv", .target = "kind"}, .valid = 0.1},
 *                      NULL, &examples);
 *     bo_model *model;
 *     bo_model_create_described(context, &(bo_description){.text = json, .examples = examples}, &model);
 *     …                                                                  // bo_trainer_run of train.h
 *     bo_model_predict(context, model, examples, BO_SPLIT_VALID, out);
 *     bo_model_save(context, model, &(bo_sink){.path = "directory"});
 *
 * docs/guides/network.md describes the format of a description. Text models have descriptions in the same language.
 *
 * **Threads.** Only training and bo_model_solve() change a model. Otherwise threads may share it. Each thread needs its
 * own context. Examples do not change and may be shared.
 *
 * **Ownership.** A model does not refer to the examples it was created with.
 */
#ifndef BOCHNER_NETWORK_H
#define BOCHNER_NETWORK_H

#include <bochner/data.h>
#include <bochner/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- examples: data for these models ----------------------------------------------------------------------------- */

/** Describes examples to load. */
typedef struct bo_examples_desc {
    /** The table: one row per example (an array, the pixels of an image or the features of a node), with its target. */
    bo_data_desc data;
    /** The rows are nodes of a graph, and this file has its edges: two columns of node numbers from 0, `from` and `to`.
     * Each node receives from the nodes that have an edge to it. NULL: the rows are independent. */
    const char *edges;
    bool undirected; /**< add the reverse of every edge */
    bool self_loops; /**< add an edge from every node to itself */
    /** A file with one line per row, which assigns the row to a part: "train", "valid", "test" or "none" (or 0, 1, 2,
     * -1). NULL: parts are chosen at random by `valid`, `test` and `seed`; if both fractions are 0, every row is in
     * every part. */
    const char *split;
    double valid;         /**< fraction of the rows for validation */
    double test;          /**< fraction of the rows for test */
    uint64_t seed;        /**< seed of the random split */
    uint64_t reserved[4]; /**< must be zero */
} bo_examples_desc;

/** The rows of a part. */
typedef struct bo_examples_part {
    size_t count;       /**< number of rows */
    const size_t *rows; /**< row numbers in the table, ascending; NULL: every row */
} bo_examples_part;

/** Examples. Created by the library and read-only; later versions may add members at the end. */
typedef struct bo_examples {
    size_t rows;               /**< number of examples */
    size_t dim;                /**< numbers per example */
    size_t targets;            /**< target columns */
    size_t classes;            /**< number of classes; 0: regression, or no targets */
    const float *x;            /**< rows x dim, as in the file */
    const double *y;           /**< rows x targets; classes as numbers (negative: none); NULL: no targets */
    const bo_schema *schema;   /**< the columns of the file; NULL: made from arrays */
    size_t edges;              /**< number of edges */
    const int32_t *first;      /**< node i has the neighbors first[i] to first[i + 1] - 1; NULL: no graph */
    const int32_t *neighbors;  /**< `edges` node numbers */
    bo_examples_part parts[4]; /**< the rows of TRAIN, VALID, TEST and ALL, by their numbers in bo_split */
} bo_examples;

/** Loads examples.
 *
 * @param context   the context
 * @param desc      the files
 * @param model     the model that defines columns and classes; NULL: they are detected from the file
 * @param[out] out  the examples; release them with bo_examples_destroy()
 * @return BO_OK; BO_IO if a file cannot be read; BO_FORMAT if a file is malformed, or if an edge is not a pair of node
 *     numbers; the message names the line; BO_UNSUPPORTED if there are too many nodes, edges or categories; BO_INVALID
 *     if no rows remain for training
 */
BO_API bo_status bo_examples_load(bo_context *context, const bo_examples_desc *desc, const bo_model *model,
                                  bo_examples **out);

/** Destroys examples. @param examples  the examples, or NULL */
BO_API void bo_examples_destroy(bo_examples *examples);

/* ---- descriptions: models as JSON text --------------------------------------------------------------------------- */

/** A description of a model by JSON text. */
typedef struct bo_description {
    const char *text;                   /**< the description: JSON text */
    const char *where;                  /**< its name in messages (default: "model") */
    const bo_examples *examples;        /**< set what the description omits (input, classes, scaling); or NULL */
    const bo_tokenizer *tokenizer;      /**< a text model: its tokenizer, which must outlive the model; or NULL */
    double width_multiplier;            /**< layers: factor of every hidden width (default: 1) */
    bo_parametrization parametrization; /**< MUP, UNIT: the base of layers is the description with multiplier 1 */
    uint64_t seed;                      /**< seed of weights and frequencies */
    uint64_t reserved[4];               /**< must be zero */
} bo_description;

/** Reads the description of a text model from JSON text: the members of config.json. Only "blocks" is required, so that
 * a program can set sizes and classes (docs/reference/model.md).
 *
 * @param context   the context
 * @param text      the description
 * @param where     its name in messages (NULL: "model")
 * @param[out] out  the descriptor; release it with bo_model_desc_release()
 * @return BO_OK; BO_FORMAT if the text is malformed; the message names the block and the member
 */
BO_API bo_status bo_description_read(bo_context *context, const char *text, const char *where, bo_model_desc *out);

/** Creates a model with random weights: of the task `predict` if its input is an array, a sequence, an image or a
 * graph, otherwise a text model (bo_description_read()), by default with the layers of its list once.
 *
 * @param context   the context
 * @param desc      the description; copied
 * @param[out] out  the new model; release it with bo_model_destroy()
 * @return BO_OK; BO_FORMAT if the description is malformed or inconsistent; the message names the layer or block;
 *     BO_VERSION if it has a newer format; BO_INVALID if the examples do not fit the description
 */
BO_API bo_status bo_model_create_described(bo_context *context, const bo_description *desc, bo_model **out);

/* ---- predict, evaluate ------------------------------------------------------------------------------------------- */

/** Computes predictions for all rows of a part, in blocks.
 *
 * Predictions are probabilities of classes, or numbers in the unit of the targets (in the unit of the inputs if the
 * model reconstructs them). They have the same bits for any number of threads.
 *
 * @param context   the context
 * @param model     a model of the task `predict`
 * @param examples  the examples
 * @param part      the part
 * @param[out] out  `count` of the part x `outputs` of bo_network_info, in the order of the part
 * @return BO_OK; BO_INVALID if the examples do not fit the model or if the part is empty
 */
BO_API bo_status bo_model_predict(bo_context *context, const bo_model *model, const bo_examples *examples,
                                  bo_split part, float *out);

/** The result of an evaluation. */
typedef struct bo_examples_evaluation {
    double loss;          /**< mean over the examples of the training loss */
    double accuracy;      /**< accuracy; NAN: there are no classes */
    double rmse;          /**< root mean square error in the unit of the targets; NAN: there are classes */
    uint64_t examples;    /**< number of examples with a target */
    double seconds;       /**< time taken */
    uint64_t reserved[4]; /**< must be zero */
} bo_examples_evaluation;

/** Evaluates a model on a part.
 *
 * @param context   the context
 * @param model     a model of the task `predict`
 * @param examples  the examples, with targets unless the model reconstructs its input
 * @param part      the part
 * @param[out] out  the result
 * @return BO_OK; BO_INVALID if the examples do not fit the model, if the part is empty or if no example has a target
 */
BO_API bo_status bo_model_evaluate_examples(bo_context *context, const bo_model *model, const bo_examples *examples,
                                            bo_split part, bo_examples_evaluation *out);

/* ==== Advanced ==================================================================================================== */

/* ---- examples from arrays ---------------------------------------------------------------------------------------- */

/** Examples in arrays of the caller. The arrays must outlive the examples and must not change. */
typedef struct bo_examples_arrays {
    size_t rows;              /**< number of examples */
    size_t dim;               /**< numbers per example */
    size_t targets;           /**< target columns */
    size_t classes;           /**< number of classes; 0: regression, or no targets */
    const float *x;           /**< rows x dim */
    const double *y;          /**< rows x targets; classes as numbers (negative: none); NULL: no targets */
    size_t edges;             /**< number of edges */
    const int32_t *first;     /**< edges of a graph, as in bo_examples; otherwise NULL */
    const int32_t *neighbors; /**< `edges` node numbers */
    /** fraction of the rows for validation, chosen at random; if both fractions are 0, every row is in every part */
    double valid;
    double test;          /**< fraction of the rows for test; rows without a target are in no part */
    uint64_t seed;        /**< seed of the random split */
    uint64_t reserved[4]; /**< must be zero */
} bo_examples_arrays;

/** Creates examples from arrays.
 *
 * @param context   the context
 * @param arrays    the arrays, which are not copied and must outlive the examples
 * @param[out] out  the examples; release them with bo_examples_destroy()
 * @return BO_OK; BO_INVALID if a number is NaN or infinite, if a class or an edge is out of range, or if no rows remain
 *     for training
 */
BO_API bo_status bo_examples_create(bo_context *context, const bo_examples_arrays *arrays, bo_examples **out);

/* ---- information ------------------------------------------------------------------------------------------------- */

/** The shape of an example. */
typedef enum bo_network_input {
    BO_NETWORK_INPUT_ARRAY = 0,    /**< unstructured numbers */
    BO_NETWORK_INPUT_SEQUENCE = 1, /**< length x channels */
    BO_NETWORK_INPUT_IMAGE = 2,    /**< height x width x channels */
    BO_NETWORK_INPUT_GRAPH = 3,    /**< nodes with features */
} bo_network_input;

/** The data that a description requires. */
typedef struct bo_description_needs {
    bo_network_input input; /**< the kind of input */
    bool targets;           /**< it needs targets; false: it reconstructs its input */
    bo_task task;           /**< regression or classification */
    uint64_t reserved[4];   /**< must be zero */
} bo_description_needs;

/** A layer. Created by the library; later versions may add members at the end. */
typedef struct bo_layer_info {
    const char *name;  /**< the name in the description */
    const char *type;  /**< the type in the description */
    const char *shape; /**< shape of the output for one example: "14 x 14 x 32" */
    uint64_t weights;  /**< number of parameters, trained or not */
} bo_layer_info;

/** Information about a model of the task `predict` (`network` of bo_model_info). Created by the library; later versions
 * may add members at the end. */
typedef struct bo_network_info {
    bo_network_input input;             /**< the kind of input */
    size_t dim;                         /**< numbers per example */
    size_t outputs;                     /**< numbers per example that bo_model_predict() computes */
    size_t classes;                     /**< number of classes; 0: none */
    bool reconstructs;                  /**< the target is the input */
    const char *loss;                   /**< "cross-entropy", "mse", … */
    uint64_t parameters;                /**< number of trained parameters */
    double width_multiplier;            /**< factor of every hidden width */
    bo_parametrization parametrization; /**< the parametrization */
    const bo_schema *schema;            /**< the columns of the file; NULL: created without a file */
    size_t layers;                      /**< number of layers */
    const bo_layer_info *layer;         /**< the layers, in the order in which they are computed */
} bo_network_info;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Measures the time of forward and backward of a description.
 *
 * All examples are one batch. Backward computes the gradients of the weights and of the input, as for a layer within a
 * model. The input is replaced by random numbers, N(0, 1).
 *
 * @param context          the context
 * @param desc             layers, with examples
 * @param repeats          timed runs after one warmup run, 1 to 99
 * @param[out] seconds     the median time of a run
 * @param[out] operations  the number of useful floating-point operations, or NULL
 * @return BO_OK; otherwise as bo_model_create_described()
 */
BO_API bo_status bo_description_time(bo_context *context, const bo_description *desc, size_t repeats, double *seconds,
                                     double *operations);

/** Sets the last linear layer by exact ridge regression on the training part.
 *
 * It minimizes |Z Wᵀ - Y|² + λ (|W|² + |b|²), where Z is the input of the layer. The other weights do not change. The
 * loss of the model is mse or cross-entropy. In the latter case Y is 1 for the class of an example and 0 for the
 * other classes.
 *
 * @param context   the context
 * @param model     a model of the task `predict`; no other thread may use it during the call
 * @param examples  the examples, with targets
 * @param lambda    λ, at least 0
 * @return BO_OK; BO_INVALID if the last layer is not linear, if the loss is another one or if the examples do not fit
 *     the model; BO_NUMERIC if there is no solution with this λ
 */
BO_API bo_status bo_model_solve(bo_context *context, bo_model *model, const bo_examples *examples, double lambda);

/** Determines from a description of layers which data it requires, without any data.
 *
 * @param context   the context
 * @param text      the description: JSON text
 * @param where     the name of the description in messages, or NULL
 * @param[out] out  the requirements
 * @return BO_OK; BO_FORMAT if the description is malformed; BO_VERSION if it has a newer format
 */
BO_API bo_status bo_description_inspect(bo_context *context, const char *text, const char *where,
                                        bo_description_needs *out);

#endif

#ifdef __cplusplus
}
#endif
#endif
