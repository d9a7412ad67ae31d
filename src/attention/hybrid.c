/* Softmax attention inside the window, features for older keys, one denominator. A chunk of tokens is processed by
 * linear.h with the keys that leave the window, then by softmax tiles; both parts of a row are merged at the larger of
 * their log scales. */
#include "hybrid.h"
#include "linear.h"
#include <math.h>
#include <string.h>
#include "linear_backward.h"

/* ---- one row ----------------------------------------------------------------------------------------------------- */

static float relative(float top, float reference)
{
    return top > -INFINITY ? expf(top - reference) : 0.0f;
}

/* Adds `near` to `far` at the larger of their log scales. */
static void hybrid_part_merge(const bo_attention *attention, bo_hybrid_part *far, bo_hybrid_part near)
{
    const bo_kernels *kernels = attention->kernels;
    size_t width = attention->desc.value_dim;
    /* Sums of zero weight are excluded from the maximum: their log scale has no meaning. */
    if (far->denominator == 0.0f) far->top = -INFINITY;
    float top = fmaxf(far->top, near.top), far_factor = relative(far->top, top), near_factor = relative(near.top, top);
    if (far_factor != 1.0f) kernels->scale(width, far_factor, far->numerator, far->numerator);
    if (near_factor != 0.0f) kernels->axpy(width, near_factor, near.numerator, far->numerator);
    far->denominator = far_factor * far->denominator + near_factor * near.denominator;
    far->top = top;
}

/* Returns the sums of a row of a tile, times the head's mix. */
static bo_hybrid_part window_part(const bo_softmax_tile *tile, size_t row, const bo_attention_inputs *in, size_t head)
{
    float log_mix = in->mix ? logf(in->mix[head]) : 0.0f;
    return (bo_hybrid_part){tile->numerator + row * tile->value_dim, tile->sum[row], tile->top[row] + log_mix};
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

/* Keys and values of the initial state that may leave the window during a call, at most one per token of the call, and
 * the log gates of all keys in the state; or their gradients. */
typedef struct early_rows {
    float *k, *v, *gate;
} early_rows;

static early_rows carve_early(const bo_attention *attention, size_t tokens, bo_carver *carver)
{
    size_t rows = bo_min(attention->cached_keys, tokens);
    return (early_rows){bo_carve_floats(carver, rows * attention->desc.dim),
                        bo_carve_floats(carver, rows * attention->desc.value_dim),
                        bo_carve_floats(carver, attention->cached_gates)};
}

/* Workspace of the forward pass for one chunk. */
typedef struct chunk_work {
    bo_linear linear;
    float *n, *denominator, *top; /* results from the sums and the chunk's keys */
    float *k, *v;                 /* stream buffers */
    double *entry;
    early_rows early;
    void *window; /* scratch memory of bo_exact */
} chunk_work;

static chunk_work carve(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t longest,
                        size_t chunk, bo_carver *carver)
{
    size_t dim = attention->desc.dim, value_dim = attention->desc.value_dim;
    chunk_work work = {.linear = bo_linear_make(attention, in, key_head, chunk, carver)};
    work.n = bo_carve_floats(carver, chunk * value_dim);
    work.denominator = bo_carve_floats(carver, chunk);
    work.top = bo_carve_floats(carver, chunk);
    work.k = bo_carve_floats(carver, chunk * dim);
    work.v = bo_carve_floats(carver, chunk * value_dim);
    work.entry = bo_carve(carver, chunk, sizeof(double));
    work.early = carve_early(attention, longest, carver);
    work.window = bo_carve(carver, bo_exact_bytes(attention, longest, chunk, false), 1);
    return work;
}

/* Returns the size of `pending` of bo_linear_reverse. */
static size_t pending_of(const bo_attention *attention, size_t tokens, size_t chunk)
{
    return attention->desc.gate != BO_GATE_NONE ? bo_min(attention->cached_keys, tokens) + chunk : 0;
}

static void plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *out)
{
    bo_linear_plan(attention, longest_queries, longest_keys, out);
    bo_carver forward = {NULL, 0}, backward = {NULL, 0};
    carve(attention, NULL, 0, longest_keys, out->chunk, &forward);
    carve_early(attention, longest_keys, &backward);
    carve_early(attention, longest_keys, &backward);
    bo_carve(&backward, pending_of(attention, longest_keys, out->chunk), sizeof(double));
    out->query_tile = BO_SOFTMAX_TILE;
    out->key_tile = BO_PANEL;
    out->forward_bytes = forward.bytes;
    out->backward_bytes = backward.bytes + bo_max(bo_linear_backward_bytes(attention, out),
                                                  bo_exact_bytes(attention, longest_keys, BO_SOFTMAX_TILE, true));
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Returns the keys of a task in the order in which the sums absorb them: each key is delayed by the window. */
static bo_key_stream leaving_keys(const bo_softmax_keys *keys, early_rows early)
{
    const bo_call *call = keys->call;
    bo_key_stream stream = bo_stream_of(call, keys->sequence, keys->key_head);
    size_t first = bo_kv_cache_first(keys->old, call->attention->cached_keys);
    stream.delay = call->attention->cached_keys;
    stream.early = keys->old - first;
    stream.early_k = early.k;
    stream.early_v = early.v;
    if (stream.early && call->attention->cached_gates) {
        bo_cached_gates_read(call->attention, call->initial[keys->sequence], keys->key_head, first, stream.early,
                             early.gate);
        stream.early_gate = early.gate;
    }
    size_t leave = bo_min(stream.early, call->sequences[keys->sequence].keys);
    if (leave) bo_kv_cache_read(call->kernels, &keys->kept, first, leave, early.k, early.v);
    return stream;
}

typedef struct task {
    chunk_work work;
    bo_exact window;
    bo_key_stream leaving;
} task;

/* Merges, divides and records the rows of the tile, which starts at row `offset` of the chunk. */
static void finish_tile(task *t, size_t head, size_t first, size_t offset)
{
    const bo_call *call = t->window.call;
    const bo_softmax_tile *tile = &t->window.tile;
    bo_rows out = bo_exact_rows(&t->window, call->out, tile->value_dim, head, first);
    size_t tape = bo_exact_tape(&t->window, head, first);
    for (size_t r = 0; r < tile->rows; r++) {
        size_t i = offset + r;
        bo_hybrid_part far = {t->work.n + i * tile->value_dim, t->work.denominator[i], t->work.top[i]};
        hybrid_part_merge(call->attention, &far, window_part(tile, r, call->in, head));
        float sum = bo_normalize(call->attention, far.denominator, far.numerator, out.at + r * out.stride);
        bo_exact_note(call, bo_linear_finite(call->attention, far.denominator, far.numerator));
        if (!call->tape.top) continue;
        /* without keys: avoids NaN in the backward pass */
        call->tape.top[tape + r] = far.top > -INFINITY ? far.top : 0.0f;
        call->tape.sum[tape + r] = sum;
    }
}

/* Computes queries [first, first + rows) of every head of the group. */
static void forward_queries(task *t, size_t first, size_t rows, const bo_key_rows *keys)
{
    const bo_call *call = t->window.call;
    const bo_attention *attention = call->attention;
    bo_linear *linear = &t->work.linear;
    size_t dim = attention->desc.dim, value_dim = attention->desc.value_dim;
    if (linear->keys) bo_linear_transpose(linear);
    for (size_t g = 0; g < attention->group; g++) {
        size_t head = t->window.key_head * attention->group + g;
        bo_rows q = bo_exact_rows(&t->window, call->in->q, dim, head, first);
        bo_linear_map_queries(linear, rows, q.at, q.stride);
        bo_exact_note(call, bo_log_scales_fit(rows, linear->lq));
        bo_linear_queries(linear, rows, keys->v, keys->ldv, t->work.n, value_dim, t->work.denominator, t->work.top);
        for (size_t at = first, end; at < first + rows; at = end) {
            end = bo_softmax_tile_end(t->window.keys.old, at, first + rows);
            bo_exact_fill(&t->window, head, at, end);
            bo_softmax_add_keys(&t->window.tile, &t->window.keys);
            finish_tile(t, head, at, at - first);
        }
    }
}

static void record_sums(const task *t, size_t index)
{
    const bo_exact *window = &t->window;
    bo_sums_copy(window->call->attention, bo_tape_sums(window->call, window->sequence, window->key_head, index),
                 t->work.linear.sums);
}

/* True if every query of the group in these rows is finite. */
static bool finite_queries(const bo_exact *window, size_t first, size_t rows)
{
    const bo_call *call = window->call;
    size_t group = call->attention->group, dim = call->attention->desc.dim;
    bool finite = true;
    for (size_t head = window->key_head * group; head < (window->key_head + 1) * group; head++) {
        bo_rows q = bo_exact_rows(window, call->in->q, dim, head, first);
        finite = finite && bo_rows_finite(call->kernels, rows, dim, q.at, q.stride);
    }
    return finite;
}

/* Processes a chunk of tokens, of keys only, or of queries only. False: an input is NaN or infinite. */
static bool forward_chunk(task *t, size_t first, size_t rows)
{
    const bo_call *call = t->window.call;
    bo_key_rows keys = {.lag = 0};
    if (t->window.keys.count) {
        keys = bo_stream_load(call->attention, &t->leaving, first, rows, t->work.k, t->work.v, t->work.entry);
        bo_exact_load(&t->window, first + rows);
    }
    if (!call->shape->no_queries) bo_exact_note(call, finite_queries(&t->window, first, rows));
    if (atomic_load(call->not_finite)) return false;
    bo_linear *linear = &t->work.linear;
    if (keys.keys) bo_linear_map(linear, BO_OF_KEYS, keys.keys, keys.k, keys.ldk, linear->fk, linear->lk);
    bo_linear_begin_chunk(linear, &keys);
    bo_exact_note(call, bo_log_scales_fit(keys.keys, linear->lk));
    if (!call->shape->no_queries) forward_queries(t, first, rows, &keys);
    bo_linear_absorb(linear, keys.v, keys.ldv);
    return true;
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    const bo_sequence *at = &call->sequences[sequence];
    size_t chunk = call->plan.chunk, segment = call->plan.segment, tokens = at->keys ? at->keys : at->queries;
    bo_carver carver = {scratch, 0};
    task t = {.work = carve(attention, call->in, key_head, at->keys, chunk, &carver)};
    t.window = bo_exact_begin(call, sequence, key_head, chunk, false, t.work.window);
    t.leaving = leaving_keys(&t.window.keys, t.work.early);
    bo_linear_begin(&t.work.linear, call->initial ? call->initial[sequence] : NULL, key_head);
    bool apart = !bo_linear_sweeps(call, sequence);
    if (call->tape.top && apart) record_sums(&t, 0);
    for (size_t first = 0; first < tokens; first += chunk) {
        if (call->tape.top && !apart && first && first % segment == 0) record_sums(&t, first / segment - 1);
        if (bo_pass_stops(call->watch, bo_min(chunk, tokens - first))) return;
        if (!forward_chunk(&t, first, bo_min(chunk, tokens - first))) return;
    }
    if (call->final) {
        bo_sums_copy(attention, bo_state_sums(attention, call->final[sequence], key_head), t.work.linear.sums);
    }
    bo_softmax_store_keys(&t.window.keys);
    if (call->final && attention->cached_gates && at->keys)
        bo_cached_gates_append(attention, call->final[sequence], key_head, t.window.keys.old, at->keys, t.leaving.gate);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Adds the gradients of the initial state's keys through the sums to those through the window. */
static void add_early(const bo_call *call, size_t sequence, size_t key_head, size_t count, early_rows gradients)
{
    const bo_attention_desc *desc = &call->attention->desc;
    float *row = bo_kv_cache_gradient(call->attention, call->gradients->initial[sequence], key_head);
    for (size_t j = 0; j < count; j++, row += desc->dim + desc->value_dim) {
        call->kernels->axpy(desc->dim, 1.0f, gradients.k + j * desc->dim, row);
        call->kernels->axpy(desc->value_dim, 1.0f, gradients.v + j * desc->value_dim, row + desc->dim);
    }
}

/* Adds the gradients of the gates in the final state to those of the tokens, and writes those of the initial state.
 * `early`: gradients through the sums for the `cached` keys in the initial state. */
static void finish_gates(const bo_call *call, const bo_softmax_keys *keys, size_t cached, const float *early)
{
    const bo_attention *attention = call->attention;
    size_t count = attention->cached_gates, tokens = call->sequences[keys->sequence].keys;
    size_t end = keys->old + tokens, first = bo_kv_cache_first(end, count), oldest = keys->old - cached;
    const float *final = call->d_final ? call->d_final[keys->sequence] : NULL;
    float *initial = call->gradients->initial ? call->gradients->initial[keys->sequence] : NULL;
    if (final) final = bo_cached_gates_gradient(attention, final, keys->key_head);
    bo_rows dgate =
        bo_rows_at(call, call->gradients->log_gate, attention->desc.key_heads, 1, true, keys->sequence, keys->key_head);
    for (size_t p = bo_max(first, keys->old); dgate.at && final && p < end; p++)
        dgate.at[(p - keys->old) * dgate.stride] += final[p - first];
    if (!initial) return;
    initial = bo_cached_gates_gradient(attention, initial, keys->key_head);
    for (size_t r = 0; r < count; r++) {
        initial[r] = r < cached && tokens ? early[r] : 0;
        if (r < cached && final && oldest + r >= first) initial[r] += final[oldest + r - first];
    }
}

static void backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {scratch, 0};
    size_t tokens = call->sequences[sequence].keys;
    early_rows early = carve_early(attention, tokens, &carver),
               early_gradients = carve_early(attention, tokens, &carver);
    size_t pending = pending_of(attention, tokens, call->plan.chunk);
    double *products = bo_carve(&carver, pending, sizeof *products);
    void *scratch_after = carver.at + carver.bytes;
    bo_exact_backward(call, sequence, key_head, parameters, scratch_after);
    if (atomic_load(call->not_finite) || bo_pass_stops(call->watch, 0)) return;

    bo_softmax_keys keys = bo_softmax_keys_of(call, sequence, key_head, (bo_kv_cache){.ring = 0});
    bo_linear_reverse reverse = {.call = call, .sequence = sequence, .key_head = key_head, .add = true};
    reverse.parameters = parameters;
    reverse.keys = leaving_keys(&keys, early);
    reverse.d_keys = bo_gradient_stream_of(call, sequence, key_head);
    reverse.d_keys.delay = reverse.keys.delay;
    reverse.d_keys.early = reverse.keys.early;
    reverse.d_keys.early_k = early_gradients.k;
    reverse.d_keys.early_v = early_gradients.v;
    reverse.d_keys.add = true;
    if (pending) reverse.pending = products, reverse.pending_count = pending;
    if (attention->cached_gates) reverse.d_early_gate = early_gradients.gate;
    size_t leave = bo_min(reverse.keys.early, tokens);
    memset(early_gradients.k, 0, leave * attention->desc.dim * sizeof(float));
    memset(early_gradients.v, 0, leave * attention->desc.value_dim * sizeof(float));
    bo_linear_reverse_run(&reverse, scratch_after);
    if (call->gradients->initial) add_early(call, sequence, key_head, leave, early_gradients);
    if (attention->cached_gates) finish_gates(call, &keys, reverse.keys.early, early_gradients.gate);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Decoding with the hybrid: the sums are multiplied by the gate and absorb the key that leaves the window, the new key
 * enters the window, and the output is computed from both. */

typedef struct step_work {
    bo_linear_step_work far;
    float *k, *v; /* keys and values that leave the window: count x dim, count x value_dim */
    bo_softmax_tile tile;
} step_work;

static step_work carve_step(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t count,
                            bo_carver *carver)
{
    step_work work = {.far = bo_linear_step_make(attention, in, key_head, count, carver)};
    work.k = bo_carve_floats(carver, count * attention->desc.dim);
    work.v = bo_carve_floats(carver, count * attention->desc.value_dim);
    work.tile = bo_softmax_carve(attention, carver);
    bo_softmax_unpacked(&work.tile);
    return work;
}

static size_t hybrid_step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {NULL, 0};
    carve_step(attention, NULL, 0, count, &carver);
    return carver.bytes;
}

/* One token of some sequences, for one key head. */
typedef struct step_at {
    const bo_attention *attention;
    const bo_attention_inputs *in;
    size_t first, count, key_head;
    void *const *states;
    float *out;
} step_at;

/* True if a key leaves the window with this token. */
static bool leaves(const step_at *at, size_t row)
{
    return at->in->k && bo_attention_state_tokens(at->states[at->first + row]) >= at->attention->cached_keys;
}

/* Computes the features of the keys that leave the window and of the queries. False: their log scales are too large. */
static bool map_rows(const step_at *at, step_work *work)
{
    const bo_attention *attention = at->attention;
    const bo_attention_desc *desc = &attention->desc;
    size_t count = at->count;
    memset(work->k, 0, count * desc->dim * sizeof *work->k);
    for (size_t row = 0; row < count; row++) {
        if (!leaves(at, row)) continue;
        const void *state = at->states[at->first + row];
        bo_kv_cache kept = bo_kv_cache_in(attention, state, at->key_head);
        bo_kv_cache_read(attention->kernels, &kept, (size_t)bo_attention_state_tokens(state) - kept.ring, 1,
                         work->k + row * desc->dim, work->v + row * desc->value_dim);
    }
    bo_mapper_features(&work->far.mapper, BO_OF_KEYS, count, work->k, desc->dim, work->far.fk, work->far.lk);
    bo_linear_step_queries(attention, &work->far, at->in, at->first, count, at->key_head);
    return bo_log_scales_fit(count, work->far.lk) && bo_log_scales_fit(attention->group * count, work->far.lq);
}

/* Updates the sums with the gate, if there is one, and with the key that leaves the window, and multiplies them with
 * every query of the group: numerators are written to work->n. */
static void step_sums(const step_at *at, step_work *work, size_t row, bo_sums sums)
{
    const bo_attention *attention = at->attention;
    size_t features = attention->count, sequence = at->first + row;
    bool gated = at->in->k && attention->desc.gate != BO_GATE_NONE;
    const float *v = leaves(at, row) ? work->v + row * attention->desc.value_dim : NULL, *gate = NULL;
    double log_key = v ? (double)work->far.lk[row] : -INFINITY;
    if (gated)
        gate = bo_step_gate(attention, at->in, at->key_head, sequence * attention->desc.key_heads + at->key_head);
    if (gated && v) log_key += bo_cached_gates_entry(attention, at->states[sequence], at->key_head, *gate);
    bo_sums_token token = {.decay = 1};
    if (gated || v) token = bo_linear_token(attention, *sums.log_scale, log_key, gate);
    bo_sums_step(attention, sums, gated || v ? &token : NULL, work->far.fk + row * features, v,
                 work->far.fq + row * features, at->count * features, work->far.n);
    if (gated && attention->cached_gates)
        bo_cached_gates_append(attention, at->states[sequence], at->key_head,
                               (size_t)bo_attention_state_tokens(at->states[sequence]), 1, (bo_rows){(float *)gate, 1});
}

/* Adds the part of the window to that of the sums, for query heads [g, g + tile rows) of the group. */
static bool step_window(const step_at *at, step_work *work, size_t row, size_t g, bo_sums sums)
{
    const bo_attention *attention = at->attention;
    size_t features = attention->count, values = attention->desc.value_dim, head = at->key_head * attention->group + g;
    float *out = at->out + ((at->first + row) * attention->desc.heads + head) * values;
    bool finite = true;
    for (size_t r = 0; r < work->tile.rows; r++) {
        size_t i = (g + r) * at->count + row;
        bo_hybrid_part far = {.numerator = work->far.n + (g + r) * values, .top = work->far.lq[i] + *sums.log_scale};
        far.denominator = (float)attention->kernels->dot(features, work->far.fq + i * features, sums.z);
        hybrid_part_merge(attention, &far, window_part(&work->tile, r, at->in, head + r));
        finite = finite && bo_linear_finite(attention, far.denominator, far.numerator);
        bo_normalize(attention, far.denominator, far.numerator, out + r * values);
    }
    return finite;
}

static bool step_one(const step_at *at, step_work *work, size_t row)
{
    const bo_attention *attention = at->attention;
    const bo_attention_desc *desc = &attention->desc;
    size_t sequence = at->first + row, group = attention->group, head = at->key_head * group;
    void *state = at->states[sequence];
    bo_sums sums = bo_state_sums(attention, state, at->key_head);
    step_sums(at, work, row, sums);
    bo_kv_cache kept = bo_kv_cache_in(attention, state, at->key_head);
    size_t tokens = bo_kv_cache_token(attention, at->in, sequence, at->key_head, state);
    bool finite = true;
    for (size_t g = 0, rows; g < group; g += rows) {
        rows = group - g < BO_SOFTMAX_TILE ? group - g : BO_SOFTMAX_TILE;
        bo_rows q = {(float *)at->in->q + (sequence * desc->heads + head + g) * desc->dim, desc->dim};
        bo_softmax_begin(&work->tile, 0, rows, q, desc->scale);
        bo_softmax_add(&work->tile, &kept, bo_kv_cache_first(tokens, kept.ring), tokens);
        finite = step_window(at, work, row, g, sums) && finite;
    }
    return finite;
}

static void hybrid_step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                        size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const step_at at = {attention, in, first, count, key_head, states, out};
    bo_carver carver = {scratch, 0};
    step_work work = carve_step(attention, in, key_head, count, &carver);
    if (!map_rows(&at, &work)) atomic_store(not_finite, true);
    for (size_t row = 0; row < count; row++) {
        if (!step_one(&at, &work, row)) atomic_store(not_finite, true);
    }
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

const bo_engine bo_engine_hybrid = {
    .rounds = true,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .tape_states = bo_segment_states,
    .step_bytes = hybrid_step_bytes,
    .step = hybrid_step,
    .operations = bo_linear_operations,
    .backward_passes = 2, /* one for each part */
};
