/* Functions shared by the files of attention: the sequences, gradients and scratch memory of a call in the form that
 * src/attention takes. */
#ifndef BO_BACKEND_CPU_ATTENTION_H
#define BO_BACKEND_CPU_ATTENTION_H

#include "blocks.h"
#include "../attention.h"
#include "../../attention/attention.h"

/* Pieces of the scratch memory of a call in their order; NULL if not needed. */
typedef struct bo_attention_workspace {
    float *added;      /* gradients that are to be added, since attention overwrites them */
    float *parameters; /* reading: a second gradient of each parameter */
    void **states;     /* reading: states, one per sequence, followed by their gradients */
    char *memory;      /* reading: memory of states, or of their gradients */
    bo_work work;      /* scratch memory of the attention */
} bo_attention_workspace;

size_t bo_attention_sequences(const bo_op_call *call); /* maximum number of sequences */
size_t bo_attention_keys(const bo_op_call *call);      /* rows of keys */
/* Assigns the pieces of call->scratch. If it is NULL, only computes the size in *bytes. */
bo_attention_workspace bo_attention_workspace_of(bo_context *context, const bo_op_call *call, bool backward,
                                                 size_t *bytes);
/* Returns where attention writes the gradients that are needed. Those to be added go to the scratch memory. */
bo_attention_gradients bo_attention_gradients_of(const bo_op_call *call, const bo_attention_workspace *workspace);
/* Returns the gradient of the input for a bit of bo_attention_given. */
float **bo_attention_gradient_place(bo_attention_gradients *gradients, size_t bit);

/* ---- reading: cross attention of kinds that read keys one after the other ---------------------------------------- */

/* The shapes of its two calls. */
bo_attention_shape bo_attention_reading(const bo_attention_shape *shape);
bo_attention_shape bo_attention_querying(const bo_attention_shape *shape);
size_t bo_attention_reading_saved(const bo_op_call *call);
void bo_attention_carve_reading(const bo_op_call *call, bool backward, bo_carver *carver,
                                bo_attention_workspace *workspace);
/* states: states of the pass, which keep the source; NULL: none. */
bo_status bo_attention_read(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                            const bo_attention_inputs *in, void *const *states, bo_attention_workspace *workspace);
bo_status bo_attention_read_back(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                                 const bo_attention_inputs *in, const bo_attention_gradients *gradients,
                                 bo_attention_workspace *workspace);

#endif
