/* Shapes of operations that mix the tokens of sequences: RECURRENT, MIX, SSM. */
#include "shapes_internal.h"
#include "../device/cpu/channels.h"

size_t bo_recurrent_gates(bo_recurrence cell)
{
    static const size_t gates[BO_RECURRENCE_COUNT] = {
        [BO_RECURRENCE_RNN] = 1, [BO_RECURRENCE_GRU] = 3, [BO_RECURRENCE_LSTM] = 4};
    return (unsigned)cell < BO_RECURRENCE_COUNT ? gates[cell] : 0;
}

size_t bo_recurrent_state_bytes(bo_recurrence cell, size_t size)
{
    return (cell == BO_RECURRENCE_LSTM ? 2 : 1) * size * sizeof(float);
}

bo_status bo_shape_recurrent(bo_context *context, bo_op_call *call)
{
    const bo_recurrent_attributes *a = call->attributes;
    size_t gates = bo_recurrent_gates(a->cell);
    BO_TRY(begin(context, call, "recurrent", 3));
    size_t columns = call->in[0].columns, size = call->in[1].columns;
    if (!gates) REFUSE("recurrent: unknown cell %d", (int)a->cell);
    if (size == 0) REFUSE("recurrent: U has no columns");
    BO_TRY(check_floats(context, call, "recurrent", 1, "U", times(gates, size), size));
    if (columns != gates * size)
        REFUSE("recurrent: the input has %zu columns, expected %zu: %zu gates of %zu columns", columns, gates * size,
               gates, size);
    BO_TRY(check_floats(context, call, "recurrent", 2, "the bias", 1, columns));
    BO_TRY(check_tokens(context, call, "recurrent", a->sequences.tokens));
    set_output(call, 0, call->in[0].rows, size);
    return BO_OK;
}

size_t bo_mix_state_bytes(size_t columns, size_t max_tokens)
{
    return BO_MIX_HEAD + columns * max_tokens * sizeof(float);
}

bo_status bo_shape_mix(bo_context *context, bo_op_call *call)
{
    const bo_mix_attributes *a = call->attributes;
    size_t heads = a->heads ? a->heads : 1;
    BO_TRY(begin(context, call, "mix", 2));
    size_t columns = call->in[0].columns, max_tokens = call->in[1].columns;
    if (columns % heads) REFUSE("mix: %zu heads do not divide %zu columns", heads, columns);
    if (max_tokens == 0) REFUSE("mix: the matrix has no columns");
    BO_TRY(check_floats(context, call, "mix", 1, "the matrix", times(heads, max_tokens), max_tokens));
    BO_TRY(check_tokens(context, call, "mix", a->sequences.tokens));
    if (a->sequences.tokens > max_tokens)
        REFUSE("mix: sequences of %zu tokens, but the matrix supports %zu", a->sequences.tokens, max_tokens);
    set_output_like_input(call);
    return BO_OK;
}

/* ---- state-space systems ----------------------------------------------------------------------------------------- */

enum { MAX_STATES = 4096, MAX_INPUTS = 7 };

/* The inputs after x, by kind: columns per state (rank: times r), or a single column. */
typedef struct parameter {
    const char *name;
    size_t a_state; /* columns per state; 0: a single column */
    bool rank;
} parameter;

static const struct {
    size_t count;
    parameter list[MAX_INPUTS];
} kinds[BO_SSM_COUNT] = {
    [BO_SSM_DIAGONAL] = {5,
                         {{"log_step", 0, false}, {"a", 1, false}, {"w", 1, false}, {"C", 2, false}, {"D", 0, false}}},
    [BO_SSM_CLOSED] = {5, {{"log_step", 0, false}, {"P", 1, true}, {"B", 1, false}, {"C", 1, false}, {"D", 0, false}}},
    [BO_SSM_LOW_RANK] = {7,
                         {{"log_step", 0, false},
                          {"a", 1, false},
                          {"w", 1, false},
                          {"P", 2, true},
                          {"Q", 2, true},
                          {"C", 2, false},
                          {"D", 0, false}}},
};

bo_status bo_shape_ssm(bo_context *context, bo_op_call *call)
{
    const bo_ssm_attributes *a = call->attributes;
    size_t rank = a->rank ? a->rank : 1;
    if ((unsigned)a->kind >= BO_SSM_COUNT) REFUSE("ssm: unknown kind %d", (int)a->kind);
    if ((unsigned)a->form >= BO_SSM_FORM_COUNT) REFUSE("ssm: unknown form %d", (int)a->form);
    if (a->size < 1 || a->size > MAX_STATES) REFUSE("ssm: %zu states, expected 1 to %d", a->size, MAX_STATES);
    if (rank > BO_SYSTEMS_RANK) REFUSE("ssm: rank %zu, expected 1 to %d", rank, BO_SYSTEMS_RANK);
    BO_TRY(begin(context, call, "ssm", 1 + kinds[a->kind].count));
    BO_TRY(check_tokens(context, call, "ssm", a->sequences.tokens));
    for (size_t i = 0; i < kinds[a->kind].count; i++) {
        const parameter *p = &kinds[a->kind].list[i];
        size_t columns = p->a_state ? p->a_state * a->size * (p->rank ? rank : 1) : 1;
        BO_TRY(check_floats(context, call, "ssm", 1 + i, p->name, call->in[0].columns, columns));
    }
    set_output_like_input(call);
    return BO_OK;
}

/* Complex states of groups of channels in internal layout; r + 1 values for CLOSED. */
size_t bo_ssm_state_bytes(const bo_ssm_attributes *attributes, size_t channels)
{
    if (!attributes) return 0;
    size_t groups = (channels + BO_CHANNELS - 1) / BO_CHANNELS, rank = attributes->rank ? attributes->rank : 1;
    return groups * (attributes->kind == BO_SSM_CLOSED ? rank + 1 : attributes->size) * BO_COMPLEX_ROW * sizeof(float);
}
