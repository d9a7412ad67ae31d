/* Calls on contiguous arrays: check, plan, and run the engine's tasks, one per key head of each sequence; also steps of
 * one token. */
#include <math.h>
#include <string.h>
#include "enums.h"
#include "../base/trace.h"
#include "calls.h"
#include "gpu/host.h"
#include "parameters.h"

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Calls on sequences: check, plan, and run the engine's tasks, one per key head of each sequence. */

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

size_t bo_scratch_count(bo_context *context, size_t tasks)
{
    size_t threads = (size_t)bo_context_threads(context);
    return tasks < threads ? tasks : threads;
}

/* ---- the header of a tape ---------------------------------------------------------------------------------------- */

typedef struct stamp {
    uint64_t words[BO_STAMP];
} stamp;

/* A forward pass on a GPU leaves the tape empty, because the backward pass repeats it. */
enum { LAYOUT = 7 };
static const uint64_t on_gpu_bit = (uint64_t)1 << 32;

static stamp stamp_of(const bo_call *call, const bo_geometry *geometry)
{
    return (stamp){{call->attention->fingerprint, call->shape->sequences, call->queries_total, call->keys_total,
                    geometry->tape_states, call->plan.chunk, call->plan.segment, call->shape->layout}};
}

/* Returns the number of rows for progress: queries, and also keys if they are processed before or without queries. */
static size_t watched(const bo_call *call, size_t times)
{
    bool keeps = call->attention->traits & BO_TRAIT_CAPACITY;
    bool counts_keys = call->shape->no_queries || (!call->attention->desc.causal && !keeps);
    return times * (call->queries_total + (counts_keys ? call->keys_total : 0)) * call->attention->desc.key_heads;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

typedef struct forward_job {
    bo_call *call;
    bo_scratch scratch;
} forward_job;

static void forward_task(void *arg, size_t index, int worker)
{
    const forward_job *job = arg;
    const bo_call *call = job->call;
    size_t key_heads = call->attention->desc.key_heads;
    call->attention->engine->forward(call, index / key_heads, index % key_heads,
                                     bo_scratch_of(&job->scratch, index, worker));
}

/* Writes the headers of the final states. The tasks write the other bytes. initial and final may be equal. */
static bo_status prepare_final(bo_context *context, const bo_call *call)
{
    for (size_t s = 0; call->final && s < call->shape->sequences; s++) {
        if (!call->initial) BO_TRY(bo_attention_state_init(context, call->attention, call->final[s]));
        if (call->initial && call->initial[s] != call->final[s])
            memcpy(call->final[s], call->initial[s], bo_attention_state_bytes(call->attention));
    }
    return BO_OK;
}

/* Runs one task per (sequence, key head). */
static bo_status one_by_one(bo_context *context, bo_call *call)
{
    forward_job job = {.call = call};
    BO_TRY(bo_scratch_alloc(context, call->work, call->plan.tasks, (size_t)bo_context_threads(context),
                            call->plan.forward_bytes, "attention's forward pass", &job.scratch));
    bo_parallel(context, call->plan.tasks, forward_task, &job);
    bo_scratch_free(&job.scratch);
    return BO_OK;
}

bool bo_runs_together(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan)
{
    const bo_engine *engine = attention->engine;
    size_t threads = (size_t)bo_context_threads(context);
    return engine->together && plan->tasks && threads > 1 && engine->together_pays(attention, plan, threads);
}

static bo_status run_forward(bo_context *context, bo_call *call)
{
    bo_pass_progress watch;
    bo_pass_progress_begin(&watch, context, "attention, forward", watched(call, 1));
    call->watch = &watch;
    if (call->in->solves) *call->in->solves = (bo_solves){0}; /* tasks add to it */
    BO_TRY((bo_runs_together(context, call->attention, &call->plan) ? call->attention->engine->together
                                                                    : one_by_one)(context, call));
    if (bo_pass_stops(&watch, 0)) return BO_CANCELED; /* other threads may have run all tasks */
    if (atomic_load(call->not_finite)) return bo_inputs_locate_nonfinite(context, call);
    for (size_t s = 0; call->final && s < call->shape->sequences; s++)
        bo_state_add_tokens(call->final[s], call->sequences[s].keys);
    return BO_OK;
}

static bo_status forward(bo_context *context, bo_call *call, const bo_geometry *geometry)
{
    BO_TRY(bo_inputs_check(context, call));
    if (call->shape->no_keys && !call->initial)
        return bo_fail(context, BO_INVALID,
                       "attention: the shape has no keys, so initial states are required, found NULL");
    if (call->shape->no_queries && !call->final)
        return bo_fail(context, BO_INVALID,
                       "attention: the shape has no queries, so final states are required, found NULL");
    BO_TRY(bo_gates_check(context, call));
    BO_TRY(bo_states_check(context, call, call->final));
    /* Checks inputs before states change in place: one invalid token must not destroy a state. */
    if (call->initial && call->final) BO_TRY(bo_inputs_finite(context, call));
    BO_TRY(prepare_final(context, call));
    const bool on_gpu = bo_gpu_host_supports(context, call, call->tape.top != NULL);
    if (call->tape.top) {
        stamp expected = stamp_of(call, geometry);
        if (on_gpu) expected.words[LAYOUT] |= on_gpu_bit;
        memcpy(call->tape.stamp, &expected, sizeof expected);
    }
    if (!on_gpu) return run_forward(context, call);
    return bo_gpu_host_forward(context, call); /* final states include their token counts */
}

void bo_call_fill(bo_call *call, const bo_attention *attention, const bo_attention_shape *shape,
                  const bo_attention_inputs *inputs, const bo_geometry *geometry, atomic_bool *not_finite)
{
    call->work = geometry->work;
    atomic_init(not_finite, false);
    call->not_finite = not_finite;
    call->attention = attention;
    call->kernels = attention->kernels;
    call->shape = shape;
    call->in = inputs;
    call->sequences = geometry->sequences;
    call->queries_total = geometry->queries_total;
    call->keys_total = geometry->keys_total;
    call->plan = geometry->plan;
}

bo_status bo_attention_forward_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                  const bo_attention_inputs *inputs, const void *const *initial, void *const *final,
                                  float *out, void *tape, bo_work *work)
{
    bo_geometry geometry;
    BO_TRY(bo_geometry_make_in(context, attention, shape, work, &geometry));
    atomic_bool not_finite;
    bo_call call = {.initial = initial, .final = final, .out = out};
    bo_call_fill(&call, attention, shape, inputs, &geometry, &not_finite);
    if (tape) call.tape = bo_tape_at(attention, &geometry, tape, NULL);
    bo_status status = forward(context, &call, &geometry);
    bo_geometry_free(&geometry);
    return status;
}

bool bo_has_outputs(const bo_attention_shape *shape)
{
    if (shape->no_queries || !shape->lengths) return !shape->no_queries && shape->tokens > 0;
    size_t sequence = 0;
    while (sequence < shape->sequences && !shape->lengths[sequence]) sequence++;
    return sequence < shape->sequences;
}

/* With arrays in GPU memory. */
static bo_status forward_on_gpu(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                const bo_attention_inputs *inputs, const void *const *initial, void *const *final,
                                float *out, void *tape)
{
    bool same = final ? initial != NULL : shape->no_keys || !initial;
    for (size_t s = 0; same && final && s < shape->sequences; s++) same = initial[s] == final[s];
    if (!same)
        return bo_fail(context, BO_INVALID,
                       "attention: states in GPU memory are updated in place: final must equal initial");
    return bo_gpu_device_forward(context, attention, shape, inputs, (void *const *)initial, out, tape);
}

bo_status bo_attention_forward_arrays(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const void *const *initial, void *const *final, float *out, void *tape)
{
    BO_REQUIRE(context, attention, shape, inputs);
    BO_REQUIRE_IF(context, bo_has_outputs(shape), out);
    BO_SPAN(context, "attention", "attention forward");
    bool on_gpu;
    BO_TRY(bo_gpu_holds_arrays(context, inputs, out, &on_gpu));
    if (on_gpu) return forward_on_gpu(context, attention, shape, inputs, initial, final, out, tape);
    return bo_attention_forward_in(context, attention, shape, inputs, initial, final, out, tape, NULL);
}

bo_status bo_attention_extend(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              const bo_attention_inputs *inputs, void *const *states, float *out)
{
    BO_REQUIRE(context, attention, shape, inputs, states);
    BO_REQUIRE_IF(context, bo_has_outputs(shape), out);
    return bo_attention_forward_arrays(context, attention, shape, inputs, (const void *const *)states, states, out,
                                       NULL);
}

bo_status bo_attention_tape_bytes(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                  size_t *bytes)
{
    BO_REQUIRE(context, attention, shape, bytes);
    bo_geometry geometry;
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    *bytes = bo_max(geometry.tape_bytes, bo_gpu_device_tape_bytes(context, attention, shape));
    bo_geometry_free(&geometry);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

size_t bo_parameter_groups(size_t sequences)
{
    return sequences < BO_PARAMETER_GROUPS ? sequences : BO_PARAMETER_GROUPS;
}

size_t bo_parameter_floats(const bo_attention *attention)
{
    return bo_padded(bo_parameter_offset(attention, BO_PARAMETER_COUNT));
}

size_t bo_parameter_bytes(const bo_attention *attention, size_t sequences)
{
    return bo_parameter_groups(sequences) * attention->desc.key_heads * bo_parameter_floats(attention) * sizeof(float);
}

typedef struct backward_job {
    bo_call *call;
    bo_scratch scratch;
    float *parameters; /* groups x key_heads x parameter_floats */
    size_t groups, parameter_floats;
    atomic_bool *too_large; /* set if a gradient overflowed */
} backward_job;

/* Task: one key head of one group of sequences. */
static void backward_task(void *arg, size_t index, int worker)
{
    const backward_job *job = arg;
    const bo_call *call = job->call;
    size_t key_heads = call->attention->desc.key_heads, sequences = call->shape->sequences;
    size_t group = index / key_heads, key_head = index % key_heads;
    size_t first = group * sequences / job->groups, end = (group + 1) * sequences / job->groups;
    for (size_t s = first; s < end; s++) {
        call->attention->engine->backward(call, s, key_head, job->parameters + index * job->parameter_floats,
                                          bo_scratch_of(&job->scratch, index, worker));
        bool gave_up = atomic_load(call->not_finite) || atomic_load(&call->watch->stopped);
        /* Checked immediately, while the gradients are in the cache. */
        if (!gave_up && !bo_gradients_finite(call, s, key_head)) atomic_store(job->too_large, true);
    }
}

/* Sums the gradient of a parameter over the groups. Does nothing if the gradient is not requested. */
static void sum_parameter(const backward_job *job, bo_parameter which)
{
    const bo_attention *attention = job->call->attention;
    float *out = bo_parameter_gradient(job->call->gradients, which);
    size_t offset = bo_parameter_offset(attention, which), count = bo_parameter_size(attention, which);
    size_t key_heads = attention->desc.key_heads;
    for (size_t i = 0; out && i < key_heads * count; i++) {
        double sum = 0;
        for (size_t g = 0; g < job->groups; g++)
            sum += (double)job->parameters[(g * key_heads + i / count) * job->parameter_floats + offset + i % count];
        out[i] = (float)sum;
        if (!isfinite(out[i])) atomic_store(job->too_large, true);
    }
}

/* Without dout, no gradient depends on the queries, and the tasks do not write dq. */
static void zero_queries(const bo_call *call)
{
    const bo_attention_desc *d = &call->attention->desc;
    if (call->gradients->q)
        memset(call->gradients->q, 0, call->queries_total * d->heads * d->dim * sizeof *call->gradients->q);
}

/* Each pair has separate parameters if there are at most as many sequences as groups. */
bool bo_backward_runs_together(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan)
{
    return attention->engine->backward_together && plan->tasks <= BO_PARAMETER_GROUPS * attention->desc.key_heads &&
           bo_runs_together(context, attention, plan);
}

size_t bo_backward_bytes(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan)
{
    size_t threads = (size_t)bo_context_threads(context);
    if (bo_backward_runs_together(context, attention, plan))
        return attention->engine->backward_together_bytes(attention, plan, threads);
    size_t sequences = plan->tasks / attention->desc.key_heads;
    return plan->backward_bytes * bo_scratch_count(context, bo_parameter_groups(sequences) * attention->desc.key_heads);
}

/* Runs one task per key head of each group of sequences. */
static bo_status backward_one_by_one(bo_context *context, backward_job *job, size_t tasks)
{
    bo_call *call = job->call;
    BO_TRY(bo_scratch_alloc(context, call->work, tasks, (size_t)bo_context_threads(context), call->plan.backward_bytes,
                            "attention's backward pass", &job->scratch));
    bo_parallel(context, tasks, backward_task, job);
    bo_scratch_free(&job->scratch);
    return BO_OK;
}

static bo_status run_backward(bo_context *context, bo_call *call)
{
    const bo_attention *attention = call->attention;
    size_t sequences = call->shape->sequences;
    atomic_bool too_large;
    atomic_init(&too_large, false);
    backward_job job = {.call = call,
                        .groups = bo_parameter_groups(sequences),
                        .parameter_floats = bo_parameter_floats(attention),
                        .too_large = &too_large};
    size_t tasks = job.groups * attention->desc.key_heads;
    job.parameters = bo_work_alloc(context, call->work, tasks, job.parameter_floats * sizeof(float),
                                   "gradients of attention's parameters");
    if (!job.parameters) return BO_MEMORY;
    const size_t passes = bo_max(attention->engine->backward_passes, 1);
    bo_pass_progress watch;
    memset(job.parameters, 0, tasks * job.parameter_floats * sizeof(float));
    bo_pass_progress_begin(&watch, context, "attention, backward", watched(call, passes));
    call->watch = &watch;
    if (!call->dout) zero_queries(call);
    bo_status status = bo_backward_runs_together(context, attention, &call->plan)
                           ? attention->engine->backward_together(context, call, job.parameters, &too_large)
                           : backward_one_by_one(context, &job, tasks);
    for (int p = 0; status == BO_OK && p < BO_PARAMETER_COUNT; p++) sum_parameter(&job, (bo_parameter)p);
    bo_work_free(call->work, job.parameters);
    BO_TRY(status);
    if (bo_pass_stops(&watch, 0)) return BO_CANCELED; /* other threads may have run all tasks */
    if (atomic_load(call->not_finite)) return bo_inputs_locate_nonfinite(context, call);
    return atomic_load(&too_large) ? bo_gradients_locate_nonfinite(context, call) : BO_OK;
}

bo_status bo_gradients_check(bo_context *context, const bo_call *call)
{
    const bo_attention_desc *d = &call->attention->desc;
    BO_TRY(bo_parameter_gradients_check(context, call->attention, call->gradients));
    if (call->gradients->log_gate && !bo_gate_width(d))
        return bo_fail(context, BO_INVALID, "attention: the gradient of log_gate is requested, but the gate is %s",
                       bo_gate_name(d->gate));
    return BO_OK;
}

static bo_status check_gradients(bo_context *context, const bo_call *call, const bo_geometry *geometry)
{
    const bo_attention_gradients *g = call->gradients;
    BO_TRY(bo_check_reserved(context, "bo_attention_gradients", g->reserved));
    if (call->attention->features && !bo_features_differentiable(call->attention->features[0]))
        return bo_fail(context, BO_UNSUPPORTED, "attention: the custom map has no custom_backward");
    bool taped = call->queries_total || geometry->tape_states;
    if ((call->queries_total && !call->out) || (taped && !call->tape.top))
        return bo_fail(context, BO_INVALID, "attention: backward needs %s of the forward pass, found NULL",
                       call->tape.top ? "out" : "the tape");
    BO_TRY(bo_gradients_check(context, call));
    for (size_t s = 0; s < call->shape->sequences; s++) {
        if (call->d_final && !call->d_final[s])
            return bo_fail(context, BO_INVALID, "attention: the gradient of final state %zu is NULL", s);
        if (g->initial && !g->initial[s])
            return bo_fail(context, BO_INVALID, "attention: the array for the gradient of initial state %zu is NULL",
                           s);
    }
    return BO_OK;
}

static bo_status backward(bo_context *context, bo_call *call, const bo_geometry *geometry)
{
    BO_TRY(bo_inputs_check(context, call));
    BO_TRY(bo_gates_check(context, call));
    BO_TRY(bo_states_check(context, call, NULL));
    BO_TRY(check_gradients(context, call, geometry));
    const bool on_gpu = bo_gpu_host_supports(context, call, true);
    const bool empty = call->tape.top && call->tape.stamp[LAYOUT] & on_gpu_bit;
    stamp expected = stamp_of(call, geometry);
    if (empty) expected.words[LAYOUT] |= on_gpu_bit;
    if (call->tape.top && memcmp(call->tape.stamp, &expected, sizeof expected) != 0)
        return bo_fail(context, BO_INVALID,
                       "attention: the tape belongs to another forward pass (attention, draw or shape differ)");
    if (empty && !on_gpu)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "attention: the tape was written by a forward pass on a GPU, which supports only backward passes on a GPU "
            "without gradients of states; use a context on the CPU for both");
    if (on_gpu) return bo_gpu_host_backward(context, call);
    return run_backward(context, call);
}

bo_status bo_attention_backward_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_attention_inputs *inputs, const void *const *initial, const float *out,
                                   const void *tape, const float *dout, const float *const *d_final,
                                   const bo_attention_gradients *gradients, bo_work *work)
{
    bo_geometry geometry;
    BO_TRY(bo_geometry_make_in(context, attention, shape, work, &geometry));
    atomic_bool not_finite;
    bo_call call = {.initial = initial, .out = (float *)out, .dout = dout, .d_final = d_final, .gradients = gradients};
    bo_call_fill(&call, attention, shape, inputs, &geometry, &not_finite);
    if (tape) call.tape = bo_tape_at(attention, &geometry, (void *)tape, NULL);
    bo_status status = backward(context, &call, &geometry);
    bo_geometry_free(&geometry);
    return status;
}

bo_status bo_attention_backward_arrays(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                       const void *const *initial, const float *out, const void *tape,
                                       const float *dout, const float *const *d_final,
                                       const bo_attention_gradients *gradients)
{
    BO_REQUIRE(context, attention, shape, inputs, gradients);
    BO_REQUIRE_IF(context, bo_has_outputs(shape), out, tape);
    BO_SPAN(context, "attention", "attention backward");
    bool on_gpu;
    BO_TRY(bo_gpu_holds_arrays(context, inputs, out, &on_gpu));
    if (on_gpu && (initial || d_final || gradients->initial))
        return bo_fail(context, BO_UNSUPPORTED,
                       "attention: gradients of states are not supported in GPU memory; use host arrays");
    if (on_gpu) return bo_gpu_device_backward(context, attention, shape, inputs, out, tape, dout, gradients);
    return bo_attention_backward_in(context, attention, shape, inputs, initial, out, tape, dout, d_final, gradients,
                                    NULL);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* One token for each of many sequences. */

typedef struct step_job {
    const bo_attention *attention;
    const bo_attention_inputs *in;
    size_t sequences;
    void *const *states;
    float *out;
    size_t tasks, threads; /* a task is one key head of some sequences */
    bo_scratch scratch;
    bool isolate; /* a sequence with NaN or infinity does not fail the step */
    atomic_bool *not_finite;
} step_job;

static void step_task(const step_job *job, size_t index, size_t block)
{
    size_t key_heads = job->attention->desc.key_heads, first = index / key_heads * BO_STEP_BLOCK;
    size_t count = job->sequences - first < BO_STEP_BLOCK ? job->sequences - first : BO_STEP_BLOCK;
    job->attention->engine->step(job->attention, job->in, first, count, index % key_heads, job->states, job->out,
                                 job->not_finite, bo_scratch_of(&job->scratch, block, 0));
}

static bo_status check_step(bo_context *context, const step_job *job, const bo_call *call)
{
    const bo_attention *attention = job->attention;
    bool read_only = !job->in->k, full_matters = attention->traits & BO_TRAIT_CAPACITY && !attention->desc.window;
    BO_TRY(bo_inputs_check(context, call));
    if (!read_only) BO_TRY(bo_states_check_distinct(context, call->work, job->sequences, NULL, job->states));
    for (size_t s = 0; s < job->sequences; s++) {
        if (!job->states[s]) return bo_fail(context, BO_INVALID, "attention: the state of sequence %zu is NULL", s);
        BO_TRY(bo_state_check(context, attention, job->states[s]));
        if (!read_only && full_matters && bo_attention_state_tokens(job->states[s]) >= attention->cached_keys)
            return bo_fail(context, BO_INVALID, "attention: the state of sequence %zu is full: capacity %zu", s,
                           attention->cached_keys);
    }
    if (job->isolate) return BO_OK;
    BO_TRY(bo_gates_check(context, call));
    return bo_inputs_finite(context, call);
}

/* Returns the outputs of sequence s. Tasks skip outputs that depend on NaN or infinity. */
static float *outputs_of(const step_job *job, size_t s, size_t *count)
{
    const bo_attention_desc *d = &job->attention->desc;
    *count = d->heads * d->value_dim;
    return job->out + s * *count;
}

static void fill_outputs(const step_job *job, size_t s)
{
    size_t count;
    float *out = outputs_of(job, s, &count);
    for (size_t i = 0; i < count; i++) out[i] = NAN;
}

/* True if the inputs and outputs of sequence s are finite, and its state can be continued. */
static bool is_sequence_finite(bo_context *context, const step_job *job, size_t s)
{
    const bo_attention_inputs *in = job->in;
    const bo_attention_desc *d = &job->attention->desc;
    size_t count;
    const float *out = outputs_of(job, s, &count);
    const struct {
        const float *rows;
        size_t floats;
    } arrays[] = {{in->q, d->heads * d->dim},
                  {in->k, d->key_heads * d->dim},
                  {in->v, d->key_heads * d->value_dim},
                  {in->log_gate, d->key_heads * bo_gate_width(d)},
                  {in->beta, d->key_heads}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i].rows && !job->attention->kernels->finite(arrays[i].floats, arrays[i].rows + s * arrays[i].floats))
            return false;
    return job->attention->kernels->finite(count, out) &&
           bo_state_check(context, job->attention, job->states[s]) == BO_OK;
}

/* Returns the bytes of the states that a step reads. */
static size_t step_traffic(const step_job *job)
{
    const bo_attention *attention = job->attention;
    size_t bytes = 0, row = (attention->desc.dim + attention->desc.value_dim) * sizeof(float);
    for (size_t s = 0; s < job->sequences; s++) {
        size_t kept = bo_min((size_t)bo_attention_state_tokens(job->states[s]), attention->cached_keys);
        bytes += attention->desc.key_heads * (attention->sums_bytes + kept * row);
    }
    return bytes;
}

/* Returns the number of threads to use: each must have work for at least twice the time of its start. One core reads
 * and updates states at about 16 GB/s (bochner bench attention --only decode). */
static size_t step_threads(bo_context *context, const step_job *job, size_t tasks)
{
    const double rate = 16e9, min_seconds = 4e-6; /* bytes per second; shorter work runs on one thread */
    size_t max_threads = bo_min(tasks, (size_t)bo_context_threads(context));
    double seconds = (double)step_traffic(job) / rate;
    if (max_threads < 2 || seconds < min_seconds) return 1;
    double threads = seconds / (2 * bo_batch_seconds(context));
    return threads < 2 ? 1 : threads < (double)max_threads ? (size_t)threads : max_threads;
}

/* Runs every threads-th task. */
static void step_share(void *arg, size_t index, int worker)
{
    const step_job *job = arg;
    (void)worker;
    for (size_t task = index; task < job->tasks; task += job->threads) step_task(job, task, index);
}

static bo_status run_step(bo_context *context, step_job *job, const bo_call *call)
{
    const bo_attention *attention = job->attention;
    size_t rounds = (job->sequences + BO_STEP_BLOCK - 1) / BO_STEP_BLOCK;
    size_t together = job->sequences < BO_STEP_BLOCK ? job->sequences : BO_STEP_BLOCK;
    BO_TRY(check_step(context, job, call));
    if (job->in->solves) *job->in->solves = (bo_solves){0};
    job->tasks = rounds * attention->desc.key_heads;
    job->threads = step_threads(context, job, job->tasks);
    BO_TRY(bo_scratch_alloc(context, call->work, job->threads, job->threads,
                            attention->engine->step_bytes(attention, together), "a step of attention", &job->scratch));
    for (size_t s = 0; job->isolate && s < job->sequences; s++) fill_outputs(job, s);
    bo_parallel(context, job->threads, step_share, job);
    bo_scratch_free(&job->scratch);
    if (!job->isolate && atomic_load(call->not_finite)) return bo_inputs_locate_nonfinite(context, call);
    for (size_t s = 0; job->isolate && s < job->sequences; s++)
        if (!is_sequence_finite(context, job, s)) fill_outputs(job, s);
    for (size_t s = 0; job->in->k && s < job->sequences; s++) bo_state_add_tokens(job->states[s], 1);
    return BO_OK;
}

bo_status bo_attention_step_in(bo_context *context, const bo_attention *attention, size_t sequences,
                               const bo_attention_inputs *inputs, void *const *states, bool isolate, float *out,
                               bo_work *work)
{
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
                    .isolate = isolate,
                    .not_finite = &not_finite};
    bo_status status = run_step(context, &job, &call);
    bo_geometry_free(&geometry);
    return status;
}

bo_status bo_attention_step(bo_context *context, const bo_attention *attention, size_t sequences,
                            const bo_attention_inputs *inputs, void *const *states, float *out)
{
    BO_REQUIRE(context, attention, inputs);
    BO_REQUIRE_IF(context, sequences > 0, states, out);
    if (bo_context_is_on_gpu(context) && sequences) { /* a block of one token */
        const bo_attention_shape shape = {
            .sequences = sequences, .tokens = 1, .no_keys = !inputs->k, .layout = BO_LAYOUT_TOKENS_FIRST};
        return bo_attention_forward_arrays(context, attention, &shape, inputs, (const void *const *)states,
                                           inputs->k ? states : NULL, out, NULL);
    }
    return bo_attention_step_in(context, attention, sequences, inputs, states, false, out, NULL);
}
