/* Softmax attention with all threads on few heads. */
#include "calls.h"
#include "exact.h"
#include "work.h"

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Each tile of queries is a task. Tiles are the same as in the pass on one thread, so results are bit-identical.
 * Without a window, all threads load the keys of a head once for all its tiles. With a window, a tile loads the keys
 * that it sees. */

enum { PART = BO_SOFTMAX_TILE, LOAD = 4 * BO_SOFTMAX_TILE }; /* positions per task */

typedef struct parts {
    const bo_call *call;
    char *keys;              /* without a window: the loaded keys of each pair */
    char *scratch;           /* one block per worker */
    size_t keys_bytes, each; /* bytes per pair, per worker */
    size_t count, loads;     /* parts and loads of the longest sequence */
} parts;

static size_t old_tokens(const bo_call *call, size_t sequence)
{
    return call->initial ? (size_t)bo_attention_state_tokens(call->initial[sequence]) : 0;
}

static void part_sizes(const bo_attention *attention, const bo_attention_cost *plan, parts *job)
{
    bool window = attention->desc.window > 0;
    bo_carver tile = {NULL, 0}, keys = {NULL, 0};
    bo_softmax_carve(attention, &tile);
    bo_softmax_carve_keys(attention, plan->keys, PART, &keys);
    job->keys_bytes = window ? 0 : keys.bytes;
    job->each = tile.bytes + (window ? keys.bytes : 0);
}

/* The keys of pair `pair` that all its tasks share. */
static bo_kv_cache shared_keys(const parts *job, size_t pair)
{
    const bo_attention *attention = job->call->attention;
    bo_carver carver = {job->keys + pair * job->keys_bytes, 0};
    return bo_softmax_carve_keys(attention, job->call->sequences[pair / attention->desc.key_heads].keys, PART, &carver);
}

/* Part `part` of `total` queries or keys at positions from `old` on: [first, end). */
typedef struct stretch {
    size_t first, end;
} stretch;

static stretch stretch_of(size_t old, size_t part, size_t size, size_t total)
{
    size_t shift = old % size, begin = part * size, first = begin > shift ? begin - shift : 0;
    return (stretch){bo_min(first, total), bo_min(begin + size - shift, total)};
}

static void load_task(void *arg, size_t index, int worker)
{
    const parts *job = arg;
    const bo_call *call = job->call;
    size_t key_heads = call->attention->desc.key_heads, pair = index % call->plan.tasks;
    (void)worker;
    bo_softmax_keys keys = bo_softmax_keys_of(call, pair / key_heads, pair % key_heads, shared_keys(job, pair));
    stretch s = stretch_of(keys.old, index / call->plan.tasks, LOAD, keys.count);
    keys.loaded = s.first;
    bo_exact_note(call, bo_softmax_load(&keys, s.end));
}

/* The last tiles, which see the most keys, come first. */
static void part_task(void *arg, size_t index, int worker)
{
    const parts *job = arg;
    const bo_call *call = job->call;
    size_t pair = index % call->plan.tasks, part = job->count - 1 - index / call->plan.tasks;
    size_t key_heads = call->attention->desc.key_heads, sequence = pair / key_heads;
    size_t queries = call->sequences[sequence].queries, window = call->attention->desc.window;
    stretch s = stretch_of(old_tokens(call, sequence), part, PART, queries);
    bool last = window && part + 1 == job->count; /* also checks the keys that no query sees */
    if ((s.first >= s.end && !last) || atomic_load(&call->watch->stopped)) return;
    bo_carver carver = {job->scratch + (size_t)worker * job->each, 0};
    bo_exact work = {.tile = bo_softmax_carve(call->attention, &carver)};
    work.keys.fresh = window ? bo_softmax_carve_keys(call->attention, call->sequences[sequence].keys, PART, &carver)
                             : shared_keys(job, pair);
    bo_exact_open(call, sequence, pair % key_heads, &work);
    work.keys.loaded = work.keys.count;
    if (window) work.keys.loaded = bo_min(s.first > window ? s.first - window : 0, work.keys.count);
    bo_exact_forward_queries(&work, s.first, s.end, last);
}

/* Runs after all parts, because they read the state, which may be updated in place. */
static void store_task(void *arg, size_t index, int worker)
{
    const bo_call *call = arg;
    size_t key_heads = call->attention->desc.key_heads;
    (void)worker;
    bo_softmax_keys keys = bo_softmax_keys_of(call, index / key_heads, index % key_heads, (bo_kv_cache){.ring = 0});
    bo_softmax_store_keys(&keys);
}

bo_status bo_exact_waves(bo_context *context, bo_call *call)
{
    size_t tasks = call->plan.tasks;
    parts job = {.call = call, .count = 1};
    part_sizes(call->attention, &call->plan, &job);
    for (size_t s = 0; s < call->shape->sequences; s++) {
        size_t old = old_tokens(call, s);
        job.count = bo_max(job.count, (call->sequences[s].queries + old % PART + PART - 1) / PART);
        job.loads = bo_max(job.loads, (call->sequences[s].keys + old % LOAD + LOAD - 1) / LOAD);
    }
    job.keys = bo_work_alloc(context, call->work, tasks, job.keys_bytes, "the keys of a forward pass");
    job.scratch =
        bo_work_alloc(context, call->work, (size_t)bo_context_threads(context), job.each, "attention's forward pass");
    bool ready = job.keys && job.scratch;
    if (ready) {
        if (job.keys_bytes) bo_parallel(context, tasks * job.loads, load_task, &job);
        bo_parallel(context, tasks * job.count, part_task, &job);
    }
    bo_work_free(call->work, job.scratch);
    bo_work_free(call->work, job.keys);
    if (!ready) return BO_MEMORY;
    if (!atomic_load(call->not_finite) && !atomic_load(&call->watch->stopped))
        bo_parallel(context, tasks, store_task, call);
    return BO_OK;
}

bool bo_exact_waves_pay(const bo_attention *attention, const bo_attention_cost *out, size_t threads)
{
    (void)attention;
    return out->tasks < threads;
}

size_t bo_exact_waves_bytes(const bo_attention *attention, const bo_attention_cost *out, size_t threads)
{
    parts job = {.count = 1};
    part_sizes(attention, out, &job);
    return threads * job.each + out->tasks * job.keys_bytes;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Work is divided into blocks of queries and blocks of keys. dq is summed over the blocks of keys in order, dk and dv
 * over the blocks of queries in order. Blocks consist of complete tiles and panels, so every sum has the order of the
 * pass on one thread, and results are bit-identical. There are two schedules:
 *
 * In rounds: block (i, j) runs after (i, j - 1) and (i - 1, j), in round i + j. Blocks of a round are independent. With
 * B blocks of queries, causal, B (B + 1) / 2 blocks of each head run in 2 B - 1 rounds.
 *
 * Separate: one task computes dq of a block of queries, another dk and dv of a block of keys. All tasks are
 * independent, but weights and their gradients are computed twice: seven matrix products instead of five. This is
 * faster if rounds have too few blocks for the threads, for example with a short window. */

enum { BLOCK = 2 * BO_SOFTMAX_TILE }; /* positions per block */

typedef struct blocks {
    const bo_call *call;
    char *scratch;
    size_t each;
    size_t rows, columns; /* blocks of queries and keys of the longest sequence */
    size_t first, round;  /* the first block of queries of the round, and the round */
    atomic_bool *too_large;
} blocks;

/* The blocks of one (sequence, key head). Positions as in bo_softmax_keys. Keys of the initial state, if any, are block
 * 0; the keys of the call follow. */
typedef struct grid {
    size_t old, queries, keys; /* numbers of tokens; keys: of the call */
    size_t kept;               /* 1 if there are keys of the initial state */
    size_t rows, columns;      /* blocks of queries, of keys */
} grid;

static grid grid_of(const bo_call *call, size_t sequence)
{
    grid g = {.old = old_tokens(call, sequence),
              .queries = call->sequences[sequence].queries,
              .keys = call->shape->no_keys ? 0 : call->sequences[sequence].keys};
    g.kept = g.old > 0;
    g.rows = g.queries ? (g.old % BLOCK + g.queries + BLOCK - 1) / BLOCK : 0;
    g.columns = g.kept + (g.keys ? (g.old % BLOCK + g.keys + BLOCK - 1) / BLOCK : 0);
    return g;
}

/* True if some query of the block may see some key of the block. */
static bool block_visible(const bo_call *call, const grid *g, size_t row, size_t column)
{
    size_t window = call->attention->desc.window;
    if (column >= g->columns) return false;
    if (!call->attention->desc.causal || !g->keys) return true;
    stretch q = stretch_of(g->old, row, BLOCK, g->queries), k = {0, 0};
    if (column >= g->kept) k = stretch_of(g->old, column - g->kept, BLOCK, g->keys);
    return k.first < q.end && (!window || k.end + window > q.first);
}

/* Adds the gradients between one tile and a block of keys. keys: also the gradients of the keys. */
static void add_column(bo_exact *work, const grid *g, size_t column, bool keys)
{
    const bo_call *call = work->call;
    const bo_attention *attention = call->attention;
    size_t dim = attention->desc.dim, values = attention->desc.value_dim, key_heads = attention->desc.key_heads;
    bo_rows dk = {NULL, 0}, dv = {NULL, 0};
    if (column < g->kept) {
        float *const *initial = keys ? call->gradients->initial : NULL;
        if (initial) dk.at = bo_kv_cache_gradient(attention, initial[work->sequence], work->key_head);
        if (initial) dv.at = dk.at + dim, dk.stride = dv.stride = dim + values;
        bo_softmax_add_gradient(&work->tile, &work->gradient, &work->keys.kept,
                                bo_kv_cache_first(g->old, attention->cached_keys), g->old, dk, dv);
        return;
    }
    stretch k = stretch_of(g->old, column - g->kept, BLOCK, g->keys);
    if (keys) {
        dk = bo_rows_at(call, call->gradients->k, key_heads, dim, true, work->sequence, work->key_head);
        dv = bo_rows_at(call, call->gradients->v, key_heads, values, true, work->sequence, work->key_head);
    }
    bo_softmax_add_gradient(&work->tile, &work->gradient, &work->keys.fresh, g->old + k.first, g->old + k.end,
                            bo_rows_from(dk, k.first), bo_rows_from(dv, k.first));
}

static bo_exact block_make(const bo_attention *attention, bo_carver *carver)
{
    bo_exact work = {.tile = bo_softmax_carve(attention, carver)};
    work.gradient = bo_softmax_carve_gradient(attention, carver);
    work.keys.fresh = bo_softmax_carve_cache(attention, BLOCK, carver);
    return work;
}

/* Requested gradients: dq, or dk and dv, or all. */
typedef enum side { OF_ALL, OF_QUERIES, OF_KEYS } side;

static bool stopped(const bo_call *call)
{
    return atomic_load(call->not_finite) || atomic_load(&call->watch->stopped);
}

static void run_block(const blocks *job, size_t pair, size_t row, size_t column, side requested, int worker)
{
    const bo_call *call = job->call;
    const bo_attention_desc *desc = &call->attention->desc;
    size_t sequence = pair / desc->key_heads, key_head = pair % desc->key_heads, group = call->attention->group;
    grid g = grid_of(call, sequence);
    if (row >= g.rows || !block_visible(call, &g, row, column) || stopped(call)) return;
    bo_carver carver = {job->scratch + (size_t)worker * job->each, 0};
    bo_exact work = block_make(call->attention, &carver);
    bo_exact_open(call, sequence, key_head, &work);
    if (column >= g.kept) {
        stretch k = stretch_of(g.old, column - g.kept, BLOCK, g.keys);
        work.keys.loaded = k.first;
        bo_exact_note(call, bo_softmax_load(&work.keys, k.end));
    }
    bool last = requested != OF_KEYS && !block_visible(call, &g, row, column + 1);
    stretch q = stretch_of(g.old, row, BLOCK, g.queries);
    if (last && bo_pass_stops(call->watch, q.end - q.first)) return;
    for (size_t first = q.first, end; first < q.end; first = end) {
        end = bo_softmax_tile_end(g.old, first, q.end);
        for (size_t head = key_head * group; head < (key_head + 1) * group; head++) {
            bo_exact_begin_tile(&work, head, first, end, NULL);
            if (requested == OF_KEYS) work.gradient.dq.at = NULL;
            add_column(&work, &g, column, requested != OF_QUERIES);
            if (last) bo_exact_scale(call->kernels, work.gradient.dq, end - first, desc->dim, desc->scale);
        }
    }
}

static void round_task(void *arg, size_t index, int worker)
{
    const blocks *job = arg;
    size_t row = job->first + index / job->call->plan.tasks;
    run_block(job, index % job->call->plan.tasks, row, job->round - row, OF_ALL, worker);
}

/* The longest tasks come first: the first keys, the last queries. */
static void separate_task(void *arg, size_t index, int worker)
{
    const blocks *job = arg;
    size_t tasks = job->call->plan.tasks, pair = index % tasks, at = index / tasks;
    if (at < job->columns)
        for (size_t row = 0; row < job->rows; row++) run_block(job, pair, row, at, OF_KEYS, worker);
    else
        for (size_t column = 0; column < job->columns; column++)
            run_block(job, pair, job->rows - 1 - (at - job->columns), column, OF_QUERIES, worker);
}

/* With a window, returns the number of earlier blocks of keys that a block of queries sees. */
static size_t reach(const bo_call *call)
{
    size_t window = call->attention->desc.window;
    return window ? window / BLOCK + 2 : SIZE_MAX / 4;
}

static bool is_causal(const bo_call *call)
{
    return call->attention->desc.causal && !call->shape->no_keys;
}

/* True if rounds have so few blocks that 7 / 5 of the work is faster. */
static bool faster_separate(const blocks *job, size_t threads)
{
    const bo_call *call = job->call;
    double rows = (double)job->rows, columns = (double)job->columns, visible = columns;
    if (is_causal(call)) visible = bo_min(reach(call), job->rows) < job->rows ? (double)reach(call) : (rows + 1) / 2;
    return 7 * (double)call->plan.tasks * rows * visible < 5 * (double)threads * (rows + columns - 1);
}

static void run_rounds(bo_context *context, blocks *job)
{
    const bo_call *call = job->call;
    for (job->round = 0; job->round < job->rows + job->columns - 1 && !stopped(call); job->round++) {
        size_t last = bo_min(job->round, job->rows - 1);
        job->first = job->round < job->columns ? 0 : job->round + 1 - job->columns;
        if (is_causal(call)) { /* the column is at most row + 1, because of the initial state, and within reach */
            job->first = bo_max(job->first, job->round / 2);
            last = bo_min(last, (job->round + bo_min(reach(call), job->rows)) / 2 + 1);
        }
        if (job->first <= last) bo_parallel(context, call->plan.tasks * (last + 1 - job->first), round_task, job);
    }
}

/* Clears the accumulated gradients. */
static void zero_task(void *arg, size_t index, int worker)
{
    const blocks *job = arg;
    const bo_call *call = job->call;
    const bo_attention_desc *desc = &call->attention->desc;
    size_t sequence = index / desc->key_heads, key_head = index % desc->key_heads, group = call->attention->group;
    (void)worker;
    bo_softmax_keys keys = bo_softmax_keys_of(call, sequence, key_head, (bo_kv_cache){.ring = 0});
    bo_softmax_begin_gradients(&keys);
    for (size_t head = key_head * group; head < (key_head + 1) * group; head++)
        bo_exact_zero(bo_rows_at(call, call->gradients->q, desc->heads, desc->dim, false, sequence, head),
                      call->sequences[sequence].queries, desc->dim);
}

static void check_task(void *arg, size_t index, int worker)
{
    const blocks *job = arg;
    size_t key_heads = job->call->attention->desc.key_heads;
    (void)worker;
    if (!bo_gradients_finite(job->call, index / key_heads, index % key_heads)) atomic_store(job->too_large, true);
}

bo_status bo_exact_waves_backward(bo_context *context, bo_call *call, float *parameters, atomic_bool *too_large)
{
    size_t tasks = call->plan.tasks, threads = (size_t)bo_context_threads(context);
    (void)parameters; /* not used: there are no parameters */
    blocks job = {.call = call, .too_large = too_large};
    bo_carver carver = {NULL, 0};
    block_make(call->attention, &carver);
    job.each = carver.bytes;
    for (size_t s = 0; s < call->shape->sequences; s++) {
        grid g = grid_of(call, s);
        job.rows = bo_max(job.rows, g.rows);
        job.columns = bo_max(job.columns, g.columns);
    }
    job.scratch = bo_work_alloc(context, call->work, threads, job.each, "attention's backward pass");
    if (!job.scratch) return BO_MEMORY;
    bo_parallel(context, tasks, zero_task, &job);
    if (call->dout && job.rows && job.columns) {
        if (faster_separate(&job, threads))
            bo_parallel(context, tasks * (job.rows + job.columns), separate_task, &job);
        else
            run_rounds(context, &job);
    }
    bo_work_free(call->work, job.scratch);
    if (!stopped(call)) bo_parallel(context, tasks, check_task, &job);
    return BO_OK;
}

size_t bo_exact_waves_backward_bytes(const bo_attention *attention, const bo_attention_cost *out, size_t threads)
{
    bo_carver carver = {NULL, 0};
    (void)out;
    block_make(attention, &carver);
    return threads * carver.bytes;
}
