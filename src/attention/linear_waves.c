/* The forward pass of attention with features, with all threads on few heads. */
#include <string.h>
#include "linear.h"
#include "work.h"

/* Operations per chunk of C tokens with M features, in units of 2 C M d (d = d_v): features of keys 1, features of
 * queries 1, products within the chunk (C + d) / 2d, reading the sums 1, absorbing the keys 1. Only absorbing is
 * sequential: about a fifth. The pass is a pipeline of rounds of chunks with three stages:
 *
 *     map   features of the keys                      any chunk at any time
 *     sum   the sums before each chunk of a round     per head in order: a chain
 *     query queries and products within the chunk     any chunk whose keys are mapped and whose sums are known
 *
 * A batch of tasks processes `map` of round t, `sum` of round t - 1 and `query` of round t - 2. These are independent,
 * so threads wait only at the end of a batch, where the shortest tasks are. The chains come first. The sums are stored
 * before every chunk: copying M d floats is faster than absorbing the chunk again.
 *
 * With H heads the chain bounds the speedup by 3 H: docs/explanation/architecture.md has the times. Every value is
 * computed from the same values in the same order as in the serial pass, so results are bit-identical for all numbers
 * of threads and rounds. Without sweeps (bidirectional), map and sum run over all keys, then query over all queries. */

enum {
    ROUND = BO_SIZE(8, 2),          /* maximum chunks per round */
    GROUP = BO_SIZE(2, 1),          /* chunks per task of map and query */
    STATES = BO_SIZE(2 << 20, 256), /* bytes of a head's sums in a round, if ROUND chunks have more */
    MAPPED = 3,                     /* rounds with stored mapped keys: one per stage */
    SUMMED = 2                      /* rounds with stored sums: sum and query */
};

/* One (sequence, key head). */
typedef struct wave_head {
    bo_linear_task task;
    bo_linear linear; /* contains the sums at the end of the chain; its fk and lk point into the arrays below */
    float *fk, *lk;   /* mapped keys and their log scales: MAPPED rounds */
    char *states;     /* sums before each chunk: SUMMED rounds */
} wave_head;

typedef struct waves {
    bo_call *call;
    wave_head *heads;
    char *scratch; /* one bo_linear_forward per worker */
    size_t chunk;
    size_t round;        /* chunks per round */
    size_t key_rounds;   /* rounds with keys */
    size_t query_rounds; /* rounds with queries */
    size_t batch;        /* rounds of the current batch: map `batch`, sum batch - 1, query `query_round` */
    size_t query_round;  /* the round of the query stage; SIZE_MAX: none */
    size_t sum_tasks, query_tasks, map_tasks; /* tasks of the batch, in this order */
} waves;

/* Returns the chunks per round: a short sequence has several rounds too, so that the stages overlap. */
static size_t round_chunks(const bo_attention *attention, const bo_attention_cost *plan)
{
    size_t chunks = (plan->keys + plan->chunk - 1) / plan->chunk,
           max_chunks = bo_min(ROUND, STATES / attention->sums_bytes);
    size_t round = bo_min((chunks + 3) / 4, max_chunks);
    return (bo_max(round, 2) + GROUP - 1) / GROUP * GROUP;
}

static wave_head head_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    size_t round = round_chunks(attention, plan);
    wave_head head = {.linear = bo_linear_make(attention, in, key_head, plan->chunk, carver)};
    head.fk = bo_carve_floats(carver, MAPPED * round * plan->chunk * head.linear.depth);
    head.lk = bo_carve_floats(carver, MAPPED * round * plan->chunk);
    head.states = bo_carve(carver, SUMMED * round, attention->sums_bytes);
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

/* The pipeline takes about a quarter more total time, because features and sums move between cores. With one thread per
 * task, threads without a task stay idle. A sequence of a few chunks is too short for three stages. */
bool bo_linear_waves_pay(const bo_attention *attention, const bo_attention_cost *plan, size_t threads)
{
    size_t chunks = (plan->keys + plan->chunk - 1) / plan->chunk;
    return 5 * plan->tasks < 4 * threads && (chunks >= 4 || !attention->desc.causal);
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

/* Returns the rows of a chunk among `tokens`. */
static size_t rows_of(const waves *w, size_t chunk, size_t tokens)
{
    size_t first = chunk * w->chunk;
    return first < tokens ? bo_min(w->chunk, tokens - first) : 0;
}

static bo_sums sums_before(const waves *w, const wave_head *head, size_t chunk)
{
    const bo_attention *attention = w->call->attention;
    return bo_sums_in(attention, head->states + chunk % (SUMMED * w->round) * attention->sums_bytes);
}

/* Returns the index of a chunk's first row in fk and lk. */
static size_t mapped_at(const waves *w, size_t chunk)
{
    return chunk % (MAPPED * w->round) * w->chunk;
}

/* ---- the stages -------------------------------------------------------------------------------------------------- */

static void map_chunks(const waves *w, const wave_head *head, size_t first, int worker)
{
    const bo_call *call = w->call;
    size_t keys = head->task.at->keys;
    if (rows_of(w, first, keys) == 0) return;
    bo_linear_forward work = worker_of(w, head, worker);
    bool counts_keys = call->shape->no_queries || !call->attention->desc.causal; /* progress counts keys too */
    for (size_t chunk = first; chunk < first + GROUP && !over(w); chunk++) {
        size_t rows = rows_of(w, chunk, keys), at = mapped_at(w, chunk);
        if (rows == 0 || (counts_keys && bo_pass_stops(call->watch, rows))) return;
        if (!bo_linear_map_keys(&head->task, &work.linear, chunk * w->chunk, rows, head->fk + at * head->linear.depth,
                                head->lk + at))
            bo_note_stop(call);
    }
}

/* Begins the chunk with its mapped keys. */
static void begin_chunk(const waves *w, const wave_head *head, size_t chunk, size_t rows, bo_linear *linear)
{
    bo_rows gate = bo_rows_from(head->task.gate, chunk * w->chunk);
    linear->fk = head->fk + mapped_at(w, chunk) * linear->depth;
    linear->lk = head->lk + mapped_at(w, chunk);
    bo_linear_begin_chunk(linear, &(bo_key_rows){.keys = rows, .gate = gate.at, .gate_stride = gate.stride});
}

static void sum_round(const waves *w, wave_head *head, size_t round)
{
    bool sweeps = bo_linear_sweeps(w->call, head->task.sequence);
    for (size_t chunk = round * w->round; chunk < (round + 1) * w->round && !over(w); chunk++) {
        size_t rows = rows_of(w, chunk, head->task.at->keys);
        bo_rows v = bo_rows_from(head->task.v, chunk * w->chunk);
        if (rows == 0) return;
        if (sweeps) bo_linear_record(&head->task, &head->linear, chunk * w->chunk);
        if (sweeps) bo_sums_copy(w->call->attention, sums_before(w, head, chunk), head->linear.sums);
        begin_chunk(w, head, chunk, rows, &head->linear);
        bo_linear_absorb(&head->linear, v.at, v.stride);
    }
}

static void query_chunks(const waves *w, const wave_head *head, size_t first, int worker)
{
    const bo_call *call = w->call;
    size_t tokens = head->task.at->queries;
    bool sweeps = bo_linear_sweeps(call, head->task.sequence);
    if (rows_of(w, first, tokens) == 0) return;
    bo_linear_forward work = worker_of(w, head, worker);
    for (size_t chunk = first; chunk < first + GROUP && !over(w); chunk++) {
        size_t rows = rows_of(w, chunk, tokens);
        if (rows == 0 || bo_pass_stops(call->watch, rows)) return;
        work.linear.sums = sweeps ? sums_before(w, head, chunk) : head->linear.sums;
        work.linear.keys = work.linear.lag = 0;
        work.linear.r[0] = *work.linear.sums.log_scale;
        if (sweeps) begin_chunk(w, head, chunk, rows, &work.linear);
        if (!bo_linear_forward_queries(&head->task, &work, chunk * w->chunk, rows)) bo_note_stop(call);
    }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* Chains first, because they are the longest tasks; the tasks of map, which are the shortest, at the end. */
static void stage_task(void *arg, size_t index, int worker)
{
    const waves *w = arg;
    size_t heads = w->call->plan.tasks;
    if (over(w)) return;
    if (index < w->sum_tasks)
        sum_round(w, &w->heads[index], w->batch - 1);
    else if ((index -= w->sum_tasks) < w->query_tasks)
        query_chunks(w, &w->heads[index % heads], w->query_round * w->round + index / heads * GROUP, worker);
    else if ((index -= w->query_tasks) < w->map_tasks)
        map_chunks(w, &w->heads[index % heads], w->batch * w->round + index / heads * GROUP, worker);
}

static void run_batch(bo_context *context, waves *w)
{
    size_t heads = w->call->plan.tasks, each = heads * (w->round / GROUP);
    w->sum_tasks = w->batch && w->batch <= w->key_rounds ? heads : 0;
    w->query_tasks = w->query_round < w->query_rounds ? each : 0;
    w->map_tasks = w->batch < w->key_rounds ? each : 0;
    bo_parallel(context, w->sum_tasks + w->query_tasks + w->map_tasks, stage_task, w);
}

static void run(bo_context *context, waves *w)
{
    const bo_call *call = w->call;
    size_t queries = 0, keys = 0, rows = w->round * w->chunk;
    for (size_t s = 0; s < call->shape->sequences; s++) {
        queries = bo_max(queries, call->sequences[s].queries);
        keys = bo_max(keys, call->sequences[s].keys);
    }
    w->key_rounds = (keys + rows - 1) / rows;
    w->query_rounds = (queries + rows - 1) / rows;
    bool causal = call->attention->desc.causal && keys;
    for (w->batch = 0; keys && w->batch < w->key_rounds + (causal ? 2 : 1) && !over(w); w->batch++) {
        w->query_round = causal && w->batch >= 2 ? w->batch - 2 : SIZE_MAX;
        run_batch(context, w);
    }
    for (size_t i = 0; call->tape.top && i < call->plan.tasks && !over(w); i++) {
        const wave_head *head = &w->heads[i];
        if (!bo_linear_sweeps(call, head->task.sequence))
            bo_sums_copy(call->attention, bo_tape_sums(call, head->task.sequence, head->task.key_head, 0),
                         head->linear.sums);
    }
    if (causal) return;
    w->batch = w->key_rounds + 1;
    for (w->query_round = 0; w->query_round < w->query_rounds && !over(w); w->query_round++) run_batch(context, w);
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
    waves w = {.call = call, .chunk = call->plan.chunk, .round = round_chunks(attention, &call->plan)};
    w.heads = bo_work_alloc(context, call->work, tasks, sizeof *w.heads, "the heads of a forward pass");
    char *memory = bo_work_alloc(context, call->work, tasks, each, "waves of attention");
    w.scratch = bo_work_alloc(context, call->work, (size_t)bo_context_threads(context), call->plan.forward_bytes,
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
    bo_work_free(call->work, w.scratch);
    bo_work_free(call->work, memory);
    bo_work_free(call->work, w.heads);
    return ready ? BO_OK : BO_MEMORY;
}
