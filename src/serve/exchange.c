/* Exchanges: a request becomes jobs, and their tokens become the response. exchange_write.c writes the JSON. */
#include "exchange_internal.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A client counts as disconnected if MAX_UNREAD bytes of its stream are unread and it has read nothing for
 * UNREAD_SECONDS, or if MAX_OUTPUT bytes are unread. */
static const size_t MAX_UNREAD = (size_t)8 << 20, MAX_OUTPUT = (size_t)32 << 20;
enum { UNREAD_SECONDS = 30 };
/* Maximum number of log probabilities in a response: those of all prompt tokens and of their most likely alternatives.
 */
static const size_t MAX_SCORES = (size_t)1 << 22;

/* ---- ownership --------------------------------------------------------------------------------------------------- */

static void destroy(bo_exchange *x)
{
    for (size_t i = 0; x->choices && i < x->choice_count; i++) {
        bo_choice_text *choice = &x->choices[i];
        bo_sampler_destroy(choice->job.sampler);
        bo_snapshot_release(choice->job.state);
        bo_free(choice->job.embedding);
        bo_text_stream_free(&choice->text);
        bo_records_free(&choice->records);
        bo_free(choice->reply.bytes);
    }
    for (size_t i = 0; x->prompts && i < x->prompt_count; i++) {
        bo_ids_free(&x->prompts[i].ids);
        bo_free(x->prompts[i].chain);
    }
    bo_snapshot_release(x->start);
    bo_free(x->messages);
    bo_request_free(&x->request);
    bo_free(x->choices);
    bo_free(x->prompts);
    bo_free(x->out.bytes);
    bo_reserve(&x->service->reservations, x->client.id, &x->reserved, 0);
    pthread_mutex_destroy(&x->lock);
    bo_free(x);
}

void bo_exchange_release(bo_exchange *x)
{
    if (x && atomic_fetch_sub(&x->owners, 1) == 1) destroy(x);
}

/* Output that could not be allocated is lost. Resets the number of sent bytes. */
static void drop_failed_output(bo_exchange *x)
{
    if (!x->out.failed) return;
    bo_free(x->out.bytes);
    x->out.bytes = NULL;
    x->out.length = x->out.capacity = x->sent = 0;
}

/* ---- HTTP threads ------------------------------------------------------------------------------------------------ */

bool bo_exchange_streams(const bo_exchange *x)
{
    return x->request.stream;
}

static void suspend(bo_exchange *x)
{
    x->suspended = true;
    x->suspension.suspend(x->suspension.user);
}

bool bo_exchange_wait(bo_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool finished = x->finished;
    if (!finished) suspend(x);
    pthread_mutex_unlock(&x->lock);
    return finished;
}

size_t bo_exchange_read(bo_exchange *x, char *out, size_t capacity, bo_stream_end *end)
{
    pthread_mutex_lock(&x->lock);
    drop_failed_output(x);
    const size_t count = bo_min(capacity, x->out.length - x->sent);
    if (count) x->last_sent = bo_seconds();
    if (count) memcpy(out, x->out.bytes + x->sent, count);
    x->sent += count;
    if (x->sent == x->out.length) x->sent = x->out.length = 0;
    *end = x->out.failed ? BO_STREAM_LOST : x->finished && x->out.length == 0 ? BO_STREAM_COMPLETE : BO_STREAM_OPEN;
    if (!count && *end == BO_STREAM_OPEN) suspend(x);
    pthread_mutex_unlock(&x->lock);
    return count;
}

/* The HTTP thread writes the body: a large one takes long, and the scheduler must not wait for it. */
int bo_exchange_finish(bo_context *context, bo_exchange *x, const char **body, size_t *size)
{
    pthread_mutex_lock(&x->lock);
    x->out.context = context;
    if (!x->out.failed) bo_exchange_write_body(x);
    drop_failed_output(x);
    *body = x->out.bytes;
    *size = x->out.length;
    const int status = x->out.failed ? 500 : x->refusal.status ? x->refusal.status : 200;
    pthread_mutex_unlock(&x->lock);
    return status;
}

void bo_exchange_get_stats(bo_exchange *x, bo_exchange_stats *out)
{
    pthread_mutex_lock(&x->lock);
    *out = x->stats;
    pthread_mutex_unlock(&x->lock);
}

void bo_exchange_cancel(bo_exchange *x)
{
    for (size_t i = 0; i < x->choice_count; i++) bo_scheduler_cancel(x->service->scheduler, &x->choices[i].job);
}

/* ---- scheduler thread -------------------------------------------------------------------------------------------- */

static void resume(bo_exchange *x)
{
    if (!x->suspended) return;
    x->suspended = false;
    x->suspension.resume(x->suspension.user);
}

/* True if tokens are stored with their log probabilities or ids. */
static bool keeps_records(const bo_exchange *x)
{
    return x->request.top >= 0 || x->request.token_ids;
}

static bool reads_too_slowly(const bo_exchange *x)
{
    const size_t unread = x->out.length - x->sent;
    return unread > MAX_OUTPUT || (unread > MAX_UNREAD && bo_seconds() - x->last_sent > UNREAD_SECONDS);
}

/* Adds the previous token to the hash of the conversation. The last token is added when another one follows. */
static void hash_token(bo_choice_text *choice, int32_t id)
{
    bo_conversation_hash(&choice->ids_hash, &choice->last, 1);
    choice->hashed++;
    choice->last = id;
}

/* Reserves memory for a response that is not streamed. It grows until the last token: texts, records and their JSON. */
static bool reserve_response(bo_exchange *x, const bo_job_token *token, size_t bytes)
{
    enum { TEXT = 4, TOKEN = 192, TOP = 64 }; /* bytes per text byte, per record, and per most likely token */
    if (x->request.stream) return true;
    x->needed_memory += TEXT * bytes + (keeps_records(x) ? TOKEN + TOP * token->top_count : 0);
    if (x->needed_memory < x->reserved + BO_RESERVE_MIN) return true;
    if (bo_reserve(&x->service->reservations, x->client.id, &x->reserved, x->needed_memory)) return true;
    for (size_t i = 0; i < x->choice_count; i++) atomic_store(&x->choices[i].job.canceled, true);
    return bo_refuse(&x->refusal, 429, NULL,
                     "the response takes more than the server's memory for large responses; request fewer tokens or "
                     "log probabilities at a time, or a stream");
}

/* Adds a token to the response. Returns false at a stop text. */
static bool add_token(bo_context *context, bo_job *job, const bo_job_token *token)
{
    bo_choice_text *choice = job->user;
    bo_exchange *x = choice->exchange;
    const bo_tokenizer *tokenizer = x->service->tokenizer;
    bool stopped = false;
    size_t bytes = 0;
    const char *piece = tokenizer ? bo_tokenizer_piece(tokenizer, token->id, &bytes) : "";
    pthread_mutex_lock(&x->lock);
    x->out.context = context;
    bo_status status = keeps_records(x) ? bo_records_add(context, x->service, &choice->records, token) : BO_OK;
    if (status == BO_OK && !token->of_prompt)
        status = bo_text_stream_add(context, &choice->text, piece, bytes, &stopped);
    if (!token->of_prompt) x->stats.generated_tokens++;
    if (x->messages && !token->of_prompt) hash_token(choice, token->id);
    if (status != BO_OK) x->out.failed = true;
    if (stopped) bo_records_cut(&choice->records, choice->bytes_before + choice->text.length);
    const bool due = token->of_prompt ? choice->records.count >= BO_EXCHANGE_RECORDS : !stopped;
    if (x->request.stream && due) {
        bo_exchange_write_event(x, choice, false);
        resume(x);
    }
    drop_failed_output(x);
    if (x->request.stream && reads_too_slowly(x)) atomic_store(&job->canceled, true);
    const bool fits = reserve_response(x, token, bytes);
    pthread_mutex_unlock(&x->lock);
    return fits && !stopped && status == BO_OK;
}

static void set_refusal(bo_exchange *x, const bo_job *job)
{
    switch (job->end) {
    case BO_JOB_TIMEOUT:
        bo_refuse(&x->refusal, 408, NULL, "the request took longer than %g seconds", x->service->desc->timeout);
        break;
    case BO_JOB_STOPPING:
        bo_refuse(&x->refusal, 503, NULL, "the server is stopping; send the request again later");
        break;
    case BO_JOB_CANCELED:
        bo_refuse(&x->refusal, 408, NULL, "the request was canceled");
        break;
    case BO_JOB_BAD_STATE:
        bo_refuse(&x->refusal, 400, "state", "%s", job->message);
        break;
    case BO_JOB_FAILED:
        bo_refuse(&x->refusal, 500, NULL, "%s", job->message);
        break;
    default:
        break;
    }
}

static bool name_state(bo_choice_text *choice, bo_refusal *refusal)
{
    unsigned char random[12];
    if (!bo_random_bytes(random, sizeof random)) return bo_refuse(refusal, 500, NULL, "no random numbers");
    int used = snprintf(choice->state_id, sizeof choice->state_id, "state-");
    for (size_t i = 0; i < sizeof random; i++)
        used += snprintf(choice->state_id + used, sizeof choice->state_id - (size_t)used, "%02x", random[i]);
    return true;
}

/* Returns the refusal that reports a state that cannot be kept or returned: a text is not lost if its state is lost. */
static bo_refusal *refusal_of_state(bo_exchange *x, bo_choice_text *choice)
{
    return x->request.kind == BO_REQUEST_STATE ? &x->refusal : &choice->state_refusal;
}

/* Reserves memory for a state and its base64 until the client has read them. The output buffer grows by doubling. */
static bool return_state(bo_exchange *x, const bo_snapshot *state, bo_refusal *refusal)
{
    const size_t size = bo_snapshot_size(state, NULL), needed = x->needed_memory + size + 2 * (size / 3 * 4);
    if (!bo_service_reserve(x->service, x->client, &x->reserved, needed, refusal)) return false;
    x->needed_memory = needed;
    return true;
}

/* Stores the state of a choice, or reserves the memory to return it, if the client requested it. Releases all states
 * that are not returned: the store counts the memory of stored states, and choices would otherwise occupy memory until
 * the last choice of the request ends. */
static void keep_state(bo_context *context, bo_exchange *x, bo_choice_text *choice)
{
    bo_refusal *refusal = refusal_of_state(x, choice);
    bo_snapshot *state = choice->job.state;
    const bool requested = x->request.return_state != BO_STATE_NONE && !x->refusal.status && !refusal->status;
    bool done = false;
    if (requested && choice->job.overflowed)
        bo_refuse(refusal, x->start ? 400 : 500, x->start ? "state" : NULL, "%s", choice->job.message);
    else if (requested && !state)
        bo_refuse(refusal, 500, NULL, "out of memory for the state");
    else if (requested && x->request.return_state == BO_STATE_ID)
        done = name_state(choice, refusal) &&
               bo_service_keep_state(context, x->service, x->client.owner, choice->state_id, state, refusal);
    else if (requested)
        done = return_state(x, state, refusal);
    if (done) {
        choice->state_tokens = bo_snapshot_length(state);
        choice->state_bytes = bo_snapshot_size(state, NULL);
    }
    if (done && x->request.return_state == BO_STATE_DATA) return;
    bo_snapshot_release(state);
    choice->job.state = NULL;
}

/* A text that ends inside a character is cut before it. The state stores the partial character, so that a continuation
 * can complete it. */
static void keep_partial_character(bo_choice_text *choice)
{
    bo_snapshot *state = choice->job.state; /* not shared yet */
    const size_t partial_count = bo_text_stream_end_characters(&choice->text);
    if (!state || !partial_count || partial_count > sizeof state->partial) return;
    memcpy(state->partial, choice->text.text + choice->text.ready, partial_count);
    state->partial_count = partial_count;
}

/* Adds the conversation to a state: the messages and the reply. */
static bo_status add_conversation(bo_context *context, bo_exchange *x, bo_choice_text *choice)
{
    bo_snapshot *state = choice->job.state; /* not shared yet */
    const bo_json_text *reply = &choice->reply;
    if (!x->messages || !state) return BO_OK;
    if (state->tokens == choice->hashed + 1) hash_token(choice, -1);
    assert(state->tokens == choice->hashed);
    state->ids_hash = bo_xxh64_end(&choice->ids_hash);
    if (x->request.kind == BO_REQUEST_STATE) {
        state->messages = bo_strdup(context, x->messages);
        return state->messages ? BO_OK : BO_MEMORY;
    }
    bo_exchange_keep_reply(x, choice);
    if (reply->failed) return BO_MEMORY;
    return bo_conversation_add(context, x->messages, reply->bytes ? reply->bytes : "", reply->length, &state->messages);
}

static void finish(bo_exchange *x)
{
    if (x->request.stream) bo_exchange_write_end(x);
    x->finished = true;
}

static void end_job(bo_context *context, bo_job *job)
{
    bo_choice_text *choice = job->user;
    bo_exchange *x = choice->exchange;
    pthread_mutex_lock(&x->lock);
    x->out.context = context;
    choice->ended = true;
    x->stats.cached_tokens += choice->index % x->request.n == 0 ? job->cached + x->prompts[choice->prompt].first : 0;
    if (!x->refusal.status) set_refusal(x, job);
    keep_partial_character(choice);
    if (add_conversation(context, x, choice) != BO_OK && !x->refusal.status)
        bo_refuse(refusal_of_state(x, choice), 500, NULL, "out of memory for the messages of the state");
    keep_state(context, x, choice);
    if (x->request.stream && !x->refusal.status) bo_exchange_write_event(x, choice, true);
    if (--x->open == 0) finish(x);
    drop_failed_output(x);
    resume(x);
    pthread_mutex_unlock(&x->lock);
    bo_exchange_release(x);
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* Computes the hashes of the tokens to read. */
static bool hash_prompt(bo_context *context, const bo_exchange *x, bo_exchange_prompt *prompt, bo_refusal *refusal)
{
    const size_t count = prompt->ids.count - prompt->first;
    const bo_prefix_secret *secret = bo_store_secret(bo_scheduler_store(x->service->scheduler));
    prompt->chain = bo_alloc(context, count + 1, sizeof *prompt->chain, "the hashes of a prompt");
    if (!prompt->chain) return bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    prompt->chain[0] = x->start ? x->start->prefix : x->client.owner;
    for (size_t i = 0; i < count; i++)
        prompt->chain[i + 1] = bo_prefix_next(secret, prompt->chain[i], prompt->ids.items[prompt->first + i]);
    return true;
}

/* True if a state has read a proper prefix of the tokens of a conversation. */
static bool has_read(const bo_snapshot *state, const bo_ids *ids)
{
    bo_xxh64 hash;
    if (state->tokens >= ids->count) return false;
    bo_xxh64_start(&hash);
    bo_conversation_hash(&hash, ids->items, (size_t)state->tokens);
    return bo_xxh64_end(&hash) == state->ids_hash;
}

/* Encodes the whole conversation and skips the tokens that the state has read. If the template renders the messages of
 * the state differently now, the state is not used. Either way, the result is that of the whole conversation. */
static bool prepare_conversation(bo_context *context, bo_exchange *x, bo_refusal *refusal)
{
    bo_exchange_prompt *prompt = &x->prompts[0];
    if (!bo_service_encode(context, x->service, &x->request, 0, x->start != NULL, &prompt->ids, refusal)) return false;
    if (x->start && !has_read(x->start, &prompt->ids)) {
        bo_snapshot_release(x->start);
        x->start = NULL;
    }
    prompt->first = x->start ? (size_t)x->start->tokens : 0;
    prompt->request_tokens = prompt->ids.count;
    return bo_service_check_count(x->service, &x->request, prompt->ids.count - prompt->first, refusal) &&
           hash_prompt(context, x, prompt, refusal);
}

/* Encodes a prompt after the pending tokens of the state, and computes the hashes. */
static bool prepare_prompt(bo_context *context, bo_exchange *x, size_t index, bo_refusal *refusal)
{
    bo_exchange_prompt *prompt = &x->prompts[index];
    const bo_snapshot *start = x->start;
    const size_t pending = start ? start->pending_count : 0;
    const bool embeds = x->request.kind == BO_REQUEST_EMBEDDING;
    bo_ids encoded = {0};
    if (x->request.variables) return prepare_conversation(context, x, refusal);
    bool done = bo_service_encode(context, x->service, &x->request, index, start != NULL, &encoded, refusal);
    const size_t count = pending + encoded.count;
    if (done && start) done = bo_service_check_count(x->service, &x->request, encoded.count, refusal);
    if (done && count == 0)
        done = bo_refuse(refusal, 400, embeds ? "input" : "prompt", "%s",
                         start ? "the text of the state has ended; give a prompt to continue it"
                               : "the text has no tokens");
    prompt->request_tokens = encoded.count;
    if (done) {
        prompt->ids.items = bo_alloc(context, count, sizeof *prompt->ids.items, "the tokens of a prompt");
        if (!prompt->ids.items) done = bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    }
    if (done) {
        for (size_t i = 0; i < pending; i++) prompt->ids.items[i] = start->pending[i];
        if (encoded.count) memcpy(prompt->ids.items + pending, encoded.items, encoded.count * sizeof *encoded.items);
        prompt->ids.count = prompt->ids.capacity = count;
        done = hash_prompt(context, x, prompt, refusal);
    }
    bo_ids_free(&encoded);
    return done;
}

/* Limits the memory of a response. */
static bool check_scores(const bo_exchange *x, bo_refusal *refusal)
{
    const bo_request *q = &x->request;
    size_t tokens = 0;
    if (!q->echo || !keeps_records(x)) return true;
    for (size_t i = 0; i < x->prompt_count; i++) tokens += x->prompts[i].ids.count;
    const double scores = (double)tokens * (double)q->n * (q->top > 0 ? q->top + 1 : 1);
    if (scores <= (double)MAX_SCORES) return true;
    return bo_refuse(refusal, 400, "echo", "echo: %.0f log probabilities, more than the maximum of %zu", scores,
                     MAX_SCORES);
}

static bool check_length(const bo_exchange *x, size_t index, bo_refusal *refusal)
{
    const size_t max_tokens = bo_scheduler_max_tokens(x->service->scheduler);
    const uint64_t before = x->start ? x->start->tokens : 0,
                   count = before + x->prompts[index].ids.count - x->prompts[index].first;
    if (count <= max_tokens) return true;
    return bo_refuse(refusal, 400, x->request.variables ? "messages" : "prompt",
                     "the text has %llu tokens, more than the maximum of %zu (the context of this server)",
                     (unsigned long long)count, max_tokens);
}

/* Continuation k of a prompt has its own random stream; continuation 0 uses the seed itself, like `bochner generate`.
 */
static bool create_sampler(bo_context *context, const bo_exchange *x, bo_choice_text *choice, size_t k,
                           bo_refusal *refusal)
{
    enum { WINDOW = 64 };
    const bo_ids *ids = &x->prompts[choice->prompt].ids;
    bo_sampler_desc desc = x->request.sampling;
    const size_t first = x->prompts[choice->prompt].first;
    desc.seed += k * UINT64_C(0x9e3779b97f4a7c15);
    desc.drawn = (x->start ? x->start->tokens : 0) + ids->count - first;
    if (bo_sampler_create(context, &desc, &choice->job.sampler) != BO_OK)
        return bo_refuse(refusal, 400, NULL, "%s", bo_context_error(context));
    for (size_t i = ids->count > WINDOW ? ids->count - WINDOW : 0; i < ids->count; i++)
        bo_sampler_remember(choice->job.sampler, ids->items[i]);
    return true;
}

/* With echo, the text starts with the prompt, and the records contain the tokens of the prompt. */
static bool begin_echo(bo_context *context, bo_exchange *x, bo_choice_text *choice, bo_refusal *refusal)
{
    const bo_ids *ids = &x->prompts[choice->prompt].ids;
    const size_t count =
        choice->job.score_prompt ? 1 : ids->count; /* the scheduler reports the remaining tokens with their scores */
    for (size_t i = 0; i < count && x->request.echo && keeps_records(x); i++)
        if (bo_records_add(context, x->service, &choice->records, &(bo_job_token){.id = ids->items[i]}) != BO_OK)
            return bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    choice->bytes_before = choice->records.bytes;
    for (size_t i = count; i < ids->count && choice->job.score_prompt; i++) {
        size_t bytes = 0;
        if (x->service->tokenizer) bo_tokenizer_piece(x->service->tokenizer, ids->items[i], &bytes);
        choice->bytes_before += bytes;
    }
    return true;
}

/* The text of the state ended inside a character: the partial character precedes the first token. */
static bool begin_inside_character(bo_context *context, bo_choice_text *choice, const bo_snapshot *start)
{
    bool stopped;
    return bo_text_stream_add(context, &choice->text, start->partial, start->partial_count, &stopped) == BO_OK;
}

static bool prepare_choice(bo_context *context, bo_exchange *x, size_t index, double deadline, bo_refusal *refusal)
{
    const bo_request *q = &x->request;
    bo_choice_text *choice = &x->choices[index];
    const bool chat = q->kind == BO_REQUEST_CHAT, embeds = q->kind == BO_REQUEST_EMBEDDING;
    choice->exchange = x;
    choice->index = index;
    choice->prompt = index / q->n;
    choice->text = (bo_text_stream){.stops = (const char *const *)q->stops, .stop_count = q->stop_count};
    const bo_exchange_prompt *prompt = &x->prompts[choice->prompt];
    bo_job *job = &choice->job;
    job->prompt = prompt->ids.items + prompt->first;
    job->prompt_count = prompt->ids.count - prompt->first;
    job->chain = prompt->chain;
    job->start = x->start;
    job->embed = embeds;
    job->score_prompt = q->echo && q->top >= 0;
    job->max_tokens = q->max_tokens;
    job->top = q->top;
    job->biases = q->biases;
    job->bias_count = q->bias_count;
    job->presence_penalty = q->presence_penalty;
    job->frequency_penalty = q->frequency_penalty;
    job->ignore_end = q->ignore_end;
    job->end_token = chat ? x->service->turn_end : -1;
    job->keep_state = q->return_state != BO_STATE_NONE;
    job->keep_end = chat;
    job->client = x->client;
    job->deadline = deadline;
    job->token = add_token;
    job->done = end_job;
    job->user = choice;
    if (x->start && prompt->request_tokens == 0 && x->start->partial_count &&
        !begin_inside_character(context, choice, x->start))
        return bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    if (x->messages) {
        bo_xxh64_start(&choice->ids_hash);
        bo_conversation_hash(&choice->ids_hash, prompt->ids.items, prompt->ids.count - 1);
        choice->hashed = prompt->ids.count - 1;
        choice->last = prompt->ids.items[prompt->ids.count - 1];
    }
    if (embeds) {
        job->embedding =
            bo_alloc(context, bo_model_describe(x->service->desc->model)->width, sizeof(double), "an embedding");
        return job->embedding || bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    }
    return create_sampler(context, x, choice, index % q->n, refusal) && begin_echo(context, x, choice, refusal);
}

/* Fills in what follows from the kind of request. */
static bool complete_request(bo_context *context, bo_exchange *x, bo_refusal *refusal)
{
    static const char next_turn[] = "\nuser:";
    bo_request *q = &x->request;
    const size_t width = bo_model_describe(x->service->desc->model)->width;
    if (q->dimensions && q->dimensions != width)
        return bo_refuse(refusal, 400, "dimensions", "dimensions: the model has %zu", width);
    if (q->kind == BO_REQUEST_STATE) {
        q->return_state = BO_STATE_ID;
        q->max_tokens = 0;
    }
    if (!q->seeded && !bo_random_bytes(&q->sampling.seed, sizeof q->sampling.seed))
        return bo_refuse(refusal, 500, NULL, "the system provides no random numbers");
    if (q->kind != BO_REQUEST_CHAT || x->service->has_template) return true;
    if (q->state || q->state_data || q->return_state != BO_STATE_NONE)
        return bo_refuse(refusal, 400, q->return_state != BO_STATE_NONE ? "return_state" : "state",
                         "the model has no chat template, which states of conversations require; use completions");
    if (q->stop_count == BO_REQUEST_MAX_STOPS) return true;
    q->stops[q->stop_count] = bo_strdup(context, next_turn);
    return q->stops[q->stop_count++] != NULL || bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
}

static void name_exchange(bo_exchange *x)
{
    unsigned char random[12] = {0};
    static const char *const stems[] = {[BO_REQUEST_COMPLETION] = "cmpl-", [BO_REQUEST_CHAT] = "chatcmpl-",
                                        [BO_REQUEST_EMBEDDING] = "embd-",  [BO_REQUEST_TOKENIZE] = "",
                                        [BO_REQUEST_DETOKENIZE] = "",      [BO_REQUEST_STATE] = ""};
    bo_random_bytes(random, sizeof random);
    int used = snprintf(x->id, sizeof x->id, "%s", stems[x->request.kind]);
    for (size_t i = 0; i < sizeof random; i++)
        used += snprintf(x->id + used, sizeof x->id - (size_t)used, "%02x", random[i]);
    x->created = (int64_t)time(NULL);
}

/* Appends the messages of the request to those of the state. */
static bool join_conversation(bo_context *context, bo_exchange *x, bo_refusal *refusal)
{
    bo_request *q = &x->request;
    bo_status status = BO_OK;
    if (!q->variables) return true;
    if (x->start && !x->start->messages)
        return bo_refuse(
            refusal, 400, "state",
            "state: it was created from a prompt and has no messages to continue; continue it with /v1/completions");
    if (x->start) status = bo_conversation_prepend(context, x->start->messages, &q->variables);
    if (status == BO_OK && q->return_state != BO_STATE_NONE)
        status = bo_conversation_find(context, q->variables, &x->messages);
    if (status != BO_OK)
        return bo_refuse(refusal, status == BO_MEMORY ? 500 : 400, "state", "%s", bo_context_error(context));
    if (strlen(q->variables) <= x->service->desc->max_body) return true;
    return bo_refuse(refusal, 400, "messages", "messages: the conversation has %zu bytes, more than the maximum of %zu",
                     strlen(q->variables), x->service->desc->max_body);
}

/* Reserves the memory of a waiting request. A state that is also in the cache counts as 0 bytes. */
static bool reserve_inputs(bo_exchange *x, bo_refusal *refusal)
{
    size_t bytes = x->messages ? strlen(x->messages) : 0;
    if (x->start && atomic_load(&x->start->owners) == 1) bytes += bo_snapshot_memory(x->start);
    for (size_t i = 0; i < x->prompt_count; i++) {
        const bo_exchange_prompt *prompt = &x->prompts[i];
        bytes += prompt->ids.capacity * sizeof *prompt->ids.items +
                 (prompt->ids.count - prompt->first + 1) * sizeof *prompt->chain;
        if (x->request.echo) bytes += x->request.prompts[i].bytes;
    }
    x->needed_memory = bytes;
    return bo_service_reserve(x->service, x->client, &x->reserved, bytes, refusal);
}

static bool prepare(bo_context *context, bo_exchange *x, bo_refusal *refusal)
{
    const bo_request *q = &x->request;
    const double deadline = bo_seconds() + x->service->desc->timeout;
    x->prompt_count = q->variables ? 1 : q->prompt_count;
    const size_t count = x->prompt_count * q->n;
    if (count > x->service->desc->queue)
        return bo_refuse(refusal, 400, "n", "the request has %zu texts, more than the maximum of %zu", count,
                         x->service->desc->queue);
    if (!complete_request(context, x, refusal) ||
        !bo_service_find_state(context, x->service, x->client.owner, q, &x->start, refusal))
        return false;
    if (!join_conversation(context, x, refusal)) return false;
    x->prompts = bo_alloc(context, x->prompt_count, sizeof *x->prompts, "prompts");
    x->choices = bo_alloc(context, count, sizeof *x->choices, "choices");
    if (!x->prompts || !x->choices) return bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    x->choice_count = count;
    for (size_t i = 0; i < x->prompt_count; i++) {
        if (!prepare_prompt(context, x, i, refusal) || !check_length(x, i, refusal)) return false;
        x->stats.prompt_tokens += x->prompts[i].request_tokens;
    }
    if (!check_scores(x, refusal) || !reserve_inputs(x, refusal)) return false;
    for (size_t i = 0; i < count; i++)
        if (!prepare_choice(context, x, i, deadline, refusal)) return false;
    return true;
}

/* Every job has a reference to the exchange until it ends. */
static bool submit(bo_context *context, bo_exchange *x, bo_refusal *refusal)
{
    bo_job **jobs = bo_alloc(context, x->choice_count, sizeof *jobs, "jobs");
    if (!jobs) return bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    for (size_t i = 0; i < x->choice_count; i++) jobs[i] = &x->choices[i].job;
    x->open = x->choice_count;
    atomic_fetch_add(&x->owners, x->choice_count);
    const bo_submission submission = bo_scheduler_submit(x->service->scheduler, jobs, x->choice_count);
    bo_free(jobs);
    if (submission == BO_SUBMIT_DONE) return true;
    atomic_fetch_sub(&x->owners, x->choice_count);
    if (submission == BO_SUBMIT_STOPPING) return bo_refuse(refusal, 503, NULL, "the server is stopping");
    return bo_refuse(refusal, 429, NULL, "the queue of %zu texts is full; send the request again later",
                     x->service->desc->queue);
}

/* Frees inputs that are no longer needed, because many requests may wait. Echo needs the text of a prompt. */
static bool release_inputs(bo_exchange *x)
{
    bo_request *q = &x->request;
    bo_free(q->variables);
    bo_free(q->state_data);
    q->variables = q->state_data = NULL;
    for (size_t i = 0; i < q->prompt_count; i++) {
        bo_prompt *prompt = &q->prompts[i];
        bo_free(prompt->ids);
        prompt->ids = NULL;
        if (q->echo) continue;
        bo_free(prompt->text);
        prompt->text = NULL;
    }
    return true;
}

bool bo_exchange_start(bo_context *context, bo_service *service, bo_request *request, bo_client client,
                       bo_suspension suspension, bo_exchange **out, bo_refusal *refusal)
{
    bo_exchange *x = *out = bo_alloc(context, 1, sizeof *x, "an exchange");
    if (!x) {
        bo_request_free(request);
        return bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
    }
    x->service = service;
    x->request = *request;
    x->client = client;
    x->suspension = suspension;
    *request = (bo_request){0};
    atomic_init(&x->owners, 1);
    pthread_mutex_init(&x->lock, NULL);
    name_exchange(x);
    x->last_sent = bo_seconds();
    if (prepare(context, x, refusal) && release_inputs(x) && submit(context, x, refusal)) return true;
    *out = NULL;
    bo_exchange_release(x);
    return false;
}
