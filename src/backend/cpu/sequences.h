/* The sequences of a call whose rows are tokens (bo_sequences), and where each has its memory. */
#ifndef BO_BACKEND_CPU_SEQUENCES_H
#define BO_BACKEND_CPU_SEQUENCES_H

#include "../backend.h"

typedef struct bo_spans {
    size_t count, tokens;  /* tokens of each where lengths is NULL */
    const size_t *lengths; /* of a pass; they sum up to the rows */
} bo_spans;

/* As the pass says of their stream, or else as the attributes do; BO_INVALID where the lengths of the pass do not fit the rows
 * of input `input`, which is 0 but for what an operation has of another stream. */
bo_status bo_spans_of_input(bo_context *context, const bo_op_call *call, size_t input, const bo_sequences *sequences,
                            const char *op, bo_spans *out);
bo_status bo_spans_of(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                      bo_spans *out);
/* What a pass may give at most. */
size_t bo_spans_most(const bo_op_call *call, const bo_sequences *sequences);

static inline size_t bo_span_length(const bo_spans *spans, size_t s)
{
    return spans->lengths ? spans->lengths[s] : spans->tokens;
}

/* The sequences continue from states of the pass, and leave them. */
bool bo_spans_remember(const bo_op_call *call, const bo_sequences *sequences);
/* Where sequence s continues from; NULL: it begins anew. */
void *bo_span_state(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s);

/* BO_INVALID where a gradient is asked for of sequences that continue from states. */
bo_status bo_spans_begin_anew(bo_context *context, const bo_op_call *call, const bo_sequences *sequences,
                              const char *op);

#endif
