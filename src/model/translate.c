/* Translation: search for the best target of a source, and conversion of the result to text. */
#include "../text/facts.h"
#include "../text/packs.h"
#include "lanes.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "enums.h"
#include "../base/trace.h"
#include "../device/cpu/kernels.h"
#include "../text/tokenizer.h"
#include "translate.h"

/* ====================================================================================================================
 * Beam search. The hypotheses of all sources step together. Those of one source are in consecutive lanes, best
 * first. */

typedef struct candidate {
    double log_p; /* of the whole text including the token */
    int32_t token;
    size_t lane; /* lane that it continues */
} candidate;

/* The origin of a hypothesis: a token, after the token of lane `parent` in the step before. */
typedef struct link {
    int32_t token;
    uint32_t parent;
} link;

/* The best hypothesis that has ended: `token` after the tokens of lane `lane` of its last step. */
typedef struct ending {
    double score, log_p; /* score -INFINITY: none yet */
    size_t length;       /* number of tokens including the end */
    size_t lane;
    int32_t token; /* the end token, or another one if the text was truncated */
} ending;

typedef struct hypothesis {
    double log_p;
    size_t source;
} hypothesis;

/* Invariants: lanes 0 … active - 1 are active and described by `alive`; links[t * lanes + i] is the origin of lane i in
 * step t; width[s] hypotheses of source s have not ended. */
typedef struct searching {
    bo_lanes *lanes;
    const bo_search *search;
    size_t count, vocab, max_tokens; /* sources; token ids; maximum tokens over all sources */
    size_t active, next_active, step;
    hypothesis *alive, *next;
    size_t *from;
    int32_t *ids;
    float *logits;
    candidate *candidates; /* `kept` per lane, best first; unused ones have -INFINITY */
    size_t kept;
    size_t *heads; /* per lane: number of candidates used */
    link *links;
    size_t *width;
    ending *endings;
    const bo_kernels *kernels;
} searching;

double bo_search_score(const bo_search *search, double log_p, size_t length)
{
    return log_p / pow((5 + (double)length) / 6, search->penalty);
}

/* ---- candidates of a lane ---------------------------------------------------------------------------------------- */

/* Finds the most likely tokens, best first; the smaller id first if they are equal. */
static void find_likeliest(const float *logits, size_t vocab, size_t kept, candidate *out)
{
    for (size_t i = 0; i < kept; i++) out[i] = (candidate){.log_p = -INFINITY};
    for (size_t v = 0; v < vocab; v++) {
        double logit = (double)logits[v];
        if (!(logit > out[kept - 1].log_p)) continue;
        size_t at = kept - 1;
        for (; at && logit > out[at - 1].log_p; at--) out[at] = out[at - 1];
        out[at] = (candidate){.log_p = logit, .token = (int32_t)v};
    }
}

static void weigh_lane(void *arg, size_t lane, int worker)
{
    searching *s = arg;
    float *logits = s->logits + lane * s->vocab;
    candidate *out = s->candidates + lane * s->kept;
    (void)worker;
    find_likeliest(logits, s->vocab, s->kept, out);
    double max_log_p = out[0].log_p;
    double all = max_log_p + log((double)s->kernels->exp_sum(s->vocab, logits, (float)-max_log_p, logits));
    for (size_t i = 0; i < s->kept; i++) {
        out[i].lane = lane;
        out[i].log_p += s->alive[lane].log_p - all;
    }
    s->heads[lane] = 0;
}

/* ---- hypotheses of a source -------------------------------------------------------------------------------------- */

/* Returns the best unused candidate of these lanes. NULL: none. */
static const candidate *take_best(searching *s, size_t first, size_t end)
{
    const candidate *best = NULL;
    for (size_t lane = first; lane < end; lane++) {
        const candidate *head = s->candidates + lane * s->kept + s->heads[lane];
        if (s->heads[lane] == s->kept || !(head->log_p > -INFINITY)) continue;
        if (!best || head->log_p > best->log_p) best = head;
    }
    if (best) s->heads[best->lane]++;
    return best;
}

static void end_with(searching *s, size_t source, const candidate *c)
{
    ending *best = &s->endings[source];
    size_t length = s->step + 1;
    double score = bo_search_score(s->search, c->log_p, length);
    s->width[source]--;
    if (score > best->score) *best = (ending){score, c->log_p, length, c->lane, c->token};
}

static void go_on_with(searching *s, size_t source, const candidate *c)
{
    size_t lane = s->next_active++;
    s->next[lane] = (hypothesis){.log_p = c->log_p, .source = source};
    s->from[lane] = c->lane;
    s->ids[lane] = c->token;
    s->links[s->step * s->lanes->desc.count + lane] = (link){.token = c->token, .parent = (uint32_t)c->lane};
}

/* True if no active hypothesis can become better than the best ending: log p only decreases, and the penalty is at most
 * the penalty of the longest text. */
static bool is_decided(const searching *s, size_t source, double log_p)
{
    return s->endings[source].score >= bo_search_score(s->search, log_p, s->search->max_tokens[source]);
}

/* Makes the hypotheses of a source for the next step, from those in lanes first … end - 1. */
static void extend_source(searching *s, size_t first, size_t end)
{
    size_t source = s->alive[first].source, begin = s->next_active;
    bool last = s->step + 1 >= s->search->max_tokens[source];
    const candidate *c;
    for (size_t left = s->width[source]; left && (c = take_best(s, first, end)); left--)
        if (last || c->token == s->search->end)
            end_with(s, source, c);
        else
            go_on_with(s, source, c);
    if (s->next_active > begin && is_decided(s, source, s->next[begin].log_p)) s->next_active = begin;
}

/* ---- all sources ------------------------------------------------------------------------------------------------- */

/* True if active hypotheses are grouped by source, with at most width[s] for source s. */
static bool alive_hold(const searching *s)
{
    size_t of_source = 0;
    if (s->active > s->lanes->desc.count) return false;
    for (size_t i = 0; i < s->active; i++) {
        if (s->alive[i].source >= s->count || (i && s->alive[i].source < s->alive[i - 1].source)) return false;
        of_source = i && s->alive[i].source == s->alive[i - 1].source ? of_source + 1 : 1;
        if (of_source > s->width[s->alive[i].source]) return false;
    }
    return true;
}

static void extend_all(searching *s)
{
    s->next_active = 0;
    for (size_t first = 0, end; first < s->active; first = end) {
        for (end = first; end < s->active && s->alive[end].source == s->alive[first].source;) end++;
        extend_source(s, first, end);
    }
    hypothesis *old = s->alive;
    s->alive = s->next;
    s->next = old;
    s->active = s->next_active;
    assert(alive_hold(s));
}

static bo_status begin(bo_context *context, searching *s, const bo_text_view *sources)
{
    size_t lanes = s->lanes->desc.count / s->count; /* lanes per source */
    BO_TRY(bo_lanes_read(context, s->lanes, sources, s->count));
    for (size_t i = 0; i < s->count; i++) {
        s->from[i] = i * lanes;
        s->ids[i] = s->search->end;
        s->alive[i] = (hypothesis){.source = i};
        s->width[i] = s->search->beam;
        s->endings[i] = (ending){.score = -INFINITY};
    }
    s->active = s->count;
    assert(alive_hold(s));
    return BO_OK;
}

static bo_status search_all(bo_context *context, searching *s, const bo_text_view *sources)
{
    BO_TRY(begin(context, s, sources));
    for (s->step = 0; s->active; s->step++) {
        BO_TRY(bo_progress(context, "searching", (double)s->step, (double)s->max_tokens));
        BO_TRY(bo_lanes_choose(context, s->lanes, s->active, s->from));
        BO_TRY(bo_lanes_step(context, s->lanes, s->active, s->ids, s->logits));
        bo_parallel(context, s->active, weigh_lane, s);
        extend_all(s);
    }
    for (size_t i = 0; i < s->count; i++)
        if (!(s->endings[i].score > -INFINITY))
            return bo_fail(context, BO_NUMERIC, "beam search: the logits of source %zu are NaN or infinite", i);
    return BO_OK;
}

/* Follows the links from the last token to the first. */
static bo_status trace_tokens(bo_context *context, const searching *s, const ending *best, bo_ids *out)
{
    size_t count = best->length - (best->token == s->search->end), lane = best->lane;
    if (count == 0) return BO_OK; /* the list may have no items */
    BO_TRY(bo_ids_reserve(context, out, count));
    int32_t *ids = out->items + out->count;
    if (count == best->length) ids[count - 1] = best->token;
    for (size_t step = best->length - 1; step--;) {
        const link *at = &s->links[step * s->lanes->desc.count + lane];
        ids[step] = at->token;
        lane = at->parent;
    }
    out->count += count;
    return BO_OK;
}

static bo_status allocate_search(bo_context *context, searching *s)
{
    size_t lanes = s->lanes->desc.count;
    s->alive = bo_alloc(context, lanes, sizeof *s->alive, "hypotheses");
    s->next = bo_alloc(context, lanes, sizeof *s->next, "hypotheses");
    s->from = bo_alloc(context, lanes, sizeof *s->from, "hypotheses");
    s->ids = bo_alloc(context, lanes, sizeof *s->ids, "hypotheses");
    s->heads = bo_alloc(context, lanes, sizeof *s->heads, "hypotheses");
    s->logits = bo_alloc_raw(context, lanes, s->vocab * sizeof *s->logits, "logits of hypotheses");
    s->candidates = bo_alloc(context, lanes, s->kept * sizeof *s->candidates, "candidates of hypotheses");
    s->links = bo_alloc_raw(context, lanes, s->max_tokens * sizeof *s->links, "tokens of hypotheses");
    s->width = bo_alloc(context, s->count, sizeof *s->width, "sources");
    s->endings = bo_alloc(context, s->count, sizeof *s->endings, "sources");
    bool all = s->alive && s->next && s->from && s->ids && s->heads && s->logits && s->candidates && s->links;
    return all && s->width && s->endings ? BO_OK : BO_MEMORY;
}

static void release_search(searching *s)
{
    void *const blocks[] = {s->alive,  s->next,       s->from,  s->ids,   s->heads,
                            s->logits, s->candidates, s->links, s->width, s->endings};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

bo_status bo_lanes_search(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count,
                          const bo_search *search, bo_ids *ids, double *scores)
{
    searching s = {.lanes = lanes,
                   .search = search,
                   .count = count,
                   .vocab = lanes->model->desc.vocab,
                   .kernels = bo_context_kernels(context)};
    s.kept = search->beam < s.vocab ? search->beam : s.vocab;
    for (size_t i = 0; i < count; i++)
        s.max_tokens = search->max_tokens[i] > s.max_tokens ? search->max_tokens[i] : s.max_tokens;
    bo_status status = allocate_search(context, &s);
    if (status == BO_OK) status = search_all(context, &s, sources);
    for (size_t i = 0; status == BO_OK && i < count; i++) {
        status = trace_tokens(context, &s, &s.endings[i], &ids[i]);
        if (scores) scores[i] = s.endings[i].log_p;
    }
    release_search(&s);
    return status;
}

/* ====================================================================================================================
 * Translation of texts. Sources of similar length are batched, so that they end at about the same time. */

/* MAX_BEAM: the work of a step grows with the square of the beam, and cancellation is checked between steps. */
enum { TOGETHER = 64, MORE = 50, MAX_BEAM = 1024 };

/* ---- options ----------------------------------------------------------------------------------------------------- */

bo_status bo_translate_resolve(bo_context *context, const bo_model *model, const bo_translate_desc *desc,
                               bo_translate_desc *out)
{
    if (model->desc.task != BO_MODEL_TASK_TRANSLATE)
        return bo_fail(context, BO_INVALID, "translate: expected a model with the task translate, found %s",
                       bo_model_task_name(model->desc.task));
    if (!model->tokenizer) return bo_fail(context, BO_INVALID, "translate: the model has no tokenizer");
    *out = desc ? *desc : (bo_translate_desc){0};
    BO_TRY(bo_check_reserved(context, "bo_translate_desc", out->reserved));
    if (!out->beam) out->beam = 1;
    if (!(out->penalty <= 100))
        return bo_fail(context, BO_INVALID, "translate: penalty should be at most 100, found %g", out->penalty);
    if (out->beam > MAX_BEAM)
        return bo_fail(context, BO_INVALID, "translate: a beam has at most %d hypotheses, found %zu", MAX_BEAM,
                       out->beam);
    out->penalty = out->beam == 1 || out->penalty < 0 ? 0 : out->penalty == 0 ? 1 : out->penalty;
    if (!out->together) out->together = out->beam < TOGETHER ? TOGETHER / out->beam : 1;
    if (out->together > BO_MAX_LANES / out->beam) out->together = BO_MAX_LANES / out->beam;
    return BO_OK;
}

int32_t bo_translate_end(const bo_model *model)
{
    bo_texts_desc texts = {0};
    bo_model_preset_texts(model, true, &texts);
    return (int32_t)texts.end - 1;
}

bo_status bo_translate_check(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                             size_t side)
{
    const bo_text_view text = bo_text_at(texts, example, side);
    const size_t vocab = model->desc.vocab, limit = model->desc.context + 1;
    const char *path;
    const size_t line = bo_texts_line(texts, example, &path);
    if (!text.count || text.ids[text.count - 1] != bo_translate_end(model))
        return bo_fail(
            context, BO_INVALID,
            "%s, line %zu: the text does not end with the end token of the model (see bo_model_preset_texts)", path,
            line);
    if (text.count > limit)
        return bo_fail(context, BO_INVALID, "%s, line %zu: expected at most %zu tokens, the model's context, found %zu",
                       path, line, limit - 1, text.count - 1);
    for (size_t i = 0; i < text.count; i++)
        if (text.ids[i] < 0 || (size_t)text.ids[i] >= vocab)
            return bo_fail(context, BO_INVALID, "%s, line %zu: expected ids below %zu, found %ld", path, line, vocab,
                           (long)text.ids[i]);
    return BO_OK;
}

/* Returns the maximum number of tokens of the translation of a source. */
static size_t max_tokens(const bo_model *model, const bo_translate_desc *desc, size_t source)
{
    size_t requested = desc->max_tokens ? desc->max_tokens : 2 * source + MORE, context = model->desc.context;
    return requested < context ? requested : context;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

typedef struct entry {
    size_t example; /* index relative to the first requested example */
    bo_text_view source;
} entry;

/* Batches of examples in order of length; equal lengths keep their order. */
typedef struct batch {
    const bo_model *model;
    const bo_translate_desc *desc;
    bo_search search;
    bo_lanes *lanes;
    entry *entries;
    bo_text_view *sources; /* `together` entries each: */
    size_t *max_tokens;
    bo_ids *ids;
    double *scores;
} batch;

static int longer_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->source.count != y->source.count) return x->source.count > y->source.count ? -1 : 1;
    return x->example < y->example ? -1 : x->example > y->example;
}

static bo_status allocate_batch(bo_context *context, size_t count, batch *b)
{
    size_t together = b->desc->together;
    b->entries = bo_alloc(context, count, sizeof *b->entries, "sources");
    b->sources = bo_alloc(context, together, sizeof *b->sources, "sources");
    b->max_tokens = bo_alloc(context, together, sizeof *b->max_tokens, "sources");
    b->ids = bo_alloc(context, together, sizeof *b->ids, "translations");
    b->scores = bo_alloc(context, together, sizeof *b->scores, "translations");
    return b->entries && b->sources && b->max_tokens && b->ids && b->scores ? BO_OK : BO_MEMORY;
}

static void release_batch(batch *b)
{
    for (size_t i = 0; b->ids && i < b->desc->together; i++) bo_ids_free(&b->ids[i]);
    void *const blocks[] = {b->entries, b->sources, b->max_tokens, b->ids, b->scores};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_lanes_destroy(b->lanes);
}

/* Creates lanes for the longest source and the longest translation. */
static bo_status make_lanes(bo_context *context, batch *b, size_t count)
{
    size_t together = count < b->desc->together ? count : b->desc->together, longest = 0;
    for (size_t i = 0; i < count; i++) {
        size_t found = max_tokens(b->model, b->desc, b->entries[i].source.count);
        longest = found > longest ? found : longest;
    }
    bo_lanes_desc lanes = {
        .count = together * b->desc->beam, .capacity = longest, .source = b->entries[0].source.count};
    return bo_lanes_create(context, b->model, &lanes, &b->lanes);
}

static bo_status translate_some(bo_context *context, batch *b, const entry *entries, size_t count, bo_ids *ids,
                                double *scores)
{
    for (size_t i = 0; i < count; i++) {
        b->sources[i] = entries[i].source;
        b->max_tokens[i] = max_tokens(b->model, b->desc, entries[i].source.count);
    }
    BO_TRY(bo_lanes_search(context, b->lanes, b->sources, count, &b->search, b->ids, b->scores));
    for (size_t i = 0; i < count; i++) {
        ids[entries[i].example] = b->ids[i];
        b->ids[i] = (bo_ids){0};
        if (scores) scores[entries[i].example] = b->scores[i];
    }
    return BO_OK;
}

static bo_status translate_all(bo_context *context, batch *b, const bo_texts *texts, size_t first, size_t count,
                               bo_ids *ids, double *scores)
{
    for (size_t i = 0; i < count; i++) {
        BO_TRY(bo_translate_check(context, b->model, texts, first + i, 0));
        b->entries[i] = (entry){i, bo_text_at(texts, first + i, 0)};
    }
    qsort(b->entries, count, sizeof *b->entries, longer_first);
    BO_TRY(make_lanes(context, b, count));
    for (size_t done = 0, some; done < count; done += some) {
        some = count - done < b->desc->together ? count - done : b->desc->together;
        BO_TRY(bo_progress(context, "translating", (double)done, (double)count));
        BO_TRY(translate_some(context, b, b->entries + done, some, ids, scores));
    }
    return BO_OK;
}

bo_status bo_model_translate(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                             size_t count, const bo_translate_desc *desc, bo_ids *ids, double *scores)
{
    BO_REQUIRE(context, model, texts);
    BO_REQUIRE_IF(context, count > 0, ids);
    BO_SPAN(context, "model", "translate texts");
    bo_translate_desc resolved;
    BO_TRY(bo_translate_resolve(context, model, desc, &resolved));
    if (first > bo_texts_count(texts) || count > bo_texts_count(texts) - first)
        return bo_fail(context, BO_INVALID, "translate: texts %zu to %zu are out of range: there are %zu", first,
                       first + count, bo_texts_count(texts));
    if (!count) return BO_OK;
    batch b = {.model = model, .desc = &resolved};
    bo_status status = allocate_batch(context, count, &b);
    b.search = (bo_search){
        .beam = resolved.beam, .penalty = resolved.penalty, .end = bo_translate_end(model), .max_tokens = b.max_tokens};
    if (status == BO_OK) status = translate_all(context, &b, texts, first, count, ids, scores);
    for (size_t i = 0; status != BO_OK && i < count; i++) bo_ids_free(&ids[i]);
    release_batch(&b);
    return status;
}
