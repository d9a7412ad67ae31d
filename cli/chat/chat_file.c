/* A conversation in a file: a line "bochner-chat 1 JSON_BYTES STATE_BYTES", a JSON object with a checksum (messages,
 * tokens, random numbers drawn), and the state of the session, which has its own checksum. */
#include "chat.h"
#include "../common/json.h"
#include "../../src/io/json_tree.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char MAGIC[] = "bochner-chat";

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static char *valid_text(const char *text, size_t bytes)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *out = cli_allocate(3 * bytes + 1, 1, "a message"), *to = out;
    for (size_t i = 0; i < bytes;) {
        const size_t char_bytes = text[i] ? bo_utf8_length(text + i, bytes - i) : 0;
        memcpy(to, char_bytes ? text + i : replacement, char_bytes ? char_bytes : 3);
        to += char_bytes ? char_bytes : 3;
        i += char_bytes ? char_bytes : 1;
    }
    return out;
}

void cli_messages_add(cli_messages *messages, const char *role, const char *content, size_t bytes)
{
    if (messages->count == messages->capacity) {
        const size_t capacity = 2 * messages->capacity + 16;
        bo_chat_message *larger = cli_allocate(capacity, sizeof *larger, "messages");
        if (messages->count) memcpy(larger, messages->items, messages->count * sizeof *larger);
        free(messages->items);
        messages->items = larger;
        messages->capacity = capacity;
    }
    messages->items[messages->count++] =
        (bo_chat_message){.role = valid_text(role, strlen(role)), .content = valid_text(content, bytes)};
}

void cli_messages_drop(cli_messages *messages, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        free((char *)messages->items[i].role);
        free((char *)messages->items[i].content);
    }
    memmove(messages->items + first, messages->items + first + count,
            (messages->count - first - count) * sizeof *messages->items);
    messages->count -= count;
}

void cli_messages_free(cli_messages *messages)
{
    if (messages->count) cli_messages_drop(messages, 0, messages->count);
    free(messages->items);
    *messages = (cli_messages){0};
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static char *header_text(const cli_chat_file *file, size_t *length)
{
    char *text = NULL, drawn[24];
    FILE *out = open_memstream(&text, length);
    if (!out) return NULL;
    cli_json json = {.out = out};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "checksum", BO_JSON_UNSEALED);
    snprintf(drawn, sizeof drawn, "%" PRIu64, file->drawn);
    cli_json_add_text(&json, "drawn", drawn);
    cli_json_array(&json, "messages");
    for (size_t i = 0; i < file->messages.count; i++) {
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "role", file->messages.items[i].role);
        cli_json_add_text(&json, "content", file->messages.items[i].content);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_array(&json, "ids");
    for (size_t i = 0; i < file->ids.count; i++) cli_json_add_count(&json, NULL, (size_t)file->ids.items[i]);
    cli_json_end(&json);
    cli_json_end(&json);
    if (fclose(out) == 0 && bo_json_seal(text, *length)) return text;
    free(text);
    return NULL;
}

static bo_status write_parts(bo_context *context, bo_output *output, const cli_chat_file *file, const char *header,
                             size_t length)
{
    char line[96];
    snprintf(line, sizeof line, "%s 1 %zu %zu\n", MAGIC, length, file->state_bytes);
    bo_status status = bo_output_write(context, output, line, strlen(line));
    if (status == BO_OK) status = bo_output_write(context, output, header, length);
    if (status == BO_OK) status = bo_output_write(context, output, file->state, file->state_bytes);
    return status;
}

bo_status cli_chat_file_save(bo_context *context, const char *path, const cli_chat_file *file)
{
    size_t length = 0;
    char *header = header_text(file, &length);
    bo_output *output;
    if (!header) return BO_MEMORY;
    bo_status status = bo_output_open(context, path, &output);
    if (status == BO_OK) {
        status = write_parts(context, output, file, header, length);
        if (status == BO_OK)
            status = bo_output_commit(context, output);
        else
            bo_output_abandon(output);
    }
    free(header);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool refuse(char why[256], const char *reason)
{
    snprintf(why, 256, "%s", reason);
    return false;
}

static bool read_messages(const bo_json *list, cli_messages *out)
{
    const bo_json *item;
    if (!bo_json_is(list, BO_JSON_ARRAY)) return false;
    BO_JSON_EACH(item, list)
    {
        const char *role = bo_json_text_or_null(bo_json_member(item, "role"));
        const char *content = bo_json_text_or_null(bo_json_member(item, "content"));
        if (!role || !content) return false;
        cli_messages_add(out, role, content, strlen(content));
    }
    return true;
}

static bool read_ids(const bo_json *list, bo_ids *out)
{
    const bo_json *item;
    if (!bo_json_is(list, BO_JSON_ARRAY)) return false;
    out->capacity = (size_t)bo_json_count(list);
    out->items = cli_allocate(out->capacity + 1, sizeof *out->items, "tokens");
    BO_JSON_EACH(item, list)
    {
        const double id = bo_json_is(item, BO_JSON_NUMBER) ? item->number : -1;
        if (!(id >= 0 && id <= INT32_MAX)) return false;
        out->items[out->count++] = (int32_t)id;
    }
    return true;
}

static bool read_drawn(const bo_json *item, uint64_t *out)
{
    const char *text = bo_json_text_or_null(item);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9') return false;
    *out = strtoull(text, &end, 10);
    return *end == 0;
}

static bool read_header(const char *text, size_t length, cli_chat_file *out, char why[256])
{
    const bool intact = bo_json_check(NULL, "chat", text, length) == BO_OK;
    if (intact && cli_json_has_nul(text, length))
        return refuse(why, "a text contains NUL, which is not supported in messages");
    bo_json *json = intact ? bo_json_read(text, length, NULL) : NULL;
    const bool valid = json && read_messages(bo_json_member(json, "messages"), &out->messages) &&
                       read_ids(bo_json_member(json, "ids"), &out->ids) &&
                       read_drawn(bo_json_member(json, "drawn"), &out->drawn);
    bo_json_delete(json);
    return valid || refuse(why, "the file is damaged or was edited");
}

/* A number and the character after it. */
static bool read_size(const char **text, const char *end, char after, size_t *out)
{
    const char *at = *text;
    *out = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (*out > (SIZE_MAX - 9) / 10) return false;
        *out = 10 * *out + (size_t)(*at - '0');
    }
    if (at == *text || at == end || *at != after) return false;
    *text = at + 1;
    return true;
}

bool cli_chat_file_parse(bo_context *context, const void *bytes, size_t size, cli_chat_file *out, char why[256])
{
    const char *at = bytes, *end = at + size;
    size_t version, length;
    uint64_t tokens;
    *out = (cli_chat_file){0};
    if (size < sizeof MAGIC || memcmp(at, MAGIC, sizeof MAGIC - 1) != 0 || at[sizeof MAGIC - 1] != ' ')
        return refuse(why, "the file is not a saved conversation");
    at += sizeof MAGIC;
    if (!read_size(&at, end, ' ', &version)) return refuse(why, "the file is damaged");
    if (version != 1) return refuse(why, "the file was made by a newer version of Bochner");
    if (!read_size(&at, end, ' ', &length) || !read_size(&at, end, '\n', &out->state_bytes) ||
        length > (size_t)(end - at) || out->state_bytes != (size_t)(end - at) - length)
        return refuse(why, "the file is damaged or incomplete");
    if (!read_header(at, length, out, why)) return false;
    if (bo_session_peek(context, &(bo_source){.bytes = at + length, .size = out->state_bytes}, &tokens) != BO_OK ||
        tokens != out->ids.count)
        return refuse(why, "the state in the file is damaged");
    out->state = (void *)(at + length);
    return true;
}

void cli_chat_file_free(cli_chat_file *file)
{
    cli_messages_free(&file->messages);
    free(file->ids.items);
    *file = (cli_chat_file){0};
}
