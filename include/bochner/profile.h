/* Bochner: one step of a model or a network, operation by operation: shapes, bytes, and where the time goes.
 *
 *     bo_profile *profile;
 *     bo_model_profile(context, model, NULL, &profile);
 *     for (size_t i = 0; i < bo_profile_operations(profile); i++) {
 *         const bo_operation_info *operation = bo_profile_operation(profile, i);
 *         printf("%s, %s: %g s\n", operation->scope, operation->name, operation->forward + operation->backward);
 *     }
 *     bo_profile_draw(context, profile, stdout);            // for Graphviz: dot -Tsvg
 *     bo_profile_destroy(profile);
 *
 * For a longer look at a whole program see bo_context_desc.trace. */
#ifndef BOCHNER_PROFILE_H
#define BOCHNER_PROFILE_H

#include <bochner/base.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

typedef struct bo_profile bo_profile;

typedef struct bo_profile_desc {
    size_t batch;         /* sequences, texts or rows; 0: 1, of networks 32 */
    size_t tokens;        /* of each, models only; 0: the model's context, at most 256 */
    size_t repeats;       /* runs whose median is taken, after one that warms up; 0: 5 */
    bool forward;         /* no backward: neither are there gradients */
    bool checkpointing;   /* as in bo_trainer_desc: layers are computed again for backward */
    uint64_t seed;        /* of the data, which is drawn */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_profile_desc;

/* bo_model_profile (model.h) and bo_network_profile (network.h) take one step of training, forward and backward without the
 * optimizer, on data that is drawn. The weights stay as they are; they get memory for gradients, as training gives them. */
BO_API void bo_profile_destroy(bo_profile *profile);

typedef enum bo_value_origin {
    BO_VALUE_ORIGIN_INPUT = 0,
    BO_VALUE_ORIGIN_WEIGHT = 1,
    BO_VALUE_ORIGIN_OPERATION = 2
} bo_value_origin;

/* A tensor. */
typedef struct bo_value_info {
    bo_value_origin origin;
    const char *name; /* of an input or a weight; else NULL */
    const char *type; /* "float32", "int32", "bfloat16", "int8" */
    size_t rows, columns, bytes;
    bool trained;     /* of a weight: it has a gradient */
    size_t operation; /* that makes it */
} bo_value_info;

typedef struct bo_operation_info {
    const char *name;  /* "linear", "attention", … */
    const char *scope; /* "layer 3 attention" */
    size_t inputs, outputs;
    const size_t *input, *output; /* numbers of values */
    size_t bytes;                 /* that it holds until its backward: its outputs, and what forward saves */
    double flops;                 /* useful ones of forward, by a fixed count; 0: none worth counting */
    /* Seconds of one run: medians. `again` is the second forward with checkpointing. What has a forward of 0 and a backward computes its
     * result there (the loss over a vocabulary). */
    double forward, backward, again;
} bo_operation_info;

typedef struct bo_profile_totals {
    const char *subject; /* "a training step of 2 x 128 tokens" */
    size_t repeats;
    int threads;
    double seconds;                            /* of one run, the median: operations and what is between them */
    double forward, backward, again, rounding; /* sums over operations; rounding: activations to bfloat16 and back */
    size_t bytes;                              /* of the arena: all values and gradients but weights and theirs */
    size_t weight_bytes;                       /* of the weights, without gradients */
    double flops;                              /* useful ones of a run, backward included */
} bo_profile_totals;

/* Values and operations in the order in which they were recorded, numbered from 0. Pointers live as long as the profile. */
BO_API size_t bo_profile_operations(const bo_profile *profile);
BO_API const bo_operation_info *bo_profile_operation(const bo_profile *profile, size_t index);
BO_API size_t bo_profile_values(const bo_profile *profile);
BO_API const bo_value_info *bo_profile_value(const bo_profile *profile, size_t index);
BO_API const bo_profile_totals *bo_profile_report(const bo_profile *profile);

/* The graph in the language of Graphviz (dot): a box per operation, with its weights, framed by scope and shaded by its share of
 * the time. */
BO_API bo_status bo_profile_draw(bo_context *context, const bo_profile *profile, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
