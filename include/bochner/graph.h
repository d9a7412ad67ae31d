/* Bochner: graphs of operations with gradients, over custom weights. Advanced tier: train.h and model.h need
 * none of it.
 *
 * A graph is recorded once for its shapes, compiled once (every tensor gets its place in one block of memory, by its
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
 *     // compile; errors of recording show here
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
 * nn.h records whole layers with their weights; operations.h lists the operations; docs/guides/graph.md is the guide.
 *
 * Errors. Recording calls return a value and no status: after the first error each of them returns 0, does nothing,
 * and bo_graph_compile reports that error with the scope in which it happened ("layer 3 mlp: linear: …").
 *
 * Threads. A graph and a set of weights belong to one thread at a time. Several graphs may share a set of weights, and
 * may run at the same time where none of them has gradients. Operations use the threads of the context that is passed
 * to bo_graph_run; results do not depend on their number.
 *
 * Ownership. A graph must be destroyed before its weights and before the context it was created with. Names, shapes
 * and attributes that are passed in are copied. */
#ifndef BOCHNER_GRAPH_H
#define BOCHNER_GRAPH_H

#include <bochner/operations.h>
#include <bochner/profile.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ===================================================================================================== */

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Weights are named matrices in one block of memory, their gradients in another. Graphs declare them while they are
 * recorded; a second graph over the same set finds them by name. */

typedef struct bo_weights bo_weights;

/* What an optimizer should know of a weight. */
typedef enum bo_weight_role {
    BO_WEIGHT_ROLE_MATRIX = 0,    /* hidden: Muon's */
    BO_WEIGHT_ROLE_EMBEDDING = 1, /* rows of tokens or positions */
    BO_WEIGHT_ROLE_HEAD = 2,      /* the output projection */
    BO_WEIGHT_ROLE_VECTOR = 3     /* gains, biases, scales, and small matrices of attention */
} bo_weight_role;

typedef enum bo_weight_law {
    BO_WEIGHT_LAW_AUTO = 0,     /* the default of the layer that declares the weight; without a layer: zeros */
    BO_WEIGHT_LAW_ONE = 1,      /* ones */
    BO_WEIGHT_LAW_NORMAL = 2,   /* mean a, deviation b */
    BO_WEIGHT_LAW_SPREAD = 3,   /* evenly from a in the first column to b in the last; columns: the last extent */
    BO_WEIGHT_LAW_IDENTITY = 4, /* blocks of `a` rows of the identity, block i moved down by b i rows */
    BO_WEIGHT_LAW_DELAYS = 5,   /* rows of one 1 each, in row i at column i mod a from the last */
    BO_WEIGHT_LAW_ZERO = 6      /* zeros */
} bo_weight_law;
/* The values that bo_weights_init gives to a weight. */
typedef struct bo_weight_init {
    bo_weight_law law;
    double a, b;
} bo_weight_init;

/* Zero means the default in every field but name, rank and shape. */
typedef struct bo_weight_desc {
    const char *name;    /* "model.layers.0.mlp.up_proj.weight": unique within the set */
    size_t rank;         /* 1 to 4 */
    const size_t *shape; /* `rank` extents, as files have them */
    size_t rows,
        columns; /* as operations see it; both 0: the last extent is the columns, the product of the others the rows */
    bo_weight_role role;
    bo_weight_init init;
    bool frozen;          /* no gradient, never updated */
    double scale;         /* that the layer multiplies it with wherever it is used; 0: 1. A note for parametrizations */
    uint64_t reserved[4]; /* zero */
} bo_weight_desc;

/* A weight of a set. Library-owned, and read-only for the caller except what `data` and `gradient` point to. */
typedef struct bo_weight {
    const char *name;
    size_t rank;
    const size_t *shape;
    size_t rows, columns; /* as operations see it */
    bo_weight_role role;
    bo_weight_init init;
    bool frozen;
    double scale; /* as described, or as the parametrization has it */
    /* How it follows the width, set when it is declared. `in` and `out`: its fans as multiples of the base model's;
     * `rate`: of optimizers whose steps do not depend on the gradient's size. 1, 1, 1 in the standard
     * parametrization. */
    double in, out, rate;
    size_t offset;      /* floats from the start of the set; a multiple of 16 */
    bo_element element; /* FLOAT32, but for models that keep weights in fewer bits */
    void *data;         /* rows x columns elements; NULL before bo_weights_allocate */
    void *gradient;     /* rows x columns floats; NULL: none */
} bo_weight;

BO_API bo_status bo_weights_create(bo_context *context, bo_weights **out);
BO_API void bo_weights_destroy(bo_weights *weights); /* may be NULL */

/* Adds a weight, or finds the one of that name, which must have the same shape and role. `index` (or NULL): its number.
 * Nothing can be added after bo_weights_allocate. */
BO_API bo_status bo_weights_declare(bo_context *context, bo_weights *weights, const bo_weight_desc *desc,
                                    size_t *index);
BO_API size_t bo_weights_count(const bo_weights *weights);
BO_API const bo_weight *bo_weights_at(const bo_weights *weights, size_t index);       /* NULL past the end */
BO_API const bo_weight *bo_weights_find(const bo_weights *weights, const char *name); /* NULL: there is none */
/* Numbers in all weights; trained: in those that are not frozen. */
BO_API size_t bo_weights_parameters(const bo_weights *weights, bool trained);
BO_API size_t bo_weights_bytes(const bo_weights *weights); /* of the values, with or without memory yet */
/* Freezes (or thaws) the weights whose names begin with `pattern` or, where it has one of *?[, match it as a file name
 * would; BO_INVALID where none does. Graphs and optimizers see it when they are compiled or created. */
BO_API bo_status bo_weights_freeze(bo_context *context, bo_weights *weights, const char *pattern, bool frozen);

/* Memory for the values and, where asked for, for gradients (none for frozen weights), all zero. Called again, it adds
 * what is missing. */
BO_API bo_status bo_weights_allocate(bo_context *context, bo_weights *weights, bool gradients);
/* Draws every weight by its law: number i of a weight is a function of the seed, its name and i. */
BO_API bo_status bo_weights_init(bo_context *context, bo_weights *weights, uint64_t seed);
/* Runs add to gradients: zero them before the first run of a step. Without gradients it does nothing. */
BO_API bo_status bo_weights_zero_gradients(bo_context *context, bo_weights *weights);

/* Values and gradients by name: rows x columns floats. Values of a weight that is kept in fewer bits are widened, and
 * cannot be set. */
BO_API bo_status bo_weights_get(bo_context *context, const bo_weights *weights, const char *name, float *out);
BO_API bo_status bo_weights_set(bo_context *context, bo_weights *weights, const char *name, const float *values);
BO_API bo_status bo_weights_get_gradient(bo_context *context, const bo_weights *weights, const char *name, float *out);

/* All values as a safetensors file, which appears whole or not at all, or as its bytes (released with bo_free); and
 * back, into weights of the same names and shapes that have memory. A tensor that is missing, unknown or of another
 * shape is BO_FORMAT, and nothing is changed. */
BO_API bo_status bo_weights_save(bo_context *context, const bo_weights *weights, const char *path);
BO_API bo_status bo_weights_load(bo_context *context, bo_weights *weights, const char *path);
BO_API bo_status bo_weights_save_memory(bo_context *context, const bo_weights *weights, void **bytes, size_t *size);
BO_API bo_status bo_weights_load_memory(bo_context *context, bo_weights *weights, const void *bytes, size_t size);

/* ---- recording --------------------------------------------------------------------------------------------------- */

typedef struct bo_graph bo_graph;
typedef uint32_t bo_value; /* a tensor of a graph; 0: none */

BO_API bo_status bo_graph_create(bo_context *context, bo_weights *weights, bo_graph **out);
BO_API void bo_graph_destroy(bo_graph *graph); /* may be NULL; the weights stay */

/* A tensor that the caller writes before a run: FLOAT32 or INT32. */
BO_API bo_value bo_graph_input(bo_graph *graph, const char *name, bo_element element, size_t rows, size_t columns);
/* A weight of the set, declared where it is new. */
BO_API bo_value bo_graph_weight(bo_graph *graph, const bo_weight_desc *desc);

/* Records an operation of operations.h on `count` inputs and returns its first output. `attributes` is its struct and
 * `attributes_bytes` the struct's size: an operation of a later version may know more fields than the caller does, and
 * takes them as zero, the default; fields that this library does not know must be zero. NULL and 0: all defaults. */
BO_API bo_value bo_graph_apply(bo_graph *graph, bo_operation operation, const void *attributes, size_t attributes_bytes,
                               size_t count, const bo_value *inputs);
/* Output `index` of the operation that made `value`; 0: it has fewer. */
BO_API bo_value bo_graph_output(const bo_graph *graph, bo_value value, size_t index);

/* The most common operations. */
BO_API bo_value bo_graph_add(bo_graph *graph, bo_value a, bo_value b);      /* a + b */
BO_API bo_value bo_graph_multiply(bo_graph *graph, bo_value a, bo_value b); /* a ∘ b */
BO_API bo_value bo_graph_scale(bo_graph *graph, bo_value x, double factor); /* factor x */
BO_API bo_value bo_graph_unary(bo_graph *graph, bo_unary function, bo_value x);
BO_API bo_value bo_graph_linear(bo_graph *graph, bo_value x, bo_value w, bo_value bias); /* x wᵀ + bias; bias 0: none */
BO_API bo_value bo_graph_embed(bo_graph *graph, bo_value indices, bo_value table);       /* table[indices] */
BO_API bo_value bo_graph_reshape(bo_graph *graph, bo_value x, size_t columns);
BO_API bo_value bo_graph_concat(bo_graph *graph, size_t count, const bo_value *values); /* columns side by side */
BO_API bo_value bo_graph_loss(bo_graph *graph, bo_loss_kind kind, bo_value prediction, bo_value target); /* 1 x 1 */
/* Mean loss (1 x 1) in nats of softmax(x wᵀ) with one target (int32; < 0: not counted) per row of x. */
BO_API bo_value bo_graph_cross_entropy(bo_graph *graph, bo_value x, bo_value w, bo_value targets);

BO_API size_t bo_graph_rows(const bo_graph *graph, bo_value value); /* 0 for no value */
BO_API size_t bo_graph_columns(const bo_graph *graph, bo_value value);
BO_API bo_weights *bo_graph_weights(const bo_graph *graph);

/* Names for messages: what is recorded until the next call belongs to this scope ("layer 3 attention"). */
BO_API void bo_graph_scope(bo_graph *graph, const char *format, ...) BO_PRINTF(2, 3);
/* What is recorded between the two may be forgotten after forward and computed again before backward (`checkpoint`
 * below). Segments do not nest. */
BO_API void bo_graph_segment_begin(bo_graph *graph);
BO_API void bo_graph_segment_end(bo_graph *graph);
/* The value can be read after a run. Inputs, weights and the loss always can. */
BO_API void bo_graph_keep(bo_graph *graph, bo_value value);
/* The gradient of the loss with respect to this float value, an input or a result, is computed and can be read after a
 * run (bo_graph_read_gradient). Weights that are not frozen always have one. */
BO_API void bo_graph_keep_gradient(bo_graph *graph, bo_value value);
/* Reports an error of a function that records (a custom layer) as if an operation had been refused: sets the
 * graph's error unless it has one, and returns 0. */
BO_API bo_value bo_graph_fail(bo_graph *graph, const char *format, ...) BO_PRINTF(2, 3);

/* ---- compiling and running --------------------------------------------------------------------------------------- */

/* Zero means the default in every field. */
typedef struct bo_graph_compile_desc {
    bo_value loss;   /* 1 x 1 result of an operation; needed for gradients */
    bool gradients;  /* a run is forward and backward; gradients of weights are added to what their memory holds */
    bool checkpoint; /* segments are computed again instead of kept: less memory, one forward more */
    /* Values that wait from forward for backward wait rounded to bfloat16, in half the bytes. Forward's results are the
     * same to the bit; gradients are those of values off by at most 2^-8 of their size. */
    bool bfloat16;
    uint64_t reserved[4]; /* zero */
} bo_graph_compile_desc;

/* May be called again with another descriptor, also after more was recorded: what was allocated before is released. */
BO_API bo_status bo_graph_compile(bo_context *context, bo_graph *graph, const bo_graph_compile_desc *desc);
BO_API size_t bo_graph_bytes(const bo_graph *graph); /* that bo_graph_allocate will take; 0 before compiling */
BO_API double bo_graph_flops(const bo_graph *graph); /* useful ones of a run; recomputation does not count */
/* The weights must have memory by now. */
BO_API bo_status bo_graph_allocate(bo_context *context, bo_graph *graph);

/* All of a value: rows x columns floats or int32. */
BO_API bo_status bo_graph_write(bo_context *context, bo_graph *graph, bo_value value, const void *host);
BO_API bo_status bo_graph_read(bo_context *context, bo_graph *graph, bo_value value, void *host);
/* The gradient of the latest run, of a value of bo_graph_keep_gradient; of a weight: all that was added since it was
 * zeroed. */
BO_API bo_status bo_graph_read_gradient(bo_context *context, bo_graph *graph, bo_value value, float *host);
/* The gradient of the loss itself (default: 1): 1/k for each of k micro-batches that share a step. */
BO_API void bo_graph_set_loss_scale(bo_graph *graph, float scale);

/* Forward and, where compiled with gradients, backward. pass (operations.h) or NULL. Messages begin with the scope. Operations
 * that meet NaN or infinity may refuse them (BO_NUMERIC). */
BO_API bo_status bo_graph_run(bo_context *context, bo_graph *graph, const bo_graph_pass *pass);
/* Forward once more, looking at every tensor: *scope of the first that is not finite (of an input or a weight: its
 * name), or NULL; frozen weights are left to those who read them. States of the pass go on, nothing else moves. */
BO_API bo_status bo_graph_blame(bo_context *context, bo_graph *graph, const bo_graph_pass *pass, const char **scope);
/* What was recorded, and the times of `repeats` runs after one that warms up; 0: no run, and compiling is enough.
 * `subject` is what the profile calls it. Gradients of weights are added to, as by every run. `pass` may be NULL. */
BO_API bo_status bo_graph_profile(bo_context *context, bo_graph *graph, const bo_graph_pass *pass, const char *subject,
                                  size_t repeats, bo_profile **out);

/* ---- custom operations ------------------------------------------------------------------------------------- */

/* A descriptor of functions on plain memory. They are called from the thread that calls bo_graph_compile or
 * bo_graph_run, one at a time; inside forward and backward, bo_context_parallel (base.h) shares work among the
 * context's threads. They must not allocate in forward or backward (ask for scratch), must give the same bits for the
 * same inputs, and report errors by `return bo_context_fail(context, BO_INVALID, "…")`: the message gets scope and
 * name in front. */

/* One call. The pointers are valid during the call. */
typedef struct bo_operation_call {
    void *user;             /* the descriptor's */
    const void *attributes; /* the graph's copy of what was recorded with the operation; aligned to 64 bytes */
    size_t inputs, outputs;
    /* Of shape, sizes and operations without data (NULL). Forward reads `in` and writes every element of `out`.
     * Backward reads both as forward left them, but for those it said it does not need, whose data is NULL. */
    const bo_tensor *in, *out;
    /* Backward, else NULL. din[i]: where to ADD the gradient of input i (+=, never =); NULL: not wanted. dout[i]: the
     * gradient of output i; NULL: it is zero. */
    float *const *din;
    const float *const *dout;
    void *saved;   /* what forward leaves for backward; NULL in forward: no backward follows */
    void *scratch; /* for the time of the call; contents are undefined */
    const bo_graph_pass *pass;
} bo_operation_call;

/* NULL and zero mean the default, except name and forward. */
typedef struct bo_operation_desc {
    const char *name; /* for messages */
    size_t inputs;    /* that it takes, at most 16; 0: any number from 1 to 16 */
    size_t outputs;   /* that it makes, at most 4; 0: 1 */
    /* Checks inputs and attributes and fills in rows, columns and element (FLOAT32 or INT32) of the outputs, which are
     * zero before. NULL: outputs have the shape of input 0, as floats. */
    bo_status (*shape)(bo_context *context, const bo_operation_call *call, bo_tensor *outputs);
    /* Bytes of saved (with `gradients` only) and scratch that any pass may need. NULL: none. */
    bo_status (*sizes)(bo_context *context, const bo_operation_call *call, bool gradients, size_t *saved,
                       size_t *scratch);
    bo_status (*forward)(bo_context *context, const bo_operation_call *call);
    bo_status (*backward)(bo_context *context, const bo_operation_call *call); /* NULL: it has no gradient */
    double (*operations)(const bo_operation_call *call); /* useful ones of forward, for reports; NULL: 0 */
    /* Bit i: backward does not read the contents of input i, or of output i, whose memory can be used for something
     * else. */
    unsigned unread_inputs, unread_outputs;
    void *user;           /* passed to every function; must outlive the graph */
    uint64_t reserved[4]; /* zero */
} bo_operation_desc;

/* Records one, as bo_graph_apply does. The descriptor and `attributes_bytes` bytes of attributes are copied. */
BO_API bo_value bo_graph_apply_custom(bo_graph *graph, const bo_operation_desc *desc, const void *attributes,
                                      size_t attributes_bytes, size_t count, const bo_value *inputs);

#ifdef __cplusplus
}
#endif
#endif
