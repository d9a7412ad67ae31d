/* The engine of the kinds with features: forward, with one thread per head or with all threads on few heads, and
 * step. */
#include <math.h>
#include <string.h>
#include "linear.h"
#include "work.h"
#include "linear_backward.h"

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The engine of the kinds with features: forward and step. */

/* ---- plan -------------------------------------------------------------------------------------------------------- */

/* Returns estimated cycles per token, from operation counts: within a chunk (C + 16)(D + d_v) operations at 32 per
 * cycle (bands of 16 rows turn the triangle into a staircase; D is the depth of a row); per chunk the sums are read and
 * written at 8 floats per cycle, and calls take about 1500 cycles. */
static double chunk_cost(const bo_attention *attention, double depth, size_t chunk)
{
    double features = (double)attention->count, values = (double)attention->desc.value_dim, tokens = (double)chunk;
    return (tokens + BO_BAND) * (depth + values) / 32 + (features * values / 8 + 1500) / tokens;
}

/* Returns the cheapest chunk whose rows, three times over, fit in half of the second-level cache. */
static size_t choose_chunk(const bo_attention *attention, const bo_attention_cost *plan)
{
    size_t best = 16, depth = bo_linear_depth(attention);
    if (attention->desc.chunk) return attention->desc.chunk;
    for (size_t chunk = 32; chunk <= 128; chunk *= 2) {
        if (3 * chunk * depth * sizeof(float) > plan->level2_bytes / 2) break;
        if (!attention->desc.causal ||
            chunk_cost(attention, (double)depth, chunk) < chunk_cost(attention, (double)depth, best))
            best = chunk;
    }
    return best;
}

static bo_linear_forward linear_forward_make(const bo_attention *attention, const bo_attention_inputs *in,
                                             size_t key_head, size_t chunk, bo_carver *carver)
{
    bo_linear_forward work = {.linear = bo_linear_make(attention, in, key_head, chunk, carver)};
    work.n = bo_carve_floats(carver, chunk * attention->desc.value_dim);
    work.denominator = bo_carve_floats(carver, chunk);
    work.top = bo_carve_floats(carver, chunk);
    return work;
}

void bo_linear_plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *plan)
{
    size_t longest = longest_queries > longest_keys ? longest_queries : longest_keys;
    bo_carver forward = {0};
    plan->chunk = choose_chunk(attention, plan);
    plan->segment = bo_segment(plan->chunk, longest ? longest : 1);
    linear_forward_make(attention, NULL, 0, plan->chunk, &forward);
    plan->forward_bytes = forward.bytes;
    plan->backward_bytes = bo_linear_backward_bytes(attention, plan);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static bo_linear_task linear_task_make(const bo_call *call, size_t sequence, size_t key_head)
{
    bo_key_stream stream = bo_stream_of(call, sequence, key_head);
    return (bo_linear_task){.call = call,
                            .at = &call->sequences[sequence],
                            .sequence = sequence,
                            .key_head = key_head,
                            .k = stream.k,
                            .v = stream.v,
                            .gate = stream.gate};
}

/* Log scales contain the norm of the row: they are not finite if the row is not, so the row need not be checked
 * separately. */
static bool told(const bo_linear *linear)
{
    return linear->attention->scaled && bo_row_transform_is_none(&linear->mapper.transform);
}

/* Computes the rows of fk for keys [first, first + keys), and their log scales. False: numbers are not finite, or too
 * large. */
static bool linear_map_keys(const bo_linear_task *at, bo_linear *linear, size_t first, size_t keys, float *mapped,
                            float *log_scale)
{
    const bo_attention_desc *d = &at->call->attention->desc;
    const float *k = bo_rows_from(at->k, first).at, *v = bo_rows_from(at->v, first).at;
    if (!(told(linear) || bo_rows_finite(linear->kernels, keys, d->dim, k, at->k.stride)) ||
        !bo_rows_finite(linear->kernels, keys, d->value_dim, v, at->v.stride))
        return false;
    bo_linear_map(linear, BO_OF_KEYS, keys, k, at->k.stride, mapped, log_scale);
    return bo_log_scales_fit(keys, log_scale);
}

static bool take_keys(const bo_linear_task *at, bo_linear *linear, size_t first, size_t keys)
{
    if (!linear_map_keys(at, linear, first, keys, linear->fk, linear->lk)) return false;
    bo_linear_take(
        linear, &(bo_key_rows){.keys = keys, .gate = bo_rows_from(at->gate, first).at, .gate_stride = at->gate.stride});
    return true;
}

/* Called before the chunk that starts at token `first`: the tape stores the sums at the start of a segment. */
static void linear_record(const bo_linear_task *at, const bo_linear *linear, size_t first)
{
    const bo_call *call = at->call;
    if (call->tape.top && first && first % call->plan.segment == 0)
        bo_sums_copy(call->attention, bo_tape_sums(call, at->sequence, at->key_head, first / call->plan.segment - 1),
                     linear->sums);
}

/* Computes queries [first, first + queries) of every head of the group from the sums and the chunk's keys. */
static bool linear_ask(const bo_linear_task *at, bo_linear_forward *work, size_t first, size_t queries)
{
    const bo_call *call = at->call;
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    bo_linear *linear = &work->linear;
    if (call->shape->no_queries) return true;
    if (linear->keys && queries) bo_linear_transpose(linear);
    for (size_t g = 0; g < attention->group; g++) {
        size_t head = at->key_head * attention->group + g;
        bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, at->sequence, head);
        const float *rows = bo_rows_from(q, first).at;
        if (!told(linear) && !bo_rows_finite(linear->kernels, queries, d->dim, rows, q.stride)) return false;
        bo_linear_map_queries(linear, queries, rows, q.stride);
        if (!bo_log_scales_fit(queries, linear->lq)) return false;
        bo_rows_fetch(q, first + queries, bo_min(first + queries + linear->chunk, at->at->queries), d->dim);
        bo_linear_queries(linear, queries, bo_rows_from(at->v, first).at, at->v.stride, work->n, d->value_dim,
                          work->denominator, work->top);
        size_t tape = head * call->queries_total + at->at->query_start + first;
        for (size_t i = 0; i < queries; i++) {
            if (!bo_linear_finite(attention, work->denominator[i], work->n + i * d->value_dim)) return false;
            float sum = bo_normalize(attention, work->denominator[i], work->n + i * d->value_dim,
                                     out.at + (first + i) * out.stride);
            if (!call->tape.top) continue;
            call->tape.top[tape + i] = work->top[i];
            call->tape.sum[tape + i] = sum;
        }
    }
    return true;
}

static bool forward_causal(const bo_linear_task *at, bo_linear_forward *work)
{
    size_t chunk = work->linear.chunk, tokens = at->at->keys;
    for (size_t first = 0; first < tokens; first += chunk) {
        size_t rows = bo_min(chunk, tokens - first);
        if (bo_pass_stops(at->call->watch, rows)) return false;
        linear_record(at, &work->linear, first);
        if (!take_keys(at, &work->linear, first, rows)) return false;
        size_t next = first + rows, end = bo_min(next + chunk, tokens);
        bo_rows_fetch(at->k, next, end, at->call->attention->desc.dim);
        if (!linear_ask(at, work, first, rows)) return false;
        bo_rows_fetch(at->v, next, end, at->call->attention->desc.value_dim);
        bo_linear_absorb(&work->linear, bo_rows_from(at->v, first).at, at->v.stride);
    }
    return true;
}

static bool forward_bidirectional(const bo_linear_task *at, bo_linear_forward *work)
{
    size_t chunk = work->linear.chunk;
    for (size_t first = 0; first < at->at->keys; first += chunk) {
        if (bo_pass_stops(at->call->watch, bo_min(chunk, at->at->keys - first))) return false;
        if (!take_keys(at, &work->linear, first, bo_min(chunk, at->at->keys - first))) return false;
        bo_linear_absorb(&work->linear, bo_rows_from(at->v, first).at, at->v.stride);
    }
    if (at->call->tape.top)
        bo_sums_copy(at->call->attention, bo_tape_sums(at->call, at->sequence, at->key_head, 0), work->linear.sums);
    for (size_t first = 0; first < at->at->queries; first += chunk) {
        size_t rows = bo_min(chunk, at->at->queries - first);
        if (bo_pass_stops(at->call->watch, rows) || !linear_ask(at, work, first, rows)) return false;
    }
    return true;
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    bo_linear_forward work = linear_forward_make(attention, call->in, key_head, call->plan.chunk, &carver);
    bo_linear_task at = linear_task_make(call, sequence, key_head);
    bo_linear_begin(&work.linear, call->initial ? call->initial[sequence] : NULL, key_head);
    if (!(bo_linear_sweeps(call, sequence) ? forward_causal : forward_bidirectional)(&at, &work)) {
        bo_note_stop(call);
        return;
    }
    if (call->final)
        bo_sums_copy(attention, bo_state_sums(attention, call->final[sequence], key_head), work.linear.sums);
}

bo_token_operations bo_linear_operations(const bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    double dim = (double)d->dim, values = (double)d->value_dim, features = (double)attention->count;
    bool drawn = bo_features_frequencies(attention->features[0]) > 0,
         closed = bo_features_closed(attention->features[0]);
    double map = (drawn ? 2 * (double)d->features.dim * features : 0) + (d->rank ? 2 * (double)d->rank * dim : 0);
    double scores = d->causal ? BO_WITHIN_CHUNK * ((closed ? dim : features) + values) : 0;
    return (bo_token_operations){.query = map + 2 * features * values + scores, .key = map + 2 * features * values};
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Decoding: one token for some sequences of one key head. Their features are computed together, like those of a chunk;
 * then each state is read and written once. */

bo_linear_step_work bo_linear_step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                        size_t count, bo_carver *carver)
{
    bo_linear_step_work work = {.mapper = bo_mapper_make(attention, in, key_head, count, carver)};
    work.fk = bo_carve_floats(carver, count * attention->count);
    work.lk = bo_carve_floats(carver, count);
    work.fq = bo_carve_floats(carver, attention->group * count * attention->count);
    work.lq = bo_carve_floats(carver, attention->group * count);
    work.n = bo_carve_floats(carver, attention->group * attention->desc.value_dim);
    return work;
}

void bo_linear_step_queries(const bo_attention *attention, const bo_linear_step_work *work,
                            const bo_attention_inputs *in, size_t first, size_t count, size_t key_head)
{
    const bo_attention_desc *d = &attention->desc;
    for (size_t g = 0; g < attention->group; g++) {
        const float *q = in->q + (first * d->heads + key_head * attention->group + g) * d->dim;
        bo_mapper_features(&work->mapper, BO_OF_QUERIES, count, q, d->heads * d->dim,
                           work->fq + g * count * attention->count, work->lq + g * count);
    }
}

static size_t linear_step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    bo_linear_step_make(attention, NULL, 0, count, &carver);
    return carver.bytes;
}

void bo_sums_step(const bo_attention *attention, bo_sums sums, const bo_token *token, float *fk, const float *v,
                  const float *fq, size_t ldq, float *n)
{
    const bo_kernels *kernels = attention->kernels;
    size_t features = attention->count, values = attention->desc.value_dim;
    float decay = token ? token->decay : 1;
    if (token) *sums.log_scale = token->log_scale;
    if (decay != 1) kernels->scale(features, decay, sums.z, sums.z);
    if (decay != 1 && !v) kernels->scale(features * values, decay, sums.s, sums.s);
    if (v) {
        if (token->weight != 1) kernels->scale(features, token->weight, fk, fk);
        kernels->axpy(features, 1, fk, sums.z);
    }
    kernels->state_step(features, values, v != NULL, decay, fk, v, sums.s, attention->group, fq, ldq, n, values);
}

/* Updates the state with its token and computes the outputs of every query of the group. False: numbers overflowed. */
static bool step_one(const bo_attention *attention, bo_linear_step_work *work, size_t row, size_t count, const float *v,
                     const float *log_gate, bo_sums sums, float *out)
{
    size_t features = attention->count, values = attention->desc.value_dim;
    bo_token token = {.decay = 1};
    if (v) {
        double own = (double)work->lk[row] + (double)bo_log_input(attention, bo_log_gate(log_gate));
        token = bo_linear_token(attention, *sums.log_scale, own, log_gate);
    }
    bo_sums_step(attention, sums, v ? &token : NULL, work->fk + row * features, v, work->fq + row * features,
                 count * features, work->n);
    for (size_t g = 0; g < attention->group; g++) {
        const float *fq = work->fq + (g * count + row) * features;
        float denominator = attention->kernels->dot_f32(features, fq, sums.z);
        if (!bo_linear_finite(attention, denominator, work->n + g * values)) return false;
        bo_normalize(attention, denominator, work->n + g * values, out + g * values);
    }
    return true;
}

const float *bo_step_gate(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t at)
{
    if (attention->desc.gate == BO_GATE_FIXED) return bo_fixed_gate(attention, in, key_head);
    return in->log_gate ? in->log_gate + at : NULL;
}

static bool queries_fit(const bo_linear_step_work *work, size_t group, size_t count, size_t row)
{
    bool fit = true;
    for (size_t g = 0; g < group; g++) fit = fit && bo_log_scales_fit(1, work->lq + g * count + row);
    return fit;
}

static void linear_step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                        size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *d = &attention->desc;
    bo_carver carver = {.at = scratch};
    bo_linear_step_work work = bo_linear_step_make(attention, in, key_head, count, &carver);
    size_t head = key_head * attention->group;
    if (in->k) {
        const float *k = in->k + (first * d->key_heads + key_head) * d->dim;
        bo_mapper_features(&work.mapper, BO_OF_KEYS, count, k, d->key_heads * d->dim, work.fk, work.lk);
    }
    bo_linear_step_queries(attention, &work, in, first, count, key_head);
    for (size_t row = 0; row < count; row++) {
        size_t at = (first + row) * d->key_heads + key_head;
        bo_sums sums = bo_state_sums(attention, states[first + row], key_head);
        bool fit = (!in->k || bo_log_scales_fit(1, work.lk + row)) && queries_fit(&work, attention->group, count, row);
        if (!fit || !step_one(attention, &work, row, count, in->k ? in->v + at * d->value_dim : NULL,
                              bo_step_gate(attention, in, key_head, at), sums,
                              out + ((first + row) * d->heads + head) * d->value_dim))
            atomic_store(not_finite, true);
    }
}

/* ---- few heads, many threads ------------------------------------------------------------------------------------- */

/* Few heads, many threads. The pass runs in waves of groups of chunks, each in three steps: features of the keys, for
 * all groups in parallel; the sums before each group, sequentially per head; the queries, for all groups in parallel,
 * each of which absorbs its keys again. Every number is computed from the same numbers in the same order as in the
 * serial pass, so the bits do not depend on the number of threads. Without sweeps (bidirectional) the first two steps
 * run over all keys, then the third over all queries. */

enum {
    WAVE = BO_SIZE(16, 2),
    GROUP = BO_SIZE(8, 2)
}; /* groups per wave and chunks per group: the data of a wave stays in the caches */

/* One (sequence, key head) across waves. */
typedef struct wave_head {
    bo_linear_task task;
    bo_linear linear; /* holds the sums; its fk and lk point into those of the wave */
    float *fk, *lk;   /* features and log scales of a wave's keys */
    char *states;     /* sums before each group */
} wave_head;

typedef struct waves {
    bo_call *call;
    wave_head *heads;
    char *scratch; /* one bo_linear_forward per worker */
    size_t chunk, first;
} waves;

static void *states_at(const bo_attention *attention, const wave_head *head, size_t index)
{
    return head->states + index * attention->sums_bytes;
}

/* Returns the keys of a wave; short sequences, such as those of a step, have fewer. */
static size_t wave_keys(const bo_attention_cost *plan)
{
    return bo_min(WAVE * GROUP, (plan->keys + plan->chunk - 1) / plan->chunk) * plan->chunk;
}

static wave_head head_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    wave_head head = {.linear = bo_linear_make(attention, in, key_head, plan->chunk, carver)};
    head.fk = bo_carve_floats(carver, wave_keys(plan) * head.linear.depth);
    head.lk = bo_carve_floats(carver, wave_keys(plan));
    head.states = bo_carve(carver, WAVE, attention->sums_bytes);
    return head;
}

static size_t head_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    head_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

static size_t linear_waves_bytes(const bo_attention *attention, const bo_attention_cost *plan, size_t threads)
{
    return plan->tasks * (sizeof(wave_head) + head_bytes(attention, plan)) + threads * plan->forward_bytes;
}

/* The sums are sequential and the steps wait for each other: 8 heads are not faster on 16 threads (measured), 4 heads
 * are. */
static size_t linear_waves_threads(size_t tasks)
{
    return tasks == 1 ? 2 : 4 * tasks;
}

static bool over(const waves *w)
{
    return atomic_load(w->call->not_finite) || atomic_load(&w->call->watch->stopped);
}

static bo_linear_forward worker_of(const waves *w, const wave_head *head, int worker)
{
    const bo_call *call = w->call;
    bo_carver carver = {.at = w->scratch + (size_t)worker * call->plan.forward_bytes};
    return linear_forward_make(call->attention, call->in, head->task.key_head, w->chunk, &carver);
}

/* Returns the rows of chunk `index` of the wave among `tokens`. */
static size_t rows_of(const waves *w, size_t index, size_t tokens)
{
    size_t first = w->first + index * w->chunk;
    return first < tokens ? bo_min(w->chunk, tokens - first) : 0;
}

/* ---- the steps --------------------------------------------------------------------------------------------------- */

static void map_task(void *arg, size_t index, int worker)
{
    const waves *w = arg;
    const wave_head *head = &w->heads[index / WAVE];
    size_t first = index % WAVE * GROUP;
    if (rows_of(w, first, head->task.at->keys) == 0) return;
    bo_linear_forward work = worker_of(w, head, worker);
    for (size_t chunk = first; chunk < first + GROUP && !over(w); chunk++) {
        size_t rows = rows_of(w, chunk, head->task.at->keys), local = chunk * w->chunk;
        if (rows == 0) return;
        if (!linear_map_keys(&head->task, &work.linear, w->first + local, rows, head->fk + local * head->linear.depth,
                             head->lk + local))
            bo_note_stop(w->call);
    }
}

/* Loads the keys of chunk `index`, whose features are in the wave's buffers. */
static void take(const waves *w, const wave_head *head, size_t index, size_t rows, bo_linear *linear)
{
    bo_rows gate = bo_rows_from(head->task.gate, w->first + index * w->chunk);
    linear->fk = head->fk + index * w->chunk * linear->depth;
    linear->lk = head->lk + index * w->chunk;
    bo_linear_take(linear, &(bo_key_rows){.keys = rows, .gate = gate.at, .gate_stride = gate.stride});
}

static void absorb(const waves *w, const wave_head *head, size_t index, bo_linear *linear)
{
    bo_rows v = bo_rows_from(head->task.v, w->first + index * w->chunk);
    bo_linear_absorb(linear, v.at, v.stride);
}

static void sum_task(void *arg, size_t index, int worker)
{
    const waves *w = arg;
    wave_head *head = &w->heads[index];
    const bo_attention *attention = w->call->attention;
    bool sweeps = bo_linear_sweeps(w->call, head->task.sequence);
    (void)worker;
    for (size_t chunk = 0; chunk < WAVE * GROUP && !over(w); chunk++) {
        size_t rows = rows_of(w, chunk, head->task.at->keys);
        if (rows == 0) return;
        if (sweeps) linear_record(&head->task, &head->linear, w->first + chunk * w->chunk);
        if (sweeps && chunk % GROUP == 0)
            bo_sums_copy(attention, bo_sums_in(attention, states_at(attention, head, chunk / GROUP)),
                         head->linear.sums);
        take(w, head, chunk, rows, &head->linear);
        absorb(w, head, chunk, &head->linear);
    }
}

/* Each group has its own sums, which it updates from chunk to chunk. */
static void ask_task(void *arg, size_t index, int worker)
{
    const waves *w = arg;
    const wave_head *head = &w->heads[index / WAVE];
    const bo_call *call = w->call;
    size_t group = index % WAVE, tokens = head->task.at->queries;
    if (rows_of(w, group * GROUP, tokens) == 0) return;
    bo_linear_forward work = worker_of(w, head, worker);
    bool sweeps = bo_linear_sweeps(call, head->task.sequence);
    work.linear.sums =
        sweeps ? bo_sums_in(call->attention, states_at(call->attention, head, group)) : head->linear.sums;
    work.linear.keys = work.linear.lag = 0;
    work.linear.r[0] = *work.linear.sums.log_scale;
    for (size_t chunk = group * GROUP; chunk < (group + 1) * GROUP && !over(w); chunk++) {
        size_t rows = rows_of(w, chunk, tokens);
        if (rows == 0 || bo_pass_stops(call->watch, rows)) return;
        if (sweeps) take(w, head, chunk, rows, &work.linear);
        if (!linear_ask(&head->task, &work, w->first + chunk * w->chunk, rows)) bo_note_stop(call);
        if (sweeps) absorb(w, head, chunk, &work.linear);
    }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static void run_keys(bo_context *context, waves *w, size_t tasks)
{
    bo_parallel(context, tasks * WAVE, map_task, w);
    if (!over(w)) bo_parallel(context, tasks, sum_task, w);
}

static void run(bo_context *context, waves *w)
{
    const bo_call *call = w->call;
    size_t tasks = call->plan.tasks, step = WAVE * GROUP * w->chunk, queries = 0, keys = 0;
    for (size_t s = 0; s < call->shape->sequences; s++) {
        queries = bo_max(queries, call->sequences[s].queries);
        keys = bo_max(keys, call->sequences[s].keys);
    }
    bool causal = call->attention->desc.causal;
    for (w->first = 0; w->first < keys && !over(w); w->first += step) {
        run_keys(context, w, tasks);
        if (causal && !over(w)) bo_parallel(context, tasks * WAVE, ask_task, w);
    }
    for (size_t i = 0; call->tape.top && i < tasks && !over(w); i++)
        if (!bo_linear_sweeps(call, w->heads[i].task.sequence))
            bo_sums_copy(call->attention, bo_tape_sums(call, w->heads[i].task.sequence, w->heads[i].task.key_head, 0),
                         w->heads[i].linear.sums);
    if (causal && keys) return;
    for (w->first = 0; w->first < queries && !over(w); w->first += step)
        bo_parallel(context, tasks * WAVE, ask_task, w);
}

static void begin(waves *w, char *memory, size_t each)
{
    bo_call *call = w->call;
    size_t key_heads = call->attention->desc.key_heads;
    for (size_t i = 0; i < call->plan.tasks; i++) {
        size_t sequence = i / key_heads, key_head = i % key_heads;
        bo_carver carver = {.at = memory + i * each};
        w->heads[i] = head_make(call->attention, call->in, key_head, &call->plan, &carver);
        w->heads[i].task = linear_task_make(call, sequence, key_head);
        bo_linear_begin(&w->heads[i].linear, call->initial ? call->initial[sequence] : NULL, key_head);
    }
}

/* The whole pass with all threads on every head; the bits are the same. */
static bo_status linear_waves(bo_context *context, bo_call *call)
{
    const bo_attention *attention = call->attention;
    size_t tasks = call->plan.tasks, each = head_bytes(attention, &call->plan);
    waves w = {.call = call, .chunk = call->plan.chunk};
    w.heads = bo_work_take(context, call->work, tasks, sizeof *w.heads, "the heads of a forward pass");
    char *memory = bo_work_take(context, call->work, tasks, each, "waves of attention");
    w.scratch = bo_work_take(context, call->work, (size_t)bo_context_threads(context), call->plan.forward_bytes,
                             "attention's forward pass");
    bool ready = w.heads && memory && w.scratch;
    if (ready) {
        begin(&w, memory, each);
        run(context, &w);
        for (size_t i = 0; call->final && i < tasks && !over(&w); i++) {
            const bo_linear_task *at = &w.heads[i].task;
            bo_sums_copy(attention, bo_state_sums(attention, call->final[at->sequence], at->key_head),
                         w.heads[i].linear.sums);
        }
    }
    bo_work_give(call->work, w.scratch);
    bo_work_give(call->work, memory);
    bo_work_give(call->work, w.heads);
    return ready ? BO_OK : BO_MEMORY;
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

const bo_engine bo_engine_linear = {
    .plan = bo_linear_plan,
    .forward = forward,
    .together = linear_waves,
    .together_threads = linear_waves_threads,
    .together_bytes = linear_waves_bytes,
    .backward = bo_linear_backward,
    .tape_states = bo_segment_states,
    .step_bytes = linear_step_bytes,
    .step = linear_step,
    .operations = bo_linear_operations,
};
