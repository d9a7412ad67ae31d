/* Recurrent layers: see cpu/recurrent.c. */
#include "matrix.h"
#include "rows.h"
#include "../shapes.h"
#include "../cpu/cells.h"
#include "../sequences.h"

static const bo_recurrent_attributes *attributes_of(const bo_op_call *call)
{
    return call->attributes;
}

static size_t kept_floats(const bo_op_call *call)
{
    return bo_cell_of(attributes_of(call)->cell)->kept * call->in[1].columns;
}

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_recurrent(context, call));
    if (call->in[1].columns > BO_GPU_RECURRENT_LARGEST)
        return bo_fail(context, BO_UNSUPPORTED,
                       "recurrent: a hidden state of %zu numbers, on GPUs at most %d; use the CPU", call->in[1].columns,
                       BO_GPU_RECURRENT_LARGEST);
    return BO_OK;
}

/* Scratch memory of backward: gradients of U h + b and h before each token, for the gradients of the weights. */
typedef struct workspace {
    float *dproduct, *before, *partial;
    size_t bytes;
} workspace;

static workspace workspace_of(const bo_op_call *call)
{
    const size_t rows = call->in[0].rows, columns = call->in[0].columns;
    bo_carver carver = {.at = call->scratch};
    workspace r = {0};
    if (!call->din[1] && !call->din[2]) return r;
    r.dproduct = bo_carve_floats(&carver, rows * columns);
    r.before = bo_carve_floats(&carver, rows * call->in[1].columns);
    r.partial = bo_carve_floats(&carver, bo_gpu_sum_floats(rows, columns));
    r.bytes = carver.bytes;
    return r;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    if (call->in[1].element != BO_ELEMENT_FLOAT32 || call->in[2].element != BO_ELEMENT_FLOAT32)
        return bo_fail(context, BO_UNSUPPORTED, "recurrent: on GPUs, U and b must be weights");
    *saved = gradients ? call->in[0].rows * kept_floats(call) * sizeof(float) : 0;
    *scratch = workspace_of(call).bytes;
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_recurrent_attributes *a = attributes_of(call);
    bo_gpu_recurrent r = {.cell = (int)a->cell,
                          .size = call->in[1].columns,
                          .gates = bo_recurrent_gates(a->cell),
                          .offset = a->sequences.offset,
                          .x = bo_gpu_in(call, 0),
                          .weight = bo_gpu_in(call, 1),
                          .bias = bo_gpu_in(call, 2),
                          .y = bo_gpu_out(call, 0),
                          .kept = call->saved};
    BO_TRY(bo_gpu_sequences(context, call, &a->sequences, "recurrent", &r.sequences));
    r.states = bo_gpu_states_of(call, &a->sequences, &r.sequences);
    r.update = r.states && !call->again;
    return BO_LAUNCH(context, recurrent, &r);
}

/* dU = Σ dproduct hᵀ over all tokens, and db, the sum of dproduct. */
static bo_status weight_gradients(bo_context *context, const bo_op_call *call, const workspace *r)
{
    const size_t rows = call->in[0].rows, columns = call->in[0].columns, size = call->in[1].columns;
    if (call->din[1])
        BO_TRY(BO_LAUNCH(context, gemm,
                         &((bo_gpu_gemm){.m = columns,
                                         .n = size,
                                         .k = rows,
                                         .ta = true,
                                         .a = r->dproduct,
                                         .b = r->before,
                                         .d = call->din[1],
                                         .lda = columns,
                                         .ldb = size,
                                         .ldd = size,
                                         .alpha = 1,
                                         .beta = call->add[1] ? 1 : 0})));
    if (!call->din[2]) return BO_OK;
    return BO_LAUNCH(context, sum_columns,
                     &((bo_gpu_sum_columns){.rows = rows,
                                            .columns = columns,
                                            .ld = columns,
                                            .accumulate = call->add[2],
                                            .x = r->dproduct,
                                            .out = call->din[2],
                                            .parts = bo_gpu_sum_parts(rows),
                                            .partial = r->partial}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_recurrent_attributes *a = attributes_of(call);
    const workspace scratch = workspace_of(call);
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    BO_TRY(bo_spans_refuse_states(context, call, &a->sequences, "recurrent"));
    bo_gpu_recurrent_back r = {.cell = (int)a->cell,
                               .size = call->in[1].columns,
                               .gates = bo_recurrent_gates(a->cell),
                               .weight = bo_gpu_in(call, 1),
                               .y = (bo_gpu_source){call->out[0].data, call->out[0].element},
                               .dy = bo_gpu_dout(call, 0),
                               .kept = call->saved,
                               .dx = bo_gpu_din(call, 0),
                               .dproduct = scratch.dproduct,
                               .before = scratch.before};
    BO_TRY(bo_gpu_sequences(context, call, &a->sequences, "recurrent", &r.sequences));
    BO_TRY(BO_LAUNCH(context, recurrent_back, &r));
    return weight_gradients(context, call, &scratch);
}

static bo_sequences sequences(const bo_op_call *call)
{
    return attributes_of(call)->sequences;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return 2.0 * (double)call->in[0].rows * (double)bo_gpu_count(&call->in[1]);
}

const bo_op bo_gpu_op_recurrent = {
    .name = "recurrent",
    .attributes = sizeof(bo_recurrent_attributes),
    .reads_inputs = 1 << 1,
    .reads_outputs = 1 << 0,
    .shape = shape,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .sequences = sequences,
    .operations = operations,
};
