/* The backward pass of attention with features, with all threads on few heads. */
#include <math.h>
#include <string.h>
#include "linear_backward.h"
#include "calls.h"
#include "parameters.h"
#include "work.h"

/* Operations per chunk of C tokens with M features, in units of 2 C M d (d = d_v): features of keys and queries 2,
 * recomputing the sums 1, gradients through the sums 4, within the chunk 3 C / 2d + …, through the map 2; about 11 in
 * all. Two of them are sequential: the sums S within a segment, and their gradient G from the end of the sequence to
 * its start. Causal, a pipeline of rounds of segments, last to first, with four stages:
 *
 *     replay  features of keys and queries, S and dn~      any segment at any time: the tape has its first state
 *     carry   G after each chunk                           per head in order: a chain, 1 unit per chunk
 *     finish  all other gradients of a chunk               any chunk whose G is known
 *     settle  gates' gradients, parameters' gradients      per head in order, negligible
 *
 * Bidirectional: rounds of chunks of queries (finish, then settle, which carries G), then of keys.
 *
 * A batch of tasks runs each stage on another round; threads wait only at the end of a batch. With H heads the chain
 * bounds the speedup by 6 H: docs/explanation/architecture.md has the times. Every value is computed from the same
 * values in the same order as in the pass on one thread, so results are bit-identical for all numbers of threads and
 * rounds. */

enum {
    REPLAYED = 3,                         /* rounds with stored segments: replay, carry and finish */
    CARRIED = 2,                          /* rounds with stored G: carry and finish */
    FINISHED = 2,                         /* rounds with stored flows and parameters: finish and settle */
    BIDIRECTIONAL_CHUNKS = BO_SIZE(8, 2), /* bidirectional: chunks per round */
    MIN_CHUNKS = BO_SIZE(8, 2),           /* causal: minimum chunks per round */
};

/* A segment between replay and finish. Arrays of queries contain the heads of the group consecutively. */
typedef struct replayed {
    bo_linear_segment keys;
    float *fq, *lq;      /* mapped queries and their log scales */
    float *dn, *carried; /* dn~ and ρ dn~ */
} replayed;

/* A segment between finish and settle. */
typedef struct finished {
    double *flow, *key_flow;
    float *transform; /* one array of parameters per chunk; NULL: not requested */
} finished;

/* One (sequence, key head). The chain and the stage settle run concurrently on different rounds, so each has a separate
 * workspace. */
typedef struct back_head {
    bo_linear_reverse at;
    bool sweeps;
    size_t segments;
    bo_reverse_work chain;  /* Gᵀ */
    bo_reverse_work settle; /* gradients of gates */
    float *st;              /* bidirectional: S~ᵀ */
    char *replayed, *finished;
    float *gts; /* Gᵀ after each chunk of CARRIED rounds */
} back_head;

typedef struct back_waves {
    bo_call *call;
    back_head *heads;
    char *scratch;              /* one bo_reverse_work per worker */
    size_t chunk, chunks, each; /* tokens per chunk; chunks per segment; segments per round */
    size_t scratch_bytes, replayed_bytes, finished_bytes;
    bool transforms; /* gradients of transforms are requested */
    atomic_bool *too_large;
    size_t batch, rounds;                       /* of the current phase */
    size_t carries, replays, finishes, settles; /* tasks of a batch, in this order */
} back_waves;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t chunks_of(const bo_attention *attention, const bo_attention_cost *plan)
{
    return attention->desc.causal ? plan->segment / plan->chunk : BIDIRECTIONAL_CHUNKS;
}

static size_t segments_each(size_t chunks)
{
    return (MIN_CHUNKS + chunks - 1) / chunks;
}

static replayed replayed_make(const bo_attention *attention, size_t chunk, size_t chunks, bo_carver *carver)
{
    size_t rows = attention->group * chunks * chunk, wide = attention->desc.value_dim + 1;
    replayed piece = {.keys = bo_linear_segment_make(attention, chunk, chunks, carver)};
    piece.fq = bo_carve_floats(carver, rows * bo_linear_depth(attention));
    piece.lq = bo_carve_floats(carver, rows);
    piece.dn = bo_carve_floats(carver, rows * wide);
    piece.carried = bo_carve_floats(carver, rows * wide);
    return piece;
}

static finished finished_make(const bo_attention *attention, size_t chunk, size_t chunks, bo_carver *carver)
{
    finished piece = {.flow = bo_carve(carver, chunks * chunk, sizeof(double))};
    piece.key_flow = bo_carve(carver, chunks * chunk, sizeof(double));
    piece.transform = bo_carve_floats(carver, chunks * bo_parameter_floats(attention));
    return piece;
}

/* Sets all members except `at`. */
static back_head head_make(const back_waves *w, const bo_attention *attention, const bo_attention_inputs *in,
                           size_t key_head, bo_carver *carver)
{
    size_t size = (attention->desc.value_dim + 1) * attention->count;
    back_head head = {.chain = bo_reverse_make(attention, in, key_head, w->chunk, carver)};
    head.settle = head.chain;
    head.st = bo_carve_floats(carver, size);
    head.replayed = bo_carve(carver, REPLAYED * w->each, w->replayed_bytes);
    head.finished = bo_carve(carver, FINISHED * w->each, w->finished_bytes);
    head.gts = bo_carve_floats(carver, CARRIED * w->each * w->chunks * size);
    return head;
}

/* Fills the sizes. Returns the bytes of one head. */
static size_t sizes(back_waves *w, const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver scratch = {0}, replay = {0}, finish = {0}, head = {0};
    w->chunk = plan->chunk;
    w->chunks = chunks_of(attention, plan);
    w->each = segments_each(w->chunks);
    bo_reverse_make(attention, NULL, 0, w->chunk, &scratch);
    replayed_make(attention, w->chunk, w->chunks, &replay);
    finished_make(attention, w->chunk, w->chunks, &finish);
    w->scratch_bytes = scratch.bytes;
    w->replayed_bytes = replay.bytes;
    w->finished_bytes = finish.bytes;
    head_make(w, attention, NULL, 0, &head);
    return head.bytes;
}

size_t bo_linear_waves_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan, size_t threads)
{
    back_waves w = {0};
    size_t each = sizes(&w, attention, plan);
    return plan->tasks * (sizeof(back_head) + each) + threads * w.scratch_bytes;
}

static bool over(const back_waves *w)
{
    return atomic_load(w->call->not_finite) || atomic_load(&w->call->watch->stopped);
}

static bo_reverse_work worker_of(const back_waves *w, const back_head *head, int worker)
{
    bo_carver carver = {.at = w->scratch + (size_t)worker * w->scratch_bytes};
    bo_reverse_work work = bo_reverse_make(w->call->attention, w->call->in, head->at.key_head, w->chunk, &carver);
    work.back.ahead = true;
    return work;
}

/* `place` counts segments (bidirectional: pieces of w->chunks chunks) in the order of the pass. */
static replayed replayed_at(const back_waves *w, const back_head *head, size_t place)
{
    bo_carver carver = {.at = head->replayed + place % (REPLAYED * w->each) * w->replayed_bytes};
    return replayed_make(w->call->attention, w->chunk, w->chunks, &carver);
}

static finished finished_at(const back_waves *w, const back_head *head, size_t place)
{
    bo_carver carver = {.at = head->finished + place % (FINISHED * w->each) * w->finished_bytes};
    finished piece = finished_make(w->call->attention, w->chunk, w->chunks, &carver);
    if (!w->transforms) piece.transform = NULL;
    return piece;
}

static float *gt_at(const back_waves *w, const back_head *head, size_t place, size_t index)
{
    size_t size = head->chain.back.wide * head->chain.back.linear.count;
    return head->gts + (place % (CARRIED * w->each) * w->chunks + index) * size;
}

static bo_linear_ahead ahead_of(const back_waves *w, const replayed *piece, size_t index)
{
    size_t row = index * w->chunk, wide = w->call->attention->desc.value_dim + 1;
    return (bo_linear_ahead){.fq = piece->fq + row * bo_linear_depth(w->call->attention),
                             .lq = piece->lq + row,
                             .dn = piece->dn + row * wide,
                             .carried = piece->carried + row * wide,
                             .stride = w->chunks * w->chunk};
}

static float *transform_of(const back_waves *w, const finished *piece, size_t index)
{
    return piece->transform ? piece->transform + index * bo_parameter_floats(w->call->attention) : NULL;
}

/* Tokens [first, first + count) of `total` that chunk `index` of piece `piece` covers; count 0: none. */
typedef struct extent {
    size_t first, count;
} extent;

static extent extent_of(const back_waves *w, size_t piece, size_t index, size_t total)
{
    size_t first = (piece * w->chunks + index) * w->chunk;
    return (extent){first, first < total ? bo_min(w->chunk, total - first) : 0};
}

/* Computes fq, lq, dn~ and ρ dn~ of a chunk's queries, of every head of the group. False: dO contains NaN or
 * infinity. */
static bool outputs(const back_waves *w, const back_head *head, extent rows, bo_reverse_work *work)
{
    for (size_t g = 0; w->call->dout && g < w->call->attention->group; g++) {
        bo_query_rows query = bo_reverse_query_rows(&head->at, g, rows.first, rows.count);
        if (!bo_reverse_finite(&head->at, &query)) return false;
        bo_linear_ahead_use(&work->ahead, g, &work->back);
        bo_linear_back_outputs(&work->back, &query);
    }
    return true;
}

/* Adds the chunk's queries to Gᵀ. */
static void carry_queries(const back_waves *w, const replayed *piece, size_t rows, size_t index, bo_linear_back *back)
{
    bo_linear_ahead ahead = ahead_of(w, piece, index);
    for (size_t g = 0; w->call->dout && g < w->call->attention->group; g++) {
        bo_linear_ahead_use(&ahead, g, back);
        bo_linear_back_carry(back, rows);
    }
}

static bool rows_finite(const back_waves *w, bo_rows rows, extent at, size_t width)
{
    return !rows.at || bo_rows_finite(w->call->kernels, at.count, width, bo_rows_from(rows, at.first).at, rows.stride);
}

/* Checks gradients while they are in the cache. */
static void check_keys(const back_waves *w, const back_head *head, extent at)
{
    const bo_attention_desc *d = &w->call->attention->desc;
    if (!rows_finite(w, head->at.d_keys.k, at, d->dim) || !rows_finite(w, head->at.d_keys.v, at, d->value_dim))
        atomic_store(w->too_large, true);
}

static void check_queries(const back_waves *w, const back_head *head, extent at)
{
    const bo_call *call = w->call;
    const bo_attention_desc *d = &call->attention->desc;
    for (size_t g = 0; g < call->attention->group; g++) {
        size_t query_head = head->at.key_head * call->attention->group + g;
        bo_rows dq = bo_rows_at(call, call->gradients->q, d->heads, d->dim, false, head->at.sequence, query_head);
        if (!rows_finite(w, dq, at, d->dim)) atomic_store(w->too_large, true);
    }
}

/* ---- causal ------------------------------------------------------------------------------------------------------ */

/* Returns the segment at a place of the pass, which goes from the last to the first; SIZE_MAX: none. */
static size_t segment_at(const back_head *head, size_t place)
{
    return head->sweeps && place < head->segments ? head->segments - 1 - place : SIZE_MAX;
}

static size_t keys_of(const back_head *head)
{
    return head->at.call->sequences[head->at.sequence].keys;
}

static void replay_segment(const back_waves *w, back_head *head, size_t place, int worker)
{
    size_t segment = segment_at(head, place);
    if (segment == SIZE_MAX) return;
    replayed piece = replayed_at(w, head, place);
    bo_reverse_work work = worker_of(w, head, worker);
    work.segment = piece.keys;
    /* The last segment is replayed before the chain starts: its Gᵀ is the Gᵀ at the end. */
    bo_reverse_replay(&head->at, &work, segment, head->chain.back.gt, &head->settle.carried);
    for (size_t index = 0; index < w->chunks && !over(w); index++) {
        extent rows = extent_of(w, segment, index, keys_of(head));
        if (!rows.count) return;
        bo_key_rows keys = bo_reverse_load(&head->at, &work, rows.first, rows.count);
        bo_reverse_restore(&work, &keys, index);
        work.ahead = ahead_of(w, &piece, index);
        if (!outputs(w, head, rows, &work)) bo_note_stop(w->call);
    }
}

static void carry_round(const back_waves *w, back_head *head, size_t round)
{
    bo_linear_back *back = &head->chain.back;
    size_t size = back->wide * back->linear.count;
    for (size_t place = round * w->each; place < (round + 1) * w->each && !over(w); place++) {
        size_t segment = segment_at(head, place);
        if (segment == SIZE_MAX) return;
        replayed piece = replayed_at(w, head, place);
        head->chain.segment = piece.keys;
        for (size_t index = w->chunks; index-- > 0;) {
            extent rows = extent_of(w, segment, index, keys_of(head));
            if (!rows.count) continue;
            bo_key_rows keys = bo_reverse_load(&head->at, &head->chain, rows.first, rows.count);
            memcpy(gt_at(w, head, place, index), back->gt, size * sizeof(float));
            bo_reverse_restore(&head->chain, &keys, index);
            bo_linear_back_decay(back);
            carry_queries(w, &piece, rows.count, index, back);
        }
    }
}

static void finish_chunk(const back_waves *w, const back_head *head, size_t place, size_t index, int worker)
{
    size_t segment = segment_at(head, place);
    extent rows = extent_of(w, segment == SIZE_MAX ? 0 : segment, index, keys_of(head));
    if (segment == SIZE_MAX || !rows.count) return;
    replayed piece = replayed_at(w, head, place);
    finished results = finished_at(w, head, place);
    bo_reverse_work work = worker_of(w, head, worker);
    work.segment = piece.keys;
    work.transform = transform_of(w, &results, index);
    work.back.gt = gt_at(w, head, place, index);
    work.back.flow = results.flow + index * w->chunk;
    work.back.key_flow = results.key_flow + index * w->chunk;
    work.ahead = ahead_of(w, &piece, index);
    bo_key_rows keys = bo_reverse_load(&head->at, &work, rows.first, rows.count);
    if (!bo_reverse_chunk(&head->at, &work, rows.first, &keys, index)) bo_note_stop(w->call);
    check_keys(w, head, rows);
    check_queries(w, head, rows);
}

static void settle_round(const back_waves *w, back_head *head, size_t round)
{
    for (size_t place = round * w->each; place < (round + 1) * w->each; place++) {
        size_t segment = segment_at(head, place);
        if (segment == SIZE_MAX) return;
        finished results = finished_at(w, head, place);
        for (size_t index = w->chunks; index-- > 0;) {
            extent rows = extent_of(w, segment, index, keys_of(head));
            if (!rows.count) continue;
            bo_reverse_add_parameters(&head->at, transform_of(w, &results, index));
            if (w->call->attention->desc.gate == BO_GATE_NONE) continue;
            head->settle.back.flow = results.flow + index * w->chunk;
            head->settle.back.key_flow = results.key_flow + index * w->chunk;
            bo_key_rows keys = bo_reverse_load(&head->at, &head->settle, rows.first, rows.count);
            bo_reverse_gate_gradients(&head->at, &head->settle, rows.first, rows.count, &keys);
        }
    }
}

/* The longest tasks come first. */
static void causal_task(void *arg, size_t index, int worker)
{
    const back_waves *w = arg;
    size_t heads = w->call->plan.tasks;
    if (over(w)) return;
    if (index < w->replays)
        replay_segment(w, &w->heads[index % heads], w->batch * w->each + index / heads, worker);
    else if ((index -= w->replays) < w->carries)
        carry_round(w, &w->heads[index], w->batch - 1);
    else if ((index -= w->carries) < w->finishes)
        finish_chunk(w, &w->heads[index % heads], (w->batch - 2) * w->each + index / heads / w->chunks,
                     index / heads % w->chunks, worker);
    else if ((index -= w->finishes) < w->settles)
        settle_round(w, &w->heads[index], w->batch - 3);
}

/* Returns the number of tasks of a stage that is `delay` rounds behind. */
static size_t stage(const back_waves *w, size_t delay, size_t tasks)
{
    return w->batch >= delay && w->batch - delay < w->rounds ? tasks : 0;
}

static void run_causal(bo_context *context, back_waves *w)
{
    size_t heads = w->call->plan.tasks, max_items = 0;
    for (size_t i = 0; i < heads; i++)
        if (w->heads[i].sweeps) max_items = bo_max(max_items, w->heads[i].segments);
    w->rounds = (max_items + w->each - 1) / w->each;
    for (w->batch = 0; w->rounds && w->batch < w->rounds + 3 && !over(w); w->batch++) {
        w->replays = stage(w, 0, heads * w->each);
        w->carries = stage(w, 1, heads);
        w->finishes = stage(w, 2, heads * w->each * w->chunks);
        w->settles = stage(w, 3, heads);
        bo_parallel(context, w->replays + w->carries + w->finishes + w->settles, causal_task, w);
    }
}

/* ---- bidirectional ----------------------------------------------------------------------------------------------- */

/* Chunk `index` of the queries at a place. */
static void bidirectional_queries(const back_waves *w, const back_head *head, size_t place, size_t index, int worker)
{
    extent rows = extent_of(w, place, index, w->call->sequences[head->at.sequence].queries);
    if (head->sweeps || !rows.count) return;
    replayed piece = replayed_at(w, head, place);
    finished results = finished_at(w, head, place);
    bo_reverse_work work = worker_of(w, head, worker);
    bo_linear *linear = &work.back.linear;
    linear->keys = linear->lag = 0;
    linear->r[0] = head->chain.back.linear.r[0];
    work.back.st = head->st;
    work.transform = transform_of(w, &results, index);
    work.ahead = ahead_of(w, &piece, index);
    if (!outputs(w, head, rows, &work)) {
        bo_note_stop(w->call);
        return;
    }
    if (!bo_reverse_queries(&head->at, &work, rows.first, rows.count)) bo_note_stop(w->call);
    check_queries(w, head, rows);
}

/* Chunk `index` of the keys at a place. */
static void bidirectional_keys(const back_waves *w, const back_head *head, size_t place, size_t index, int worker)
{
    extent rows = extent_of(w, place, index, keys_of(head));
    if (head->sweeps || !rows.count) return;
    finished results = finished_at(w, head, place);
    bo_reverse_work work = worker_of(w, head, worker);
    work.back.gt = head->chain.back.gt;
    work.transform = transform_of(w, &results, index);
    if (!bo_reverse_keys(&head->at, &work, rows.first, rows.count)) bo_note_stop(w->call);
    check_keys(w, head, rows);
}

static void bidirectional_settle(const back_waves *w, back_head *head, size_t place, bool queries)
{
    const bo_sequence *sequence = &w->call->sequences[head->at.sequence];
    replayed piece = replayed_at(w, head, place);
    finished results = finished_at(w, head, place);
    for (size_t index = 0; index < w->chunks && !head->sweeps; index++) {
        extent rows = extent_of(w, place, index, queries ? sequence->queries : sequence->keys);
        if (!rows.count) return;
        if (queries) carry_queries(w, &piece, rows.count, index, &head->chain.back);
        bo_reverse_add_parameters(&head->at, transform_of(w, &results, index));
    }
}

static void bidirectional_task(const back_waves *w, size_t index, bool queries, int worker)
{
    size_t heads = w->call->plan.tasks;
    if (over(w)) return;
    if (index < w->settles)
        bidirectional_settle(w, &w->heads[index], w->batch - 1, queries);
    else if ((index -= w->settles) < w->finishes)
        (queries ? bidirectional_queries : bidirectional_keys)(w, &w->heads[index % heads], w->batch, index / heads,
                                                               worker);
}

static void queries_task(void *arg, size_t index, int worker)
{
    bidirectional_task(arg, index, true, worker);
}

static void keys_task(void *arg, size_t index, int worker)
{
    bidirectional_task(arg, index, false, worker);
}

static void run_bidirectional(bo_context *context, back_waves *w, bool queries)
{
    size_t heads = w->call->plan.tasks, max_items = 0;
    for (size_t i = 0; i < heads; i++) {
        const bo_sequence *sequence = &w->call->sequences[w->heads[i].at.sequence];
        if (!w->heads[i].sweeps) max_items = bo_max(max_items, queries ? sequence->queries : sequence->keys);
    }
    w->rounds = (max_items + w->chunks * w->chunk - 1) / (w->chunks * w->chunk);
    for (w->batch = 0; w->rounds && w->batch < w->rounds + 1 && !over(w); w->batch++) {
        w->finishes = stage(w, 0, heads * w->chunks);
        w->settles = stage(w, 1, heads);
        bo_parallel(context, w->finishes + w->settles, queries ? queries_task : keys_task, w);
    }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static void begin(back_waves *w, char *memory, size_t each, float *parameters)
{
    bo_call *call = w->call;
    const bo_attention *attention = call->attention;
    size_t key_heads = attention->desc.key_heads;
    for (size_t i = 0; i < call->plan.tasks; i++) {
        back_head *head = &w->heads[i];
        bo_carver carver = {.at = memory + i * each};
        *head = head_make(w, attention, call->in, i % key_heads, &carver);
        head->at =
            bo_linear_reverse_of(call, i / key_heads, i % key_heads, parameters + i * bo_parameter_floats(attention));
        head->sweeps = bo_linear_sweeps(call, i / key_heads);
        head->segments = (keys_of(head) + call->plan.segment - 1) / call->plan.segment;
        bo_reverse_begin_gradient(&head->at, &head->chain);
        if (!head->sweeps) bo_reverse_begin_queries(&head->at, &head->chain, head->st);
    }
}

static void end_task(void *arg, size_t index, int worker)
{
    const back_waves *w = arg;
    back_head *head = &w->heads[index];
    const bo_attention *attention = w->call->attention;
    (void)worker;
    if (!head->sweeps) bo_reverse_end_keys(&head->at, &head->chain);
    head->chain.decay = head->settle.decay;
    bo_reverse_end(&head->at, &head->chain);
    const bo_attention_gradients *g = w->call->gradients;
    bo_rows gates =
        bo_rows_at(w->call, g->log_gate, attention->desc.key_heads, 1, true, head->at.sequence, head->at.key_head);
    bool finite = rows_finite(w, gates, (extent){0, keys_of(head)}, 1);
    if (g->initial)
        finite = finite && w->call->kernels->finite(
                               attention->count * head->chain.back.wide,
                               bo_sums_gradient(attention, g->initial[head->at.sequence], head->at.key_head));
    if (!finite) atomic_store(w->too_large, true);
}

bo_status bo_linear_waves_backward(bo_context *context, bo_call *call, float *parameters, atomic_bool *too_large)
{
    const bo_attention *attention = call->attention;
    back_waves w = {
        .call = call, .too_large = too_large, .transforms = bo_row_transform_gradients_requested(call->gradients)};
    size_t tasks = call->plan.tasks, each = sizes(&w, attention, &call->plan);
    w.heads = bo_work_alloc(context, call->work, tasks, sizeof *w.heads, "the heads of a backward pass");
    char *memory = bo_work_alloc(context, call->work, tasks, each, "waves of attention");
    w.scratch = bo_work_alloc(context, call->work, (size_t)bo_context_threads(context), w.scratch_bytes,
                              "attention's backward pass");
    bool ready = w.heads && memory && w.scratch;
    if (ready) {
        begin(&w, memory, each, parameters);
        run_causal(context, &w);
        run_bidirectional(context, &w, true);
        run_bidirectional(context, &w, false);
        if (!over(&w)) bo_parallel(context, tasks, end_task, &w);
    }
    bo_work_free(call->work, w.scratch);
    bo_work_free(call->work, memory);
    bo_work_free(call->work, w.heads);
    return ready ? BO_OK : BO_MEMORY;
}
