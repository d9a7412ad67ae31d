/* The sequences of a call whose rows are tokens (bo_sequences), and where each has its memory. */
#ifndef BO_BACKEND_CPU_SEQUENCES_H
#define BO_BACKEND_CPU_SEQUENCES_H

#include "../backend.h"

typedef struct bo_spans {
    size_t count, tokens;  /* tokens of each where lengths is NULL */
    const size_t *lengths; /* of a pass; they sum up to the rows */
} bo_spans;

/* As the pass says, or else as the attributes do; BO_INVALID where the lengths of the pass do not fit `rows`. */
bo_status bo_spans_of(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                      bo_spans *out);
/* What a pass may give at most. */
size_t bo_spans_most(const bo_op_call *call, const bo_sequences *sequences);

static inline size_t bo_span_length(const bo_spans *spans, size_t s)
{
    return spans->lengths ? spans->lengths[s] : spans->tokens;
}

/* Where sequence s continues from; NULL: it begins anew. */
void *bo_span_state(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s);

/* BO_INVALID where a gradient is asked for in a pass that has states. */
bo_status bo_spans_begin_anew(bo_context *context, const bo_op_call *call, const char *op);

#endif
