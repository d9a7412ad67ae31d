/* Execution of a plan. Nothing is allocated. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "../base/trace.h"
#include "internal.h"

/* ---- data transfer between host and graph ------------------------------------------------------------------------ */

static bo_status find(bo_context *context, const bo_graph *graph, bo_value value, bo_graph_tensor **out)
{
    if (!graph->arena) return bo_fail(context, BO_INVALID, "the graph has no memory yet: call bo_graph_allocate first");
    if (!value || value >= graph->tensors.count)
        return bo_fail(context, BO_INVALID, "value %u does not exist: the graph has values 1 to %zu", value,
                       graph->tensors.count - 1);
    *out = bo_graph_tensor_at(graph, value);
    return BO_OK;
}

bo_status bo_graph_write(bo_context *context, bo_graph *graph, bo_value value, const void *host)
{
    BO_REQUIRE(context, graph, host);
    bo_graph_tensor *t = NULL;
    BO_TRY(find(context, graph, value, &t));
    if (t->origin != BO_ORIGIN_INPUT) return bo_fail(context, BO_INVALID, "value %u is not an input", value);
    if (t->element == BO_ELEMENT_FLOAT32 && t->storage == BO_ELEMENT_BFLOAT16) {
        BO_TRY(bo_backend_cpu()->narrow(context, t->storage, 1, t->rows * t->columns, host, graph->rounded));
        host = graph->rounded;
    }
    return bo_buffer_write(context, graph->device, bo_arena_piece_at(graph, t->piece)->address, host,
                           bo_graph_tensor_bytes(t));
}

/* Reads a piece with the values or the gradient of a tensor. */
static bo_status read_piece(bo_context *context, const bo_graph *graph, const bo_graph_tensor *t, uint32_t piece,
                            void *host)
{
    const bool rounded = t->element == BO_ELEMENT_FLOAT32 && t->storage == BO_ELEMENT_BFLOAT16;
    BO_TRY(bo_buffer_read(context, graph->device, rounded ? graph->rounded : host,
                          bo_arena_piece_at(graph, piece)->address, bo_graph_tensor_bytes(t)));
    if (!rounded) return BO_OK;
    return bo_backend_cpu()->widen(context, t->storage, 1, t->rows * t->columns, graph->rounded, host);
}

bo_status bo_graph_read(bo_context *context, bo_graph *graph, bo_value value, void *host)
{
    BO_REQUIRE(context, graph, host);
    bo_graph_tensor *t = NULL;
    BO_TRY(find(context, graph, value, &t));
    if (!t->kept && value != graph->desc.loss)
        return bo_fail(context, BO_INVALID, "value %u is not kept after a run: call bo_graph_keep before compiling",
                       value);
    return read_piece(context, graph, t, t->piece, host);
}

bo_status bo_graph_read_largest(bo_context *context, bo_graph *graph, bo_value value, int32_t *out)
{
    bo_graph_tensor *t = NULL;
    BO_TRY(find(context, graph, value, &t));
    assert(t->kept && t->storage == BO_ELEMENT_FLOAT32);
    return bo_backend_of(graph->device)
        ->largest(context, t->rows, t->columns, bo_arena_piece_at(graph, t->piece)->address, out);
}

bo_status bo_graph_read_gradient(bo_context *context, bo_graph *graph, bo_value value, float *host)
{
    BO_REQUIRE(context, graph, host);
    bo_graph_tensor *t = NULL;
    BO_TRY(find(context, graph, value, &t));
    if (!t->gradient || !(t->gradient_kept || t->origin == BO_ORIGIN_WEIGHT))
        return bo_fail(context, BO_INVALID, "value %u has no gradient after a run (%s)", value,
                       graph->desc.gradients ? "call bo_graph_keep_gradient before compiling"
                                             : "compiled without gradients");
    return read_piece(context, graph, t, t->gradient, host);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static void *address(const bo_graph *graph, uint32_t piece)
{
    return bo_arena_piece_at(graph, piece)->address; /* index 0 is NULL */
}

static void prepare_call(const bo_graph *graph, const bo_step *step, const bo_graph_pass *pass, bo_op_call *call)
{
    const bo_node *node = bo_node_at(graph, step->node);
    bo_node_call(graph, node, call);
    for (size_t i = 0; i < node->inputs; i++) {
        call->in[i].data = address(graph, step->in[i]);
        call->din[i] = address(graph, step->din[i]);
        call->add[i] = step->add[i];
    }
    for (size_t i = 0; i < node->outputs; i++) {
        call->out[i].data = address(graph, step->out[i]);
        call->dout[i] = address(graph, step->dout[i]);
    }
    call->saved = address(graph, step->saved);
    call->scratch = address(graph, step->scratch);
    call->again = step->again;
    call->pass = pass;
    call->staged = graph->staged;
}

static bo_status run_move(bo_context *context, const bo_graph *graph, const bo_step *step)
{
    bo_device *device = graph->device;
    return (step->move == BO_MOVE_ROUND ? bo_backend_of(device)->narrow : bo_backend_of(device)->widen)(
        context, BO_ELEMENT_BFLOAT16, 1, step->floats, address(graph, step->in[0]), address(graph, step->out[0]));
}

static bo_status run_step(bo_context *context, const bo_graph *graph, const bo_step *step, const bo_graph_pass *pass,
                          const bo_calibrating *calibrating)
{
    if (step->move) return run_move(context, graph, step);
    bo_op_call call;
    const bo_node *node = bo_node_at(graph, step->node);
    prepare_call(graph, step, pass, &call);
    bo_status status = BO_OK;
    if (calibrating && !step->backward && node->op->calibrate)
        status = node->op->calibrate(context, &call, calibrating);
    if (status == BO_OK) status = (step->backward ? node->op->backward : node->op->forward)(context, &call);
    return status == BO_OK ? BO_OK : bo_scope_fail(context, graph, node, status);
}

/* ---- one step with timing ---------------------------------------------------------------------------------------- */

/* The current position in the trace: an operation is within its scope, and the scope within forward or backward. NULL:
 * not entered yet. */
typedef struct trace_position {
    const char *direction, *scope;
} trace_position;

static void leave(bo_context *context, trace_position *at)
{
    if (at->scope) bo_trace_end(context, NULL);
    if (at->direction) bo_trace_end(context, NULL);
    *at = (trace_position){0};
}

/* Recomputation belongs to backward. A move belongs to the current position. */
static void enter(bo_context *context, const bo_graph *graph, const bo_step *step, trace_position *at)
{
    const bool backward = step->backward || step->again || (at->direction && *at->direction == 'b');
    const char *direction = backward ? "backward" : "forward";
    const char *scope = step->move ? at->scope : bo_scope_of(graph, bo_node_at(graph, step->node));
    if (at->direction == direction && at->scope == scope) return;
    if (at->direction != direction) leave(context, at);
    if (!at->direction) bo_trace_begin(context, "graph", direction);
    if (at->scope) bo_trace_end(context, NULL);
    if (scope) bo_trace_begin(context, "graph", scope);
    *at = (trace_position){direction, scope};
}

/* Writes, for example, "256x64, 64x64". */
static void list_shapes(const bo_graph *graph, size_t count, const bo_value *values, char *out, size_t size)
{
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, values[i]);
        used += (size_t)snprintf(out + used, size - used, "%s%zux%zu", i ? ", " : "", t->rows, t->columns);
    }
}

static void begin_operation(bo_context *context, const bo_graph *graph, const bo_step *step)
{
    char name[64];
    const bo_node *node = step->move ? NULL : bo_node_at(graph, step->node);
    snprintf(name, sizeof name, "%.40s%s",
             node                          ? node->op->name
             : step->move == BO_MOVE_ROUND ? "to bfloat16"
                                           : "from bfloat16",
             step->backward ? " backward"
             : step->again  ? " again"
                            : "");
    bo_trace_begin(context, "operation", name);
}

static void end_operation(bo_context *context, const bo_graph *graph, const bo_step *step, const trace_position *at)
{
    bo_trace_args args;
    char shapes[160];
    args.used = 0;
    if (at->scope) bo_trace_add_text(&args, "scope", at->scope);
    bo_trace_add_text(&args, "direction", step->backward ? "backward" : step->again ? "again" : "forward");
    if (!step->move) {
        const bo_node *node = bo_node_at(graph, step->node);
        list_shapes(graph, node->inputs, node->in, shapes, sizeof shapes);
        bo_trace_add_text(&args, "inputs", shapes);
        list_shapes(graph, node->outputs, node->out, shapes, sizeof shapes);
        bo_trace_add_text(&args, "outputs", shapes);
        bo_trace_add_count(&args, "bytes", bo_node_bytes(graph, node));
    } else {
        bo_trace_add_count(&args, "bytes", step->floats * 4);
    }
    bo_trace_end(context, &args);
}

/* Runs the first `steps` steps with their times, for the trace or a profile. */
static bo_status run_measured(bo_context *context, const bo_graph *graph, size_t steps, const bo_graph_pass *pass,
                              const bo_calibrating *calibrating)
{
    trace_position at = {0};
    bo_status status = BO_OK;
    const bool traced = bo_trace_is_on(context);
    for (size_t i = 0; status == BO_OK && i < steps; i++) {
        const bo_step *step = bo_step_at(graph, i);
        if (traced) enter(context, graph, step, &at);
        if (traced) begin_operation(context, graph, step);
        const double start = bo_seconds();
        status = run_step(context, graph, step, pass, calibrating);
        if (status == BO_OK) status = bo_device_wait(context, graph->device);
        if (graph->seconds) graph->seconds[i] = bo_seconds() - start;
        if (traced) end_operation(context, graph, step, &at);
    }
    leave(context, &at);
    return status;
}

static const bo_graph_pass plain = {0};

static bo_status check(bo_context *context, const bo_graph *graph, const bo_graph_pass *pass)
{
    if (!graph->arena) return bo_fail(context, BO_INVALID, "the graph has no memory yet: call bo_graph_allocate first");
    BO_TRY(bo_device_check(context, graph->device, "a graph"));
    return pass ? bo_check_reserved(context, "bo_graph_pass", pass->reserved) : BO_OK;
}

/* ---- runs on devices --------------------------------------------------------------------------------------------- */

void bo_graph_forget_runs(bo_graph *graph)
{
    for (size_t i = 0; i < BO_RECORDED_RUNS; i++)
        if (graph->recorded[i].recording) bo_device_forget(graph->device, graph->recorded[i].recording);
    memset(graph->recorded, 0, sizeof graph->recorded);
    if (graph->staged) bo_backend_of(graph->device)->unstage(graph->staged);
    graph->staged = NULL;
}

static bo_status run_steps(bo_context *context, const bo_graph *graph, size_t steps, const bo_graph_pass *pass,
                           const bo_calibrating *calibrating)
{
    for (size_t i = 0; i < steps; i++) BO_TRY(run_step(context, graph, bo_step_at(graph, i), pass, calibrating));
    return BO_OK;
}

static size_t sum_of(const size_t *lengths, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; lengths && i < count; i++) sum += lengths[i];
    return sum;
}

/* Returns the entry of runs of this kind: the existing one, else the least recently used one, emptied. */
static bo_recorded_run *find_recorded(bo_graph *graph, size_t steps, const bo_graph_pass *pass)
{
    bo_recorded_run kind = {.steps = steps,
                            .sequences = pass->sequences,
                            .rows = sum_of(pass->lengths, pass->sequences),
                            .source_rows = sum_of(pass->source_lengths, pass->sequences),
                            .training = pass->training,
                            .lengths = pass->lengths != NULL,
                            .source_lengths = pass->source_lengths != NULL,
                            .states = pass->states != NULL};
    bo_recorded_run *oldest = &graph->recorded[0];
    for (size_t i = 0; i < BO_RECORDED_RUNS; i++) {
        bo_recorded_run *r = &graph->recorded[i];
        if (r->used && r->steps == kind.steps && r->sequences == kind.sequences && r->rows == kind.rows &&
            r->source_rows == kind.source_rows && r->training == kind.training && r->lengths == kind.lengths &&
            r->source_lengths == kind.source_lengths && r->states == kind.states)
            return r;
        if (r->used < oldest->used) oldest = r;
    }
    if (oldest->recording) bo_device_forget(graph->device, oldest->recording);
    *oldest = kind;
    return oldest;
}

static bo_status record(bo_context *context, const bo_graph *graph, size_t steps, const bo_graph_pass *pass,
                        void **recording)
{
    BO_TRY(bo_device_record_begin(context, graph->device));
    bo_status status = run_steps(context, graph, steps, pass, NULL);
    void *new_recording = NULL;
    const bo_status ended = bo_device_record_end(context, graph->device, &new_recording);
    if (status == BO_OK) status = ended;
    if (status == BO_OK)
        *recording = new_recording;
    else if (new_recording)
        bo_device_forget(graph->device, new_recording);
    return status;
}

/* The first run of a kind submits every call, the second records them, later ones repeat the recording. */
static bo_status run_recorded(bo_context *context, bo_graph *graph, size_t steps, const bo_graph_pass *pass)
{
    bo_recorded_run *r = find_recorded(graph, steps, pass);
    const bool first = r->used == 0;
    r->used = ++graph->runs;
    if (first) return run_steps(context, graph, steps, pass, NULL);
    if (!r->recording) BO_TRY(record(context, graph, steps, pass, &r->recording));
    return bo_device_replay(context, graph->device, r->recording);
}

static bo_status prepare_nodes(bo_context *context, const bo_graph *graph)
{
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        if (!node->op->prepare) continue;
        bo_op_call call;
        bo_node_call(graph, node, &call);
        const bo_status status = node->op->prepare(context, &call);
        if (status != BO_OK) return bo_scope_fail(context, graph, node, status);
    }
    return BO_OK;
}

static bo_status run_on_device(bo_context *context, bo_graph *graph, size_t steps, const bo_graph_pass *pass,
                               const bo_calibrating *calibrating)
{
    bool moved = false;
    if (pass->final_states)
        return bo_fail(context, BO_UNSUPPORTED,
                       "a pass with final states (consecutive segments) is not supported on %s; use the CPU",
                       bo_device_name(graph->device));
    bo_status status =
        bo_backend_of(graph->device)->stage(context, pass, graph->layers, graph->sequences, &graph->staged, &moved);
    for (size_t i = 0; moved && i < BO_RECORDED_RUNS; i++) {
        if (graph->recorded[i].recording) bo_device_forget(graph->device, graph->recorded[i].recording);
        graph->recorded[i].recording = NULL;
    }
    if (status == BO_OK) status = prepare_nodes(context, graph);
    if (status != BO_OK) return status;
    if (graph->seconds || bo_trace_is_on(context)) return run_measured(context, graph, steps, pass, calibrating);
    if (calibrating) return run_steps(context, graph, steps, pass, calibrating);
    return run_recorded(context, graph, steps, pass);
}

/* Runs the first `steps` steps. */
static bo_status run(bo_context *context, bo_graph *graph, size_t steps, const bo_graph_pass *pass,
                     const bo_calibrating *calibrating)
{
    BO_TRY(check(context, graph, pass));
    const float loss_scale = pass && pass->loss_scale != 0 ? pass->loss_scale : 1;
    float seed = loss_scale * (float)bo_weights_rules(graph->weights)->gradient_scale;
    if (graph->seed) BO_TRY(bo_buffer_write(context, graph->device, address(graph, graph->seed), &seed, sizeof seed));
    if (!pass) pass = &plain;
    if (bo_device_is_gpu(graph->device)) {
        bo_device_lock(graph->device);
        const bo_status status = run_on_device(context, graph, steps, pass, calibrating);
        bo_device_unlock(graph->device);
        return status;
    }
    if (graph->seconds || bo_trace_is_on(context)) return run_measured(context, graph, steps, pass, calibrating);
    return run_steps(context, graph, steps, pass, calibrating);
}

bo_status bo_graph_run(bo_context *context, bo_graph *graph, const bo_graph_pass *pass)
{
    BO_REQUIRE(context, graph);
    return run(context, graph, graph->steps.count, pass, NULL);
}

bo_status bo_graph_calibrate(bo_context *context, bo_graph *graph, const bo_graph_pass *pass,
                             const bo_calibrating *calibrating)
{
    return run(context, graph, graph->steps.count, pass, calibrating);
}

bo_status bo_graph_forward(bo_context *context, bo_graph *graph, const bo_graph_pass *pass)
{
    size_t steps = 0;
    while (steps < graph->steps.count && !bo_step_at(graph, steps)->backward) steps++;
    return run(context, graph, steps, pass, NULL);
}

/* ---- locating non-finite values ---------------------------------------------------------------------------------- */

static bo_status is_finite(bo_context *context, const bo_graph *graph, bo_value value, bool *out)
{
    const bo_graph_tensor *t = bo_graph_tensor_at(graph, value);
    *out = true;
    if (t->element != BO_ELEMENT_FLOAT32) return BO_OK;
    return bo_backend_of(graph->device)
        ->finite(context, t->storage, address(graph, t->piece), t->rows * t->columns, out);
}

/* Checks inputs and weights, and reports the name of the first one with NaN or infinity. Frozen weights are skipped:
 * the failed run may have overwritten them (running means of batch norm) with non-finite values. The operations that
 * read them are checked instead. */
static bo_status check_given_values(bo_context *context, const bo_graph *graph, const char **scope)
{
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        bool finite, weight = t->origin == BO_ORIGIN_WEIGHT;
        if (t->origin == BO_ORIGIN_OPERATION || (weight && bo_weights_at(graph->weights, t->weight)->frozen)) continue;
        BO_TRY(is_finite(context, graph, v, &finite));
        if (finite) continue;
        *scope = weight ? bo_weights_at(graph->weights, t->weight)->name : t->name;
        return BO_OK;
    }
    return BO_OK;
}

/* Runs the forward of one step and checks its outputs. */
static bo_status check_step(bo_context *context, const bo_graph *graph, const bo_step *step, const bo_graph_pass *pass,
                            const char **scope)
{
    if (step->move) return run_move(context, graph, step);
    const bo_node *node = bo_node_at(graph, step->node);
    bo_op_call call;
    prepare_call(graph, step, pass, &call);
    /* the failed run had side effects; it is unknown which states it has updated in place */
    call.again = !pass->states || pass->final_states;
    bo_status status = node->op->forward(context, &call);
    bool finite = status != BO_NUMERIC;
    if (finite && status != BO_OK) return bo_scope_fail(context, graph, node, status);
    for (size_t i = 0; finite && i < node->outputs; i++)
        if (call.out[i].element != BO_ELEMENT_INT32)
            BO_TRY(bo_backend_of(graph->device)
                       ->finite(context, call.out[i].element, call.out[i].data, call.out[i].rows * call.out[i].columns,
                                &finite));
    if (!finite) *scope = bo_scope_of(graph, node);
    return BO_OK;
}

static bo_status find_nonfinite(bo_context *context, const bo_graph *graph, const bo_graph_pass *pass,
                                const char **scope)
{
    BO_TRY(check_given_values(context, graph, scope));
    for (size_t i = 0; !*scope && i < graph->steps.count; i++) {
        const bo_step *step = bo_step_at(graph, i);
        if (step->backward && !bo_node_at(graph, step->node)->late) break;
        BO_TRY(check_step(context, graph, step, pass ? pass : &plain, scope));
    }
    return BO_OK;
}

bo_status bo_graph_find_nonfinite(bo_context *context, bo_graph *graph, const bo_graph_pass *pass, const char **scope)
{
    if (scope) *scope = NULL;
    BO_REQUIRE(context, graph, scope);
    BO_TRY(check(context, graph, pass));
    bo_device_lock(graph->device); /* another thread may be recording */
    const bo_status status = find_nonfinite(context, graph, pass, scope);
    bo_device_unlock(graph->device);
    return status;
}
