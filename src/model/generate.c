/* Generation: a prompt is read, tokens are chosen one by one, and their text is passed on. */
#include <math.h>
#include <string.h>
#include "../base/trace.h"
#include "../text/chat_files.h"
#include "../text/text_stream.h"
#include "../text/unicode.h"
#include "internal.h"
#include "sampler.h"
#include "session.h"

enum { DEFAULT_TOKENS = 256, PIECE = 4096 };

typedef struct generation {
    bo_context *context;
    const bo_model *model;
    const bo_tokenizer *tokenizer; /* NULL: there is no text */
    const bo_generate_desc *desc;
    bo_token_fn callback;
    void *user;
    size_t max_tokens;     /* tokens to choose */
    bo_ids encoded;        /* the encoded prompt, unless the descriptor has ids */
    const int32_t *prompt; /* it, or the ids */
    size_t prompt_count;
    int32_t eos;                         /* the token of the chat template that ends a reply; -1: none */
    bo_session *owned_session, *session; /* owned_session: NULL if the caller's session is used */
    bo_sampler *owned_sampler, *sampler; /* likewise */
    float *logits;                       /* two rows: the second one is overwritten by the sampler */
    bo_text_stream stream;
    char *valid; /* UTF-8 of the text that is passed on */
    size_t valid_capacity;
} generation;

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bo_status check_text(bo_context *context, const bo_model *model, const bo_generate_desc *d)
{
    const bool text = d->prompt || d->messages || d->stop_count;
    if (text && !bo_model_tokenizer(model))
        return bo_fail(context, BO_INVALID, "generate: the model has no tokenizer; use ids, without stop texts");
    for (size_t i = 0; i < d->stop_count; i++)
        if (!d->stops || !d->stops[i] || !*d->stops[i])
            return bo_fail(context, BO_INVALID, "generate: stop text %zu is empty", i);
    return BO_OK;
}

static bo_status check(bo_context *context, const bo_model *model, const bo_generate_desc *d, bo_token_fn callback)
{
    BO_TRY(bo_model_require_language(context, model, "generate"));
    BO_TRY(bo_check_reserved(context, "bo_generate_desc", d->reserved));
    if ((d->prompt != NULL) + (d->messages != NULL) + (d->ids != NULL) > 1)
        return bo_fail(context, BO_INVALID, "generate: expected one of prompt, messages and ids, found several");
    if (d->prompt_bytes && !d->prompt)
        return bo_fail(context, BO_INVALID, "generate: prompt_bytes is set without a prompt");
    if (d->message_count && !d->messages) return bo_fail(context, BO_INVALID, "generate: messages is NULL");
    if (d->messages && !d->message_count) return bo_fail(context, BO_INVALID, "generate: there are no messages");
    if (d->id_count && !d->ids) return bo_fail(context, BO_INVALID, "generate: ids is NULL");
    if (d->end_count && !d->ends) return bo_fail(context, BO_INVALID, "generate: ends is NULL");
    if (d->session && d->session->lanes->model != model)
        return bo_fail(context, BO_INVALID, "generate: the session belongs to another model");
    if (!callback && !d->session)
        return bo_fail(context, BO_INVALID, "generate: callback is NULL, and no session keeps the text");
    return check_text(context, model, d);
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static const char *find_file(const void *model, const char *name)
{
    return bo_model_companion(model, name);
}

static bo_status encode_messages(generation *g)
{
    const bo_generate_desc *d = g->desc;
    const bo_chat_options options = {.add_generation_prompt = true, .variables = d->chat_variables};
    bo_chat_template *owned_template = NULL;
    if (!d->chat_template) BO_TRY(bo_chat_template_find(g->context, find_file, g->model, &owned_template));
    const bo_chat_template *chat = owned_template ? owned_template : d->chat_template;
    const bo_status status =
        bo_chat_encode(g->context, chat, g->tokenizer, d->messages, d->message_count, &options, &g->encoded);
    const char *eos = bo_chat_template_token(chat, "eos_token");
    if (eos) g->eos = bo_tokenizer_find(g->tokenizer, eos);
    bo_chat_template_destroy(owned_template);
    BO_TRY(status);
    if (g->encoded.count) return BO_OK;
    return bo_fail(g->context, BO_INVALID, "generate: the chat template renders this conversation as an empty text");
}

static bo_status read_prompt(generation *g)
{
    const bo_generate_desc *d = g->desc;
    const bool continues = d->session && bo_session_tokens(d->session) > 0;
    const size_t bytes = d->prompt_bytes ? d->prompt_bytes : d->prompt ? strlen(d->prompt) : 0;
    if (d->messages)
        BO_TRY(encode_messages(g));
    else if (g->tokenizer && !d->ids && (d->prompt || !continues))
        BO_TRY(bo_tokenizer_encode(g->context, g->tokenizer, d->prompt, bytes,
                                   continues ? BO_ENCODE_SPECIALS : BO_ENCODE_PROMPT, &g->encoded));
    g->prompt = d->ids ? d->ids : g->encoded.items;
    g->prompt_count = d->ids ? d->id_count : g->encoded.count;
    if (g->prompt_count || continues) return BO_OK;
    return bo_fail(g->context, BO_INVALID, "generate: there are no tokens to continue");
}

/* ---- the session ------------------------------------------------------------------------------------------------- */

/* Attention that keeps every key needs a capacity for all tokens. */
static bo_status open_session(generation *g)
{
    const bo_generate_desc *d = g->desc;
    size_t capacity = g->prompt_count > SIZE_MAX - g->max_tokens ? SIZE_MAX : g->prompt_count + g->max_tokens;
    if (d->context) capacity = bo_min(capacity, d->context);
    if (bo_model_max_tokens(&g->model->desc)) capacity = bo_min(capacity, bo_model_max_tokens(&g->model->desc));
    g->session = d->session;
    if (d->session) return BO_OK;
    BO_TRY(bo_session_create(g->context, g->model, &(bo_session_desc){.capacity = capacity}, &g->owned_session));
    g->session = g->owned_session;
    return BO_OK;
}

/* The number of tokens that can still be read. */
static uint64_t remaining_tokens(const generation *g)
{
    const uint64_t left = bo_session_remaining(g->session), tokens = bo_session_tokens(g->session);
    if (!g->desc->context) return left;
    return bo_min(left, g->desc->context > tokens ? g->desc->context - tokens : 0);
}

static bo_status feed_prompt(generation *g)
{
    BO_TRY(bo_lanes_check_fits(g->context, g->session->lanes, 0, g->prompt_count));
    if (g->prompt_count > remaining_tokens(g))
        return bo_fail(g->context, BO_INVALID,
                       "generate: the prompt has %zu tokens, but the session can read only %llu", g->prompt_count,
                       (unsigned long long)remaining_tokens(g));
    for (size_t at = 0; at < g->prompt_count; at += PIECE) {
        const size_t count = bo_min(g->prompt_count - at, (size_t)PIECE);
        BO_TRY(bo_progress(g->context, "reading", (double)at, (double)g->prompt_count));
        BO_TRY(bo_session_feed(g->context, g->session, g->prompt + at, count, NULL));
    }
    return BO_OK;
}

static bo_status open_sampler(generation *g)
{
    bo_sampler_desc desc = g->desc->sampling;
    g->sampler = g->desc->sampler;
    if (g->sampler) return BO_OK;
    desc.drawn = bo_session_tokens(g->session) + g->prompt_count;
    BO_TRY(bo_sampler_create(g->context, &desc, &g->owned_sampler));
    g->sampler = g->owned_sampler;
    for (size_t i = 0; i < g->prompt_count; i++) bo_sampler_remember(g->sampler, g->prompt[i]);
    return BO_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Replaces bytes that are not UTF-8. */
static bo_status validate(generation *g, const char *text, size_t length, bo_token *token)
{
    static const char replacement[] = "\xef\xbf\xbd";
    token->text = text;
    token->bytes = length;
    if (g->desc->keep_bytes || bo_utf8_valid(text, length) == length) return BO_OK;
    if (g->valid_capacity < 3 * length) {
        char *larger = bo_realloc(g->context, g->valid, 3 * length, 1, "generated text");
        if (!larger) return BO_MEMORY;
        g->valid = larger;
        g->valid_capacity = 3 * length;
    }
    char *to = g->valid;
    for (size_t i = 0, bytes; i < length; i += bytes ? bytes : 1) {
        bytes = bo_utf8_length(text + i, length - i);
        memcpy(to, bytes ? text + i : replacement, bytes ? bytes : 3);
        to += bytes ? bytes : 3;
    }
    token->text = g->valid;
    token->bytes = (size_t)(to - g->valid);
    return BO_OK;
}

/* Passes a token on. Returns BO_CANCELED if the callback returns false before the end. */
static bo_status pass_on(generation *g, bo_token *token)
{
    if (token->end != BO_GENERATE_CONTINUES) bo_text_stream_end(&g->stream);
    BO_TRY(validate(g, g->stream.text ? g->stream.text : "", g->stream.ready, token));
    const bool more = !g->callback || g->callback(g->user, token);
    bo_text_stream_drop(&g->stream);
    if (more || token->end != BO_GENERATE_CONTINUES) return BO_OK;
    return bo_fail(g->context, BO_CANCELED, "generate: canceled by the callback");
}

/* The last call of a text that was canceled. */
static void pass_rest(generation *g, const bo_token *last)
{
    bo_token token = *last;
    token.index += last->id >= 0;
    token.id = -1;
    token.end = BO_GENERATE_CANCELED;
    token.log_probability = NAN;
    if (g->callback) (void)pass_on(g, &token);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static bool is_end(const generation *g, int32_t id)
{
    const bo_model_info *info = bo_model_report(g->model);
    if (g->desc->ignore_end) return false;
    if (id == g->eos) return true;
    for (size_t i = 0; i < info->end_count; i++)
        if (info->end_tokens[i] == id) return true;
    for (size_t i = 0; i < g->desc->end_count; i++)
        if (g->desc->ends[i] == id) return true;
    return false;
}

static double log_probability(const float *logits, size_t vocab, int32_t id)
{
    double largest = -INFINITY, total = 0;
    for (size_t i = 0; i < vocab; i++) largest = fmax(largest, (double)logits[i]);
    for (size_t i = 0; i < vocab; i++) total += exp((double)logits[i] - largest);
    return (double)logits[id] - largest - log(total);
}

static void choose(generation *g, bo_token *token)
{
    const size_t vocab = g->model->desc.vocab;
    float *chosen = g->logits + vocab;
    bo_span_begin(g->context, "sample");
    memcpy(chosen, g->logits, vocab * sizeof *chosen);
    token->id = bo_sampler_next(g->sampler, chosen, vocab);
    token->drawn = bo_sampler_drawn(g->sampler);
    token->log_probability = g->desc->log_probabilities ? log_probability(g->logits, vocab, token->id) : NAN;
    bo_span_end(g->context);
}

/* Adds the text of a token, and finds out whether the text ends with it and whether the session reads it. */
static bo_status accept_token(generation *g, bo_token *token, bool *reads)
{
    bool stopped = false;
    size_t bytes = 0;
    *reads = false;
    token->end = BO_GENERATE_END_TOKEN;
    if (is_end(g, token->id)) return BO_OK;
    const char *piece = g->tokenizer ? bo_tokenizer_piece(g->tokenizer, token->id, &bytes) : "";
    BO_TRY(bo_text_stream_add(g->context, &g->stream, piece, bytes, &stopped));
    token->end = stopped                             ? BO_GENERATE_STOP_TEXT
                 : token->index + 1 == g->max_tokens ? BO_GENERATE_LENGTH
                                                     : BO_GENERATE_CONTINUES;
    *reads = token->end == BO_GENERATE_CONTINUES || (g->desc->session && !g->desc->leave_last);
    if (!*reads || remaining_tokens(g) > 0) return BO_OK;
    *reads = false;
    if (token->end == BO_GENERATE_CONTINUES) token->end = BO_GENERATE_CAPACITY;
    return BO_OK;
}

static bo_status write_tokens(generation *g, bo_token *token)
{
    for (bool reads; token->end == BO_GENERATE_CONTINUES; token->index++) {
        choose(g, token);
        BO_TRY(accept_token(g, token, &reads));
        const bo_status status = pass_on(g, token);
        /* the session reads a token also if the text was canceled with it */
        if (reads && (status == BO_OK || (g->desc->session && !g->desc->leave_last)))
            BO_TRY(bo_session_feed(g->context, g->session, &token->id, 1, g->logits));
        BO_TRY(status);
    }
    return BO_OK;
}

static bo_status generate(generation *g)
{
    bo_token token = {.text = "", .id = -1, .log_probability = NAN};
    BO_TRY(read_prompt(g));
    BO_TRY(open_session(g));
    BO_TRY(open_sampler(g));
    g->logits = bo_alloc(g->context, 2 * g->model->desc.vocab, sizeof *g->logits, "logits");
    if (!g->logits) return BO_MEMORY;
    token.prompt_tokens = g->prompt_count;
    token.drawn = bo_sampler_drawn(g->sampler);
    bo_status status = feed_prompt(g);
    if (status == BO_OK) status = bo_session_feed(g->context, g->session, NULL, 0, g->logits);
    if (status == BO_OK) status = write_tokens(g, &token);
    if (status == BO_CANCELED) pass_rest(g, &token);
    return status;
}

bo_status bo_generate(bo_context *context, const bo_model *model, const bo_generate_desc *desc, bo_token_fn callback,
                      void *user)
{
    BO_REQUIRE(context, model, desc);
    BO_TRY(check(context, model, desc, callback));
    generation g = {.context = context,
                    .model = model,
                    .tokenizer = bo_model_tokenizer(model),
                    .desc = desc,
                    .callback = callback,
                    .user = user,
                    .eos = -1,
                    .max_tokens = desc->max_tokens ? desc->max_tokens : DEFAULT_TOKENS,
                    .stream = {.stops = desc->stops, .stop_count = desc->stop_count}};
    const bo_status status = generate(&g);
    bo_sampler_destroy(g.owned_sampler);
    bo_session_destroy(g.owned_session);
    bo_ids_free(&g.encoded);
    bo_text_stream_free(&g.stream);
    bo_free(g.logits);
    bo_free(g.valid);
    return status;
}
