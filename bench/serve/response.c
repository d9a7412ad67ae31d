/* HTTP/1.1 responses (RFC 9112), as far as a client of completions needs them. */
#include "response.h"
#include <string.h>
#include <strings.h>

void load_response_begin(load_response *response, load_bytes_fn body, void *owner)
{
    *response = (load_response){.stage = LOAD_STATUS, .body = body, .owner = owner};
}

static void refuse(load_response *response, const char *wrong)
{
    response->stage = LOAD_BROKEN;
    response->wrong = wrong;
}

/* Adds bytes to the line up to a line feed. Returns true if the line is complete; it has no line end and is followed by
 * a NUL. */
static bool parse_line(load_response *response, const char **at, const char *end)
{
    while (*at < end) {
        const char byte = *(*at)++;
        if (byte == '\n') {
            if (response->length && response->line[response->length - 1] == '\r') response->length--;
            response->line[response->length] = 0;
            response->length = 0;
            return true;
        }
        if (byte == 0) refuse(response, "a header has a NUL");
        if (response->length + 1 == LOAD_LINE) refuse(response, "a header line is too long");
        if (response->stage == LOAD_BROKEN) return false;
        response->line[response->length++] = byte;
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void read_status(load_response *response)
{
    const char *line = response->line;
    const bool known = strncmp(line, "HTTP/1.", 7) == 0 && is_digit(line[7]) && line[8] == ' ' && is_digit(line[9]) &&
                       is_digit(line[10]) && is_digit(line[11]) && (line[12] == ' ' || line[12] == 0);
    if (!known) {
        refuse(response, "the first line is not HTTP/1.1");
        return;
    }
    response->status = 100 * (line[9] - '0') + 10 * (line[10] - '0') + line[11] - '0';
    response->close = line[7] == '0';
    response->stage = response->status >= 100 ? LOAD_HEADERS : LOAD_BROKEN;
    if (response->stage == LOAD_BROKEN) response->wrong = "the status is below 100";
}

/* Parses a decimal number; returns false for other text and for numbers above 10^18. */
static bool read_length(const char *text, uint64_t *out)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits]) return false;
    *out = 0;
    for (size_t i = 0; i < digits; i++) *out = 10 * *out + (uint64_t)(text[i] - '0');
    return true;
}

static void read_header(load_response *response)
{
    char *colon = strchr(response->line, ':'), *value = colon ? colon + 1 : NULL;
    if (!colon || colon == response->line || colon[-1] == ' ' || colon[-1] == '\t') {
        refuse(response, "a header has no name");
        return;
    }
    *colon = 0;
    value += strspn(value, " \t");
    for (size_t n = strlen(value); n && (value[n - 1] == ' ' || value[n - 1] == '\t');) value[--n] = 0;
    const char *name = response->line;
    uint64_t length = 0;
    if (strcasecmp(name, "content-length") == 0) {
        if (!read_length(value, &length) || (response->counted && length != response->left))
            refuse(response, "the header Content-Length is wrong");
        response->counted = true;
        response->left = length;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        if (strcasecmp(value, "chunked") != 0) refuse(response, "the transfer encoding is not chunked");
        response->chunked = true;
    } else if (strcasecmp(name, "connection") == 0) {
        if (strcasecmp(value, "close") == 0) response->close = true;
        if (strcasecmp(value, "keep-alive") == 0) response->close = false;
    } else if (strcasecmp(name, "content-type") == 0) {
        response->events = strncasecmp(value, "text/event-stream", strlen("text/event-stream")) == 0;
    }
}

/* After the empty line: the next stage depends on the status and the headers. */
static void end_headers(load_response *response)
{
    if (response->status < 200) /* an interim (1xx) response */
        load_response_begin(response, response->body, response->owner);
    else if (response->status == 204 || response->status == 304)
        response->stage = LOAD_DONE;
    else if (response->chunked)
        response->stage = LOAD_CHUNK_SIZE;
    else if (response->counted)
        response->stage = response->left ? LOAD_COUNTED : LOAD_DONE;
    else
        response->stage = LOAD_UNTIL_CLOSE, response->close = true;
}

static void read_chunk_size(load_response *response)
{
    const char *line = response->line;
    const size_t digits = strspn(line, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 15 || (line[digits] && !strchr("; \t", line[digits]))) {
        refuse(response, "a chunk has no size");
        return;
    }
    response->left = 0;
    for (size_t i = 0; i < digits; i++) {
        const char c = line[i];
        response->left = 16 * response->left + (uint64_t)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    response->stage = response->left ? LOAD_CHUNK : LOAD_TRAILERS;
}

static void read_line(load_response *response)
{
    const bool empty = response->line[0] == 0;
    switch (response->stage) {
    case LOAD_STATUS:
        read_status(response);
        break;
    case LOAD_HEADERS:
        if (empty)
            end_headers(response);
        else
            read_header(response);
        break;
    case LOAD_CHUNK_SIZE:
        read_chunk_size(response);
        break;
    case LOAD_CHUNK_END:
        response->stage = LOAD_CHUNK_SIZE;
        if (!empty) refuse(response, "a chunk is longer than its size");
        break;
    default: /* TRAILERS */
        if (empty) response->stage = LOAD_DONE;
        break;
    }
}

/* Passes on bytes of the body. */
static void parse_body(load_response *response, const char **at, const char *end)
{
    size_t count = (size_t)(end - *at);
    if (response->stage != LOAD_UNTIL_CLOSE) {
        if (count > response->left) count = (size_t)response->left;
        response->left -= count;
    }
    response->body(response->owner, *at, count);
    *at += count;
    if (response->left == 0 && response->stage == LOAD_COUNTED) response->stage = LOAD_DONE;
    if (response->left == 0 && response->stage == LOAD_CHUNK) response->stage = LOAD_CHUNK_END;
}

size_t load_response_read(load_response *response, const char *bytes, size_t count)
{
    const char *at = bytes, *end = bytes + count;
    while (at < end && response->stage != LOAD_DONE && response->stage != LOAD_BROKEN) {
        const load_stage stage = response->stage;
        if (stage == LOAD_COUNTED || stage == LOAD_CHUNK || stage == LOAD_UNTIL_CLOSE)
            parse_body(response, &at, end);
        else if (parse_line(response, &at, end))
            read_line(response);
    }
    return (size_t)(at - bytes);
}

void load_response_end(load_response *response)
{
    if (response->stage == LOAD_UNTIL_CLOSE)
        response->stage = LOAD_DONE;
    else if (response->stage != LOAD_DONE && response->stage != LOAD_BROKEN)
        refuse(response, "the connection ended before the response");
}
