/* Attention in float64: checks, one task per key head of each sequence, and the sums of the gradients of parameters. */
#include "reference.h"
#include <math.h>
#include <string.h>
#include "../base/trace.h"
#include "../features/block.h"
#include "calls.h"
#include "parameters.h"

/* ---- arrays for the checks --------------------------------------------------------------------------------------- */

/* The float32 structs with float64 pointers: see `f64` of bo_call. */
#define CAST(name) .name = (float *)(void *)from->name
#define CAST_ALL                                                                                                       \
    CAST(q), CAST(k), CAST(v), CAST(log_gate), CAST(sigma), CAST(m), CAST(mix), CAST(beta), CAST(log_decay),           \
        CAST(lambda), CAST(m_k), CAST(bias), CAST(bias_k)

static bo_attention_inputs cast_inputs(const bo_attention_inputs_f64 *from)
{
    return (bo_attention_inputs){CAST_ALL};
}

static bo_attention_gradients cast_gradients(const bo_attention_gradients_f64 *from)
{
    return (bo_attention_gradients){CAST_ALL};
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bo_status check(bo_context *context, const bo_reference *r)
{
    const bo_call *call = &r->call;
    const bo_attention *attention = call->attention;
    if (call->shape->no_keys || call->shape->no_queries)
        return bo_fail(context, BO_INVALID, "attention in float64 does not support states; the shape must not set %s",
                       call->shape->no_keys ? "no_keys" : "no_queries");
    BO_TRY(bo_check_reserved(context, "bo_attention_inputs_f64", r->in->reserved));
    BO_TRY(bo_inputs_check(context, call));
    if (attention->features && !bo_features_has_f64(attention->features[0]))
        return bo_fail(context, BO_UNSUPPORTED, "attention in float64: a custom map computes only float32");
    if (r->gradients) {
        BO_TRY(bo_check_reserved(context, "bo_attention_gradients_f64", r->gradients->reserved));
        BO_TRY(bo_gradients_check(context, call));
    }
    BO_TRY(bo_gates_check(context, call));
    return bo_inputs_finite(context, call);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* Backward tasks add to one array of parameters for each key head of a group of sequences, in order, so that sums do
 * not depend on the number of threads. Forward has one group per sequence. */
typedef struct job {
    const bo_reference *reference;
    size_t groups;
    double *parameters; /* groups x key_heads x parameter_count; NULL: forward */
    size_t parameter_count;
    bo_scratch scratch;
} job;

static bool is_memory(const bo_reference *r)
{
    return r->call.attention->traits & BO_TRAIT_MEMORY;
}

static size_t task_bytes(const bo_reference *r)
{
    bo_carver carver = {NULL, 0};
    bo_reference_task_make(r, 0, 0, NULL, &carver);
    return carver.bytes + (is_memory(r) ? bo_reference_memory_bytes(r) : bo_reference_weights_bytes(r));
}

static void run_one(const bo_reference *r, size_t sequence, size_t key_head, double *parameters, void *scratch)
{
    bo_carver carver = {scratch, 0};
    bo_reference_task task = bo_reference_task_make(r, sequence, key_head, parameters, &carver);
    bo_reference_rows_begin(&task);
    (is_memory(r) ? bo_reference_memory : bo_reference_weights)(&task);
    if (r->gradients) bo_reference_rows_backward(&task);
    bo_reference_rows_end(&task);
}

static void run_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_call *call = &j->reference->call;
    size_t key_heads = call->attention->desc.key_heads, sequences = call->shape->sequences, group = index / key_heads;
    size_t first = group * sequences / j->groups, end = (group + 1) * sequences / j->groups;
    double *parameters = j->parameters ? j->parameters + index * j->parameter_count : NULL;
    for (size_t s = first; s < end && !bo_pass_stops(call->watch, 0); s++)
        run_one(j->reference, s, index % key_heads, parameters, bo_scratch_of(&j->scratch, index, worker));
}

/* Sums the gradient of a parameter over the groups. Does nothing if the gradient is not requested. */
static void sum_parameter(const job *j, bo_parameter which)
{
    const bo_call *call = &j->reference->call;
    double *out = (double *)(void *)bo_parameter_gradient(call->gradients, which);
    size_t offset = bo_parameter_offset(call->attention, which), count = bo_parameter_size(call->attention, which);
    size_t key_heads = call->attention->desc.key_heads;
    for (size_t i = 0; out && i < key_heads * count; i++) {
        out[i] = 0;
        for (size_t g = 0; g < j->groups; g++)
            out[i] += j->parameters[(g * key_heads + i / count) * j->parameter_count + offset + i % count];
        if (!isfinite(out[i])) atomic_store(call->not_finite, true);
    }
}

static bo_status run_tasks(bo_context *context, const bo_reference *r, job *j)
{
    const bo_call *call = &r->call;
    size_t tasks = j->groups * call->attention->desc.key_heads;
    BO_TRY(bo_scratch_alloc(context, NULL, tasks, (size_t)bo_context_threads(context), task_bytes(r),
                            "attention in float64", &j->scratch));
    bo_parallel(context, tasks, run_task, j);
    bo_scratch_free(&j->scratch);
    if (bo_pass_stops(call->watch, 0)) return BO_CANCELED;
    for (int p = 0; r->gradients && p < BO_PARAMETER_COUNT; p++) sum_parameter(j, (bo_parameter)p);
    if (!atomic_load(call->not_finite)) return BO_OK;
    return r->gradients ? bo_gradients_locate_nonfinite(context, call) : bo_inputs_locate_nonfinite(context, call);
}

static bo_status run(bo_context *context, bo_reference *r)
{
    bo_call *call = &r->call;
    const bo_attention *attention = call->attention;
    size_t sequences = call->shape->sequences, key_heads = attention->desc.key_heads;
    size_t passes = is_memory(r) ? (r->gradients ? 2 : 1) * call->keys_total : call->queries_total * attention->group;
    bo_pass_progress watch;
    bo_pass_progress_begin(&watch, context, r->gradients ? "attention in float64, backward" : "attention in float64",
                           passes * key_heads);
    call->watch = &watch;
    job j = {.reference = r, .groups = r->gradients ? bo_parameter_groups(sequences) : sequences};
    if (!r->gradients) return run_tasks(context, r, &j);
    j.parameter_count = bo_parameter_floats(attention);
    j.parameters =
        bo_alloc(context, j.groups * key_heads * j.parameter_count, sizeof *j.parameters, "gradients of parameters");
    bo_status status = j.parameters ? run_tasks(context, r, &j) : BO_MEMORY;
    bo_free(j.parameters);
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Computes the frequencies of every key head in double, then runs the tasks. */
static bo_status run_with_maps(bo_context *context, bo_reference *r)
{
    const bo_attention *attention = r->call.attention;
    if (attention->features)
        r->w_count =
            bo_features_frequencies(attention->features[0]) * bo_features_describe(attention->features[0])->dim;
    if (!r->w_count) return run(context, r);
    size_t key_heads = attention->desc.key_heads;
    double *w = bo_alloc_raw(context, key_heads * r->w_count, sizeof *w, "frequencies in float64");
    bo_status status = w ? BO_OK : BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < key_heads; h++)
        status = bo_features_dense_f64(context, attention->features[h], w + h * r->w_count);
    r->w = w;
    if (status == BO_OK) status = run(context, r);
    bo_free(w);
    return status;
}

static bo_status call_checked(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              bo_reference *r)
{
    bo_geometry geometry;
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    atomic_bool not_finite;
    bo_attention_inputs inputs = cast_inputs(r->in);
    bo_attention_gradients gradients = {0};
    bo_call_fill(&r->call, attention, shape, &inputs, &geometry, &not_finite);
    if (r->gradients) gradients = cast_gradients(r->gradients);
    r->call.gradients = &gradients;
    r->call.dout = (const float *)(const void *)r->dout;
    r->call.f64 = true;
    for (size_t s = 0; s < shape->sequences; s++) {
        r->longest_queries = bo_max(r->longest_queries, geometry.sequences[s].queries);
        r->longest_keys = bo_max(r->longest_keys, geometry.sequences[s].keys);
    }
    bo_status status = check(context, r);
    if (status == BO_OK) status = run_with_maps(context, r);
    bo_geometry_free(&geometry);
    return status;
}

bo_status bo_attention_forward_f64(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_attention_inputs_f64 *inputs, double *out)
{
    BO_REQUIRE(context, attention, shape, inputs);
    BO_REQUIRE_IF(context, bo_has_outputs(shape), out);
    BO_SPAN(context, "attention", "attention forward in float64");
    bo_reference reference = {.in = inputs, .out = out};
    return call_checked(context, attention, shape, &reference);
}

bo_status bo_attention_backward_f64(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                    const bo_attention_inputs_f64 *inputs, const double *dout,
                                    const bo_attention_gradients_f64 *gradients)
{
    BO_REQUIRE(context, attention, shape, inputs, gradients);
    BO_SPAN(context, "attention", "attention backward in float64");
    bo_reference reference = {.in = inputs, .dout = dout, .gradients = gradients};
    return call_checked(context, attention, shape, &reference);
}
