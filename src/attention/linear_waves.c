/* The forward pass of attention with features, with all threads on few heads. */
#include <string.h>
#include "linear.h"
#include "work.h"

/* The pass runs in waves of groups of chunks, each in three steps: features of the keys, for all groups in parallel;
 * the sums before each group, sequentially per head; the queries, for all groups in parallel, each of which absorbs its
 * keys again. Every number is computed from the same numbers in the same order as in the serial pass, so the bits do
 * not depend on the number of threads. Without sweeps (bidirectional) the first two steps run over all keys, then the
 * third over all queries. */

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

size_t bo_linear_waves_bytes(const bo_attention *attention, const bo_attention_cost *plan, size_t threads)
{
    return plan->tasks * (sizeof(wave_head) + head_bytes(attention, plan)) + threads * plan->forward_bytes;
}

/* The sums are sequential and the steps wait for each other: 8 heads are not faster on 16 threads (measured), 4 heads
 * are. */
size_t bo_linear_waves_threads(size_t tasks)
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
    return bo_linear_forward_make(call->attention, call->in, head->task.key_head, w->chunk, &carver);
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
        if (!bo_linear_map_keys(&head->task, &work.linear, w->first + local, rows,
                                head->fk + local * head->linear.depth, head->lk + local))
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
        if (sweeps) bo_linear_record(&head->task, &head->linear, w->first + chunk * w->chunk);
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
        if (!bo_linear_ask(&head->task, &work, w->first + chunk * w->chunk, rows)) bo_note_stop(call);
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
        w->heads[i].task = bo_linear_task_make(call, sequence, key_head);
        bo_linear_begin(&w->heads[i].linear, call->initial ? call->initial[sequence] : NULL, key_head);
    }
}

bo_status bo_linear_waves(bo_context *context, bo_call *call)
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
