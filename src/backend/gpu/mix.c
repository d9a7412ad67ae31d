/* Products along the tokens: see cpu/mix.c. Sequences that are longer than the matrix are refused if their length is
 * known on the host; if the tokens of a state make them too long, the device detects this and writes NaNs. */
#include "rows.h"
#include "../shapes.h"
#include "../sequences.h"

static const bo_sequences *sequences_of(const bo_op_call *call)
{
    return &((const bo_mix_attributes *)call->attributes)->sequences;
}

static bo_status check_lengths(bo_context *context, const bo_op_call *call)
{
    bo_spans spans;
    BO_TRY(bo_spans_of(context, call, sequences_of(call), "mix", &spans));
    for (size_t s = 0; s < spans.count; s++)
        if (bo_span_length(&spans, s) > call->in[1].columns)
            return bo_fail(context, BO_INVALID, "mix: the matrix supports %zu tokens per sequence, found %zu",
                           call->in[1].columns, bo_span_length(&spans, s));
    return BO_OK;
}

static bo_status begin(bo_context *context, const bo_op_call *call, bo_gpu_mix *m)
{
    const bo_mix_attributes *a = call->attributes;
    *m = (bo_gpu_mix){.columns = call->in[0].columns,
                      .heads = a->heads ? a->heads : 1,
                      .max_tokens = call->in[1].columns,
                      .causal = a->causal,
                      .again = call->again,
                      .offset = a->sequences.offset,
                      .head = BO_MIX_HEAD,
                      .x = bo_gpu_in(call, 0),
                      .weight = bo_gpu_in(call, 1)};
    BO_TRY(check_lengths(context, call));
    BO_TRY(bo_gpu_sequences(context, call, &a->sequences, "mix", &m->sequences));
    m->states = bo_gpu_states_of(call, &a->sequences, &m->sequences);
    if (m->states && !a->causal)
        return bo_fail(context, BO_INVALID, "mix: a matrix that is not causal cannot be applied in pieces");
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_gpu_mix m;
    BO_TRY(begin(context, call, &m));
    m.y = bo_gpu_out(call, 0);
    return BO_LAUNCH(context, mix, &m);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bo_gpu_mix_back back = {.dy = bo_gpu_dout(call, 0), .dx = bo_gpu_din(call, 0), .dweight = bo_gpu_din(call, 1)};
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    BO_TRY(bo_spans_refuse_states(context, call, sequences_of(call), "mix"));
    BO_TRY(begin(context, call, &back.of));
    return BO_LAUNCH(context, mix_back, &back);
}

static bo_sequences sequences(const bo_op_call *call)
{
    return *sequences_of(call);
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    const bo_mix_attributes *a = call->attributes;
    const size_t rows = call->in[0].rows, tokens = a->sequences.tokens ? a->sequences.tokens : rows;
    const double all = 2.0 * (double)rows * (double)tokens * (double)call->in[0].columns;
    return a->causal ? all / 2 : all;
}

const bo_op bo_gpu_op_mix = {
    .name = "mix",
    .attributes = sizeof(bo_mix_attributes),
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_mix,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
    .sequences = sequences,
    .operations = operations,
};
