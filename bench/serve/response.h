/* Incremental parsers of HTTP/1.1 responses and server-sent events. Both accept the bytes in pieces of any size, and
 * the results do not depend on how the bytes are divided. */
#ifndef BO_BENCH_SERVE_RESPONSE_H
#define BO_BENCH_SERVE_RESPONSE_H

#include "text.h"

typedef void (*load_bytes_fn)(void *owner, const char *bytes, size_t count);

/* ---- responses --------------------------------------------------------------------------------------------------- */

typedef enum load_stage {
    LOAD_STATUS,      /* the first line */
    LOAD_HEADERS,     /* header lines, up to an empty line */
    LOAD_COUNTED,     /* a body of `left` more bytes */
    LOAD_CHUNK_SIZE,  /* the line with the size of a chunk */
    LOAD_CHUNK,       /* `left` more bytes of a chunk */
    LOAD_CHUNK_END,   /* the end of the line after a chunk */
    LOAD_TRAILERS,    /* the lines after the last chunk, up to an empty line */
    LOAD_UNTIL_CLOSE, /* a body that ends when the connection is closed */
    LOAD_DONE,
    LOAD_BROKEN /* not HTTP; `wrong` is the reason */
} load_stage;

enum { LOAD_LINE = 8192 };

/* Invariants: length < LOAD_LINE. left > 0 in the stages COUNTED and CHUNK. `wrong` is not NULL if and only if the
 * stage is BROKEN. */
typedef struct load_response {
    load_stage stage;
    int status;            /* such as 200; 0 before the first line */
    bool close;            /* the connection is closed after the response */
    bool events;           /* the body is a stream of server-sent events */
    bool chunked, counted; /* Transfer-Encoding, Content-Length */
    uint64_t left;
    const char *wrong;
    size_t length; /* bytes of the line that is being read */
    char line[LOAD_LINE];
    load_bytes_fn body; /* receives the bytes of the body */
    void *owner;
} load_response;

void load_response_begin(load_response *response, load_bytes_fn body, void *owner);
/* Reads bytes up to the end of the response. Returns the number of bytes that were read: fewer than `count` only if the
 * response is done or broken. */
size_t load_response_read(load_response *response, const char *bytes, size_t count);
/* Call it when the connection is closed. An incomplete response becomes broken. */
void load_response_end(load_response *response);

/* ---- server-sent events ------------------------------------------------------------------------------------------ */

/* Maximum number of bytes of a line, and of the data of an event. */
enum { LOAD_EVENT_BYTES = 1 << 24 };

typedef struct load_events {
    load_text line, data;
    bool after_return;   /* the last byte was a carriage return: a following line feed belongs to it */
    bool some;           /* the event has data, perhaps empty */
    bool broken;         /* a line or an event is too long; further bytes are ignored */
    load_bytes_fn event; /* receives the data of each event; the bytes are followed by a NUL */
    void *owner;
} load_events;

/* Reuses the memory of earlier events; the first call needs a zeroed struct. */
void load_events_begin(load_events *events, load_bytes_fn event, void *owner);
void load_events_read(load_events *events, const char *bytes, size_t count);
void load_events_free(load_events *events);

#endif
