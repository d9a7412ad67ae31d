/* Slots: starting jobs, reading prompts in chunks, batched decoding, ending. */
#include "slots.h"
#include "../model/lanes.h"
#include "../device/cpu/kernels.h"
#include <bochner/devices.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Prompts are read in chunks of at most CHUNK tokens, the largest block that lanes read in one call. Scored prompts use
 * smaller chunks, because they keep logits. Between two steps, chunks are read until they have BUDGET tokens in total.
 * The division of a prompt does not depend on other jobs, so its logits always have the same bits. A state is cached if
 * it saves at least MIN_SAVED tokens. */
enum { CHUNK = BO_SIZE(256, 8), SCORED_CHUNK = BO_SIZE(64, 4), BUDGET = 256, MIN_SAVED = BO_SIZE(32, 2) };

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Keys are stored in panels of PANEL tokens, and memory is allocated in pages. */
enum { PANEL = 64, PAGE = 4096 };

/* Computes the bytes of a state with capacity for this number of tokens. */
static bo_status state_bytes(bo_context *context, const bo_model *model, size_t tokens, size_t *out)
{
    return bo_session_estimate(context, model, &(bo_session_desc){.capacity = tokens}, out, NULL);
}

static bo_status measure_states(bo_context *context, const bo_model *model, bo_slots_memory *out)
{
    enum { MORE_TOKENS = 1024, FEWER_TOKENS = 512 };
    const bo_model_desc *d = bo_model_describe(model);
    size_t more, fewer;
    BO_TRY(state_bytes(context, model, MORE_TOKENS, &more));
    BO_TRY(state_bytes(context, model, FEWER_TOKENS, &fewer));
    out->per_token = (more - fewer) / (MORE_TOKENS - FEWER_TOKENS);
    out->fixed = fewer - FEWER_TOKENS * out->per_token;
    size_t heads = 0;
    for (size_t i = 0; i < d->layers; i++) heads += bo_model_block(d, i)->key_heads;
    if (out->per_token) out->pages = 2 * heads * PAGE; /* of keys, and of values */
    return BO_OK;
}

/* Returns the maximum bytes of a job that ends with this number of tokens. */
static size_t bytes_for(const bo_slots_memory *m, uint64_t tokens)
{
    const size_t capped = tokens < m->tokens ? (size_t)tokens : m->tokens;
    return m->fixed + m->pages + (capped + PANEL - 1) / PANEL * PANEL * m->per_token;
}

static size_t subtract(size_t bytes, size_t taken)
{
    return bytes == SIZE_MAX ? bytes : bytes > taken ? bytes - taken : 0;
}

/* Returns the memory for sequences besides `other_bytes` and the workspace: at most three quarters of the limit, and an
 * eighth stays free for requests. */
static size_t budget_of(bo_memory_bound limit, size_t other_bytes, size_t workspace)
{
    const size_t quarter = limit.bytes / 4, free = limit.bytes / 8 + workspace;
    return limit.bytes == SIZE_MAX ? SIZE_MAX
                                   : subtract(subtract(limit.bytes, quarter > free ? quarter : free), other_bytes);
}

/* Returns the number of tokens that fit, for the advice in an error message. */
static size_t tokens_that_fit(const bo_slots_memory *m, size_t bytes)
{
    return m->per_token ? subtract(bytes, m->fixed + m->pages) / m->per_token / PANEL * PANEL : 0;
}

static bo_status refuse_context(bo_context *context, const bo_slots_memory *m, size_t available, const char *source,
                                const bo_scheduler_desc *desc)
{
    char advice[160];
    const size_t fits = tokens_that_fit(m, available);
    if (fits)
        snprintf(advice, sizeof advice, "set --context to at most %zu, or --cache-bytes (now %zu) to less", fits,
                 desc->memory_bytes);
    else
        snprintf(
            advice, sizeof advice,
            "set --cache-bytes (now %zu) to less, store the weights in fewer bytes with --weights, or raise the limit",
            desc->memory_bytes);
    char what[96];
    snprintf(what, sizeof what,
             m->per_token ? "a text of %zu tokens, beside the weights, the workspace and the cache,"
                          : "a text, beside the weights, the workspace and the cache,",
             m->tokens);
    return bo_check_memory(context, what, (double)m->largest, (bo_memory_bound){available, source}, advice);
}

/* Address space for the stacks of the server's threads, in addition to the threads of the context. */
enum { STACKS_BYTES = 6 * (8 << 20) };

/* Memory limits: physical memory, and reservable memory (the address space, or the memory of a device). */
typedef struct bounds {
    const bo_scheduler_desc *desc;
    bo_memory_bound taken, reserved;
    bool device;
    size_t space; /* of `reserved`, for all slots */
} bounds;

/* Computes the memory of slots in addition to the states: graphs of steps and prompts, and logits. */
static bo_status measure_workspace(bo_context *context, const bounds *b, bo_slots_memory *m)
{
    const bo_model *model = b->desc->model;
    const size_t vocab = bo_model_describe(model)->vocab, capacity = b->desc->capacity;
    size_t steps, prompts, scored;
    const bo_lanes_desc lanes = {.count = m->slots, .capacity = capacity};
    BO_TRY(bo_lanes_workspace(context, model, &lanes, 0, BO_LANES_LAST, &steps));
    BO_TRY(bo_lanes_workspace(context, model, &lanes, CHUNK, BO_LANES_LAST, &prompts));
    BO_TRY(bo_lanes_workspace(context, model, &lanes, SCORED_CHUNK, BO_LANES_ALL, &scored));
    const size_t logits = b->device ? 0 : (2 * m->slots + SCORED_CHUNK) * vocab * sizeof(float);
    m->workspace = steps + prompts + scored + logits;
    return BO_OK;
}

/* Computes the memory for the sequences of m->slots slots. */
static bo_status measure_budget(bo_context *context, bounds *b, bo_slots_memory *m)
{
    const size_t cache = b->desc->memory_bytes, weights = bo_model_report(b->desc->model)->bytes;
    BO_TRY(measure_workspace(context, b, m));
    if (b->device) { /* the weights are already allocated */
        m->budget = subtract(b->reserved.bytes, m->workspace);
        b->space = budget_of(b->reserved, 0, m->workspace);
        return BO_OK;
    }
    m->budget = budget_of(b->taken, cache + weights, m->workspace);
    b->space = budget_of(b->reserved, cache, m->workspace + (size_t)STACKS_BYTES);
    return BO_OK;
}

static bool fits_one(const bounds *b, const bo_slots_memory *m)
{
    return m->largest <= m->budget && m->largest <= b->space;
}

static bool fits_all(const bounds *b, const bo_slots_memory *m)
{
    return fits_one(b, m) && m->slots <= b->space / m->largest;
}

/* Reduces m->slots until all slots fit, but not below one. */
static bo_status reduce_slots(bo_context *context, bounds *b, bo_slots_memory *m)
{
    while (!fits_all(b, m) && m->slots > 1) {
        const size_t max_slots = b->space / m->largest;
        m->slots = fits_one(b, m) && max_slots < m->slots ? max_slots : m->slots / 2;
        BO_TRY(measure_budget(context, b, m));
    }
    return BO_OK;
}

/* Reports that the states of the slots do not fit. */
static bo_status refuse_slots(bo_context *context, const bounds *b, const bo_slots_memory *requested, size_t max_slots)
{
    char what[96], advice[96];
    snprintf(what, sizeof what, "--slots %zu, of %.3g MB each,", requested->slots, (double)requested->largest / 1e6);
    snprintf(advice, sizeof advice, "set --slots to at most %zu, or --context to less", max_slots);
    return bo_check_memory(context, what, (double)requested->slots * (double)requested->largest,
                           (bo_memory_bound){b->space, b->reserved.source}, advice);
}

/* Reports that the workspace of the slots leaves too little memory for one sequence. */
static bo_status refuse_workspace(bo_context *context, const bounds *b, const bo_slots_memory *requested,
                                  size_t max_slots)
{
    char what[128], advice[64];
    const bool taken = requested->largest > requested->budget;
    const size_t other_bytes =
        b->desc->memory_bytes + (taken ? bo_model_report(b->desc->model)->bytes : (size_t)STACKS_BYTES);
    bo_memory_bound limit = taken ? b->taken : b->reserved;
    if (!b->device) limit.bytes = subtract(limit.bytes - limit.bytes / 8, other_bytes);
    snprintf(what, sizeof what, "--slots %zu, a workspace beside the weights and the cache with one text,",
             requested->slots);
    snprintf(advice, sizeof advice, "set --slots to at most %zu", max_slots);
    return bo_check_memory(context, what, (double)requested->workspace + (double)requested->largest, limit, advice);
}

bo_status bo_slots_plan(bo_context *context, bo_scheduler_desc *desc, bo_slots_memory *m)
{
    const bo_model_desc *d = bo_model_describe(desc->model);
    bounds b = {desc, bo_process_physical_memory(), bo_process_address_space(),
                strcmp(bo_context_describe(context)->device, "cpu") != 0, 0};
    if (b.device) {
        bo_context_memory(context, &b.reserved);
        b.taken = b.reserved;
    }
    *m = (bo_slots_memory){.slots = desc->slots ? desc->slots : BO_SLOTS_DEFAULT, .source = b.taken.source};
    BO_TRY(measure_states(context, desc->model, m));
    if (m->per_token) {
        const uint64_t max_tokens = bo_lanes_max_tokens(desc->model, desc->capacity ? desc->capacity : d->context);
        m->tokens = (size_t)bo_min(max_tokens, (uint64_t)INT32_MAX);
    }
    m->largest = bytes_for(m, m->tokens);
    BO_TRY(measure_budget(context, &b, m));
    const bo_slots_memory requested = *m;
    BO_TRY(reduce_slots(context, &b, m));
    if (m->largest > m->budget) return refuse_context(context, m, m->budget, m->source, desc);
    if (m->largest > b.space) return refuse_context(context, m, b.space, b.reserved.source, desc);
    if (desc->slots && m->slots < desc->slots) {
        const size_t max_slots = m->slots;
        *m = requested;
        BO_TRY(measure_budget(context, &b, m));
        return fits_one(&b, m) ? refuse_slots(context, &b, m, max_slots) : refuse_workspace(context, &b, m, max_slots);
    }
    desc->slots = m->slots;
    return BO_OK;
}

static size_t bytes_of(const bo_slots *s, const bo_job *job)
{
    const uint64_t before = job->start ? job->start->tokens : 0;
    return bytes_for(&s->memory, before + job->prompt_count + job->max_tokens);
}

bool bo_slots_fits(const bo_slots *s, const bo_job *job)
{
    size_t used = 0;
    for (size_t i = 0; i < s->used; i++) used += s->items[i].bytes;
    return s->used == 0 || used + bytes_of(s, job) <= s->memory.budget;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

bo_status bo_slots_create(bo_context *context, const bo_scheduler_desc *desc, const bo_slots_memory *memory,
                          bo_slots *s)
{
    const bo_model_desc *d = bo_model_describe(desc->model);
    const size_t count = desc->slots;
    const size_t row = d->vocab * SCORED_CHUNK > d->width * CHUNK ? d->vocab * SCORED_CHUNK : d->width * CHUNK;
    *s = (bo_slots){.desc = desc, .memory = *memory, .vocab = d->vocab, .width = d->width};
    BO_TRY(
        bo_lanes_create(context, desc->model, &(bo_lanes_desc){.count = count, .capacity = desc->capacity}, &s->lanes));
    BO_TRY(bo_lanes_hash(context, s->lanes));
    const uint64_t max_tokens = bo_lanes_max_tokens(desc->model, s->lanes->desc.capacity);
    s->max_tokens = max_tokens < INT32_MAX ? (size_t)max_tokens : INT32_MAX;
    s->items = bo_alloc(context, count, sizeof *s->items, "slots");
    s->ids = bo_alloc(context, count, sizeof *s->ids, "slots");
    s->from = bo_alloc(context, count, sizeof *s->from, "slots");
    s->tokens = bo_alloc(context, count, sizeof *s->tokens, "slots");
    s->logits = bo_alloc_sparse(context, count, d->vocab * sizeof *s->logits, "logits of slots");
    s->scratch = bo_alloc_sparse(context, count, d->vocab * sizeof *s->scratch, "logits of slots");
    s->finite = bo_alloc(context, count, sizeof *s->finite, "slots");
    s->kernels = bo_context_kernels(context);
    s->rows = bo_alloc(context, row, sizeof *s->rows, "logits of a prompt");
    s->prompt_hashes = bo_alloc(context, BO_PROMPT_HASHES, sizeof *s->prompt_hashes, "hashes of prompts");
    const bool whole = s->items && s->ids && s->from && s->tokens && s->logits && s->scratch && s->finite && s->rows &&
                       s->prompt_hashes;
    return whole ? BO_OK : BO_MEMORY;
}

void bo_slots_destroy(bo_slots *s)
{
    assert(s->used == 0);
    bo_lanes_destroy(s->lanes);
    void *const blocks[] = {s->items,   s->ids,    s->from, s->tokens,       s->logits,
                            s->scratch, s->finite, s->rows, s->prompt_hashes};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* Creates a snapshot of a slot with pending tokens. BO_NUMERIC: the state contains NaN or infinity. */
static bo_status snapshot_of(bo_context *context, bo_slots *s, size_t slot, const int32_t *pending, size_t count,
                             bo_snapshot **out)
{
    bo_snapshot from = {.prefix = s->items[slot].prefix,
                        .owner = s->items[slot].job->client.owner,
                        .tokens = bo_lanes_tokens(s->lanes, slot)};
    *out = NULL;
    from.pending_count = count;
    for (size_t i = 0; i < count; i++) from.pending[i] = pending[i];
    if (from.tokens) BO_TRY(bo_lanes_save_memory(context, s->lanes, slot, &from.bytes, &from.size));
    return bo_snapshot_create(context, &from, out);
}

static void cache_state(bo_context *context, bo_slots *s, size_t slot)
{
    if (!s->desc->memory_bytes) return;
    bo_snapshot *snapshot;
    if (snapshot_of(context, s, slot, NULL, 0, &snapshot) == BO_OK) bo_store_cache(context, s->store, snapshot);
    bo_snapshot_release(snapshot);
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

void bo_job_finish(bo_context *context, bo_counters *counters, bo_job *job, bo_job_end end)
{
    job->end = end;
    if (end == BO_JOB_CANCELED) atomic_fetch_add(&counters->canceled, 1);
    if (end == BO_JOB_FAILED) atomic_fetch_add(&counters->failed, 1);
    bo_histogram_add(&counters->request, bo_seconds() - job->submitted);
    job->done(context, job);
}

/* True if the state at the end of a job saves enough tokens when the text is continued. A state that the client keeps
 * is not stored twice. */
static bool should_cache(const bo_slot *slot)
{
    return !slot->job->embed && !slot->job->state && slot->read + slot->job->generated >= slot->saved + MIN_SAVED;
}

/* Empties a slot and frees the memory of its lane. `arrange` closes the gap. */
static void remove_slot(bo_slots *s, size_t slot)
{
    bo_free(s->items[slot].occurrences.items);
    s->items[slot] = (bo_slot){0};
    bo_lanes_release(s->lanes, slot);
}

/* Reports that a job computed NaN or infinity. */
static void report_nonfinite(bo_context *context, bo_job *job)
{
    if (job->start)
        bo_fail(context, BO_NUMERIC,
                "state: the model cannot continue from it, because the result is not finite (NaN or infinity); create "
                "the state again from the text");
    else
        bo_fail(context, BO_NUMERIC, "the result of the model is not finite (NaN or infinity) after this text");
    snprintf(job->message, sizeof job->message, "%s", bo_context_error(context));
}

static void create_state(bo_context *context, bo_slots *s, size_t slot, int32_t last)
{
    bo_job *job = s->items[slot].job;
    job->overflowed = snapshot_of(context, s, slot, &last, last >= 0, &job->state) == BO_NUMERIC;
    if (job->overflowed) report_nonfinite(context, job);
}

/* Ends the job of a slot. `last`: the last token of the text, which has not been read; -1: none. */
static void end_job(bo_context *context, bo_slots *s, size_t slot, bo_job_end end, int32_t last)
{
    bo_job *job = s->items[slot].job;
    if (job->keep_state && (end == BO_JOB_STOP || end == BO_JOB_LENGTH)) create_state(context, s, slot, last);
    if (end != BO_JOB_FAILED && end != BO_JOB_BAD_STATE && should_cache(&s->items[slot])) cache_state(context, s, slot);
    remove_slot(s, slot);
    bo_job_finish(context, s->desc->counters, job, end);
}

static void fail_job(bo_context *context, bo_slots *s, size_t slot, bo_job_end end)
{
    snprintf(s->items[slot].job->message, sizeof s->items[slot].job->message, "%s", bo_context_error(context));
    end_job(context, s, slot, end, -1);
}

/* Ends a job that computed NaN or infinity. Its state is not kept. */
static void fail_nonfinite(bo_context *context, bo_slots *s, size_t slot)
{
    bo_job *job = s->items[slot].job;
    report_nonfinite(context, job);
    end_job(context, s, slot, job->start ? BO_JOB_BAD_STATE : BO_JOB_FAILED, -1);
}

/* Closes the gaps of removed slots. Decoding slots come first. */
static void arrange(bo_context *context, bo_slots *s)
{
    size_t count = 0, decoding = 0;
    bool changed = false;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < s->used; i++)
            if (s->items[i].job && s->items[i].decoding == (pass == 0)) {
                decoding += s->items[i].decoding;
                s->from[count++] = i;
            }
    for (size_t i = 0; i < count; i++) changed = changed || s->from[i] != i;
    if (changed) {
        /* A copy is simpler than moving the few items along the cycles of the permutation. */
        bo_slot *moved = bo_alloc(context, count, sizeof *moved, "slots");
        if (!moved || bo_lanes_choose(context, s->lanes, count, s->from) != BO_OK) {
            bo_free(moved);
            for (size_t i = 0; i < s->used; i++)
                if (s->items[i].job) fail_job(context, s, i, BO_JOB_FAILED);
            s->used = s->decoding = 0;
            return;
        }
        for (size_t i = 0; i < count; i++) moved[i] = s->items[s->from[i]];
        memcpy(s->items, moved, count * sizeof *moved);
        bo_free(moved);
    }
    s->used = count;
    s->decoding = decoding;
    if (s->turn >= s->used) s->turn = s->decoding;
}

void bo_slots_end_all(bo_context *context, bo_slots *s, bo_job_end end)
{
    for (size_t i = 0; i < s->used; i++)
        if (s->items[i].job) end_job(context, s, i, end, -1);
    s->used = s->decoding = 0;
}

void bo_slots_check(bo_context *context, bo_slots *s, double now)
{
    for (size_t i = 0; i < s->used; i++) {
        const bo_job *job = s->items[i].job;
        if (atomic_load(&job->canceled))
            end_job(context, s, i, BO_JOB_CANCELED, -1);
        else if (now > job->deadline)
            end_job(context, s, i, BO_JOB_TIMEOUT, -1);
    }
    arrange(context, s);
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* Returns the length of the prefix that an earlier prompt shared, if its state is not cached. Records the prompt. */
static size_t find_branch(bo_slots *s, const bo_job *job, size_t cached)
{
    size_t branch = 0;
    for (size_t i = job->prompt_count; i-- > 1;) {
        const uint64_t hash = job->chain[i].words[0];
        uint64_t *hash_slot = &s->prompt_hashes[hash % BO_PROMPT_HASHES];
        if (!branch && *hash_slot == hash) branch = i;
        *hash_slot = hash;
    }
    return branch >= cached + MIN_SAVED ? branch : 0;
}

static bo_status load_snapshot(bo_context *context, bo_slots *s, size_t slot, const bo_snapshot *from)
{
    return from && from->tokens ? bo_lanes_load_memory(context, s->lanes, slot, from->bytes, from->size) : BO_OK;
}

/* Loads the longest cached prefix of the prompt, or the initial state of the job, and allocates the memory of the lane.
 */
static bo_status load_state(bo_context *context, bo_slots *s, size_t slot)
{
    bo_job *job = s->items[slot].job;
    size_t cached = 0;
    bo_snapshot *found = NULL;
    bo_lanes_release(s->lanes, slot); /* arrange() leaves undefined values in unused lanes */
    if (!job->score_prompt && !job->embed && job->prompt_count > 1)
        found = bo_store_find(context, s->store, job->chain + 1, job->prompt_count - 1, &cached);
    /* If a cached state is damaged, the prompt is read instead. */
    const bool loaded = found && load_snapshot(context, s, slot, found) == BO_OK;
    bo_snapshot_release(found);
    if (loaded)
        s->items[slot].read = job->cached = cached + 1;
    else
        BO_TRY(load_snapshot(context, s, slot, job->start));
    return bo_lanes_reserve(context, s->lanes, slot);
}

static bool fits_context(const bo_slots *s, const bo_job *job)
{
    const uint64_t before = job->start ? job->start->tokens : 0;
    return before + job->prompt_count <= s->max_tokens;
}

void bo_slots_start(bo_context *context, bo_slots *s, bo_job *job)
{
    bo_counters *counters = s->desc->counters;
    bo_status status = BO_OK;
    const size_t slot = s->used++;
    s->items[slot] = (bo_slot){.job = job, .bytes = bytes_of(s, job)};
    job->started = bo_seconds();
    if (!fits_context(s, job)) {
        bo_fail(context, BO_INVALID, "the text is longer than the maximum of %zu tokens", s->max_tokens);
        fail_job(context, s, slot, BO_JOB_BAD_STATE);
    } else if ((status = load_state(context, s, slot)) != BO_OK) {
        fail_job(context, s, slot, status == BO_MEMORY ? BO_JOB_FAILED : BO_JOB_BAD_STATE);
    } else {
        bo_slot *item = &s->items[slot];
        item->saved = item->read;
        item->prefix = job->chain[item->read];
        if (!job->embed && !job->score_prompt) item->branch = find_branch(s, job, item->read);
        atomic_fetch_add(&counters->prompt_tokens, job->prompt_count);
        atomic_fetch_add(&counters->cached_tokens, job->cached);
        return;
    }
    s->used--;
}

/* True if the client keeps the state at the end of the prompt, so that it need not be cached. */
static bool keeps_prompt(const bo_job *job)
{
    return job->keep_state && job->max_tokens == 0;
}

bool bo_slots_is_reading_prefix(const bo_slots *s, const bo_job *job)
{
    if (job->embed || job->score_prompt || job->prompt_count <= MIN_SAVED || !s->desc->memory_bytes) return false;
    const bo_prefix end = job->chain[job->prompt_count - 1];
    for (size_t i = s->decoding; i < s->used; i++) {
        const bo_job *other = s->items[i].job;
        const bool caches = !other->embed && !other->score_prompt && !keeps_prompt(other) &&
                            other->prompt_count - 1 >= s->items[i].saved + MIN_SAVED;
        if (caches && bo_prefix_equal(other->chain[other->prompt_count - 1], end)) return true;
    }
    return false;
}

/* ---- reading prompts --------------------------------------------------------------------------------------------- */

/* Reports the log probabilities of the tokens after those of the chunk. */
static void report_scores(bo_context *context, bo_slots *s, bo_job *job, size_t first, size_t count)
{
    for (size_t i = 0; i < count && first + i + 1 < job->prompt_count; i++) {
        bo_job_token token = {.id = job->prompt[first + i + 1], .of_prompt = true};
        bo_score_token(s->rows + i * s->vocab, s->vocab, job->top, &token);
        job->token(context, job, &token);
    }
}

static void add_hidden(const bo_slots *s, const bo_job *job, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < s->width; c++)
            job->embedding[c] += (double)s->rows[i * s->width + c] / (double)job->prompt_count;
}

static bo_status read_chunk(bo_context *context, bo_slots *s, size_t slot, size_t count)
{
    bo_slot *item = &s->items[slot];
    bo_job *job = item->job;
    const int32_t *ids = job->prompt + item->read;
    const size_t first = item->read;
    if (job->score_prompt)
        BO_TRY(bo_lanes_logits(context, s->lanes, slot, ids, count, s->rows));
    else if (job->embed)
        BO_TRY(bo_lanes_hidden(context, s->lanes, slot, ids, count, s->rows));
    else
        BO_TRY(bo_lanes_feed(context, s->lanes, slot, ids, count, NULL));
    const size_t floats = count * (job->score_prompt ? s->vocab : job->embed ? s->width : 0);
    if (!bo_context_kernels(context)->finite(floats, s->rows)) return BO_NUMERIC;
    item->read += count;
    item->prefix = job->chain[item->read];
    if (job->score_prompt) report_scores(context, s, job, first, count);
    if (job->embed) add_hidden(s, job, count);
    return BO_OK;
}

/* Returns the number of tokens to read before decoding: all but the last, which yields the first logits. */
static size_t prompt_end(const bo_job *job)
{
    return job->embed ? job->prompt_count : job->prompt_count - 1;
}

/* Called when the prompt has been read up to prompt_end(). */
static void begin_decoding(bo_context *context, bo_slots *s, size_t slot)
{
    bo_slot *item = &s->items[slot];
    bo_job *job = item->job;
    const int32_t last = job->prompt[job->prompt_count - 1];
    if (!job->embed && !keeps_prompt(job) && item->read >= item->saved + MIN_SAVED) {
        cache_state(context, s, slot);
        item->saved = item->read;
    }
    if (job->embed || job->max_tokens == 0) {
        end_job(context, s, slot, BO_JOB_LENGTH, job->embed ? -1 : last);
        return;
    }
    item->next = last;
    item->decoding = true;
}

/* Reads the next chunk of a prompt. Returns the number of tokens. */
static size_t read_next_chunk(bo_context *context, bo_slots *s, size_t slot)
{
    bo_slot *item = &s->items[slot];
    const size_t end = prompt_end(item->job), chunk = item->job->score_prompt ? SCORED_CHUNK : CHUNK;
    size_t count = bo_min(end - item->read, chunk);
    if (item->branch > item->read) count = bo_min(count, item->branch - item->read);
    const bo_status status = count ? read_chunk(context, s, slot, count) : BO_OK;
    if (status != BO_OK) {
        if (status == BO_NUMERIC)
            fail_nonfinite(context, s, slot);
        else
            fail_job(context, s, slot, BO_JOB_FAILED);
        return count;
    }
    if (item->branch && item->read == item->branch && item->read < end) {
        cache_state(context, s, slot);
        item->saved = item->read;
    }
    if (item->read == end) begin_decoding(context, s, slot);
    return count;
}

/* Round-robin over the slots, so that a long prompt does not delay a short one. */
static void read_prompts(bo_context *context, bo_slots *s)
{
    size_t tokens = 0, idle = 0;
    while (tokens < BUDGET && idle < s->used) {
        if (s->turn >= s->used) s->turn = 0;
        const size_t slot = s->turn++;
        if (!s->items[slot].job || s->items[slot].decoding) {
            idle++;
            continue;
        }
        idle = 0;
        tokens += read_next_chunk(context, s, slot);
    }
    arrange(context, s);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static void choose(void *arg, size_t slot, int worker)
{
    const bo_slots *s = arg;
    const bo_slot *item = &s->items[slot];
    (void)worker;
    s->finite[slot] = s->kernels->finite(s->vocab, s->logits + slot * s->vocab);
    if (!s->finite[slot]) return;
    bo_choose_token(item->job, &item->occurrences, s->logits + slot * s->vocab, s->scratch + slot * s->vocab, s->vocab,
                    &s->tokens[slot]);
}

static bool ends_text(const bo_slots *s, const bo_job *job, int32_t id)
{
    const bo_model_info *info = bo_model_report(s->desc->model);
    if (job->ignore_end) return false;
    for (size_t i = 0; i < info->end_count; i++)
        if (info->end_tokens[i] == id) return true;
    return id == job->end_token;
}

static void count_token(bo_counters *counters, bo_job *job, double now)
{
    atomic_fetch_add(&counters->generated_tokens, 1);
    bo_histogram_add(job->generated ? &counters->next_token : &counters->first_token,
                     now - (job->generated ? job->last_token : job->submitted));
    job->last_token = now;
}

/* Processes the token that was chosen for a slot. */
static void accept_token(bo_context *context, bo_slots *s, size_t slot, double now)
{
    bo_slot *item = &s->items[slot];
    bo_job *job = item->job;
    const bo_job_token *token = &s->tokens[slot];
    const int32_t id = token->id;
    if (item->read < job->prompt_count) item->read++; /* the step has read the last token of the prompt */
    item->prefix = bo_prefix_next(bo_store_secret(s->store), item->prefix, item->next);
    if (ends_text(s, job, id)) {
        end_job(context, s, slot, BO_JOB_STOP, job->keep_end ? id : -1);
        return;
    }
    const bool penalized = job->presence_penalty != 0 || job->frequency_penalty != 0;
    if (penalized && bo_occurrences_add(context, &item->occurrences, id) != BO_OK) {
        fail_job(context, s, slot, BO_JOB_FAILED);
        return;
    }
    count_token(s->desc->counters, job, now);
    job->generated++;
    if (!job->token(context, job, token))
        end_job(context, s, slot, BO_JOB_STOP, id);
    else if (job->generated >= job->max_tokens || bo_lanes_tokens(s->lanes, slot) >= s->max_tokens)
        end_job(context, s, slot, BO_JOB_LENGTH, id);
    else
        item->next = id;
}

/* After a failed step, the lanes have no states. */
static void fail_step(bo_context *context, bo_slots *s)
{
    char message[sizeof s->items->job->message];
    snprintf(message, sizeof message, "%s", bo_context_error(context));
    for (size_t i = 0; i < s->used; i++) {
        bo_job *job = s->items[i].job;
        snprintf(job->message, sizeof job->message, "%s", message);
        remove_slot(s, i);
        bo_job_finish(context, s->desc->counters, job, BO_JOB_FAILED);
    }
    s->used = s->decoding = 0;
    bo_lanes_reset(context, s->lanes);
}

static void decode(bo_context *context, bo_slots *s)
{
    const double start = bo_seconds();
    for (size_t i = 0; i < s->decoding; i++) s->ids[i] = s->items[i].next;
    const bo_status status = bo_lanes_step_isolated(context, s->lanes, s->decoding, s->ids, s->logits);
    if (status != BO_OK && s->lanes->broken) {
        fail_step(context, s);
        return;
    }
    if (status != BO_OK) { /* nothing has changed: with one job less, the remaining ones may continue */
        fail_job(context, s, s->decoding - 1, BO_JOB_FAILED);
        arrange(context, s);
        return;
    }
    bo_parallel(context, s->decoding, choose, s);
    const double now = bo_seconds();
    bo_histogram_add(&s->desc->counters->step, now - start);
    atomic_fetch_add(&s->desc->counters->steps, 1);
    for (size_t i = 0; i < s->decoding; i++) {
        if (s->finite[i])
            accept_token(context, s, i, now);
        else
            fail_nonfinite(context, s, i);
    }
    arrange(context, s);
}

void bo_slots_step(bo_context *context, bo_slots *s)
{
    if (s->used > s->decoding) read_prompts(context, s);
    if (s->decoding > 0) decode(context, s);
}
