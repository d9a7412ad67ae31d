/* The sequences of a call whose rows are tokens (bo_sequences), and the addresses of their states. */
#ifndef BO_BACKEND_SEQUENCES_H
#define BO_BACKEND_SEQUENCES_H

#include "backend.h"

typedef struct bo_spans {
    size_t count, tokens;  /* tokens per sequence if lengths is NULL */
    const size_t *lengths; /* of the pass; they sum to the rows */
} bo_spans;

/* Returns the sequences of the stream, from the pass if it has lengths, else from the attributes. Fails with BO_INVALID
 * if the lengths do not match the rows of input `input`, which is 0 except for inputs of another stream. */
bo_status bo_spans_of_input(bo_context *context, const bo_op_call *call, size_t input, const bo_sequences *sequences,
                            const char *op, bo_spans *out);
/* The same for input 0 of an operation that updates states in place. Fails if the pass has final states. */
bo_status bo_spans_of(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                      bo_spans *out);
/* Returns the maximum number of sequences of a pass. */
size_t bo_spans_max_count(const bo_op_call *call, const bo_sequences *sequences);

static inline size_t bo_span_length(const bo_spans *spans, size_t s)
{
    return spans->lengths ? spans->lengths[s] : spans->tokens;
}

/* True if the pass is one of consecutive segments: it leaves its states unchanged and has final states. */
static inline bool bo_pass_segments(const bo_graph_pass *pass)
{
    return pass && pass->states && pass->final_states;
}

/* True if the sequences continue from states of the pass and update them. */
bool bo_spans_have_states(const bo_op_call *call, const bo_sequences *sequences);
/* Returns the state that sequence s continues from; NULL: it starts without a state. */
void *bo_span_state(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s);
/* Returns the address for the updated state: the initial state, or the final state of the pass. NULL: not written. */
void *bo_span_final(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s);
/* Returns the gradient of the final state (NULL: zero), and the address for the gradient of the initial state (NULL:
 * not written). For operations whose state gradients have the layout of the state. */
const float *bo_span_final_gradient(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans,
                                    size_t s);
float *bo_span_state_gradient(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s);

/* Fails with BO_INVALID if a gradient is requested for sequences that update states in place. */
bo_status bo_spans_refuse_states(bo_context *context, const bo_op_call *call, const bo_sequences *sequences,
                                 const char *op);

#endif
