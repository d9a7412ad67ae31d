#include <stdlib.h>
#include "request.h"
#include "../text/unicode.h"
#include "members.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Drops a partial character at the end of a truncated text. */
static void trim_character(char *text)
{
    size_t length = strlen(text), start = length;
    while (start > 0 && length - start < 4 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) start--;
    if (start > 0 && (unsigned char)text[start - 1] >= 0xc0) start--;
    if (bo_utf8_valid(text + start, length - start) < length - start) text[start] = 0;
}

bool bo_refuse(bo_refusal *refusal, int status, const char *param, const char *format, ...)
{
    va_list arguments;
    *refusal = (bo_refusal){.status = status};
    if (param) snprintf(refusal->param, sizeof refusal->param, "%s", param);
    va_start(arguments, format);
    vsnprintf(refusal->message, sizeof refusal->message, format, arguments);
    va_end(arguments);
    trim_character(refusal->param);
    trim_character(refusal->message);
    return false;
}

bool bo_state_id_is_valid(const char *id)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const size_t length = strlen(id);
    return length >= 1 && length <= BO_SNAPSHOT_ID && strspn(id, alphabet) == length;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* The state of reading a body. */
typedef struct reader {
    bo_context *context;
    const bo_json *body;
    size_t vocab;
    bo_request *out;
    bo_refusal *refusal;
    bo_member_names *read;
} reader;

/* Returns the member of this name; NULL: absent or null. */
static const bo_json *member(const reader *r, const char *name)
{
    const bo_json *item = bo_json_member(r->body, name);
    bo_members_add(r->read, name);
    return bo_json_is(item, BO_JSON_NULL) ? NULL : item;
}

static bool no_memory(const reader *r)
{
    return bo_refuse(r->refusal, 500, NULL, "%s", bo_context_error(r->context));
}

static bool read_real(const reader *r, const char *name, double low, double high, double *out)
{
    const bo_json *item = member(r, name);
    if (!item) return true;
    if (!bo_json_is(item, BO_JSON_NUMBER) || !(item->number >= low && item->number <= high))
        return bo_refuse(r->refusal, 400, name, "%s: expected a number from %g to %g", name, low, high);
    *out = item->number;
    return true;
}

static bool read_whole(const reader *r, const char *name, double low, double high, size_t *out)
{
    const bo_json *item = member(r, name);
    const double value = bo_json_is(item, BO_JSON_NUMBER) ? item->number : NAN;
    if (!item) return true;
    if (!(value >= low && value <= high) || value != floor(value))
        return bo_refuse(r->refusal, 400, name, "%s: expected a whole number from %.0f to %.0f", name, low, high);
    *out = (size_t)value;
    return true;
}

static bool read_flag(const reader *r, const char *name, bool *out)
{
    const bo_json *item = member(r, name);
    if (!item) return true;
    if (!bo_json_is_bool(item)) return bo_refuse(r->refusal, 400, name, "%s: expected true or false", name);
    *out = bo_json_is(item, BO_JSON_TRUE);
    return true;
}

static bool copy_text(const reader *r, const char *text, char **out)
{
    *out = bo_strdup(r->context, text);
    return *out || no_memory(r);
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

static bool read_tokens(const reader *r, const char *name, const bo_json *list, bo_prompt *out)
{
    const bo_json *item;
    out->ids = bo_alloc(r->context, (size_t)bo_json_count(list), sizeof *out->ids, "the tokens of a prompt");
    if (!out->ids) return no_memory(r);
    BO_JSON_EACH(item, list)
    {
        const double id = bo_json_is(item, BO_JSON_NUMBER) ? item->number : -1;
        if (!(id >= 0 && id < (double)r->vocab) || id != floor(id))
            return bo_refuse(r->refusal, 400, name, "%s: token %zu: expected a whole number below %zu", name,
                             out->count, r->vocab);
        out->ids[out->count++] = (int32_t)id;
    }
    return true;
}

static bool read_prompt(const reader *r, const char *name, const bo_json *item, bo_prompt *out)
{
    if (bo_json_is(item, BO_JSON_ARRAY)) return read_tokens(r, name, item, out);
    if (!bo_json_is(item, BO_JSON_TEXT))
        return bo_refuse(r->refusal, 400, name,
                         "%s: expected a text, a list of texts, a list of tokens, or a list of "
                         "lists of tokens",
                         name);
    out->bytes = strlen(item->text);
    return copy_text(r, item->text, &out->text);
}

/* True if the value is a list of prompts, not one prompt. */
static bool is_list(const bo_json *item)
{
    return bo_json_is(item, BO_JSON_ARRAY) && item->child && !bo_json_is(item->child, BO_JSON_NUMBER);
}

static bool read_prompts(const reader *r, const char *name, bool several, bool required)
{
    const bo_json *item = member(r, name);
    bo_request *q = r->out;
    if (!item && required) return bo_refuse(r->refusal, 400, name, "%s is required", name);
    const bool list = item && is_list(item);
    if (list && !several) return bo_refuse(r->refusal, 400, name, "%s: expected one text or list of tokens", name);
    const size_t count = list ? (size_t)bo_json_count(item) : 1;
    if (count > BO_REQUEST_MAX_INPUTS)
        return bo_refuse(r->refusal, 400, name, "%s: expected at most %d, found %zu", name, BO_REQUEST_MAX_INPUTS,
                         count);
    q->prompts = bo_alloc(r->context, count, sizeof *q->prompts, "prompts");
    if (!q->prompts) return no_memory(r);
    if (!item) {
        q->prompt_count = 1;
        return copy_text(r, "", &q->prompts[0].text);
    }
    for (const bo_json *one = list ? item->child : item; one && q->prompt_count < count; one = one->next)
        if (list && one->kind != item->child->kind)
            return bo_refuse(r->refusal, 400, name, "%s: expected texts only, or lists of tokens only", name);
        else if (!read_prompt(r, name, one, &q->prompts[q->prompt_count++]))
            return false;
    return true;
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

/* Returns the text of {"type": "text", "text": …}; the type may be absent. NULL: the part has another form. */
static const char *text_of_part(const bo_json *part)
{
    const bo_json *type = bo_json_member(part, "type");
    if (type && (!bo_json_is(type, BO_JSON_TEXT) || strcmp(type->text, "text") != 0)) return NULL;
    return bo_json_text_or_null(bo_json_member(part, "text"));
}

/* Returns the content of a message as one text: a text, the joined texts of its parts, or "" for null. NULL: another
 * type. Free with free. */
static char *content_of(const bo_json *content)
{
    const bo_json *part;
    size_t length = 0;
    if (bo_json_is(content, BO_JSON_NULL) || bo_json_is(content, BO_JSON_TEXT)) {
        const char *text = bo_json_is(content, BO_JSON_TEXT) ? content->text : "";
        char *copy = malloc(strlen(text) + 1);
        if (copy) memcpy(copy, text, strlen(text) + 1);
        return copy;
    }
    if (!bo_json_is(content, BO_JSON_ARRAY)) return NULL;
    BO_JSON_EACH(part, content)
    {
        const char *text = text_of_part(part);
        if (!text) return NULL;
        length += strlen(text);
    }
    char *out = malloc(length + 1), *at = out;
    if (!out) return NULL;
    BO_JSON_EACH(part, content)
    {
        const char *text = text_of_part(part);
        const size_t bytes = strlen(text);
        memcpy(at, text, bytes);
        at += bytes;
    }
    *at = 0;
    return out;
}

static bool no_json_memory(const reader *r)
{
    return bo_refuse(r->refusal, 500, NULL, "out of memory for the conversation");
}

/* Adds a member. The object takes ownership of it; after a failure it is deleted. */
static bool add_member(bo_json *object, const char *name, bo_json *item)
{
    if (item && bo_json_put(object, name, item)) return true;
    bo_json_delete(item);
    return false;
}

/* Checks the messages and converts each content to one text. */
static bool normalize_messages(const reader *r, bo_json *messages)
{
    bo_json *message;
    size_t number = 0;
    const bool follows = r->out->state || r->out->state_data; /* the state has messages */
    if (!bo_json_is(messages, BO_JSON_ARRAY) || (!messages->child && !follows))
        return bo_refuse(r->refusal, 400, "messages", "messages: expected a list of at least one message");
    BO_JSON_EACH(message, messages)
    {
        char *content = NULL;
        const bool whole = bo_json_is(message, BO_JSON_OBJECT) && bo_members_are_few(message) &&
                           bo_json_is(bo_json_member(message, "role"), BO_JSON_TEXT) &&
                           (content = content_of(bo_json_member(message, "content"))) != NULL;
        bo_json *text = whole ? bo_json_new_text(content) : NULL;
        free(content);
        if (!whole)
            return bo_refuse(r->refusal, 400, "messages",
                             "messages: message %zu: expected an object with a role and a content of text", number);
        while (bo_json_member(message, "content")) /* a member may occur more than once */
            bo_json_delete(bo_json_detach(message, bo_json_member(message, "content")));
        if (!add_member(message, "content", text)) return no_json_memory(r);
        number++;
    }
    return true;
}

enum { NAME_BYTES = 128 }; /* maximum name of a template variable, including NUL */

static bool has_short_names(const bo_json *object)
{
    for (const bo_json *item = object->child; item; item = item->next)
        if (strlen(item->key) >= NAME_BYTES) return false;
    return true;
}

/* Moves a member from one object to another, unless the other has a member of this name. False: out of memory. */
static bool move_member(bo_json *from, bo_json *to, bo_json *item)
{
    char name[NAME_BYTES];
    if (!item) return true;
    if (bo_json_member(to, item->key)) {
        bo_json_delete(bo_json_detach(from, item));
        return true;
    }
    snprintf(name, sizeof name, "%s", item->key); /* bo_json frees the old name before it copies the new one */
    return add_member(to, name, bo_json_detach(from, item));
}

/* Fills in the variables of the template: the messages, `tools` and chat_template_kwargs. */
static bool collect_variables(const reader *r, bo_json *body, bo_json *variables)
{
    bo_json *more = bo_json_member(body, "chat_template_kwargs");
    bo_json *tools = bo_json_member(body, "tools");
    const char *choice = bo_json_text_or_null(bo_json_member(body, "tool_choice"));
    const bool offered = bo_json_is(tools, BO_JSON_ARRAY) && !(choice && strcmp(choice, "none") == 0);
    if (!move_member(body, variables, bo_json_member(body, "messages"))) return no_json_memory(r);
    if (!normalize_messages(r, bo_json_member(variables, "messages"))) return false;
    if (offered && !move_member(body, variables, tools)) return no_json_memory(r);
    while (bo_json_is(more, BO_JSON_OBJECT) && more->child)
        if (!move_member(more, variables, more->child)) return no_json_memory(r);
    char *text = bo_json_print(variables);
    const bool done = text ? copy_text(r, text, &r->out->variables) : no_json_memory(r);
    free(text);
    return done;
}

/* Strict tools are not supported, because the arguments of calls are not constrained. With tool_choice "none" there are
 * no calls. */
static bool tools_are_strict(const bo_json *tools, const char *choice)
{
    const bo_json *tool;
    if (choice && strcmp(choice, "none") == 0) return false;
    BO_JSON_EACH(tool, tools)
    {
        const bo_json *function = bo_json_member(tool, "function");
        if (bo_json_is(bo_json_member(function, "strict"), BO_JSON_TRUE)) return true;
        if (bo_json_is(bo_json_member(tool, "strict"), BO_JSON_TRUE)) return true;
    }
    return false;
}

static bool read_messages(const reader *r)
{
    bo_json *body = (bo_json *)(uintptr_t)r->body; /* the body belongs to this call and is not read again */
    const bo_json *more = member(r, "chat_template_kwargs"), *tools = member(r, "tools");
    if (!member(r, "messages")) return bo_refuse(r->refusal, 400, "messages", "messages is required");
    if (more && (!bo_json_is(more, BO_JSON_OBJECT) || !bo_members_are_few(more) || !has_short_names(more)))
        return bo_refuse(r->refusal, 400, "chat_template_kwargs",
                         "chat_template_kwargs: expected an object of at most 64 members with short names");
    if (tools && !bo_json_is(tools, BO_JSON_ARRAY))
        return bo_refuse(r->refusal, 400, "tools", "tools: expected a list");
    if (tools_are_strict(tools, bo_json_text_or_null(bo_json_member(body, "tool_choice"))))
        return bo_refuse(r->refusal, 400, "tools", "tools: functions with strict set to true are not supported");
    if (!read_flag(r, "parse_special", &r->out->parse_special)) return false;
    bo_json *variables = bo_json_new(BO_JSON_OBJECT);
    const bool done = variables ? collect_variables(r, body, variables) : no_json_memory(r);
    bo_json_delete(variables);
    return done;
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

static bool read_bias(const reader *r)
{
    enum { MAX_BIAS = 100, MAX_BIASES = 1024 };
    const bo_json *all = member(r, "logit_bias"), *item;
    bo_request *q = r->out;
    if (!all) return true;
    if (!bo_json_is(all, BO_JSON_OBJECT) || bo_json_count(all) > MAX_BIASES)
        return bo_refuse(r->refusal, 400, "logit_bias", "logit_bias: expected an object of at most %d tokens",
                         MAX_BIASES);
    q->biases = bo_alloc(r->context, (size_t)bo_json_count(all), sizeof *q->biases, "logit_bias");
    if (!q->biases) return no_memory(r);
    BO_JSON_EACH(item, all)
    {
        size_t id = 0, digits = strspn(item->key, "0123456789");
        const bool whole = digits > 0 && digits < 10 && !item->key[digits] && sscanf(item->key, "%zu", &id) == 1;
        if (!whole || id >= r->vocab)
            return bo_refuse(r->refusal, 400, "logit_bias", "logit_bias: expected tokens below %zu as names", r->vocab);
        if (!bo_json_is(item, BO_JSON_NUMBER) || !(fabs(item->number) <= MAX_BIAS))
            return bo_refuse(r->refusal, 400, "logit_bias", "logit_bias: expected numbers from -100 to 100");
        q->biases[q->bias_count++] = (bo_bias){(int32_t)id, (float)item->number};
    }
    return true;
}

static bool add_stop(const reader *r, const bo_json *item)
{
    bo_request *q = r->out;
    if (!bo_json_is(item, BO_JSON_TEXT))
        return bo_refuse(r->refusal, 400, "stop", "stop: expected a text or a list of texts");
    if (!item->text[0]) return bo_refuse(r->refusal, 400, "stop", "stop: a text must not be empty");
    if (q->stop_count == BO_REQUEST_MAX_STOPS)
        return bo_refuse(r->refusal, 400, "stop", "stop: expected at most %d texts", BO_REQUEST_MAX_STOPS);
    return copy_text(r, item->text, &q->stops[q->stop_count++]);
}

static bool read_stops(const reader *r)
{
    const bo_json *all = member(r, "stop"), *item;
    if (!all) return true;
    if (!bo_json_is(all, BO_JSON_ARRAY)) return add_stop(r, all);
    BO_JSON_EACH(item, all) if (!add_stop(r, item)) return false;
    return true;
}

static bool read_top_k(const reader *r)
{
    const bo_json *item = member(r, "top_k");
    if (bo_json_is(item, BO_JSON_NUMBER) && item->number == -1) return true; /* other servers use -1 for all */
    return read_whole(r, "top_k", 0, 1 << 30, &r->out->sampling.top_k);
}

static bool read_seed(const reader *r)
{
    const bo_json *item = member(r, "seed");
    if (!item) return true;
    const double limit = 9223372036854775808.0; /* 2^63 */
    const double seed = bo_json_is(item, BO_JSON_NUMBER) ? item->number : NAN;
    if (seed != floor(seed) || !(fabs(seed) <= limit))
        return bo_refuse(r->refusal, 400, "seed", "seed: expected a whole number of 64 bits");
    r->out->sampling.seed = seed < limit ? (uint64_t)(int64_t)seed : (uint64_t)INT64_MAX;
    r->out->seeded = true;
    return true;
}

static bool read_sampling(const reader *r)
{
    bo_request *q = r->out;
    double temperature = 1, top_p = 1, penalty = 1;
    if (!read_real(r, "temperature", 0, 100, &temperature) || !read_real(r, "top_p", 0, 1, &top_p) ||
        !read_real(r, "min_p", 0, 1, &q->sampling.min_p) || !read_top_k(r) ||
        !read_real(r, "repetition_penalty", 0, 100, &penalty) ||
        !read_real(r, "presence_penalty", -2, 2, &q->presence_penalty) ||
        !read_real(r, "frequency_penalty", -2, 2, &q->frequency_penalty) || !read_seed(r))
        return false;
    if (top_p == 0) return bo_refuse(r->refusal, 400, "top_p", "top_p: expected a number above 0");
    if (penalty == 0)
        return bo_refuse(r->refusal, 400, "repetition_penalty", "repetition_penalty: expected a number above 0");
    q->sampling.greedy = temperature == 0;
    q->sampling.temperature = temperature;
    q->sampling.top_p = top_p;
    q->sampling.repetition_penalty = penalty;
    return read_bias(r) && read_stops(r) && read_flag(r, "ignore_eos", &q->ignore_end);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static bool read_state(const reader *r)
{
    const bo_json *state = member(r, "state");
    const char *id = bo_json_text_or_null(state);
    const char *data = bo_json_text_or_null(bo_json_member(state, "data"));
    if (!state) return true;
    if (!id && !data)
        return bo_refuse(r->refusal, 400, "state", "state: expected an id, or an object with data in base64");
    if (data) return copy_text(r, data, &r->out->state_data);
    if (!bo_state_id_is_valid(id))
        return bo_refuse(r->refusal, 400, "state", "state: an id has 1 to 64 letters, digits, \"-\" and \"_\"");
    return copy_text(r, id, &r->out->state);
}

static bool read_return_state(const reader *r)
{
    const bo_json *item = member(r, "return_state");
    const char *text = bo_json_text_or_null(item);
    if (!item) return true;
    if (!bo_json_is_bool(item) && !(text && strcmp(text, "id") == 0))
        return bo_refuse(r->refusal, 400, "return_state", "return_state: expected true, false or \"id\"");
    r->out->return_state = text ? BO_STATE_ID : bo_json_is(item, BO_JSON_TRUE) ? BO_STATE_DATA : BO_STATE_NONE;
    return true;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static bool read_logprobs(const reader *r)
{
    bo_request *q = r->out;
    size_t top = 0;
    q->top = -1;
    if (q->kind == BO_REQUEST_CHAT) {
        bool requested = false;
        if (!read_flag(r, "logprobs", &requested) || !read_whole(r, "top_logprobs", 0, BO_MAX_TOP, &top)) return false;
        if (!requested && member(r, "top_logprobs"))
            return bo_refuse(r->refusal, 400, "top_logprobs", "top_logprobs requires logprobs to be true");
        if (requested) q->top = (int)top;
        return true;
    }
    if (!read_whole(r, "logprobs", 0, BO_MAX_TOP, &top)) return false;
    if (member(r, "logprobs")) q->top = (int)top;
    return true;
}

static bool read_stream(const reader *r)
{
    const bo_json *options = member(r, "stream_options"), *usage, *item;
    if (!read_flag(r, "stream", &r->out->stream)) return false;
    if (!options) return true;
    if (!bo_json_is(options, BO_JSON_OBJECT))
        return bo_refuse(r->refusal, 400, "stream_options", "stream_options: expected an object");
    usage = bo_json_member(options, "include_usage");
    if (usage && !bo_json_is(usage, BO_JSON_NULL) && !bo_json_is_bool(usage))
        return bo_refuse(r->refusal, 400, "stream_options", "stream_options: include_usage: expected true or false");
    r->out->usage = bo_json_is(usage, BO_JSON_TRUE);
    BO_JSON_EACH(item, options)
    {
        if (item != usage && !bo_json_is(item, BO_JSON_NULL) && !bo_json_is(item, BO_JSON_FALSE))
            return bo_refuse(r->refusal, 400, "stream_options",
                             "stream_options: members other than include_usage are not supported");
    }
    return true;
}

static bool read_max_tokens(const reader *r)
{
    enum { COMPLETION = 16, CHAT = 1024, MAX_TOKENS = 1 << 30 };
    bo_request *q = r->out;
    q->max_tokens = q->kind == BO_REQUEST_CHAT ? CHAT : COMPLETION;
    if (!read_whole(r, "max_tokens", 0, MAX_TOKENS, &q->max_tokens)) return false;
    return q->kind != BO_REQUEST_CHAT || read_whole(r, "max_completion_tokens", 0, MAX_TOKENS, &q->max_tokens);
}

/* Continuations are not compared, so `best_of` is supported only if there is nothing to choose. */
static bool read_n(const reader *r)
{
    bo_request *q = r->out;
    if (!read_whole(r, "n", 1, BO_REQUEST_MAX_N, &q->n)) return false;
    size_t best_of = q->n;
    if (q->kind == BO_REQUEST_COMPLETION && !read_whole(r, "best_of", 1, BO_REQUEST_MAX_N, &best_of)) return false;
    return best_of == 1 || best_of == q->n ||
           bo_refuse(r->refusal, 400, "best_of", "best_of: values other than 1 and n (%zu) are not supported", q->n);
}

static bool read_generation(const reader *r)
{
    bo_request *q = r->out;
    q->n = 1;
    if (!read_max_tokens(r) || !read_n(r) || !read_sampling(r) || !read_logprobs(r) || !read_stream(r) ||
        !read_flag(r, "return_token_ids", &q->token_ids) || !read_state(r) || !read_return_state(r))
        return false;
    if (q->kind == BO_REQUEST_CHAT) return read_messages(r);
    if (!read_flag(r, "echo", &q->echo) || !read_prompts(r, "prompt", true, false)) return false;
    if (q->echo && (q->state || q->state_data))
        return bo_refuse(r->refusal, 400, "echo",
                         "echo: the text before a state is not known; leave out echo or state");
    return true;
}

static bool read_embedding(const reader *r)
{
    const char *format = bo_json_text_or_null(member(r, "encoding_format"));
    if (member(r, "encoding_format") && (!format || (strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)))
        return bo_refuse(r->refusal, 400, "encoding_format", "encoding_format: expected \"float\" or \"base64\"");
    r->out->base64 = format && strcmp(format, "base64") == 0;
    if (!read_whole(r, "dimensions", 1, 1 << 24, &r->out->dimensions) || !read_prompts(r, "input", true, true))
        return false;
    return r->out->prompt_count > 0 || bo_refuse(r->refusal, 400, "input", "input: expected at least one text");
}

/* A prompt or messages. */
static bool read_text(const reader *r)
{
    static const char *const names[] = {"tools", "chat_template_kwargs", "parse_special"};
    if (member(r, "messages")) {
        if (member(r, "prompt"))
            return bo_refuse(r->refusal, 400, "prompt", "expected either prompt or messages, found both");
        return read_messages(r);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (member(r, names[i])) return bo_refuse(r->refusal, 400, names[i], "%s requires messages", names[i]);
    return read_prompts(r, "prompt", false, true);
}

static bool read_detokenize(const reader *r)
{
    if (!bo_json_is(member(r, "tokens"), BO_JSON_ARRAY))
        return bo_refuse(r->refusal, 400, "tokens", "tokens: expected a list of tokens");
    return read_prompts(r, "tokens", false, true);
}

static bool read_kind(const reader *r)
{
    switch (r->out->kind) {
    case BO_REQUEST_COMPLETION:
    case BO_REQUEST_CHAT:
        return read_generation(r);
    case BO_REQUEST_EMBEDDING:
        return read_embedding(r);
    case BO_REQUEST_TOKENIZE:
        r->out->special_tokens = true;
        return read_flag(r, "add_special_tokens", &r->out->special_tokens) && read_text(r);
    case BO_REQUEST_DETOKENIZE:
        return read_detokenize(r);
    case BO_REQUEST_STATE:
        return read_state(r) && read_text(r);
    }
    return false;
}

static size_t skip_digits(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] >= '0' && text[at] <= '9') at++;
    return at;
}

/* Returns the end of the number at `at` (RFC 8259, section 6). 0: it is not valid JSON, such as 01 or 1. */
static size_t number_end(const char *text, size_t size, size_t at)
{
    const size_t whole = at + (text[at] == '-');
    size_t end = skip_digits(text, size, whole), next;
    if (end == whole || (end > whole + 1 && text[whole] == '0')) return 0;
    if (end < size && text[end] == '.') {
        next = skip_digits(text, size, end + 1);
        if (next == end + 1) return 0;
        end = next;
    }
    if (end < size && (text[end] == 'e' || text[end] == 'E')) {
        const size_t digits = end + 1 + (end + 1 < size && (text[end + 1] == '+' || text[end + 1] == '-'));
        next = skip_digits(text, size, digits);
        if (next == digits) return 0;
        end = next;
    }
    return end;
}

/* The JSON parser accepts some numbers that are not valid JSON. */
static bool has_wrong_number(const char *text, size_t size)
{
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))) {
            const size_t end = number_end(text, size, i);
            if (end == 0) return true;
            i = end - 1;
        }
    }
    return false;
}

/* True if a string of the JSON contains an unescaped control character. */
static bool has_raw_control(const char *text, size_t size)
{
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && (unsigned char)text[i] < 0x20) return true;
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
    }
    return false;
}

bool bo_request_parse(bo_context *context, bo_request_kind kind, const char *body, size_t size, size_t vocab,
                      bo_request *out, bo_refusal *refusal)
{
    enum { DEPTH = 64 };
    bo_json *json;
    *out = (bo_request){.kind = kind, .top = -1, .n = 1};
    if (bo_utf8_valid(body, size) < size) return bo_refuse(refusal, 400, NULL, "the body is not UTF-8");
    if (memchr(body, 0, size) || bo_json_has_nul(body, size))
        return bo_refuse(refusal, 400, NULL, "a text contains NUL, which is not supported");
    if (has_raw_control(body, size))
        return bo_refuse(refusal, 400, NULL, "a string of the JSON has a control character that is not escaped");
    if (has_wrong_number(body, size)) return bo_refuse(refusal, 400, NULL, "a number of the JSON is malformed");
    if (bo_json_parse(context, "body", body, size, DEPTH, &json) != BO_OK)
        return bo_refuse(refusal, 400, NULL, "%s", bo_context_error(context));
    bo_member_names read = {.count = 0};
    const reader r = {context, json, vocab, out, refusal, &read};
    const bool done =
        bo_json_is(json, BO_JSON_OBJECT)
            ? bo_members_check_names(json, refusal) && read_kind(&r) && bo_members_check(json, kind, &read, refusal)
            : bo_refuse(refusal, 400, NULL, "the body must be a JSON object");
    bo_json_delete(json);
    if (!done) bo_request_free(out);
    return done;
}

void bo_request_free(bo_request *q)
{
    for (size_t i = 0; q->prompts && i < q->prompt_count; i++) {
        bo_free(q->prompts[i].text);
        bo_free(q->prompts[i].ids);
    }
    for (size_t i = 0; i < q->stop_count; i++) bo_free(q->stops[i]);
    void *const blocks[] = {q->prompts, q->variables, q->biases, q->state, q->state_data};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    *q = (bo_request){0};
}
