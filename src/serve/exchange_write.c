/* Responses as JSON: events of a stream, and whole bodies. */
#include "base64.h"
#include "exchange_internal.h"
#include <string.h>

static const char *reason_of(const bo_job *job)
{
    return job->end == BO_JOB_STOP ? "\"stop\"" : "\"length\"";
}

static bool is_chat(const bo_exchange *x)
{
    return x->request.kind == BO_REQUEST_CHAT;
}

/* {"id": …, "object": …, "created": …, "model": …, */
static void write_head(bo_exchange *x, const char *object)
{
    bo_json_text *out = &x->out;
    bo_json_raw(out, "{\"id\": ");
    bo_json_string(out, x->id);
    bo_json_raw(out, ", \"object\": ");
    bo_json_string(out, object);
    bo_json_raw(out, ", \"created\": ");
    bo_json_whole(out, (uint64_t)x->created);
    bo_json_raw(out, ", \"model\": ");
    bo_json_text_of(out, x->service->name, strlen(x->service->name));
    bo_json_raw(out, ", ");
}

static void write_usage(bo_exchange *x)
{
    bo_json_text *out = &x->out;
    const bo_exchange_stats *f = &x->stats;
    const size_t cached = f->cached_tokens < f->prompt_tokens ? f->cached_tokens : f->prompt_tokens;
    bo_json_raw(out, "\"usage\": {\"prompt_tokens\": ");
    bo_json_whole(out, f->prompt_tokens);
    if (x->request.kind != BO_REQUEST_EMBEDDING) {
        bo_json_raw(out, ", \"completion_tokens\": ");
        bo_json_whole(out, f->generated_tokens);
    }
    bo_json_raw(out, ", \"total_tokens\": ");
    bo_json_whole(out, f->prompt_tokens + f->generated_tokens);
    if (x->request.kind != BO_REQUEST_EMBEDDING) {
        bo_json_raw(out, ", \"prompt_tokens_details\": {\"cached_tokens\": ");
        bo_json_whole(out, cached);
        bo_json_raw(out, "}");
    }
    bo_json_raw(out, "}");
}

static void write_ids(const bo_ids *ids, bo_json_text *out)
{
    bo_json_raw(out, "[");
    for (size_t i = 0; i < ids->count; i++) {
        if (i) bo_json_raw(out, ", ");
        bo_json_whole(out, (size_t)ids->items[i]);
    }
    bo_json_raw(out, "]");
}

/* , "state": {…}, or {"error": {…}} if it could not be kept. Releases the state, which the response now contains. */
static void write_state(bo_exchange *x, bo_choice_text *choice)
{
    bo_json_text *out = &x->out;
    void *bytes = NULL;
    size_t size = 0;
    if (choice->state_refusal.status) {
        bo_json_raw(out, ", \"state\": ");
        bo_refusal_write(&choice->state_refusal, out);
        return;
    }
    if (!choice->state_bytes) return;
    bo_json_raw(out, ", \"state\": {\"tokens\": ");
    bo_json_whole(out, (size_t)choice->state_tokens);
    bo_json_raw(out, ", \"bytes\": ");
    bo_json_whole(out, choice->state_bytes);
    if (x->request.return_state == BO_STATE_ID) {
        bo_json_raw(out, ", \"id\": ");
        bo_json_string(out, choice->state_id);
    } else if (bo_snapshot_write(out->context, choice->job.state, NULL, false, &bytes, &size) == BO_OK) {
        bo_snapshot_release(choice->job.state);
        choice->job.state = NULL;
        bo_json_raw(out, ", \"data\": ");
        bo_base64_write(out, bytes, size);
    } else {
        out->failed = true;
    }
    bo_free(bytes);
    bo_json_raw(out, "}");
}

/* Appends the prompt for echo: its text, or the text of its tokens. */
static void append_echo(const bo_exchange *x, const bo_choice_text *choice, bo_json_text *out)
{
    const bo_prompt *prompt = &x->request.prompts[choice->prompt];
    const bo_ids *ids = &x->prompts[choice->prompt].ids;
    if (prompt->text) bo_json_add(out, prompt->text, prompt->bytes);
    for (size_t i = 0; !prompt->text && x->service->tokenizer && i < ids->count; i++) {
        size_t bytes;
        const char *piece = bo_tokenizer_piece(x->service->tokenizer, ids->items[i], &bytes);
        bo_json_add(out, piece, bytes);
    }
}

/* Writes the ready text of a choice as a JSON string, after the prompt if `echo`. */
static void write_text(bo_exchange *x, const bo_choice_text *choice, bool echo)
{
    const bo_text_stream *text = &choice->text;
    bo_json_text all = {.context = x->out.context};
    if (!echo) {
        bo_json_text_of(&x->out, text->text ? text->text : "", text->ready);
        return;
    }
    append_echo(x, choice, &all);
    if (text->ready) bo_json_add(&all, text->text, text->ready);
    bo_json_text_of(&x->out, all.bytes ? all.bytes : "", all.length);
    x->out.failed = x->out.failed || all.failed;
    bo_free(all.bytes);
}

/* Writes the members of a choice that follow its text. */
static void write_choice_end(bo_exchange *x, bo_choice_text *choice, bool last)
{
    bo_json_text *out = &x->out;
    bo_json_raw(out, ", \"logprobs\": ");
    if (x->request.top >= 0)
        bo_records_write(x->service, &choice->records, is_chat(x), x->request.token_ids, out);
    else
        bo_json_raw(out, "null");
    bo_json_raw(out, ", \"finish_reason\": ");
    bo_json_raw(out, last ? reason_of(&choice->job) : "null");
    if (x->request.token_ids) {
        bo_json_raw(out, ", \"token_ids\": ");
        bo_records_write_ids(&choice->records, out);
        if (!choice->begun) {
            bo_json_raw(out, ", \"prompt_token_ids\": ");
            write_ids(&x->prompts[choice->prompt].ids, out);
        }
    }
    if (last) write_state(x, choice);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void begin_event(bo_exchange *x)
{
    bo_json_raw(&x->out, "data: ");
    write_head(x, is_chat(x) ? "chat.completion.chunk" : "text_completion");
    if (x->request.usage) bo_json_raw(&x->out, "\"usage\": null, ");
    bo_json_raw(&x->out, "\"choices\": [{\"index\": ");
}

static void end_event(bo_exchange *x)
{
    bo_json_raw(&x->out, "}]}\n\n");
}

/* Writes the role: the first event of a reply in a conversation. */
static void write_role(bo_exchange *x, const bo_choice_text *choice)
{
    begin_event(x);
    bo_json_whole(&x->out, choice->index);
    bo_json_raw(&x->out, ", \"delta\": {\"role\": \"assistant\", \"content\": \"\"}, \"logprobs\": null, "
                         "\"finish_reason\": null");
    end_event(x);
}

void bo_exchange_keep_reply(bo_exchange *x, bo_choice_text *choice)
{
    if (!x->messages || !choice->text.ready) return;
    choice->reply.context = x->out.context;
    bo_json_add(&choice->reply, choice->text.text, choice->text.ready);
}

void bo_exchange_write_event(bo_exchange *x, bo_choice_text *choice, bool last)
{
    bo_json_text *out = &x->out;
    const bool chat = is_chat(x), echo = x->request.echo && !choice->begun;
    /* Text may be withheld: a partial character, or the start of a stop text. Without a tokenizer there is no text. */
    const bool few = choice->records.count < BO_EXCHANGE_RECORDS;
    if (!choice->text.ready && x->service->tokenizer && !last && choice->begun && few) return;
    if (chat && !choice->begun) write_role(x, choice);
    begin_event(x);
    bo_json_whole(out, choice->index);
    if (chat && last && !choice->text.ready) {
        bo_json_raw(out, ", \"delta\": {}");
    } else {
        bo_json_raw(out, chat ? ", \"delta\": {\"content\": " : ", \"text\": ");
        write_text(x, choice, echo);
        if (chat) bo_json_raw(out, "}");
    }
    write_choice_end(x, choice, last);
    end_event(x);
    choice->begun = true;
    choice->bytes_before += choice->text.ready;
    bo_exchange_keep_reply(x, choice);
    bo_text_stream_drop(&choice->text);
    bo_records_clear(&choice->records);
}

void bo_exchange_write_end(bo_exchange *x)
{
    bo_json_text *out = &x->out;
    if (x->refusal.status) {
        bo_json_raw(out, "data: ");
        bo_refusal_write(&x->refusal, out);
        bo_json_raw(out, "\n\n");
        return;
    }
    if (x->request.usage) {
        bo_json_raw(out, "data: ");
        write_head(x, is_chat(x) ? "chat.completion.chunk" : "text_completion");
        bo_json_raw(out, "\"choices\": [], ");
        write_usage(x);
        bo_json_raw(out, "}\n\n");
    }
    bo_json_raw(out, "data: [DONE]\n\n");
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void write_choices(bo_exchange *x)
{
    const bool chat = is_chat(x);
    write_head(x, chat ? "chat.completion" : "text_completion");
    bo_json_raw(&x->out, "\"choices\": [");
    for (size_t i = 0; i < x->choice_count; i++) {
        bo_choice_text *choice = &x->choices[i];
        bo_json_raw(&x->out, i ? ", {\"index\": " : "{\"index\": ");
        bo_json_whole(&x->out, choice->index);
        bo_json_raw(&x->out, chat ? ", \"message\": {\"role\": \"assistant\", \"content\": " : ", \"text\": ");
        write_text(x, choice, x->request.echo);
        if (chat) bo_json_raw(&x->out, "}");
        write_choice_end(x, choice, true);
        bo_json_raw(&x->out, "}");
    }
    bo_json_raw(&x->out, "], ");
    write_usage(x);
    bo_json_raw(&x->out, "}");
}

static void write_embedding(bo_exchange *x, const double *embedding)
{
    const size_t width = bo_model_describe(x->service->desc->model)->width;
    if (x->request.base64) {
        float *floats = bo_alloc(x->out.context, width, sizeof *floats, "an embedding");
        for (size_t i = 0; floats && i < width; i++) floats[i] = (float)embedding[i];
        if (floats)
            bo_base64_write(&x->out, floats, width * sizeof *floats);
        else
            x->out.failed = true;
        bo_free(floats);
        return;
    }
    bo_json_raw(&x->out, "[");
    for (size_t i = 0; i < width; i++) {
        if (i) bo_json_raw(&x->out, ", ");
        bo_json_number(&x->out, (double)(float)embedding[i]);
    }
    bo_json_raw(&x->out, "]");
}

static void write_embeddings(bo_exchange *x)
{
    bo_json_raw(&x->out, "{\"object\": \"list\", \"data\": [");
    for (size_t i = 0; i < x->choice_count; i++) {
        bo_json_raw(&x->out, i ? ", " : "");
        bo_json_raw(&x->out, "{\"object\": \"embedding\", \"index\": ");
        bo_json_whole(&x->out, i);
        bo_json_raw(&x->out, ", \"embedding\": ");
        write_embedding(x, x->choices[i].job.embedding);
        bo_json_raw(&x->out, "}");
    }
    bo_json_raw(&x->out, "], \"model\": ");
    bo_json_text_of(&x->out, x->service->name, strlen(x->service->name));
    bo_json_raw(&x->out, ", ");
    write_usage(x);
    bo_json_raw(&x->out, "}");
}

void bo_exchange_write_body(bo_exchange *x)
{
    if (x->refusal.status)
        bo_refusal_write(&x->refusal, &x->out);
    else if (x->request.kind == BO_REQUEST_EMBEDDING)
        write_embeddings(x);
    else if (x->request.kind == BO_REQUEST_STATE)
        bo_service_write_state(x->service, x->choices[0].state_id, x->choices[0].state_tokens,
                               x->choices[0].state_bytes, &x->out);
    else
        write_choices(x);
}
