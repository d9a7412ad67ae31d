/* Shapes of operations that mix the tokens of sequences: RECURRENT, MIX. */
#include "shapes_internal.h"

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
    if (!gates) REFUSE("recurrent: no cell with number %d", (int)a->cell);
    if (size == 0) REFUSE("recurrent: U has no columns");
    BO_TRY(check_floats(context, call, "recurrent", 1, "U", times(gates, size), size));
    if (columns != gates * size)
        REFUSE("recurrent: the input has %zu columns, expected %zu: %zu for each of %zu", columns, gates * size, gates,
               size);
    BO_TRY(check_floats(context, call, "recurrent", 2, "the bias", 1, columns));
    BO_TRY(check_tokens(context, call, "recurrent", a->sequences.tokens));
    give(call, 0, call->in[0].rows, size);
    return BO_OK;
}

size_t bo_mix_state_bytes(size_t columns, size_t most)
{
    return BO_MIX_HEAD + columns * most * sizeof(float);
}

bo_status bo_shape_mix(bo_context *context, bo_op_call *call)
{
    const bo_mix_attributes *a = call->attributes;
    size_t heads = a->heads ? a->heads : 1;
    BO_TRY(begin(context, call, "mix", 2));
    size_t columns = call->in[0].columns, most = call->in[1].columns;
    if (columns % heads) REFUSE("mix: %zu heads do not divide %zu columns", heads, columns);
    if (most == 0) REFUSE("mix: the matrix is for no tokens");
    BO_TRY(check_floats(context, call, "mix", 1, "the matrix", times(heads, most), most));
    BO_TRY(check_tokens(context, call, "mix", a->sequences.tokens));
    if (a->sequences.tokens > most)
        REFUSE("mix: sequences of %zu tokens, but the matrix is for %zu", a->sequences.tokens, most);
    give_like_first(call);
    return BO_OK;
}
