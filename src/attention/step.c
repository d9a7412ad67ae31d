/* One token for each of many sequences. */
#include "calls.h"

typedef struct step_job {
    const bo_attention *attention;
    const bo_attention_inputs *in;
    size_t sequences;
    void *const *states;
    float *out;
    bo_desks desks;
    atomic_bool *not_finite;
} step_job;

static void step_task(void *arg, size_t index, int worker)
{
    step_job *job = arg;
    size_t key_heads = job->attention->desc.key_heads, first = index / key_heads * BO_STEP_BLOCK;
    size_t count = job->sequences - first < BO_STEP_BLOCK ? job->sequences - first : BO_STEP_BLOCK;
    job->attention->engine->step(job->attention, job->in, first, count, index % key_heads, job->states, job->out,
                                 job->not_finite, bo_desk_of(&job->desks, index, worker));
}

static bo_status check_step(bo_context *context, const step_job *job, const bo_call *call)
{
    const bo_attention *attention = job->attention;
    bool asks = !job->in->k, full_matters = attention->traits & BO_TRAIT_CAPACITY && !attention->desc.window;
    BO_TRY(bo_inputs_check(context, attention, job->in, asks, asks ? 0 : job->sequences, false));
    if (!asks) BO_TRY(bo_states_apart(context, call->work, job->sequences, NULL, job->states));
    for (size_t s = 0; s < job->sequences; s++) {
        BO_TRY(bo_attention_state_check(context, attention, job->states[s]));
        if (!asks && full_matters && bo_attention_state_tokens(job->states[s]) >= attention->held)
            return bo_fail(context, BO_INVALID, "attention: the state of sequence %zu is full: capacity %zu", s,
                           attention->held);
    }
    BO_TRY(bo_gates_check(context, call));
    return bo_inputs_finite(context, call);
}

/* Bytes of the states that a step looks at. */
static size_t step_traffic(const step_job *job)
{
    const bo_attention *attention = job->attention;
    size_t bytes = 0, row = (attention->desc.dim + attention->desc.value_dim) * sizeof(float);
    for (size_t s = 0; s < job->sequences; s++) {
        size_t kept = bo_least((size_t)bo_attention_state_tokens(job->states[s]), attention->held);
        bytes += attention->desc.key_heads * (attention->sums_bytes + kept * row);
    }
    return bytes;
}

/* Waking a thread takes as long as a core needs for this many bytes. */
enum { ALONE = 1 << 20 };

static bo_status run_step(bo_context *context, step_job *job, const bo_call *call)
{
    const bo_attention *attention = job->attention;
    size_t rounds = (job->sequences + BO_STEP_BLOCK - 1) / BO_STEP_BLOCK, tasks = rounds * attention->desc.key_heads;
    size_t together = job->sequences < BO_STEP_BLOCK ? job->sequences : BO_STEP_BLOCK;
    BO_TRY(check_step(context, job, call));
    if (job->in->solves) *job->in->solves = (bo_solves){0};
    bool alone = step_traffic(job) < ALONE;
    BO_TRY(bo_desks_take(context, call->work, tasks, alone ? 1 : (size_t)bo_context_threads(context),
                         attention->engine->step_bytes(attention, together), "a step of attention", &job->desks));
    if (alone)
        for (size_t i = 0; i < tasks; i++) step_task(job, i, 0);
    else
        bo_parallel(context, tasks, step_task, job);
    bo_desks_give(&job->desks);
    if (atomic_load(call->not_finite)) return bo_inputs_blame(context, call);
    for (size_t s = 0; job->in->k && s < job->sequences; s++) bo_state_add_tokens(job->states[s], 1);
    return BO_OK;
}

bo_status bo_attention_step_in(bo_context *context, const bo_attention *attention, size_t sequences,
                               const bo_attention_inputs *inputs, void *const *states, float *out, bo_work *work)
{
    if (!attention || !inputs || (sequences && (!states || !out)))
        return bo_fail(context, BO_INVALID, "attention: %s NULL",
                       !attention ? "the attention is"
                       : !inputs  ? "the inputs are"
                       : !states  ? "the states are"
                                  : "out is");
    bo_attention_shape shape = {
        .sequences = sequences, .tokens = 1, .no_keys = !inputs->k, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_geometry geometry;
    BO_TRY(bo_geometry_make_in(context, attention, &shape, work, &geometry));
    atomic_bool not_finite;
    bo_call call = {0};
    bo_call_fill(&call, attention, &shape, inputs, &geometry, &not_finite);
    step_job job = {.attention = attention,
                    .in = inputs,
                    .sequences = sequences,
                    .states = states,
                    .out = out,
                    .not_finite = &not_finite};
    bo_status status = run_step(context, &job, &call);
    bo_geometry_free(&geometry);
    return status;
}

bo_status bo_attention_step(bo_context *context, const bo_attention *attention, size_t sequences,
                            const bo_attention_inputs *inputs, void *const *states, float *out)
{
    return bo_attention_step_in(context, attention, sequences, inputs, states, out, NULL);
}
