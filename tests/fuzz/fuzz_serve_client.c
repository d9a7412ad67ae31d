/* Responses of a server to `bochner bench serve`: status, body and events do not depend on the division of the bytes.
 */
#include "bench/serve/response.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct received {
    load_response response;
    load_events events;
    load_text body, data; /* the data of each event, followed by a NUL */
} received;

static void on_event(void *owner, const char *bytes, size_t count)
{
    if (bytes[count]) abort();
    load_text_add(&((received *)owner)->data, bytes, count + 1);
}

static void on_body(void *owner, const char *bytes, size_t count)
{
    received *h = owner;
    load_text_add(&h->body, bytes, count);
    load_events_read(&h->events, bytes, count);
}

/* Reads the bytes in pieces, the last of which is followed by the end of the connection. Returns the number of bytes
 * read. */
static size_t receive(received *h, const char *bytes, size_t size, size_t piece)
{
    size_t used = 0;
    *h = (received){0};
    load_response_begin(&h->response, on_body, h);
    load_events_begin(&h->events, on_event, h);
    for (size_t at = 0; at < size; at += piece)
        used += load_response_read(&h->response, bytes + at, size - at < piece ? size - at : piece);
    load_response_end(&h->response);
    if (h->response.stage != LOAD_DONE && (h->response.stage != LOAD_BROKEN || !h->response.wrong)) abort();
    if (h->body.length > used || used > size) abort();
    return used;
}

static bool same(const load_text *a, const load_text *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

static void forget(received *h)
{
    load_events_free(&h->events);
    free(h->body.bytes);
    free(h->data.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static received whole, divided;
    const char *bytes = size ? (const char *)data : "";
    const size_t piece = size ? 1 + data[size / 2] % 16 : 1;
    const size_t used = receive(&whole, bytes, size, size ? size : 1);
    if (receive(&divided, bytes, size, piece) != used) abort();
    if (whole.response.stage != divided.response.stage || whole.response.status != divided.response.status) abort();
    if (whole.response.close != divided.response.close || whole.events.broken != divided.events.broken) abort();
    if (!same(&whole.body, &divided.body) || !same(&whole.data, &divided.data)) abort();
    forget(&whole);
    forget(&divided);
    return 0;
}
