/* The shape of state-space systems. */
#include "shapes_internal.h"
#include "../kernels/channels.h"

enum { MOST_STATES = 4096, MOST_INPUTS = 7 };

/* What stands behind x, by kind: columns as numbers a state (rank: times r), or one alone. */
typedef struct parameter {
    const char *name;
    size_t a_state; /* numbers for each of N; 0: one in all */
    bool rank;
} parameter;

static const struct {
    size_t count;
    parameter list[MOST_INPUTS];
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
    if ((unsigned)a->kind >= BO_SSM_COUNT) REFUSE("ssm: no kind %d", (int)a->kind);
    if ((unsigned)a->form >= BO_SSM_FORM_COUNT) REFUSE("ssm: no form %d", (int)a->form);
    if (a->size < 1 || a->size > MOST_STATES) REFUSE("ssm: %zu states, expected 1 to %d", a->size, MOST_STATES);
    if (rank > BO_SYSTEMS_RANK) REFUSE("ssm: rank %zu, expected 1 to %d", rank, BO_SYSTEMS_RANK);
    BO_TRY(begin(context, call, "ssm", 1 + kinds[a->kind].count));
    BO_TRY(check_tokens(context, call, "ssm", a->sequences.tokens));
    for (size_t i = 0; i < kinds[a->kind].count; i++) {
        const parameter *p = &kinds[a->kind].list[i];
        size_t columns = p->a_state ? p->a_state * a->size * (p->rank ? rank : 1) : 1;
        BO_TRY(check_floats(context, call, "ssm", 1 + i, p->name, call->in[0].columns, columns));
    }
    give_like_first(call);
    return BO_OK;
}

/* Complex states of groups of channels, as they run: of CLOSED the r + 1 numbers that count. */
size_t bo_ssm_state_bytes(const bo_ssm_attributes *a, size_t channels)
{
    size_t groups = (channels + BO_CHANNELS - 1) / BO_CHANNELS, rank = a->rank ? a->rank : 1;
    return groups * (a->kind == BO_SSM_CLOSED ? rank + 1 : a->size) * BO_COMPLEX_ROW * sizeof(float);
}
