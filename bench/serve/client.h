/* The client of `bochner bench serve`: requests over many connections at once, with the times of the events. */
#ifndef BO_BENCH_SERVE_CLIENT_H
#define BO_BENCH_SERVE_CLIENT_H

#include "response.h"
#include <sys/socket.h>

typedef struct load_address {
    char host[256];   /* for the header Host: name and port */
    char prefix[128]; /* of every path; "" or such as "/api" */
    struct sockaddr_storage socket;
    socklen_t length;
} load_address;

/* Reads http://host:port/prefix and looks the host up. A "/v1" at the end is left out, because paths begin with it.
 * Returns false after a message. */
bool load_address_read(cli_session *session, const char *url, load_address *out);

/* A request as it is sent. */
typedef struct load_request {
    char *bytes; /* freed with free */
    size_t length;
} load_request;

/* `body` is JSON, or NULL for none. */
load_request load_request_make(const load_address *address, const char *method, const char *path, const char *body);

/* What became of a request. Times are those of cli_now. */
typedef struct load_outcome {
    int status;
    double sent, ended; /* when the first byte was sent and the last one arrived */
    double *tokens;     /* streaming: when each event with a token arrived */
    size_t count, capacity;
    size_t prompt, cached, generated; /* usage that the server reported; 0: not reported */
    load_text body;                   /* of a response that is not a stream */
} load_outcome;

void load_outcome_free(load_outcome *outcome);

/* Sends requests[i * each, (i + 1) * each) one after another over the connection of client i, for all clients at the
 * same time, and fills the outcomes of the same index, which are zero before. Returns false after a message if a
 * request could not be finished, or was answered with another status than 200. The caller frees requests and outcomes
 * in both cases. */
bool load_run(cli_session *session, const load_address *address, size_t clients, size_t each,
              const load_request *requests, load_outcome *outcomes);

/* Sends one request and returns the body of the answer, which the caller frees, or NULL after a message. */
char *load_call(cli_session *session, const load_address *address, const char *method, const char *path,
                const char *body);

#endif
