/* Functions shared by the attention files. They convert the sequences, gradients and workspace of a call to the types
 * of src/attention. */
#ifndef BO_BACKEND_CPU_ATTENTION_H
#define BO_BACKEND_CPU_ATTENTION_H

#include "blocks.h"
#include "../attention.h"
#include "../../attention/attention.h"

/* Parts of the workspace of a call, in memory order; NULL if not needed. */
typedef struct bo_attention_workspace {
    float *added;      /* gradients to accumulate, which attention would overwrite */
    float *parameters; /* sequential reads: a second gradient of each parameter */
    void **states;     /* sequential reads: states, one per sequence, followed by their gradients */
    char *memory;      /* sequential reads: memory of the states or their gradients */
    bo_work work;      /* workspace workspace of the attention */
} bo_attention_workspace;

size_t bo_attention_sequences(const bo_op_call *call); /* maximum number of sequences */
size_t bo_attention_keys(const bo_op_call *call);      /* rows of keys */
/* Carves call->scratch. If it is NULL, only computes the size in *bytes. */
bo_attention_workspace bo_attention_workspace_of(bo_context *context, const bo_op_call *call, bool backward,
                                                 size_t *bytes);
/* Returns the destinations of the requested gradients. Gradients to accumulate go to the workspace. */
bo_attention_gradients bo_attention_gradients_of(const bo_op_call *call, const bo_attention_workspace *workspace);
/* Returns the gradient of the input for a bit of bo_attention_given. */
float **bo_attention_gradient_place(bo_attention_gradients *gradients, size_t bit);

/* ---- reading: cross attention of kinds that process keys sequentially ---------------------------------------- */

/* The shapes of the two calls: keys only (reading) and queries only (querying). */
bo_attention_shape bo_attention_reading(const bo_attention_shape *shape);
bo_attention_shape bo_attention_querying(const bo_attention_shape *shape);
size_t bo_attention_reading_saved(const bo_op_call *call);
void bo_attention_carve_reading(const bo_op_call *call, bool backward, bo_carver *carver,
                                bo_attention_workspace *workspace);
/* states: states of the pass, which store the source; NULL: no states. */
bo_status bo_attention_read(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                            const bo_attention_inputs *in, void *const *states, bo_attention_workspace *workspace);
bo_status bo_attention_read_back(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                                 const bo_attention_inputs *in, const bo_attention_gradients *gradients,
                                 bo_attention_workspace *workspace);

#endif
