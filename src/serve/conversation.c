#include <stdlib.h>
#include "conversation.h"
#include "../text/unicode.h"
#include "members.h"
#include <string.h>

enum { DEPTH = 64 };

static bo_status no_memory(bo_context *context)
{
    return bo_fail(context, BO_MEMORY, "out of memory for the conversation");
}

/* Prints a JSON value into memory of the library. */
static bo_status print(bo_context *context, const bo_json *json, char **out)
{
    char *text = json ? bo_json_print(json) : NULL;
    *out = text ? bo_strdup(context, text) : NULL;
    free(text);
    return *out ? BO_OK : no_memory(context);
}

bo_status bo_conversation_find(bo_context *context, const char *variables, char **out)
{
    bo_json *json;
    *out = NULL;
    BO_TRY(bo_json_parse(context, "messages", variables, strlen(variables), DEPTH, &json));
    const bo_status status = print(context, bo_json_member(json, "messages"), out);
    bo_json_delete(json);
    return status;
}

/* Requires exactly one content: a template would use the last of several. */
static bool is_message(const bo_json *json)
{
    size_t contents = 0;
    if (!bo_json_is(json, BO_JSON_OBJECT) || !bo_members_are_few(json)) return false;
    for (const bo_json *item = json->child; item; item = item->next) contents += strcmp(item->key, "content") == 0;
    return contents == 1 && bo_json_is(bo_json_member(json, "content"), BO_JSON_TEXT) &&
           bo_json_is(bo_json_member(json, "role"), BO_JSON_TEXT);
}

/* Parses the messages of a state and checks them like those of a request. Free with bo_json_delete. */
static bo_status parse(bo_context *context, const char *messages, bo_json **out)
{
    const size_t length = strlen(messages);
    size_t number = 0;
    *out = NULL;
    if (bo_utf8_valid(messages, length) < length)
        return bo_fail(context, BO_FORMAT, "state: its messages are not UTF-8");
    if (bo_json_has_nul(messages, length)) return bo_fail(context, BO_FORMAT, "state: its messages contain NUL");
    BO_TRY(bo_json_parse(context, "state: its messages", messages, length, DEPTH, out));
    bo_status status = BO_OK;
    if (!bo_json_is(*out, BO_JSON_ARRAY)) status = bo_fail(context, BO_FORMAT, "state: its messages are not a list");
    for (const bo_json *message = (*out)->child; message && status == BO_OK; message = message->next, number++)
        if (!is_message(message))
            status =
                bo_fail(context, BO_FORMAT,
                        "state: its messages: message %zu: expected an object of at most 64 members with a role and "
                        "one content of text",
                        number);
    if (status == BO_OK) return BO_OK;
    bo_json_delete(*out);
    *out = NULL;
    return status;
}

bo_status bo_conversation_check(bo_context *context, const char *messages)
{
    bo_json *json;
    BO_TRY(parse(context, messages, &json));
    bo_json_delete(json);
    return BO_OK;
}

bo_status bo_conversation_prepend(bo_context *context, const char *messages, char **variables)
{
    bo_json *before, *all = NULL;
    char *text = NULL;
    BO_TRY(parse(context, messages, &before));
    bo_status status = bo_json_parse(context, "messages", *variables, strlen(*variables), DEPTH, &all);
    bo_json *after = bo_json_detach(all, bo_json_member(all, "messages"));
    while (status == BO_OK && after && after->child)
        if (!bo_json_append(before, bo_json_detach(after, after->child))) status = no_memory(context);
    if (status == BO_OK && bo_json_put(all, "messages", before))
        before = NULL;
    else if (status == BO_OK)
        status = no_memory(context);
    if (status == BO_OK) status = print(context, all, &text);
    if (status == BO_OK) {
        bo_free(*variables);
        *variables = text;
    }
    bo_json_delete(after);
    bo_json_delete(before);
    bo_json_delete(all);
    return status;
}

bo_status bo_conversation_add(bo_context *context, const char *messages, const char *reply, size_t bytes, char **out)
{
    bo_json_text text = {.context = context};
    bo_json_add(&text, messages, strlen(messages) - 1); /* without the closing bracket */
    bo_json_raw(&text, strcmp(messages, "[]") == 0 ? "" : ",");
    bo_json_raw(&text, "{\"role\":\"assistant\",\"content\":");
    bo_json_text_of(&text, reply, bytes);
    bo_json_raw(&text, "}]");
    *out = text.bytes;
    return text.failed ? no_memory(context) : BO_OK;
}

void bo_conversation_hash(bo_xxh64 *hash, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = (uint32_t)ids[i];
        const unsigned char bytes[4] = {(unsigned char)id, (unsigned char)(id >> 8), (unsigned char)(id >> 16),
                                        (unsigned char)(id >> 24)};
        bo_xxh64_add(hash, bytes, sizeof bytes);
    }
}
