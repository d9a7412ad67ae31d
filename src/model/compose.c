/* Texts written by a model: documents are sampled in lanes and written to a file in the order of their numbers. */
#include "../text/facts.h"
#include <string.h>
#include "../base/rng.h"
#include "../base/trace.h"
#include "../io/output.h"
#include "../text/documents.h"
#include "../text/tokenizer.h"
#include "internal.h"
#include "lanes.h"

enum { LANES = 32 };

/* A document that has not been written to the file yet. */
typedef struct draft {
    bo_ids ids;     /* the tokens of the text */
    uint64_t count; /* chosen tokens, including the end token */
    bo_sampler *sampler;
    int32_t next; /* the last chosen token */
    bool done, cut;
} draft;

/* Invariants: drafts[i] is document number written + i. The first `active` lanes write the documents `numbers`, all of
 * which are drafts. */
typedef struct composing {
    bo_context *context;
    const bo_model *model;
    const bo_tokenizer *tokenizer;
    bo_compose_desc desc; /* with defaults filled in */
    size_t vocab;         /* exclusive upper bound of the ids with a text */
    bo_ids begin;         /* the prompt of every document */
    bo_ids specials;      /* special tokens */
    bo_lanes *lanes;
    size_t active;
    uint64_t *numbers; /* by lane, as the following */
    int32_t *ids;      /* the tokens to read */
    size_t *from;
    float *logits; /* lanes x vocabulary of the model */
    draft *drafts;
    size_t draft_count, draft_capacity;
    uint64_t written; /* number of the first draft */
    bo_output *output;
    bo_composition report;
} composing;

static bo_status append_id(bo_context *context, bo_ids *ids, int32_t id)
{
    if (ids->count == ids->capacity) {
        const size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        int32_t *larger = bo_realloc(context, ids->items, capacity, sizeof *larger, "tokens of a document");
        if (!larger) return BO_MEMORY;
        ids->items = larger, ids->capacity = capacity;
    }
    ids->items[ids->count++] = id;
    return BO_OK;
}

/* ---- prompt ------------------------------------------------------------------------------------------------------ */

/* The prompt is the template of the tokenizer, or a token that starts or ends a text, or a newline. */
static bo_status find_begin(composing *c)
{
    const bo_model_info *info = bo_model_report(c->model);
    const int32_t begin = info->begin_token;
    for (size_t i = 0; i < c->tokenizer->frame_before; i++)
        BO_TRY(append_id(c->context, &c->begin, c->tokenizer->frame[i]));
    if (c->begin.count) return BO_OK;
    if (begin >= 0 && (size_t)begin < c->vocab) return append_id(c->context, &c->begin, begin);
    if (info->end_count && (size_t)info->end_tokens[0] < c->vocab)
        return append_id(c->context, &c->begin, info->end_tokens[0]);
    const bo_status status = bo_tokenizer_encode(c->context, c->tokenizer, "\n", 1, false, &c->begin);
    if (status != BO_OK && status != BO_FORMAT) return status;
    return c->begin.count ? BO_OK
                          : bo_fail(c->context, BO_INVALID,
                                    "compose: the tokenizer has no token to start a text with: no start token, no end "
                                    "token and no newline");
}

static bo_status find_specials(composing *c)
{
    for (size_t id = 0; id < c->vocab; id++)
        if (bo_tokenizer_is_special(c->tokenizer, (int32_t)id))
            BO_TRY(append_id(c->context, &c->specials, (int32_t)id));
    return BO_OK;
}

static bool ends_document(const composing *c, int32_t id)
{
    const bo_model_info *info = bo_model_report(c->model);
    for (size_t i = 0; i < info->end_count; i++)
        if (info->end_tokens[i] == id) return true;
    return bo_tokenizer_is_special(c->tokenizer, id);
}

/* ---- texts in the file ------------------------------------------------------------------------------------------- */

/* Returns the length of the text before the first occurrence of `word`. */
static size_t length_before(const char *text, size_t length, const char *word, size_t word_length)
{
    const char *found = word_length ? memmem(text, length, word, word_length) : NULL;
    return found ? (size_t)(found - text) : length;
}

/* A truncated document may end within a character: with incomplete bytes, or with replacement characters if the decoder
 * has no bytes. */
static size_t whole_characters(const char *text, size_t length)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t from = length > 4 ? length - 4 : 0;
    while (from < length && ((unsigned char)text[from] & 0xc0) == 0x80) from++;
    while (from < length) {
        const size_t bytes = bo_utf8_length(text + from, length - from);
        if (!bytes) return from;
        from += bytes;
    }
    while (length >= 3 && memcmp(text + length - 3, replacement, 3) == 0) length -= 3;
    return length;
}

/* Writes the text and the separator, which must occur there for the first time. */
static bo_status write_text(composing *c, const draft *d, char **text, size_t length)
{
    const char *separator = c->desc.separator;
    const size_t separator_length = strlen(separator);
    if (d->cut && !bo_tokenizer_is_raw(c->tokenizer)) length = whole_characters(*text, length);
    for (size_t i = 0; i < c->specials.count; i++) {
        size_t bytes;
        const char *word = bo_tokenizer_piece(c->tokenizer, c->specials.items[i], &bytes);
        length = length_before(*text, length, word, bytes);
    }
    char *all = bo_realloc(c->context, *text, length + separator_length, 1, "the text of a document");
    if (!all) return BO_MEMORY;
    *text = all;
    memcpy(all + length, separator, separator_length);
    length = length_before(all, length + separator_length, separator, separator_length);
    if (!length) {
        c->report.empty++;
        return BO_OK;
    }
    c->report.documents++;
    c->report.cut += d->cut;
    c->report.bytes += length + separator_length;
    return bo_output_write(c->context, c->output, all, length + separator_length);
}

static bo_status write_draft(composing *c, const draft *d)
{
    char *text;
    size_t length;
    BO_TRY(bo_tokenizer_decode(c->context, c->tokenizer, d->ids.items, d->ids.count, &text, &length));
    const bo_status status = write_text(c, d, &text, length);
    bo_free(text);
    c->report.tokens += d->count;
    return status;
}

static void free_draft(draft *d)
{
    bo_ids_free(&d->ids);
    bo_sampler_destroy(d->sampler);
}

/* Writes the documents that are complete, up to the first one that is not. */
static bo_status write_drafts(composing *c)
{
    size_t count = 0;
    bo_status status = BO_OK;
    while (status == BO_OK && count < c->draft_count && c->drafts[count].done && c->report.tokens < c->desc.tokens) {
        status = write_draft(c, &c->drafts[count]);
        free_draft(&c->drafts[count++]);
    }
    c->draft_count -= count;
    c->written += count;
    if (count) memmove(c->drafts, c->drafts + count, c->draft_count * sizeof *c->drafts);
    return status;
}

/* ---- documents in lanes ------------------------------------------------------------------------------------------ */

/* Returns the number of drafts that may be needed to reach the requested number of tokens, if every unfinished document
 * gets at least `length` tokens. With length 0 there is no such assumption, so the documents in the file do not depend
 * on the number of lanes. */
static size_t needed_drafts(const composing *c, uint64_t length)
{
    uint64_t tokens = c->report.tokens;
    size_t needed = 0;
    for (; needed < c->draft_count && tokens < c->desc.tokens; needed++) {
        const draft *d = &c->drafts[needed];
        tokens += d->done || d->count > length ? d->count : length;
    }
    return tokens < c->desc.tokens ? needed + 1 : needed;
}

/* Returns the mean length of the documents in the file, or the maximum length before the first one. */
static uint64_t default_length(const composing *c)
{
    const uint64_t count = c->written - c->desc.first;
    return count ? c->report.tokens / count : c->desc.longest - c->begin.count;
}

static draft *draft_of(const composing *c, size_t lane)
{
    return &c->drafts[c->numbers[lane] - c->written];
}

static bo_status add_draft(composing *c)
{
    if (c->draft_count == c->draft_capacity) {
        const size_t capacity = c->draft_capacity ? 2 * c->draft_capacity : 64;
        draft *larger = bo_realloc(c->context, c->drafts, capacity, sizeof *larger, "documents");
        if (!larger) return BO_MEMORY;
        c->drafts = larger, c->draft_capacity = capacity;
    }
    const uint64_t number = c->written + c->draft_count;
    bo_rng rng = bo_rng_make(c->desc.sampler.seed, bo_rng_stream("composed document", number));
    bo_sampler_desc sampler = c->desc.sampler;
    sampler.seed = bo_rng_bits(&rng);
    draft *d = &c->drafts[c->draft_count];
    *d = (draft){0};
    BO_TRY(bo_sampler_create(c->context, &sampler, &d->sampler));
    c->draft_count++;
    return BO_OK;
}

/* Starts documents in inactive lanes while the default length predicts that another document is needed. More documents
 * would keep all lanes busy until the end, but most of them would be discarded. */
static bo_status fill_lanes(composing *c)
{
    const uint64_t length = default_length(c);
    while (c->active < c->desc.lanes && needed_drafts(c, length) > c->draft_count) {
        BO_TRY(add_draft(c));
        BO_TRY(bo_lanes_restart(c->context, c->lanes, c->active));
        c->numbers[c->active++] = c->written + c->draft_count - 1;
    }
    return BO_OK;
}

/* Keeps the lanes with an unfinished document that may be needed. */
static bo_status close_lanes(composing *c)
{
    const size_t needed = needed_drafts(c, 0);
    size_t count = 0;
    for (size_t i = 0; i < c->active; i++)
        if (!draft_of(c, i)->done && c->numbers[i] - c->written < needed) c->from[count++] = i;
    if (count == c->active) return BO_OK;
    for (size_t i = 0; i < count; i++) c->numbers[i] = c->numbers[c->from[i]];
    c->active = count;
    return bo_lanes_choose(c->context, c->lanes, count, c->from);
}

/* True if the lane has read the prompt, so that its logits are for the next token of the document. */
static bool has_started(const composing *c, size_t lane)
{
    return bo_lanes_tokens(c->lanes, lane) >= c->begin.count;
}

static void sample(void *arg, size_t lane, int worker)
{
    const composing *c = arg;
    draft *d = draft_of(c, lane);
    (void)worker;
    if (has_started(c, lane)) d->next = bo_sampler_next(d->sampler, c->logits + lane * c->model->desc.vocab, c->vocab);
}

static bo_status add_token(composing *c, draft *d)
{
    d->count++;
    d->done = ends_document(c, d->next);
    if (d->done) return BO_OK;
    BO_TRY(append_id(c->context, &d->ids, d->next));
    d->done = d->cut = c->begin.count + d->ids.count >= c->desc.longest;
    return BO_OK;
}

static bo_status step(composing *c)
{
    for (size_t i = 0; i < c->active; i++)
        c->ids[i] = has_started(c, i) ? draft_of(c, i)->next : c->begin.items[bo_lanes_tokens(c->lanes, i)];
    BO_TRY(bo_lanes_step(c->context, c->lanes, c->active, c->ids, c->logits));
    bo_span_begin(c->context, "sample");
    bo_parallel(c->context, c->active, sample, c);
    bo_span_end(c->context);
    for (size_t i = 0; i < c->active; i++)
        if (has_started(c, i)) BO_TRY(add_token(c, draft_of(c, i)));
    return BO_OK;
}

static bo_status report_progress(const composing *c)
{
    uint64_t done = c->report.tokens;
    for (size_t i = 0; i < c->draft_count; i++) done += c->drafts[i].count;
    if (done > c->desc.tokens) done = c->desc.tokens;
    return bo_progress(c->context, "writing", (double)done, (double)c->desc.tokens);
}

static bo_status write_all(composing *c)
{
    while (c->report.tokens < c->desc.tokens) {
        BO_TRY(report_progress(c));
        BO_TRY(fill_lanes(c));
        BO_TRY(step(c));
        BO_TRY(close_lanes(c));
        BO_TRY(write_drafts(c));
    }
    if (!c->report.documents)
        return bo_fail(c->context, BO_INVALID, "compose: all %llu documents that the model wrote are empty",
                       (unsigned long long)c->report.empty);
    return report_progress(c);
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_model *model, const bo_compose_desc *desc, const char *path)
{
#define REFUSE(...) return bo_fail(context, BO_INVALID, "compose: " __VA_ARGS__)
    BO_TRY(bo_model_require_language(context, model, "compose"));
    BO_TRY(bo_check_reserved(context, "bo_compose_desc", desc->reserved));
    if (!model->tokenizer) REFUSE("the model has no tokenizer, which is needed to write text");
    if (!desc->tokens) REFUSE("tokens must be at least 1, found 0");
    if (desc->lanes > BO_MAX_LANES) REFUSE("lanes must be at most %d, found %zu", BO_MAX_LANES, desc->lanes);
    if (desc->separator && !*desc->separator) REFUSE("the separator is empty");
    if (bo_is_json_lines(path)) REFUSE("%s has the name of a file of JSON lines; the file is text", path);
    return BO_OK;
#undef REFUSE
}

static bo_status resolve(composing *c, const bo_compose_desc *desc)
{
    const bo_model_desc *d = &c->model->desc;
    const size_t max_tokens = bo_model_max_tokens(d);
    size_t bytes;
    c->desc = *desc;
    if (!desc->longest) c->desc.longest = d->context;
    if (!desc->lanes) c->desc.lanes = LANES;
    if (!desc->separator) c->desc.separator = BO_COMPOSE_SEPARATOR;
    c->written = desc->first;
    c->vocab = bo_min(d->vocab, bo_tokenizer_vocab(c->tokenizer));
    BO_TRY(find_begin(c));
    BO_TRY(find_specials(c));
    if (c->desc.longest <= c->begin.count || c->desc.longest > INT32_MAX ||
        (max_tokens && c->desc.longest > max_tokens))
        return bo_fail(c->context, BO_INVALID, "compose: longest must be %zu to %zu, found %zu", c->begin.count + 1,
                       max_tokens ? max_tokens : INT32_MAX, c->desc.longest);
    BO_TRY(bo_session_estimate(c->context, c->model, &(bo_session_desc){.capacity = c->desc.longest}, &bytes, NULL));
    return bo_check_memory(c->context, "the states of the lanes", (double)bytes * (double)c->desc.lanes,
                           bo_device_memory(bo_weights_device(c->model->weights)),
                           "choose fewer lanes or shorter documents");
}

static bo_status prepare(composing *c, const bo_compose_desc *desc)
{
    BO_TRY(resolve(c, desc));
    const size_t lanes = c->desc.lanes;
    c->numbers = bo_alloc(c->context, lanes, sizeof *c->numbers, "lanes");
    c->ids = bo_alloc(c->context, lanes, sizeof *c->ids, "lanes");
    c->from = bo_alloc(c->context, lanes, sizeof *c->from, "lanes");
    c->logits = bo_alloc_raw(c->context, lanes, c->model->desc.vocab * sizeof *c->logits, "logits of lanes");
    if (!c->numbers || !c->ids || !c->from || !c->logits) return BO_MEMORY;
    return bo_lanes_create(c->context, c->model, &(bo_lanes_desc){.count = lanes, .capacity = c->desc.longest},
                           &c->lanes);
}

static bo_status compose(composing *c, const bo_compose_desc *desc)
{
    BO_TRY(prepare(c, desc));
    return write_all(c);
}

static void release(composing *c)
{
    for (size_t i = 0; i < c->draft_count; i++) free_draft(&c->drafts[i]);
    bo_lanes_destroy(c->lanes);
    bo_ids_free(&c->begin);
    bo_ids_free(&c->specials);
    void *const blocks[] = {c->numbers, c->ids, c->from, c->logits, c->drafts};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

bo_status bo_model_compose(bo_context *context, const bo_model *model, const bo_compose_desc *desc, const char *path,
                           bo_composition *out)
{
    if (out) *out = (bo_composition){0};
    BO_REQUIRE(context, model, desc, path);
    BO_SPAN(context, "model", "write texts");
    BO_TRY(check(context, model, desc, path));
    const double start = bo_seconds();
    composing c = {.context = context, .model = model, .tokenizer = model->tokenizer};
    BO_TRY(bo_output_open(context, path, &c.output)); /* before the work, so that a wrong path is found early */
    const bo_status status = bo_output_finish(context, c.output, compose(&c, desc));
    release(&c);
    if (status != BO_OK || !out) return status;
    *out = c.report;
    out->next = c.written;
    out->seconds = bo_seconds() - start;
    out->tokens_per_second = out->seconds > 0 ? (double)out->tokens / out->seconds : 0;
    return BO_OK;
}
