// clang-format Language: C
/** @file
 * Graphs of operations with gradients, over custom weights. Advanced tier: train.h and model.h do not require it.
 *
 * A graph is recorded once for its shapes, compiled once (every tensor gets an offset in one block of memory, by its
 * lifetime over forward and backward), and run many times. A run allocates nothing.
 *
 *     bo_weights *weights;
 *     bo_graph *graph;
 *     bo_weights_create(context, &weights);
 *     bo_graph_create(context, weights, &graph);
 *     // record
 *     bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, 64, 2);
 *     bo_value t = bo_graph_input(graph, "t", BO_ELEMENT_FLOAT32, 64, 1);
 *     bo_value w = bo_graph_weight(graph, &(bo_weight_desc){.name = "w", .rank = 2, .shape = (size_t[]){1, 2}});
 *     bo_value loss = bo_graph_loss(graph, BO_LOSS_KIND_MSE, bo_graph_linear(graph, x, w, 0), t);
 *     // compile; reports errors of recording
 *     bo_graph_compile(context, graph, &(bo_graph_compile_desc){.loss = loss, .gradients = true});
 *     // allocate
 *     bo_weights_allocate(context, weights, true);
 *     bo_weights_init(context, weights, seed);
 *     bo_graph_allocate(context, graph);
 *     // run
 *     bo_graph_write(context, graph, x, rows);
 *     bo_graph_write(context, graph, t, targets);
 *     bo_weights_zero_gradients(context, weights);
 *     bo_graph_run(context, graph, NULL);                    // forward and backward
 *     bo_graph_read(context, graph, loss, &value);
 *     bo_optimizer_step(context, optimizer, 1, NULL);        // optim.h
 *
 * operations.h has the operations and their attributes; layers.h records whole layers with their weights; optim.h
 * trains weights; docs/guides/graph.md is the guide.
 *
 * **Errors.** Recording functions return a value, not a status. After the first error, each of them does nothing and
 * returns 0, and bo_graph_compile() reports that error with the scope in which it happened ("layer 3 mlp: linear: …").
 *
 * **Threads.** A graph and a set of weights may be used by one thread at a time. Several graphs may share a set of
 * weights; they may run at the same time if none of them has gradients. Operations use the threads of the context that
 * is passed to bo_graph_run(). Results do not depend on the number of threads.
 *
 * **Ownership.** A graph must be destroyed before its weights and before the context it was created with. Names, shapes
 * and attributes that are passed in are copied.
 */
#ifndef BOCHNER_GRAPH_H
#define BOCHNER_GRAPH_H

#include <bochner/operations.h>
#include <bochner/profile.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/** A set of weights: named matrices in one block of memory, the gradients of those that are trained in another. Graphs
 * declare weights while they are recorded; a second graph over the same set finds them by name. */
typedef struct bo_weights bo_weights;

/** The role of a weight, which determines how optimizers treat it. */
typedef enum bo_weight_role {
    BO_WEIGHT_ROLE_MATRIX = 0,    /**< a hidden matrix; updated by Muon if that is the optimizer */
    BO_WEIGHT_ROLE_EMBEDDING = 1, /**< a table with one row per token or position */
    BO_WEIGHT_ROLE_HEAD = 2,      /**< the output projection */
    BO_WEIGHT_ROLE_VECTOR = 3     /**< gains, biases, scales, and small matrices of attention */
} bo_weight_role;

/** The distribution or pattern of the initial values of a weight, with parameters `a` and `b`. */
typedef enum bo_weight_init_kind {
    BO_WEIGHT_INIT_KIND_AUTO = 0,     /**< the default of the declaring layer; zeros without a layer */
    BO_WEIGHT_INIT_KIND_ONE = 1,      /**< ones */
    BO_WEIGHT_INIT_KIND_NORMAL = 2,   /**< normal with mean a and standard deviation b */
    BO_WEIGHT_INIT_KIND_SPREAD = 3,   /**< evenly spaced from a to b along the last extent */
    BO_WEIGHT_INIT_KIND_IDENTITY = 4, /**< blocks of `a` rows of the identity; block i is moved down by b i rows */
    BO_WEIGHT_INIT_KIND_DELAYS = 5,   /**< a single 1 per row; in row i it is i mod a columns before the last column */
    BO_WEIGHT_INIT_KIND_ZERO = 6      /**< zeros */
} bo_weight_init_kind;

/** The initial values of a weight, set by bo_weights_init(). */
typedef struct bo_weight_init {
    bo_weight_init_kind kind; /**< the distribution or pattern */
    double a;                 /**< first parameter of the kind */
    double b;                 /**< second parameter of the kind */
} bo_weight_init;

/** Describes a weight. Zero means the default in every field except name, rank and shape. */
typedef struct bo_weight_desc {
    const char *name;     /**< unique within the set: "model.layers.0.mlp.up_proj.weight" */
    size_t rank;          /**< number of extents, 1 to 4 */
    const size_t *shape;  /**< `rank` extents, as stored in files */
    bo_weight_role role;  /**< the role of the weight */
    bo_weight_init init;  /**< the initial values */
    bool frozen;          /**< true: no gradient, never updated */
    size_t rows;          /**< rows as seen by operations; if rows and columns are 0: product of the other extents */
    size_t columns;       /**< columns as seen by operations; if rows and columns are 0: the last extent */
    double scale;         /**< factor of the weight wherever the layer uses it, read by parametrizations (default: 1) */
    uint64_t reserved[4]; /**< must be zero */
} bo_weight_desc;

/** A weight of a set. Owned by the set. Callers may write only to the memory that `data` and `gradient` point to. */
typedef struct bo_weight {
    const char *name;    /**< the name */
    size_t rank;         /**< number of extents */
    const size_t *shape; /**< `rank` extents */
    size_t rows;         /**< rows as seen by operations */
    size_t columns;      /**< columns as seen by operations */
    bo_weight_role role; /**< the role */
    bo_weight_init init; /**< the initial values */
    bool frozen;         /**< true: no gradient, never updated */
    double scale;        /**< the factor as described, or as changed by the parametrization */
    double in;           /**< fan-in relative to the base model (1 in the standard parametrization) */
    double out;          /**< fan-out relative to the base model (1 in the standard parametrization) */
    /** Factor of the learning rate for optimizers whose steps do not depend on the size of the gradient (1 in the
     * standard parametrization). */
    double rate;
    size_t offset;      /**< floats from the start of the set; a multiple of 16 */
    bo_element element; /**< FLOAT32, except in models that store weights in fewer bits */
    void *data;         /**< rows x columns elements; NULL before bo_weights_allocate() */
    void *gradient;     /**< rows x columns floats; NULL if there is none */
} bo_weight;

/** Creates an empty set of weights.
 *
 * @param context   the context
 * @param[out] out  the new set; release it with bo_weights_destroy() after all graphs and optimizers that use it
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_weights_create(bo_context *context, bo_weights **out);

/** Destroys a set of weights. @param weights  the set, or NULL */
BO_API void bo_weights_destroy(bo_weights *weights);

/** Information about a set of weights. Made by the library; later versions may add members at the end. */
typedef struct bo_weights_info {
    size_t count;                   /**< number of weights */
    const bo_weight *const *weight; /**< the weights, in the order in which they were declared */
    size_t parameters;              /**< number of parameters */
    size_t trained;                 /**< number of parameters of weights that are not frozen */
    size_t bytes;                   /**< size of the values, allocated or not, without gradients */
} bo_weights_info;

/** Returns information about a set of weights.
 *
 * @param weights  the set
 * @return the info, owned by the set; `weight` is valid until another weight is declared
 */
BO_API const bo_weights_info *bo_weights_describe(const bo_weights *weights);

/** Returns a weight by its name.
 *
 * @param weights  the set
 * @param name     the name
 * @return the weight, owned by the set; NULL if there is no weight of this name
 */
BO_API const bo_weight *bo_weights_find(const bo_weights *weights, const char *name);

/** Freezes or unfreezes weights.
 *
 * The change takes effect when graphs are compiled and optimizers are created.
 *
 * @param context  the context
 * @param weights  the set
 * @param pattern  a prefix of names; with one of the characters `*?[` it is matched like a file name pattern
 * @param frozen   true to freeze, false to unfreeze
 * @return BO_OK; BO_INVALID if no weight matches
 */
BO_API bo_status bo_weights_freeze(bo_context *context, bo_weights *weights, const char *pattern, bool frozen);

/** Allocates memory for the values and optionally for gradients, all zero.
 *
 * Weights that are frozen at the time of the call have no gradient and no memory for it. A second call allocates what
 * is missing.
 *
 * @param context    the context
 * @param weights    the set
 * @param gradients  true to allocate gradients
 * @return BO_OK; BO_INVALID if gradients are requested for weights that are stored in fewer bits
 */
BO_API bo_status bo_weights_allocate(bo_context *context, bo_weights *weights, bool gradients);

/** Sets the initial values of every weight as its descriptor defines them.
 *
 * Number i of a weight is a function of the seed, the name of the weight and i.
 *
 * @param context  the context
 * @param weights  the set, with memory
 * @param seed     the seed
 * @return BO_OK; BO_INVALID if the set has no memory
 */
BO_API bo_status bo_weights_init(bo_context *context, bo_weights *weights, uint64_t seed);

/** Sets all gradients to zero. Does nothing if the set has no gradients.
 *
 * Runs add to gradients. Call this before the first run of a step.
 *
 * @param context  the context
 * @param weights  the set
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_weights_zero_gradients(bo_context *context, bo_weights *weights);

/** Copies the values or the gradient of a weight, or both. Values that are stored in fewer bits are converted to float.
 *
 * @param context        the context
 * @param weights        the set
 * @param name           the name of the weight
 * @param[out] values    rows x columns floats, or NULL
 * @param[out] gradient  rows x columns floats, or NULL
 * @return BO_OK; BO_INVALID if there is no such weight, if it has no memory, or if its gradient is requested and it has
 *     none
 */
BO_API bo_status bo_weights_get(bo_context *context, const bo_weights *weights, const char *name, float *values,
                                float *gradient);

/** Sets the values of a weight.
 *
 * @param context  the context
 * @param weights  the set
 * @param name     the name of the weight
 * @param values   rows x columns floats; copied
 * @return BO_OK; BO_INVALID if there is no such weight, if it has no memory or if it is stored in fewer bits
 */
BO_API bo_status bo_weights_set(bo_context *context, bo_weights *weights, const char *name, const float *values);

/** Saves all values to a safetensors file.
 *
 * @param context  the context
 * @param weights  the set, with memory
 * @param sink     where to write
 * @return BO_OK; BO_IO if the file cannot be written; BO_UNSUPPORTED if weights are stored as INT8 or INT4; BO_INVALID
 *     if the set has no memory
 */
BO_API bo_status bo_weights_save(bo_context *context, const bo_weights *weights, const bo_sink *sink);

/** Loads all values from a safetensors file. After a failure the values are unchanged.
 *
 * @param context  the context
 * @param weights  a set with memory and with the names and shapes of the file
 * @param source   the file
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is not a safetensors file, or if a tensor is
 *     missing, unknown, not float32 or of another shape; BO_INVALID if the set has no memory or is stored in fewer bits
 */
BO_API bo_status bo_weights_load(bo_context *context, bo_weights *weights, const bo_source *source);

/* ---- recording --------------------------------------------------------------------------------------------------- */

/** A graph of operations. */
typedef struct bo_graph bo_graph;

/** A tensor of a graph. 0 means no tensor. */
typedef uint32_t bo_value;

/** Creates an empty graph.
 *
 * @param context   the context; must outlive the graph, and is used by all recording functions
 * @param weights   the set in which the graph declares and finds its weights; must outlive the graph
 * @param[out] out  the new graph; release it with bo_graph_destroy()
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_graph_create(bo_context *context, bo_weights *weights, bo_graph **out);

/** Destroys a graph. The weights remain. @param graph  the graph, or NULL */
BO_API void bo_graph_destroy(bo_graph *graph);

/** Records an input: a tensor that the caller writes before a run.
 *
 * @param graph    the graph
 * @param name     the name; copied
 * @param element  FLOAT32 or INT32
 * @param rows     the number of rows, at least 1
 * @param columns  the number of columns, at least 1
 * @return the tensor; 0 after an error
 */
BO_API bo_value bo_graph_input(bo_graph *graph, const char *name, bo_element element, size_t rows, size_t columns);

/** Records a weight of the set. Declares it if it is new.
 *
 * @param graph  the graph
 * @param desc   the weight; copied. An error if a weight of this name has another shape or role, or if it is new and
 *     bo_weights_allocate() has already been called
 * @return the tensor, the same for the same weight; 0 after an error
 */
BO_API bo_value bo_graph_weight(bo_graph *graph, const bo_weight_desc *desc);

/** Records an operation of operations.h.
 *
 * The size of the attributes makes versions compatible: an operation of a later version may have more fields than the
 * caller passes, and sets them to zero, the default. Fields that this version does not know must be zero.
 *
 * @param graph             the graph
 * @param operation         the operation
 * @param attributes        the struct of its attributes, copied; NULL: all defaults
 * @param attributes_bytes  the size of that struct; 0 if `attributes` is NULL
 * @param count             the number of inputs
 * @param inputs            the inputs
 * @return the first output; 0 after an error
 */
BO_API bo_value bo_graph_apply(bo_graph *graph, bo_operation operation, const void *attributes, size_t attributes_bytes,
                               size_t count, const bo_value *inputs);

/** Returns another output of an operation.
 *
 * @param graph  the graph
 * @param value  an output of the operation
 * @param index  the number of the output, from 0
 * @return the output; 0 if the operation has fewer outputs
 */
BO_API bo_value bo_graph_output(const bo_graph *graph, bo_value value, size_t index);

/** Information about a graph. Made by the library; later versions may add members at the end. */
typedef struct bo_graph_info {
    bo_weights *weights;    /**< the set that was passed to bo_graph_create(); still owned by its creator */
    size_t values;          /**< number of tensors, with tensor 0, which has no rows and columns */
    const bo_tensor *value; /**< shape and element of each tensor; without data */
    size_t bytes;           /**< bytes that bo_graph_allocate() allocates; 0 before bo_graph_compile() */
    /** Useful floating-point operations of a run, without recomputation; 0 before bo_graph_compile(). */
    double flops;
} bo_graph_info;

/** Returns information about a graph.
 *
 * @param graph  the graph
 * @return the info, owned by the graph; `value` is valid until more is recorded
 */
BO_API const bo_graph_info *bo_graph_describe(const bo_graph *graph);

/** Returns the number of rows of a tensor.
 *
 * @param graph  the graph
 * @param value  the tensor
 * @return the number of rows; 0 if there is no such tensor
 */
static inline size_t bo_graph_rows(const bo_graph *graph, bo_value value)
{
    const bo_graph_info *info = bo_graph_describe(graph);
    return info && value < info->values ? info->value[value].rows : 0;
}

/** Returns the number of columns of a tensor.
 *
 * @param graph  the graph
 * @param value  the tensor
 * @return the number of columns; 0 if there is no such tensor
 */
static inline size_t bo_graph_columns(const bo_graph *graph, bo_value value)
{
    const bo_graph_info *info = bo_graph_describe(graph);
    return info && value < info->values ? info->value[value].columns : 0;
}

/** Names the scope of the operations that are recorded from now on, for messages and profiles ("layer 3 attention").
 *
 * @param graph   the graph
 * @param format  a format as for printf, followed by its arguments; the name is cut to 127 bytes
 */
BO_API void bo_graph_scope(bo_graph *graph, const char *format, ...) BO_PRINTF(2, 3);

/** Begins or ends a segment for activation checkpointing.
 *
 * If the graph is compiled with `checkpoint`, the results of a segment are released after forward and recomputed before
 * backward. Segments do not nest.
 *
 * @param graph  the graph
 * @param begin  true at the start of a segment, false at its end
 */
BO_API void bo_graph_segment(bo_graph *graph, bool begin);

/** Keeps a tensor so that bo_graph_read() can read it after a run. Inputs, weights and the loss are always kept.
 *
 * @param graph  the graph
 * @param value  the tensor
 */
BO_API void bo_graph_keep(bo_graph *graph, bo_value value);

/** Keeps the gradient of the loss with respect to a tensor, so that bo_graph_read_gradient() can read it after a run.
 *
 * Weights that are not frozen always have a gradient.
 *
 * @param graph  the graph
 * @param value  a float tensor: an input or a result
 */
BO_API void bo_graph_keep_gradient(bo_graph *graph, bo_value value);

/** Reports an error of a function that records, such as a custom layer. bo_graph_compile() will return BO_INVALID with
 * this message. Does nothing if the graph already has an error.
 *
 * @param graph   the graph
 * @param format  a format as for printf, followed by its arguments
 * @return 0
 */
BO_API bo_value bo_graph_fail(bo_graph *graph, const char *format, ...) BO_PRINTF(2, 3);

/* ---- common operations as functions ------------------------------------------------------------------------------ */

/** Records a + b.
 *
 * @param graph  the graph
 * @param a      a float tensor
 * @param b      a float tensor of the same shape
 * @return the sum; 0 after an error
 */
static inline bo_value bo_graph_add(bo_graph *graph, bo_value a, bo_value b)
{
    const bo_value inputs[2] = {a, b};
    return bo_graph_apply(graph, BO_OPERATION_ADD, NULL, 0, 2, inputs);
}

/** Records the elementwise product a ∘ b.
 *
 * @param graph  the graph
 * @param a      a float tensor
 * @param b      a float tensor of the same shape
 * @return the product; 0 after an error
 */
static inline bo_value bo_graph_multiply(bo_graph *graph, bo_value a, bo_value b)
{
    const bo_value inputs[2] = {a, b};
    return bo_graph_apply(graph, BO_OPERATION_PRODUCT, NULL, 0, 2, inputs);
}

/** Records factor x.
 *
 * @param graph   the graph
 * @param x       a float tensor
 * @param factor  the factor, not 0
 * @return the product; 0 after an error
 */
static inline bo_value bo_graph_scale(bo_graph *graph, bo_value x, double factor)
{
    const bo_unary_attributes attributes = {BO_UNARY_IDENTITY, factor, 0};
    if (factor == 0) return bo_graph_fail(graph, "scale: the factor must not be 0");
    return bo_graph_apply(graph, BO_OPERATION_UNARY, &attributes, sizeof attributes, 1, &x);
}

/** Records an elementwise function.
 *
 * @param graph     the graph
 * @param function  the function
 * @param x         a float tensor
 * @return the result; 0 after an error
 */
static inline bo_value bo_graph_unary(bo_graph *graph, bo_unary function, bo_value x)
{
    const bo_unary_attributes attributes = {function, 0, 0};
    return bo_graph_apply(graph, BO_OPERATION_UNARY, &attributes, sizeof attributes, 1, &x);
}

/** Records x wᵀ + bias.
 *
 * @param graph  the graph
 * @param x      rows x in
 * @param w      out x in
 * @param bias   1 x out; 0: no bias
 * @return rows x out; 0 after an error
 */
static inline bo_value bo_graph_linear(bo_graph *graph, bo_value x, bo_value w, bo_value bias)
{
    const bo_linear_attributes attributes = {1, bias != 0, false, 0, 0};
    const bo_value inputs[3] = {x, w, bias};
    return bo_graph_apply(graph, BO_OPERATION_LINEAR, &attributes, sizeof attributes, bias ? 3 : 2, inputs);
}

/** Records an embedding lookup: a selection of rows of a table.
 *
 * @param graph    the graph
 * @param indices  rows x 1, int32
 * @param table    the table
 * @return the rows of the table with these indices; 0 after an error
 */
static inline bo_value bo_graph_embed(bo_graph *graph, bo_value indices, bo_value table)
{
    const bo_value inputs[2] = {indices, table};
    return bo_graph_apply(graph, BO_OPERATION_EMBED, NULL, 0, 2, inputs);
}

/** Records a reshape to another number of columns.
 *
 * @param graph    the graph
 * @param x        a float tensor
 * @param columns  the new number of columns, a divisor of the number of elements
 * @return the result, which is `x` itself if it already has this number of columns; 0 after an error
 */
static inline bo_value bo_graph_reshape(bo_graph *graph, bo_value x, size_t columns)
{
    const bo_reshape_attributes attributes = {columns};
    if (graph && bo_graph_columns(graph, x) == columns) return x;
    return bo_graph_apply(graph, BO_OPERATION_RESHAPE, &attributes, sizeof attributes, 1, &x);
}

/** Records the concatenation of the columns of several tensors.
 *
 * @param graph   the graph
 * @param count   the number of tensors, at least 1
 * @param values  float tensors with the same number of rows
 * @return the result, which is the tensor itself if there is only one; 0 after an error
 */
static inline bo_value bo_graph_concat(bo_graph *graph, size_t count, const bo_value *values)
{
    enum {
        MAX_INPUTS = 16
    }; /* maximum inputs of an operation; more tensors form a tree in which all parts except the last are full */
    bo_value parts[MAX_INPUTS];
    size_t each = 1, used = 0;
    if (!values) return bo_graph_apply(graph, BO_OPERATION_CONCAT, NULL, 0, count, values);
    if (count == 1) return values[0];
    while (each * MAX_INPUTS < count) each *= MAX_INPUTS;
    for (size_t at = 0; at < count; at += each)
        parts[used++] = bo_graph_concat(graph, count - at < each ? count - at : each, values + at);
    return bo_graph_apply(graph, BO_OPERATION_CONCAT, NULL, 0, used, parts);
}

/** Records a loss.
 *
 * @param graph       the graph
 * @param kind        the loss
 * @param prediction  a float tensor
 * @param target      a float tensor of the same shape
 * @return the mean loss, 1 x 1; 0 after an error
 */
static inline bo_value bo_graph_loss(bo_graph *graph, bo_loss_kind kind, bo_value prediction, bo_value target)
{
    const bo_loss_attributes attributes = {kind};
    const bo_value inputs[2] = {prediction, target};
    return bo_graph_apply(graph, BO_OPERATION_LOSS, &attributes, sizeof attributes, 2, inputs);
}

/** Records the cross-entropy of softmax(x wᵀ).
 *
 * @param graph    the graph
 * @param x        rows x in
 * @param w        classes x in
 * @param targets  rows x 1, int32; rows with a negative target are not counted
 * @return the mean loss in nats, 1 x 1; 0 after an error
 */
static inline bo_value bo_graph_cross_entropy(bo_graph *graph, bo_value x, bo_value w, bo_value targets)
{
    const bo_value inputs[3] = {x, w, targets};
    return bo_graph_apply(graph, BO_OPERATION_CROSS_ENTROPY, NULL, 0, 3, inputs);
}

/* ---- compiling and running --------------------------------------------------------------------------------------- */

/** Describes how a graph is compiled. Zero means the default in every field. */
typedef struct bo_graph_compile_desc {
    bo_value loss;   /**< a 1 x 1 result of an operation; required for gradients */
    bool gradients;  /**< a run computes forward and backward, and adds to the gradients of the weights */
    bool checkpoint; /**< segments are recomputed in backward: less memory, one more forward */
    /** Values that backward needs are stored as bfloat16, in half the bytes. The results of forward have the same bits.
     * Gradients are computed from values with a relative error of at most 2^-8. */
    bool bfloat16;
    uint64_t reserved[4]; /**< must be zero */
} bo_graph_compile_desc;

/** Compiles a graph.
 *
 * May be called again with another descriptor, also after more was recorded. The memory that was allocated before is
 * released.
 *
 * @param context  the context
 * @param graph    the graph
 * @param desc     how to compile it
 * @return BO_OK; the first error of recording; BO_INVALID if a segment is open, if the loss is not a 1 x 1 result of an
 *     operation, if no gradient reaches any weight that is not frozen, or if an operation has the same trained tensor
 *     as two of its inputs; BO_UNSUPPORTED if an operation that needs a gradient has none
 */
BO_API bo_status bo_graph_compile(bo_context *context, bo_graph *graph, const bo_graph_compile_desc *desc);

/** Allocates the memory of a compiled graph. Does nothing if it is already allocated.
 *
 * @param context  the context
 * @param graph    a compiled graph whose weights have memory
 * @return BO_OK; BO_INVALID if the graph is not compiled or if a weight has no memory for its values or its gradient
 */
BO_API bo_status bo_graph_allocate(bo_context *context, bo_graph *graph);

/** Writes an input.
 *
 * @param context  the context
 * @param graph    a graph with memory
 * @param value    an input
 * @param host     rows x columns floats or int32; copied
 * @return BO_OK; BO_INVALID if the graph has no memory or if the value is not an input
 */
BO_API bo_status bo_graph_write(bo_context *context, bo_graph *graph, bo_value value, const void *host);

/** Reads a tensor after a run.
 *
 * @param context    the context
 * @param graph      a graph with memory
 * @param value      an input, a weight, the loss or a tensor of bo_graph_keep()
 * @param[out] host  rows x columns floats or int32
 * @return BO_OK; BO_INVALID if the graph has no memory or if the tensor is not kept
 */
BO_API bo_status bo_graph_read(bo_context *context, bo_graph *graph, bo_value value, void *host);

/** Reads a gradient after a run.
 *
 * The gradient is that of the latest run. For a weight, it is the sum over all runs since the gradients were set to
 * zero.
 *
 * @param context    the context
 * @param graph      a graph with memory
 * @param value      a weight or a tensor of bo_graph_keep_gradient()
 * @param[out] host  rows x columns floats
 * @return BO_OK; BO_INVALID if the graph has no memory or if the tensor has no gradient
 */
BO_API bo_status bo_graph_read_gradient(bo_context *context, bo_graph *graph, bo_value value, float *host);

/** Runs a graph: forward and, if it was compiled with gradients, backward.
 *
 * @param context  the context
 * @param graph    a graph with memory
 * @param pass     the settings of this run (operations.h), or NULL
 * @return BO_OK; BO_INVALID if the graph has no memory or an operation refuses its inputs; BO_NUMERIC if an operation
 *     refuses NaN or infinity; the status of a custom operation that fails. The message starts with the scope
 */
BO_API bo_status bo_graph_run(bo_context *context, bo_graph *graph, const bo_graph_pass *pass);

/* ---- custom operations ------------------------------------------------------------------------------------------- */

/** The arguments of one call of a function of a custom operation. The pointers are valid during the call. */
typedef struct bo_operation_call {
    void *user;             /**< `user` of the descriptor */
    const void *attributes; /**< the attributes that were recorded with the operation, aligned to 64 bytes */
    size_t inputs;          /**< the number of inputs */
    size_t outputs;         /**< the number of outputs */
    /** The inputs. In `shape`, `sizes` and `operations` they have no data (NULL). Forward reads them. In backward they
     * have the values of forward; the data of inputs in `unread_inputs` is NULL. */
    const bo_tensor *in;
    /** The outputs, as `in`. Forward writes every element. In backward the data of outputs in `unread_outputs` is NULL.
     */
    const bo_tensor *out;
    /** Backward only, otherwise NULL. din[i] is the memory to ADD the gradient of input i to (+=, never =); NULL: not
     * needed. */
    float *const *din;
    /** Backward only, otherwise NULL. dout[i] is the gradient of output i; NULL: it is zero. */
    const float *const *dout;
    void *saved;               /**< memory that forward fills for backward; NULL in forward if no backward follows */
    void *scratch;             /**< memory for the duration of the call; its contents are undefined */
    const bo_graph_pass *pass; /**< the settings of the run */
} bo_operation_call;

/** Describes a custom operation: functions on plain memory. NULL and zero mean the default, except name and forward.
 *
 * The functions are called from the thread that calls bo_graph_compile() or bo_graph_run(), one at a time. Within
 * forward and backward, bo_context_parallel() (base.h) distributes work over the threads of the context. The functions
 * must not allocate in forward or backward (request scratch memory instead), and must compute the same bits for the
 * same inputs. They report errors with `return bo_context_fail(context, BO_INVALID, "…")`; the library adds scope and
 * name to the message. */
typedef struct bo_operation_desc {
    const char *name; /**< the name, for messages */
    size_t inputs;    /**< the number of inputs, at most 16; 0: any number from 1 to 16 */
    size_t outputs;   /**< the number of outputs, at most 4 (default: 1) */
    /** Checks inputs and attributes, and sets rows, columns and element (FLOAT32 or INT32) of the outputs, which are
     * zero before. NULL: the outputs are floats with the shape of input 0. */
    bo_status (*shape)(bo_context *context, const bo_operation_call *call, bo_tensor *outputs);
    /** Sets the number of bytes of `saved` (used only with `gradients`) and `scratch` that any run may need. NULL:
     * none. */
    bo_status (*sizes)(bo_context *context, const bo_operation_call *call, bool gradients, size_t *saved,
                       size_t *scratch);
    /** Computes the outputs. */
    bo_status (*forward)(bo_context *context, const bo_operation_call *call);
    /** Adds the gradients of the inputs. NULL: the operation has no gradient. */
    bo_status (*backward)(bo_context *context, const bo_operation_call *call);
    /** Returns the number of useful floating-point operations of forward, for reports. NULL: 0. */
    double (*operations)(const bo_operation_call *call);
    unsigned unread_inputs;  /**< bit i: backward does not read the contents of input i, so its memory may be reused */
    unsigned unread_outputs; /**< bit i: backward does not read the contents of output i, so its memory may be reused */
    void *user;              /**< passed to every function; must outlive the graph */
    uint64_t reserved[4];    /**< must be zero */
} bo_operation_desc;

/** Records a custom operation.
 *
 * @param graph             the graph
 * @param desc              the operation; copied
 * @param attributes        the attributes, copied; NULL: none
 * @param attributes_bytes  the size of the attributes; 0 if `attributes` is NULL
 * @param count             the number of inputs, 1 to 16
 * @param inputs            the inputs
 * @return the first output; 0 after an error
 */
BO_API bo_value bo_graph_apply_custom(bo_graph *graph, const bo_operation_desc *desc, const void *attributes,
                                      size_t attributes_bytes, size_t count, const bo_value *inputs);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Finds the first tensor with NaN or infinity by repeating forward.
 *
 * The states of the pass advance as in a run. Nothing else changes. Frozen weights are not checked, only the results of
 * the operations that read them.
 *
 * @param context     the context
 * @param graph       a graph with memory
 * @param pass        the settings of the run, or NULL
 * @param[out] scope  the scope of the operation, or the name of the input or weight; NULL if all tensors are finite.
 *     Owned by the graph or the set of weights
 * @return BO_OK; otherwise as bo_graph_run(), except BO_NUMERIC
 */
BO_API bo_status bo_graph_find_nonfinite(bo_context *context, bo_graph *graph, const bo_graph_pass *pass,
                                         const char **scope);

/** Measures each operation of a graph.
 *
 * The runs add to the gradients of the weights, as every run does.
 *
 * @param context   the context
 * @param graph     a compiled graph; with memory if `repeats` is not 0
 * @param pass      the settings of the runs, or NULL
 * @param subject   the title of the profile; copied
 * @param repeats   timed runs after one warmup run, at most 1000; 0: no runs, only shapes and sizes
 * @param[out] out  the profile; release it with bo_profile_destroy()
 * @return BO_OK; BO_INVALID if the graph is not compiled; the errors of bo_graph_run()
 */
BO_API bo_status bo_graph_profile(bo_context *context, bo_graph *graph, const bo_graph_pass *pass, const char *subject,
                                  size_t repeats, bo_profile **out);

#endif

#ifdef __cplusplus
}
#endif
#endif
