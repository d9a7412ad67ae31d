/* Reads a conversation into a session and generates replies. The session keeps its state from turn to turn: a turn
 * reads only new tokens, unless the template renders earlier turns differently. */
#include "chat.h"
#include "../model/extrapolation.h"
#include "../text/ids.h"
#include "../text/text_tasks.h"
#include "../network/network.h"
#include "../common/output.h"
#include "../common/streams.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool ok(cli_chat_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void add_id(bo_ids *ids, int32_t id)
{
    if (ids->count == ids->capacity) {
        const size_t capacity = 2 * ids->capacity + 256;
        int32_t *larger = cli_allocate(capacity, sizeof *larger, "tokens");
        if (ids->count) memcpy(larger, ids->items, ids->count * sizeof *larger);
        free(ids->items);
        ids->items = larger;
        ids->capacity = capacity;
    }
    ids->items[ids->count++] = id;
}

/* The tokens of the conversation and of the start of a reply. */
static bool render_ids(cli_chat_job *job, bo_ids *out)
{
    bo_context *context = job->session->context;
    const bo_chat_options options = {.add_generation_prompt = true,
                                     .variables = job->options->variables,
                                     .parse_special = job->options->parse_special};
    const bo_status status =
        bo_chat_encode(context, job->chat, job->tokenizer, job->messages.items, job->messages.count, &options, out);
    if (status == BO_OK && out->count == 0) {
        cli_fail(job->session, "the chat template renders this conversation as an empty text");
        return false;
    }
    return ok(job, status);
}

/* A position in the text of tokens. */
typedef struct text_at {
    const bo_tokenizer *tokenizer;
    const bo_ids *ids;
    size_t token, byte;
} text_at;

/* The next byte of the text, or a special token, which differs from its text; -1: the end. */
static int64_t next_byte(text_at *at)
{
    enum { BYTES = 256 };
    for (; at->token < at->ids->count; at->token++, at->byte = 0) {
        size_t bytes;
        const int32_t id = at->ids->items[at->token];
        if (bo_tokenizer_is_special(at->tokenizer, id)) {
            at->token++;
            return BYTES + (int64_t)id;
        }
        const char *piece = bo_tokenizer_piece(at->tokenizer, id, &bytes);
        if (at->byte < bytes) return (unsigned char)piece[at->byte++];
    }
    return -1;
}

/* The number of tokens of `ids` that were read, compared as text: the model may have divided the text of a reply into
 * other tokens than the tokenizer does. SIZE_MAX: other text was read. */
static size_t tokens_read(const cli_chat_job *job, const bo_ids *ids)
{
    size_t same = 0;
    while (same < job->read.count && same < ids->count && job->read.items[same] == ids->items[same]) same++;
    if (same == job->read.count) return same;
    text_at read = {job->tokenizer, &job->read, same, 0}, now = {job->tokenizer, ids, same, 0};
    for (int64_t byte = next_byte(&read); byte >= 0; byte = next_byte(&read))
        if (next_byte(&now) != byte) return SIZE_MAX;
    size_t bytes = 0;
    if (now.token < ids->count) bo_tokenizer_piece(job->tokenizer, ids->items[now.token], &bytes);
    return now.token == ids->count ? SIZE_MAX
           : now.byte == bytes     ? now.token + 1
           : now.byte == 0         ? now.token
                                   : SIZE_MAX;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool start_over(cli_chat_job *job)
{
    job->read.count = 0;
    job->broken = false;
    return ok(job, bo_session_reset(job->session->context, job->reader));
}

/* Reads in pieces, so that a long text can be interrupted and shows progress. *stopped: on request. */
static bool feed_tokens(cli_chat_job *job, const bo_ids *ids, size_t from, bool *stopped)
{
    enum { PIECE = 512 };
    bo_context *context = job->session->context;
    cli_progress_report(&job->session->progress, "reading", 0, (double)(ids->count - from));
    for (size_t at = from; at < ids->count; at += PIECE) {
        const size_t count = ids->count - at < PIECE ? ids->count - at : PIECE;
        *stopped = cli_interrupted();
        if (*stopped) return true;
        job->broken = true;
        if (!ok(job, bo_session_feed(context, job->reader, ids->items + at, count, NULL))) return false;
        job->broken = false;
        for (size_t i = 0; i < count; i++) add_id(&job->read, ids->items[at + i]);
        if (ids->count - from > PIECE)
            cli_progress_report(&job->session->progress, "reading", (double)(at + count - from),
                                (double)(ids->count - from));
    }
    cli_progress_clear(&job->session->progress);
    return true;
}

/* The number of tokens that still fit into the context. */
static uint64_t remaining_tokens(const cli_chat_job *job)
{
    const uint64_t remaining = bo_session_remaining(job->reader), tokens = bo_session_tokens(job->reader);
    const uint64_t limit = CLI_GIVEN(job->options, context) ? job->options->context : UINT64_MAX;
    const uint64_t left = limit > tokens ? limit - tokens : 0;
    return remaining < left ? remaining : left;
}

/* The maximum number of tokens of a conversation. */
static uint64_t context_limit(const cli_chat_job *job)
{
    const uint64_t left = remaining_tokens(job), tokens = bo_session_tokens(job->reader);
    return left > UINT64_MAX - tokens ? UINT64_MAX : left + tokens;
}

static size_t first_turn(const cli_chat_job *job)
{
    return job->messages.count > 0 && strcmp(job->messages.items[0].role, "system") == 0;
}

/* Drops the oldest message of the user and its replies. False: only the last message is left. */
static bool drop_turn(cli_chat_job *job)
{
    const size_t first = first_turn(job);
    size_t next = first + 1;
    while (next < job->messages.count && strcmp(job->messages.items[next].role, "user") != 0) next++;
    if (next >= job->messages.count) return false;
    cli_messages_drop(&job->messages, first, next - first);
    return true;
}

/* Renders the conversation so that it fits into the context; --drop-oldest drops the oldest turns. Dropping leaves a
 * quarter of the context, or the tokens of a reply, free, so that not every turn starts over. */
static bool fit(cli_chat_job *job, bo_ids *ids)
{
    size_t dropped = 0;
    if (!render_ids(job, ids)) return false;
    const uint64_t limit = context_limit(job);
    const size_t spare = job->options->tokens < limit / 4 ? job->options->tokens : (size_t)(limit / 4);
    while (ids->count >= limit || (dropped > 0 && ids->count + spare > limit)) {
        if (!job->options->drop_oldest || !drop_turn(job)) {
            if (ids->count < limit) break;
            cli_fail(job->session,
                     "the conversation has %s tokens, but the context has %s: start over with /reset, or give %s",
                     cli_count(ids->count).s, cli_count((size_t)limit).s,
                     job->options->drop_oldest ? "a shorter message"
                                               : "--drop-oldest to drop the oldest turns, or a larger --context");
            return false;
        }
        dropped++;
        ids->count = 0;
        if (!render_ids(job, ids)) return false;
    }
    if (dropped == 0) return true;
    cli_note(job->session, "Context     the oldest %s dropped, and the other turns are read again: %s of %s tokens",
             dropped == 1 ? "turn was" : "turns were", cli_count(ids->count).s, cli_count((size_t)limit).s);
    return start_over(job);
}

/* Reads the new tokens of the conversation. */
static bool read_conversation(cli_chat_job *job, const bo_ids *ids, bool *stopped)
{
    size_t from = job->broken ? SIZE_MAX : tokens_read(job, ids);
    if (from != SIZE_MAX && remaining_tokens(job) <= ids->count - from) from = SIZE_MAX;
    if (from == SIZE_MAX) {
        if (!job->reread_reported && job->read.count > 0)
            cli_note(job->session, "State       the conversation is read again from the start: the template renders "
                                   "earlier turns differently, or they changed");
        job->reread_reported = job->reread_reported || job->read.count > 0;
        if (!start_over(job)) return false;
        from = 0;
    }
    if (!job->extrapolates) job->extrapolates = cli_report_extrapolation(job->session, job->model, ids->count);
    return feed_tokens(job, ids, from, stopped);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void append(cli_chat_reply *reply, const char *bytes, size_t count)
{
    if (reply->capacity - reply->length < count + 1) {
        const size_t capacity = 2 * reply->capacity + count + 256;
        char *larger = cli_allocate(capacity, 1, "an answer");
        if (reply->length) memcpy(larger, reply->text, reply->length);
        free(reply->text);
        reply->text = larger;
        reply->capacity = capacity;
    }
    memcpy(reply->text + reply->length, bytes, count);
    reply->length += count;
    reply->text[reply->length] = 0;
}

/* One sampler per reply, with the latest tokens and the random numbers of the conversation: a saved and resumed
 * conversation continues exactly as an uninterrupted one. */
static bool create_sampler(cli_chat_job *job, bo_sampler **out)
{
    enum { WINDOW = 64 };
    const cli_chat_options *o = job->options;
    bo_sampler_desc desc = cli_sampling_desc(&o->sampling, job->session->common.seed);
    desc.drawn = job->drawn;
    if (!ok(job, bo_sampler_create(job->session->context, &desc, out))) return false;
    for (size_t i = job->read.count > WINDOW ? job->read.count - WINDOW : 0; i < job->read.count; i++)
        bo_sampler_remember(*out, job->read.items[i]);
    return true;
}

/* A reply in progress. */
typedef struct reply_writer {
    cli_chat_job *job;
    cli_chat_reply *reply;
    FILE *out;    /* NULL: not printed */
    int32_t last; /* the last sampled token, which the session has not read; -1: none */
} reply_writer;

static bool append_token(void *user, const bo_token *token)
{
    static const char *const reasons[] = {"", "end", "stop", "length", "context", "interrupt"};
    reply_writer *a = user;
    append(a->reply, token->text, token->bytes);
    a->job->drawn = token->drawn;
    if (token->bytes && a->out) {
        fwrite(token->text, 1, token->bytes, a->out);
        cli_streams_flush();
    }
    if (token->end != BO_GENERATE_CONTINUES) a->reply->reason = reasons[token->end];
    if (token->id < 0 || token->end == BO_GENERATE_END_TOKEN) {
        if (token->id >= 0 && a->last >= 0) add_id(&a->job->read, a->last);
        return true;
    }
    if (a->last >= 0) add_id(&a->job->read, a->last);
    a->last = token->id;
    a->reply->tokens++;
    return !cli_interrupted();
}

/* The last sampled token is not read now: the next turn reads it. */
static bool generate(cli_chat_job *job, bo_sampler *sampler, FILE *out, cli_chat_reply *reply)
{
    reply_writer a = {.job = job, .reply = reply, .out = out, .last = -1};
    const bo_generate_desc desc = {.max_tokens = job->options->tokens,
                                   .stops = job->options->stops.items,
                                   .stop_count = job->options->stops.count,
                                   .session = job->reader,
                                   .context = CLI_GIVEN(job->options, context) ? job->options->context : 0,
                                   .sampler = sampler,
                                   .ends = &job->eos,
                                   .end_count = job->eos >= 0,
                                   .keep_bytes = true,
                                   .leave_last = true};
    const bo_status status = bo_generate(job->session->context, job->model, &desc, append_token, &a);
    job->broken = status != BO_OK && status != BO_CANCELED;
    return status == BO_CANCELED || ok(job, status);
}

static bool generate_reply(cli_chat_job *job, FILE *out, cli_chat_reply *reply)
{
    bo_sampler *sampler = NULL;
    const double start = cli_now();
    append(reply, "", 0);
    const bool done = create_sampler(job, &sampler) && generate(job, sampler, out, reply);
    reply->seconds = cli_now() - start;
    bo_sampler_destroy(sampler);
    return done;
}

cli_chat_outcome cli_chat_send(cli_chat_job *job, const char *content, FILE *out, cli_chat_reply *reply)
{
    bo_ids ids = {0};
    bool stopped = false;
    const double start = cli_now();
    *reply = (cli_chat_reply){0};
    cli_messages_add(&job->messages, "user", content, strlen(content));
    bool done = fit(job, &ids) && read_conversation(job, &ids, &stopped);
    reply->prompt_tokens = ids.count;
    reply->prompt_seconds = cli_now() - start;
    bo_ids_free(&ids);
    if (done && !stopped) done = generate_reply(job, out, reply);
    if (!done || stopped) {
        cli_messages_drop(&job->messages, job->messages.count - 1, 1);
        return stopped ? CLI_CHAT_STOPPED : CLI_CHAT_REFUSED;
    }
    cli_messages_add(&job->messages, "assistant", reply->text, reply->length);
    return CLI_CHAT_REPLIED;
}

bool cli_chat_reset(cli_chat_job *job)
{
    const size_t first = first_turn(job);
    cli_messages_drop(&job->messages, first, job->messages.count - first);
    return start_over(job);
}

/* ---- opening and saving ------------------------------------------------------------------------------------------ */

bool cli_chat_save(cli_chat_job *job)
{
    bo_context *context = job->session->context;
    const char *path = job->options->state;
    cli_chat_file file = {.messages = job->messages, .drawn = job->drawn};
    if (!path) return true;
    if (job->broken && !start_over(job)) return false;
    file.ids = job->read;
    if (!ok(job, bo_session_save(context, job->reader, &(bo_sink){.bytes = &file.state, .size = &file.state_bytes})))
        return false;
    const bo_status status = cli_record_output(job->session, path, cli_chat_file_save(context, path, &file));
    bo_free(file.state);
    return ok(job, status);
}

static bool open_reader(cli_chat_job *job, size_t before)
{
    const bo_model_desc *model = bo_model_describe(job->model);
    const size_t default_capacity = model->context < CLI_DEFAULT_MAX_CONTEXT ? model->context : CLI_DEFAULT_MAX_CONTEXT;
    size_t capacity = CLI_GIVEN(job->options, context) ? job->options->context : default_capacity;
    if (capacity < before && !CLI_GIVEN(job->options, context)) capacity = before;
    const bo_session_desc desc = {.capacity = capacity};
    job->extrapolates =
        CLI_GIVEN(job->options, context) && cli_report_extrapolation(job->session, job->model, capacity);
    return ok(job, bo_session_create(job->session->context, job->model, &desc, &job->reader));
}

/* The system message of a resumed conversation cannot change. */
static bool same_system(cli_chat_job *job, const cli_messages *saved)
{
    const char *given = job->options->system;
    const bool has = saved->count > 0 && strcmp(saved->items[0].role, "system") == 0;
    if (!given || (has && strcmp(given, saved->items[0].content) == 0)) return true;
    cli_fail(job->session, "%s: the conversation has %s; leave out --system, or give another --state",
             job->options->state, has ? "another system message" : "no system message");
    return false;
}

static bool resume(cli_chat_job *job, const void *bytes, size_t size)
{
    cli_chat_file file;
    char why[256] = "";
    bo_context *context = job->session->context;
    bool done = cli_chat_file_parse(context, bytes, size, &file, why);
    if (!done) cli_fail(job->session, "%s: %s", job->options->state, why);
    done = done && same_system(job, &file.messages) && open_reader(job, file.ids.count);
    if (done) {
        done =
            bo_session_load(context, job->reader, &(bo_source){.bytes = file.state, .size = file.state_bytes}) == BO_OK;
        if (!done)
            cli_fail(job->session, "%s: the conversation cannot be resumed with %s: %s", job->options->state,
                     job->directory, bo_context_error(context));
    }
    if (done) {
        job->messages = file.messages;
        job->drawn = file.drawn;
        for (size_t i = 0; i < file.ids.count; i++) add_id(&job->read, file.ids.items[i]);
        file.messages = (cli_messages){0};
        cli_note(job->session, "State       %s: %s messages, %s tokens", job->options->state,
                 cli_count(job->messages.count).s, cli_count(job->read.count).s);
    }
    cli_chat_file_free(&file);
    return done;
}

static bool open_state(cli_chat_job *job)
{
    enum { GIGABYTE = 1 << 30 };
    const char *path = job->options->state;
    struct stat about = {0};
    void *bytes;
    size_t size;
    const bool exists = path && stat(path, &about) == 0;
    if (path && !exists && errno != ENOENT) {
        cli_fail(job->session, "%s: %s", path, strerror(errno));
        return false;
    }
    if (exists && (about.st_size > 0 || !S_ISREG(about.st_mode))) { /* loading refuses all but regular files */
        if (!ok(job, bo_file_load(job->session->context, path, (size_t)64 * GIGABYTE, &bytes, &size))) return false;
        const bool done = cli_can_write(job->session, path) && resume(job, bytes, size);
        bo_free(bytes);
        return done;
    }
    if (path && !cli_can_write(job->session, path)) return false;
    if (job->options->system)
        cli_messages_add(&job->messages, "system", job->options->system, strlen(job->options->system));
    return open_reader(job, 0);
}

static bool open_model(cli_chat_job *job)
{
    const bo_status status = bo_model_load(job->session->context, &(bo_source){.path = job->directory},
                                           &(bo_model_load_desc){.storage = job->options->weights}, &job->model);
    if (status != BO_OK) return cli_fail_model(job->session, job->directory, status), false;
    const bo_model_task task = bo_model_describe(job->model)->task;
    if (task != BO_MODEL_TASK_LANGUAGE) return cli_fail_task(job->session, job->directory, task), false;
    job->tokenizer = bo_model_tokenizer(job->model);
    if (!job->tokenizer)
        cli_fail(job->session, "%s: no tokenizer.json, which is needed to convert tokens to text", job->directory);
    return job->tokenizer != NULL;
}

bool cli_chat_open(cli_chat_job *job)
{
    if (!open_model(job) || !open_state(job)) return false;
    const char *eos = bo_chat_template_token(job->chat, "eos_token");
    job->eos = eos ? bo_tokenizer_find(job->tokenizer, eos) : -1;
    return true;
}

void cli_chat_close(cli_chat_job *job)
{
    bo_session_destroy(job->reader);
    bo_model_destroy(job->model);
    bo_chat_template_destroy(job->chat);
    cli_messages_free(&job->messages);
    free(job->read.items);
}
