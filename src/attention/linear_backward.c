/* The backward pass of attention with features over a sequence. */
#include <math.h>
#include <string.h>
#include "linear_backward.h"
#include "parameters.h"

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The backward pass of a sequence. Causal: the tape has the sums at the start of each segment. Segments are processed
 * from the last to the first: for each, a forward pass recomputes the sums before each chunk, then a backward pass
 * computes the gradients. The work memory is therefore that of √N states. Bidirectional: queries first, which
 * accumulate the gradient of the sums, then keys. */

/* Features and sums of a segment. */
typedef struct back_work {
    bo_linear_back back;
    float *fk, *log_scales;       /* features and log scales of a segment's keys: segment x depth, segment */
    float *states, *state_scales; /* S~ᵀ before each of its chunks, and after the last; their log scales */
    float *k, *v;                 /* buffers of the stream: chunk x dim, chunk x value_dim */
    double *entry;                /* likewise: chunk */
    double carried;               /* gradient of the log gates after the current chunk */
    double decay;                 /* gradient of a fixed log gate: the sum over tokens */
    float *transform;             /* the task's parameters if a gradient of the transform is requested, else NULL */
} back_work;

static back_work back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    size_t chunk = plan->chunk, chunks = attention->desc.causal ? plan->segment / chunk : 1;
    back_work work = {.back = bo_linear_back_make(attention, in, key_head, chunk, carver)};
    work.fk = bo_carve_floats(carver, chunks * chunk * work.back.linear.depth);
    work.log_scales = bo_carve_floats(carver, chunks * chunk);
    work.states = bo_carve_floats(carver, (chunks + 1) * work.back.wide * attention->count);
    work.state_scales = bo_carve_floats(carver, chunks + 1);
    work.k = bo_carve_floats(carver, chunk * attention->desc.dim);
    work.v = bo_carve_floats(carver, chunk * attention->desc.value_dim);
    work.entry = bo_carve(carver, chunk, sizeof(double));
    return work;
}

size_t bo_linear_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    back_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* Processes every query head of the group, rows [first, first + rows). */
static bool back_queries(const bo_linear_reverse *at, back_work *work, size_t first, size_t rows)
{
    const bo_call *call = at->call;
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    for (size_t g = 0; call->dout && g < attention->group; g++) {
        size_t head = at->key_head * attention->group + g;
        bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows dout = bo_rows_at(call, call->dout, d->heads, d->value_dim, false, at->sequence, head);
        bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, at->sequence, head);
        bo_rows dq = bo_rows_at(call, call->gradients->q, d->heads, d->dim, false, at->sequence, head);
        size_t tape = head * call->queries_total + call->sequences[at->sequence].query_start + first;
        bo_query_rows query = {.rows = rows,
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
        if (!bo_rows_finite(call->kernels, rows, d->value_dim, query.dout, dout.stride)) return false;
        bo_linear_back_queries(&work->back, &query, work->transform);
    }
    return true;
}

/* ---- gradients of the sums at both ends -------------------------------------------------------------------------- */

static void begin_gradient(const bo_linear_reverse *at, back_work *work)
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

static void end_gradient(const bo_linear_reverse *at, const back_work *work)
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

/* Restores a chunk's keys: features and log scales from the segment's arrays; exponents are recomputed. */
static void restore_chunk(back_work *work, const bo_key_rows *rows, size_t index)
{
    bo_linear *linear = &work->back.linear;
    size_t local = index * linear->chunk;
    linear->fk = work->fk + local * linear->depth;
    linear->lk = work->log_scales + local;
    *linear->sums.log_scale = work->state_scales[index];
    linear->r[0] = work->state_scales[index];
    bo_linear_take(linear, rows);
}

static bo_key_rows take(const bo_linear_reverse *at, back_work *work, size_t first, size_t rows)
{
    return bo_stream_take(at->call->attention, &at->keys, first, rows, work->k, work->v, work->entry);
}

/* Recomputes the sums before each chunk of the segment [first, end) and, if `whole`, after the last. */
static void replay(const bo_linear_reverse *at, back_work *work, size_t first, size_t end, bool whole)
{
    bo_linear_back *back = &work->back;
    bo_linear *linear = &back->linear;
    size_t chunk = linear->chunk, size = back->wide * linear->count;
    bo_sums_widen(back, linear->sums, work->states);
    work->state_scales[0] = *linear->sums.log_scale;
    for (size_t at_token = first, index = 0; at_token < end; at_token += chunk, index++) {
        bo_key_rows rows = take(at, work, at_token, bo_min(chunk, end - at_token));
        float *st = work->states + index * size;
        linear->fk = work->fk + index * chunk * linear->depth;
        linear->lk = work->log_scales + index * chunk;
        bo_linear_map(linear, BO_OF_KEYS, rows.keys, rows.k, rows.ldk, linear->fk, linear->lk);
        restore_chunk(work, &rows, index);
        if (at_token + chunk >= end && !whole) return;
        bo_linear_back_values(back, &rows);
        bo_linear_advance(back, st, st + size);
        work->state_scales[index + 1] = linear->weighted ? linear->r[rows.lag + rows.keys] : work->state_scales[index];
    }
}

/* Gates: dL/d log g_t = Σ_{s>=t} (f·df of queries s - f·df of keys s) + ⟨S_T, dS_T⟩, each key at the position of its
 * own token; with a convex gate also through the input weight 1 - g, d log(1 - g) / d log g = -g / (1 - g). */

/* Returns f·df of the key of the token whose key is row `row` of the stream. Keys that are still in the window at the
 * end have none. */
static double own_of(const bo_linear_reverse *at, const back_work *work, size_t first, size_t row)
{
    if (!at->pending) return work->back.own[row - first];
    return row < at->call->sequences[at->sequence].keys ? at->pending[row % at->pending_count] : 0;
}

/* Goes back over one token, whose log gate is `gate`. Returns the gradient of that. */
static double give_gate(const bo_linear_reverse *at, back_work *work, double flow, double own, float gate)
{
    work->carried += flow - own;
    work->decay += work->carried;
    return work->carried + (at->call->attention->desc.gate == BO_GATE_CONVEX ? own * bo_input_slope(gate) : 0);
}

/* Processes the tokens of a chunk. */
static void give_gates(const bo_linear_reverse *at, back_work *work, size_t first, size_t tokens,
                       const bo_key_rows *rows)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    bo_rows dgate = bo_rows_at(call, call->gradients->log_gate, d->key_heads, 1, true, at->sequence, at->key_head);
    for (size_t j = 0; at->pending && j < rows->keys; j++)
        at->pending[(first + rows->lag + j) % at->pending_count] = work->back.own[j];
    for (size_t t = tokens; t-- > 0;) {
        double own = own_of(at, work, first, first + t + at->keys.delay);
        double slope = give_gate(at, work, work->back.flow[t], own, rows->gate[t * rows->gate_stride]);
        if (dgate.at) dgate.at[(first + t) * dgate.stride] = (float)slope;
    }
}

/* Processes the tokens before the call, whose keys were in the window: their gates have become weights of these keys,
 * but the sums do not depend on them any more. */
static void give_early_gates(const bo_linear_reverse *at, back_work *work)
{
    const bo_key_stream *keys = &at->keys;
    const bo_linear_back *back = &work->back;
    work->carried -= back->linear.kernels->dot(back->wide * back->linear.count, work->states, back->gt);
    for (size_t p = keys->early; p-- > 0;) {
        double own = own_of(at, work, 0, keys->delay - keys->early + p);
        double slope = give_gate(at, work, 0, own, keys->early_gate ? keys->early_gate[p] : 0);
        if (at->d_early_gate) at->d_early_gate[p] = (float)slope;
    }
}

static bool back_chunk(const bo_linear_reverse *at, back_work *work, size_t first, size_t count, size_t index)
{
    bo_linear_back *back = &work->back;
    if (bo_pass_stops(at->call->watch, count)) return false;
    bo_key_rows rows = take(at, work, first, count);
    restore_chunk(work, &rows, index);
    back->st = work->states + index * back->wide * back->linear.count;
    bo_linear_back_keys(back, &rows);
    if (!back_queries(at, work, first, count)) return false;
    if (rows.keys) {
        bo_linear_back_finish(back, &rows, work->transform);
        bo_stream_give(at->call->attention, &at->d_keys, first + rows.lag, rows.keys, back->dx, back->dv);
    }
    if (at->call->attention->desc.gate != BO_GATE_NONE) give_gates(at, work, first, count, &rows);
    return true;
}

/* Returns ⟨S_T, dS_T⟩ at the end of the sequence. */
static double final_product(const back_work *work, size_t chunks)
{
    size_t size = work->back.wide * work->back.linear.count;
    return work->back.linear.kernels->dot(size, work->states + chunks * size, work->back.gt);
}

static bool reverse_causal(const bo_linear_reverse *at, back_work *work, const void *initial)
{
    const bo_call *call = at->call;
    bo_linear *linear = &work->back.linear;
    size_t tokens = call->sequences[at->sequence].keys, segment = call->plan.segment, chunk = linear->chunk;
    for (size_t segments = (tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_min(first + segment, tokens),
               chunks = (end - first + chunk - 1) / chunk;
        if (segments)
            bo_sums_copy(call->attention, linear->sums, bo_tape_sums(call, at->sequence, at->key_head, segments - 1));
        else
            bo_linear_begin(linear, initial, at->key_head);
        bool final = end == tokens && call->d_final && call->attention->desc.gate != BO_GATE_NONE;
        replay(at, work, first, end, final);
        if (final) work->carried = final_product(work, chunks);
        for (size_t index = chunks; index-- > 0;) {
            size_t start = first + index * chunk;
            if (!back_chunk(at, work, start, bo_min(chunk, end - start), index)) return false;
        }
    }
    if (at->pending) give_early_gates(at, work);
    return true;
}

/* ---- bidirectional ----------------------------------------------------------------------------------------------- */

static bool reverse_bidirectional(const bo_linear_reverse *at, back_work *work, const void *initial)
{
    const bo_call *call = at->call;
    bo_linear_back *back = &work->back;
    bo_linear *linear = &back->linear;
    const bo_sequence *sequence = &call->sequences[at->sequence];
    size_t chunk = linear->chunk;
    bo_linear_begin(linear, initial, at->key_head);
    float before = *linear->sums.log_scale;
    bo_sums_copy(call->attention, linear->sums, bo_tape_sums(call, at->sequence, at->key_head, 0));
    float after = *linear->sums.log_scale;
    linear->r[0] = after;
    bo_sums_widen(back, linear->sums, work->states);
    back->st = work->states;
    for (size_t first = 0; first < sequence->queries; first += chunk) {
        size_t rows = bo_min(chunk, sequence->queries - first);
        if (bo_pass_stops(call->watch, rows) || !back_queries(at, work, first, rows)) return false;
    }
    for (size_t first = 0; first < sequence->keys; first += chunk) {
        bo_key_rows rows = take(at, work, first, bo_min(chunk, sequence->keys - first));
        if (bo_pass_stops(call->watch, rows.keys)) return false;
        bo_linear_map(linear, BO_OF_KEYS, rows.keys, rows.k, rows.ldk, linear->fk, linear->lk);
        linear->keys = rows.keys;
        if (linear->weighted) linear->kernels->exp_shift(rows.keys, linear->lk, -after, linear->weights);
        bo_linear_back_sums(back, &rows);
        bo_linear_back_finish(back, &rows, work->transform);
        bo_stream_give(call->attention, &at->d_keys, first, rows.keys, back->dx, back->dv);
    }
    /* The initial sums have the weight exp(before - after) in the final sums. */
    if (linear->weighted && before != after)
        linear->kernels->scale(back->wide * linear->count, expf(before - after), back->gt, back->gt);
    return true;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

void bo_linear_reverse_run(const bo_linear_reverse *at, void *scratch)
{
    const bo_call *call = at->call;
    bo_carver carver = {.at = scratch};
    back_work work = back_make(call->attention, call->in, at->key_head, &call->plan, &carver);
    const void *initial = call->initial ? call->initial[at->sequence] : NULL;
    if (bo_row_transform_wanted(call->gradients)) work.transform = at->parameters;
    begin_gradient(at, &work);
    bool finite = (bo_linear_sweeps(call, at->sequence) ? reverse_causal : reverse_bidirectional)(at, &work, initial);
    if (!finite) bo_note_stop(call);
    end_gradient(at, &work);
    if (call->attention->desc.gate == BO_GATE_FIXED)
        at->parameters[bo_parameter_offset(call->attention, BO_PARAMETER_LOG_DECAY)] += (float)work.decay;
}

void bo_linear_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    bo_linear_reverse reverse = {.call = call,
                                 .sequence = sequence,
                                 .key_head = key_head,
                                 .keys = bo_stream_of(call, sequence, key_head),
                                 .d_keys = bo_gradient_stream_of(call, sequence, key_head),
                                 .parameters = parameters};
    bo_linear_reverse_run(&reverse, scratch);
}
