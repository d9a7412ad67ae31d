/** @file
 * Profiles: shapes, sizes and times of each operation in one step of a model. Experimental.
 *
 *     bo_profile *profile;
 *     bo_model_profile(context, model, NULL, &profile);
 *     for (size_t i = 0; i < profile->operation_count; i++) {
 *         const bo_operation_info *operation = &profile->operations[i];
 *         printf("%s, %s: %g s\n", operation->scope, operation->name, operation->forward + operation->backward);
 *     }
 *     bo_profile_draw(context, profile, stdout);            // for Graphviz: dot -Tsvg
 *     bo_profile_destroy(profile);
 *
 * bo_model_profile() (model.h) runs one training step, forward and backward without the optimizer, on random data. The
 * values of the weights do not change. The weights get memory for gradients, as in training. To trace a whole program,
 * see `trace` of bo_context_desc.
 *
 * **Ownership.** A profile is a copy. It does not refer to the model, and its pointers are valid as long as the
 * profile.
 *
 * **Threads.** A profile does not change. Any number of threads may read it.
 */
#ifndef BOCHNER_PROFILE_H
#define BOCHNER_PROFILE_H

#include <bochner/base.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

/** Describes the step to profile. Zero means the default. */
typedef struct bo_profile_desc {
    size_t batch;         /**< sequences, texts or rows (default: 1; networks: 32) */
    size_t tokens;        /**< models only: tokens per sequence (default: the context of the model, at most 256) */
    size_t repeats;       /**< timed runs after one warmup run, at most 1000; times are medians (default: 5) */
    bool forward;         /**< forward only: no backward and no gradients */
    bool checkpointing;   /**< activation checkpointing, as in bo_trainer_desc */
    uint64_t seed;        /**< seed of the random data */
    uint64_t reserved[4]; /**< must be zero */
} bo_profile_desc;

/** Where a tensor comes from. */
typedef enum bo_value_origin {
    BO_VALUE_ORIGIN_INPUT = 0,    /**< an input of the graph */
    BO_VALUE_ORIGIN_WEIGHT = 1,   /**< a weight */
    BO_VALUE_ORIGIN_OPERATION = 2 /**< the result of an operation */
} bo_value_origin;

/** A tensor of a profile. */
typedef struct bo_value_info {
    bo_value_origin origin; /**< where it comes from */
    const char *name;       /**< name of an input or a weight; NULL: an operation's result */
    const char *type;       /**< "float32", "int32", "bfloat16", "int8" or "int4" */
    size_t rows;            /**< number of rows */
    size_t columns;         /**< number of columns */
    size_t bytes;           /**< size in bytes */
    bool trained;           /**< it is a weight with a gradient */
    size_t operation;       /**< number of the operation that computes it; SIZE_MAX: none */
} bo_value_info;

/** An operation of a profile. Times are medians, in seconds per run. */
typedef struct bo_operation_info {
    const char *name;     /**< "linear", "attention", … */
    const char *scope;    /**< "layer 3 attention" */
    size_t inputs;        /**< number of inputs */
    size_t outputs;       /**< number of outputs */
    const size_t *input;  /**< numbers of the input tensors */
    const size_t *output; /**< numbers of the output tensors */
    size_t bytes;         /**< bytes in use until backward: outputs, and the data that forward saves */
    double flops;         /**< useful floating-point operations of forward, by a fixed count; 0: negligible */
    double forward;       /**< time of forward; 0 if the result is computed in backward (the loss over a vocabulary) */
    double backward;      /**< time of backward */
    double again;         /**< time of the second forward with activation checkpointing */
} bo_operation_info;

/** The totals of a profile. */
typedef struct bo_profile_totals {
    const char *subject; /**< "a training step of 2 x 128 tokens" */
    size_t repeats;      /**< number of timed runs */
    int threads;         /**< number of threads */
    double seconds;      /**< median time of a run: operations and the time between them */
    double forward;      /**< sum of forward over the operations, in seconds */
    double backward;     /**< sum of backward over the operations, in seconds */
    double again;        /**< sum of the second forward over the operations, in seconds */
    double rounding;     /**< time of rounding activations to bfloat16 and back, in seconds */
    size_t bytes;        /**< bytes of the arena: all tensors and gradients, except weights and their gradients */
    size_t weight_bytes; /**< bytes of the weights, without gradients */
    double flops;        /**< useful floating-point operations of a run, including backward */
} bo_profile_totals;

/** A profile. Operations and tensors are numbered from 0 in the order in which they were recorded. Created by the
 * library and read-only; later versions may add members at the end. */
typedef struct bo_profile {
    const bo_operation_info *operations; /**< the operations */
    size_t operation_count;              /**< number of operations */
    const bo_value_info *values;         /**< the tensors */
    size_t value_count;                  /**< number of tensors */
    bo_profile_totals totals;            /**< the totals */
} bo_profile;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Destroys a profile. @param profile  the profile, or NULL */
BO_API void bo_profile_destroy(bo_profile *profile);

/** Writes the graph in the DOT language of Graphviz.
 *
 * Each operation is a box with its weights, shaded by its share of the time. Operations of the same scope share a
 * frame.
 *
 * @param context  the context
 * @param profile  the profile
 * @param out      an open file; it stays open
 * @return BO_OK; BO_IO if writing fails
 */
BO_API bo_status bo_profile_draw(bo_context *context, const bo_profile *profile, FILE *out);

#endif

#ifdef __cplusplus
}
#endif
#endif
