/* The backward pass of attention with features over a sequence. */
#include <math.h>
#include <string.h>
#include "linear_backward.h"
#include "parameters.h"

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The backward pass of a sequence. Causal: the tape has the sums at the start of each segment. Segments are processed
 * from the last to the first: for each, a forward pass recomputes the sums before each chunk, then a backward pass
 * computes the gradients. The workspace therefore stores √N states. Bidirectional: queries first, which accumulate the
 * gradient of the sums, then keys. */

bo_linear_segment bo_linear_segment_make(const bo_attention *attention, size_t chunk, size_t chunks, bo_carver *carver)
{
    bo_linear_segment segment = {.fk = bo_carve_floats(carver, chunks * chunk * bo_linear_depth(attention))};
    segment.log_scales = bo_carve_floats(carver, chunks * chunk);
    segment.states = bo_carve_floats(carver, (chunks + 1) * (attention->desc.value_dim + 1) * attention->count);
    segment.state_scales = bo_carve_floats(carver, chunks + 1);
    return segment;
}

bo_reverse_work bo_reverse_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                size_t chunk, bo_carver *carver)
{
    bo_reverse_work work = {.back = bo_linear_back_make(attention, in, key_head, chunk, carver)};
    work.k = bo_carve_floats(carver, chunk * attention->desc.dim);
    work.v = bo_carve_floats(carver, chunk * attention->desc.value_dim);
    work.entry = bo_carve(carver, chunk, sizeof(double));
    return work;
}

/* The workspace of a pass on one thread. */
static bo_reverse_work serial_work_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                        const bo_attention_cost *plan, bo_carver *carver)
{
    size_t chunks = attention->desc.causal ? plan->segment / plan->chunk : 1;
    bo_reverse_work work = bo_reverse_make(attention, in, key_head, plan->chunk, carver);
    work.segment = bo_linear_segment_make(attention, plan->chunk, chunks, carver);
    work.transform = bo_carve_floats(carver, bo_parameter_offset(attention, BO_PARAMETER_COUNT));
    return work;
}

size_t bo_linear_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    serial_work_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

/* Gradients of the transform are summed per chunk, then over the chunks in the order of the pass. The order is the same
 * if several threads compute the chunks. */
static void begin_parameters(const bo_linear_reverse *at, const bo_reverse_work *work)
{
    size_t count = bo_parameter_offset(at->call->attention, BO_PARAMETER_COUNT);
    if (work->transform) memset(work->transform, 0, count * sizeof *work->transform);
}

void bo_reverse_add_parameters(const bo_linear_reverse *at, const float *transform)
{
    size_t count = bo_parameter_offset(at->call->attention, BO_PARAMETER_COUNT);
    if (transform) at->call->kernels->axpy(count, 1, transform, at->parameters);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

bo_query_rows bo_reverse_query_rows(const bo_linear_reverse *at, size_t g, size_t first, size_t rows)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    size_t head = at->key_head * call->attention->group + g;
    bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
    bo_rows dout = bo_rows_at(call, call->dout, d->heads, d->value_dim, false, at->sequence, head);
    bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, at->sequence, head);
    bo_rows dq = bo_rows_at(call, call->gradients->q, d->heads, d->dim, false, at->sequence, head);
    size_t tape = head * call->queries_total + call->sequences[at->sequence].query_start + first;
    return (bo_query_rows){.rows = rows,
                           .q = bo_rows_from(q, first).at,
                           .dout = bo_rows_from(dout, first).at,
                           .out = bo_rows_from(out, first).at,
                           .ldq = q.stride,
                           .lddout = dout.stride,
                           .ldout = out.stride,
                           .top = call->tape.top + tape,
                           .sum = call->tape.sum + tape,
                           .dq = bo_rows_from(dq, first).at,
                           .lddq = dq.stride,
                           .add = at->add};
}

bool bo_reverse_finite(const bo_linear_reverse *at, const bo_query_rows *rows)
{
    const bo_call *call = at->call;
    return bo_rows_finite(call->kernels, rows->rows, call->attention->desc.value_dim, rows->dout, rows->lddout);
}

void bo_linear_ahead_use(const bo_linear_ahead *ahead, size_t g, bo_linear_back *back)
{
    size_t row = g * ahead->stride;
    back->linear.fq = ahead->fq + row * back->linear.depth;
    back->linear.lq = ahead->lq + row;
    back->dn = ahead->dn + row * back->wide;
    back->carried = ahead->carried + row * back->wide;
}

/* Processes every query head of the group, rows [first, first + rows). */
static bool back_queries(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t rows)
{
    for (size_t g = 0; at->call->dout && g < at->call->attention->group; g++) {
        bo_query_rows query = bo_reverse_query_rows(at, g, first, rows);
        if (work->back.ahead)
            bo_linear_ahead_use(&work->ahead, g, &work->back);
        else if (!bo_reverse_finite(at, &query))
            return false;
        bo_linear_back_queries(&work->back, &query, work->transform);
    }
    return true;
}

/* ---- gradients of the sums at both ends -------------------------------------------------------------------------- */

void bo_reverse_begin_gradient(const bo_linear_reverse *at, bo_reverse_work *work)
{
    const bo_attention *attention = at->call->attention;
    bo_linear_back *back = &work->back;
    size_t count = attention->count;
    if (at->call->d_final)
        attention->kernels->transpose(count, back->wide,
                                      bo_sums_gradient(attention, at->call->d_final[at->sequence], at->key_head),
                                      back->wide, back->gt, count);
    else
        memset(back->gt, 0, back->wide * count * sizeof(float));
}

static void end_gradient(const bo_linear_reverse *at, const bo_reverse_work *work)
{
    const bo_call *call = at->call;
    const bo_attention *attention = call->attention;
    const bo_linear_back *back = &work->back;
    if (!call->gradients->initial) return;
    float *gradient = bo_sums_gradient(attention, call->gradients->initial[at->sequence], at->key_head);
    const void *initial = call->initial ? call->initial[at->sequence] : NULL;
    float log_scale = initial ? *bo_state_sums(attention, (void *)initial, at->key_head).log_scale : -INFINITY;
    if (attention->scaled && isinf(log_scale)) /* exp(-∞) S is 0 for every S */
        memset(gradient, 0, back->wide * attention->count * sizeof *gradient);
    else
        attention->kernels->transpose(back->wide, attention->count, back->gt, attention->count, gradient, back->wide);
}

/* ---- causal ------------------------------------------------------------------------------------------------------ */

void bo_reverse_restore(bo_reverse_work *work, const bo_key_rows *rows, size_t index)
{
    bo_linear *linear = &work->back.linear;
    const bo_linear_segment *segment = &work->segment;
    size_t local = index * linear->chunk;
    linear->fk = segment->fk + local * linear->depth;
    linear->lk = segment->log_scales + local;
    *linear->sums.log_scale = segment->state_scales[index];
    linear->r[0] = segment->state_scales[index];
    work->back.st = segment->states + index * work->back.wide * linear->count;
    bo_linear_begin_chunk(linear, rows);
}

bo_key_rows bo_reverse_load(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t rows)
{
    return bo_stream_load(at->call->attention, &at->keys, first, rows, work->k, work->v, work->entry);
}

/* Sets the sums to those before the segment, from the tape or, for the first segment, from the initial state. */
static void load_segment(const bo_linear_reverse *at, bo_linear *linear, size_t segment)
{
    const bo_call *call = at->call;
    if (segment)
        bo_sums_copy(call->attention, linear->sums, bo_tape_sums(call, at->sequence, at->key_head, segment - 1));
    else
        bo_linear_begin(linear, call->initial ? call->initial[at->sequence] : NULL, at->key_head);
}

/* Recomputes the sums before each chunk of the segment [first, end) and, if `to_end`, after the last. */
static void replay(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t end, bool to_end)
{
    bo_linear_back *back = &work->back;
    bo_linear *linear = &back->linear;
    const bo_linear_segment *segment = &work->segment;
    size_t chunk = linear->chunk, size = back->wide * linear->count;
    bo_sums_widen(back, linear->sums, segment->states);
    segment->state_scales[0] = *linear->sums.log_scale;
    for (size_t at_token = first, index = 0; at_token < end; at_token += chunk, index++) {
        bo_key_rows rows = bo_reverse_load(at, work, at_token, bo_min(chunk, end - at_token));
        float *st = segment->states + index * size;
        bo_linear_map(linear, BO_OF_KEYS, rows.keys, rows.k, rows.ldk, segment->fk + index * chunk * linear->depth,
                      segment->log_scales + index * chunk);
        bo_reverse_restore(work, &rows, index);
        if (at_token + chunk >= end && !to_end) return;
        bo_linear_back_values(back, &rows);
        bo_linear_advance(back, st, st + size);
        segment->state_scales[index + 1] =
            linear->weighted ? linear->r[rows.lag + rows.keys] : segment->state_scales[index];
    }
}

/* Returns ⟨S_T, dS_T⟩ at the end of the sequence. */
static double final_product(const bo_reverse_work *work, size_t chunks, const float *gt)
{
    size_t size = work->back.wide * work->back.linear.count;
    return work->back.linear.kernels->dot(size, work->segment.states + chunks * size, gt);
}

void bo_reverse_replay(const bo_linear_reverse *at, bo_reverse_work *work, size_t segment, const float *gt,
                       double *carried)
{
    const bo_call *call = at->call;
    size_t tokens = call->sequences[at->sequence].keys, chunk = work->back.linear.chunk;
    size_t first = segment * call->plan.segment, end = bo_min(first + call->plan.segment, tokens);
    bool final = end == tokens && call->d_final && call->attention->desc.gate != BO_GATE_NONE;
    load_segment(at, &work->back.linear, segment);
    replay(at, work, first, end, final);
    if (final) *carried = final_product(work, (end - first + chunk - 1) / chunk, gt);
}

/* Gates: dL/d log g_t = Σ_{s>=t} (f·df of queries s - f·df of keys s) + ⟨S_T, dS_T⟩, each key at the position of its
 * token; with a convex gate also through the input weight 1 - g, d log(1 - g) / d log g = -g / (1 - g). */

/* Returns f·df of the key in row `row` of the stream; 0 for keys that are still in the window at the end. */
static double key_flow_of(const bo_linear_reverse *at, const bo_reverse_work *work, size_t first, size_t row)
{
    if (!at->pending) return work->back.key_flow[row - first];
    return row < at->call->sequences[at->sequence].keys ? at->pending[row % at->pending_count] : 0;
}

/* Propagates backward over one token with log gate `gate`. Returns the gradient of the log gate. */
static double gate_gradient(const bo_linear_reverse *at, bo_reverse_work *work, double flow, double key_flow,
                            float gate)
{
    work->carried += flow - key_flow;
    work->decay += work->carried;
    return work->carried +
           (at->call->attention->desc.gate == BO_GATE_CONVEX ? key_flow * bo_input_derivative(gate) : 0);
}

void bo_reverse_gate_gradients(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t tokens,
                               const bo_key_rows *rows)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    bo_rows dgate = bo_rows_at(call, call->gradients->log_gate, d->key_heads, 1, true, at->sequence, at->key_head);
    for (size_t j = 0; at->pending && j < rows->keys; j++)
        at->pending[(first + rows->lag + j) % at->pending_count] = work->back.key_flow[j];
    for (size_t t = tokens; t-- > 0;) {
        double key_flow = key_flow_of(at, work, first, first + t + at->keys.delay);
        double gradient = gate_gradient(at, work, work->back.flow[t], key_flow, rows->gate[t * rows->gate_stride]);
        if (dgate.at) dgate.at[(first + t) * dgate.stride] = (float)gradient;
    }
}

/* Processes the tokens before the call whose keys were in the window. Their gates are part of the weights of these
 * keys, but the sums no longer depend on them. */
static void early_gate_gradients(const bo_linear_reverse *at, bo_reverse_work *work)
{
    const bo_key_stream *keys = &at->keys;
    const bo_linear_back *back = &work->back;
    work->carried -= back->linear.kernels->dot(back->wide * back->linear.count, work->segment.states, back->gt);
    for (size_t p = keys->early; p-- > 0;) {
        double key_flow = key_flow_of(at, work, 0, keys->delay - keys->early + p);
        double gradient = gate_gradient(at, work, 0, key_flow, keys->early_gate ? keys->early_gate[p] : 0);
        if (at->d_early_gate) at->d_early_gate[p] = (float)gradient;
    }
}

bool bo_reverse_chunk(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, const bo_key_rows *rows,
                      size_t index)
{
    bo_linear_back *back = &work->back;
    size_t count = rows->lag + rows->keys;
    if (bo_pass_stops(at->call->watch, count)) return false;
    bo_reverse_restore(work, rows, index);
    begin_parameters(at, work);
    bo_linear_back_keys(back, rows);
    if (!back_queries(at, work, first, count)) return false;
    if (rows->keys) {
        bo_linear_back_finish(back, rows, work->transform);
        bo_stream_write_gradients(at->call->attention, &at->d_keys, first + rows->lag, rows->keys, back->dx, back->dv);
    }
    return true;
}

static bool reverse_causal(const bo_linear_reverse *at, bo_reverse_work *work)
{
    const bo_call *call = at->call;
    size_t tokens = call->sequences[at->sequence].keys, segment = call->plan.segment, chunk = work->back.linear.chunk;
    for (size_t segments = (tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_min(first + segment, tokens);
        bo_reverse_replay(at, work, segments, work->back.gt, &work->carried);
        for (size_t index = (end - first + chunk - 1) / chunk; index-- > 0;) {
            size_t start = first + index * chunk, count = bo_min(chunk, end - start);
            bo_key_rows rows = bo_reverse_load(at, work, start, count);
            if (!bo_reverse_chunk(at, work, start, &rows, index)) return false;
            bo_reverse_add_parameters(at, work->transform);
            if (call->attention->desc.gate != BO_GATE_NONE) bo_reverse_gate_gradients(at, work, start, count, &rows);
        }
    }
    if (at->pending) early_gate_gradients(at, work);
    return true;
}

/* ---- bidirectional ----------------------------------------------------------------------------------------------- */

void bo_reverse_begin_queries(const bo_linear_reverse *at, bo_reverse_work *work, float *st)
{
    const bo_call *call = at->call;
    bo_linear *linear = &work->back.linear;
    bo_linear_begin(linear, NULL, at->key_head);
    bo_sums_copy(call->attention, linear->sums, bo_tape_sums(call, at->sequence, at->key_head, 0));
    linear->r[0] = *linear->sums.log_scale;
    bo_sums_widen(&work->back, linear->sums, st);
    work->back.st = st;
}

bool bo_reverse_queries(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t rows)
{
    if (bo_pass_stops(at->call->watch, rows)) return false;
    begin_parameters(at, work);
    return back_queries(at, work, first, rows);
}

bool bo_reverse_keys(const bo_linear_reverse *at, bo_reverse_work *work, size_t first, size_t count)
{
    bo_linear_back *back = &work->back;
    bo_linear *linear = &back->linear;
    float after = *bo_tape_sums(at->call, at->sequence, at->key_head, 0).log_scale;
    bo_key_rows rows = bo_reverse_load(at, work, first, count);
    if (bo_pass_stops(at->call->watch, rows.keys)) return false;
    begin_parameters(at, work);
    bo_linear_map(linear, BO_OF_KEYS, rows.keys, rows.k, rows.ldk, linear->fk, linear->lk);
    linear->keys = rows.keys;
    if (linear->weighted) linear->kernels->exp_shift(rows.keys, linear->lk, -after, linear->weights);
    bo_linear_back_sums(back, &rows);
    bo_linear_back_finish(back, &rows, work->transform);
    bo_stream_write_gradients(at->call->attention, &at->d_keys, first, rows.keys, back->dx, back->dv);
    return true;
}

void bo_reverse_end_keys(const bo_linear_reverse *at, bo_reverse_work *work)
{
    const bo_call *call = at->call;
    bo_linear_back *back = &work->back;
    float after = *bo_tape_sums(call, at->sequence, at->key_head, 0).log_scale;
    bo_linear_begin(&back->linear, call->initial ? call->initial[at->sequence] : NULL, at->key_head);
    float before = *back->linear.sums.log_scale;
    if (back->linear.weighted && before != after)
        back->linear.kernels->scale(back->wide * back->linear.count, expf(before - after), back->gt, back->gt);
}

static bool reverse_bidirectional(const bo_linear_reverse *at, bo_reverse_work *work)
{
    const bo_sequence *sequence = &at->call->sequences[at->sequence];
    size_t chunk = work->back.linear.chunk;
    bo_reverse_begin_queries(at, work, work->segment.states);
    for (size_t first = 0; first < sequence->queries; first += chunk) {
        if (!bo_reverse_queries(at, work, first, bo_min(chunk, sequence->queries - first))) return false;
        bo_reverse_add_parameters(at, work->transform);
    }
    for (size_t first = 0; first < sequence->keys; first += chunk) {
        if (!bo_reverse_keys(at, work, first, bo_min(chunk, sequence->keys - first))) return false;
        bo_reverse_add_parameters(at, work->transform);
    }
    bo_reverse_end_keys(at, work);
    return true;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

void bo_reverse_end(const bo_linear_reverse *at, const bo_reverse_work *work)
{
    const bo_attention *attention = at->call->attention;
    end_gradient(at, work);
    if (attention->desc.gate == BO_GATE_FIXED)
        at->parameters[bo_parameter_offset(attention, BO_PARAMETER_LOG_DECAY)] += (float)work->decay;
}

void bo_linear_reverse_run(const bo_linear_reverse *at, void *scratch)
{
    const bo_call *call = at->call;
    bo_carver carver = {.at = scratch};
    bo_reverse_work work = serial_work_make(call->attention, call->in, at->key_head, &call->plan, &carver);
    if (!bo_row_transform_gradients_requested(call->gradients)) work.transform = NULL;
    bo_reverse_begin_gradient(at, &work);
    if (!(bo_linear_sweeps(call, at->sequence) ? reverse_causal : reverse_bidirectional)(at, &work)) bo_note_stop(call);
    bo_reverse_end(at, &work);
}

bo_linear_reverse bo_linear_reverse_of(const bo_call *call, size_t sequence, size_t key_head, float *parameters)
{
    return (bo_linear_reverse){.call = call,
                               .sequence = sequence,
                               .key_head = key_head,
                               .keys = bo_stream_of(call, sequence, key_head),
                               .d_keys = bo_gradient_stream_of(call, sequence, key_head),
                               .parameters = parameters};
}

void bo_linear_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    bo_linear_reverse reverse = bo_linear_reverse_of(call, sequence, key_head, parameters);
    bo_linear_reverse_run(&reverse, scratch);
}
