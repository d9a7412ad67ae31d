/* States of a language model that are carried from one step to the next, one per sequence of a batch (a lane). They
 * have the format of session states (model.h). A pass reads them and writes its final states to other memory
 * (bo_graph_pass), so that a failed or repeated step finds them unchanged.
 *
 * A step has `windows` consecutive windows per lane. Their passes run in the order of the text first, to find the
 * states in between, and then in reverse with gradients, each with the gradient of its final states from the pass
 * before. The memory of activations is that of one window. */
#ifndef BO_TRAIN_STATES_H
#define BO_TRAIN_STATES_H

#include "../text/batches.h"
#include "../io/tensors.h"
#include "../model/model.h"
#include "task.h"

typedef struct bo_train_states bo_train_states;

typedef struct bo_train_states_desc {
    const bo_model *model;
    size_t lanes;        /* of all ranks */
    size_t first, share; /* those of this rank */
    size_t windows, micro_batch;
    size_t max_runs; /* runs of documents in a micro-batch; 0: each window is one run */
} bo_train_states_desc;

/* One window of a micro-batch: window number `window` of the step, of the lanes first, first + 1, … of this rank. */
typedef struct bo_train_segment {
    const bo_batches_desc *batches;
    uint64_t step; /* of the batches: windows are numbered over all steps */
    size_t window, first;
    size_t runs;           /* runs of documents … */
    const size_t *lengths; /* … and their lengths; NULL: each window is one run */
} bo_train_segment;

/* Refuses models whose states cannot be carried or have no gradient. */
bo_status bo_train_states_check(bo_context *context, const bo_model *model);
/* Returns the bytes that create and open allocate. */
size_t bo_train_states_bytes(const bo_train_states_desc *desc);
/* Creates empty states, with `model`, `lanes` and `windows` of the descriptor. */
bo_status bo_train_states_create(bo_context *context, const bo_train_states_desc *desc, bo_train_states **out);
void bo_train_states_destroy(bo_train_states *states); /* accepts NULL */
/* Allocates the memory of passes for `micro_batch` and `max_runs`, before the first one. No effect if it is already
 * allocated. */
bo_status bo_train_states_open(bo_context *context, bo_train_states *states, const bo_train_states_desc *desc);

/* Resets all lanes to empty states. */
bo_status bo_train_states_reset(bo_context *context, bo_train_states *states);
/* Sets the states and gradients of a pass, and adds the number of tokens read so far to the positions. */
bo_status bo_train_states_load(bo_context *context, bo_train_states *states, const bo_train_segment *segment,
                               int32_t *positions, bo_graph_pass *pass);
/* Ends a step: the final states of its last windows become the initial states of the next step. */
void bo_train_states_advance(bo_train_states *states);

/* Collects the states of the lanes of all ranks. */
bo_status bo_train_states_gather(bo_context *context, bo_train_states *states, const bo_collective *ranks);
#define BO_TRAIN_STATES_FILE "states.safetensors"
bo_status bo_train_states_write(bo_context *context, const bo_train_states *states, const char *path);
bo_status bo_train_states_read(bo_context *context, bo_train_states *states, const char *path);
/* The same for an open file. */
bo_status bo_train_states_read_tensors(bo_context *context, bo_train_states *states, const bo_tensors *file);

#endif
