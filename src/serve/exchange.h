/* An exchange: a request that the scheduler processes, and its response, which is written while tokens arrive.
 *
 * The scheduler thread appends to the response, and an HTTP thread reads it. If there is nothing to read, the
 * connection of the HTTP thread is suspended until the scheduler resumes it. */
#ifndef BO_SERVE_EXCHANGE_H
#define BO_SERVE_EXCHANGE_H

#include "service.h"

typedef struct bo_exchange bo_exchange;

/* Functions that suspend and resume the connection. Both are called with the lock of the exchange held. */
typedef struct bo_suspension {
    void (*suspend)(void *user);
    void (*resume)(void *user);
    void *user;
} bo_suspension;

/* Statistics for the access log. */
typedef struct bo_exchange_stats {
    size_t prompt_tokens, cached_tokens, generated_tokens;
} bo_exchange_stats;

/* Starts an exchange. Takes ownership of the contents of the request, also if it is refused. */
bool bo_exchange_start(bo_context *context, bo_service *service, bo_request *request, bo_client client,
                       bo_suspension suspension, bo_exchange **out, bo_refusal *refusal);
bool bo_exchange_streams(const bo_exchange *exchange);
/* Suspends the connection unless the exchange is finished. Returns true if it is finished. */
bool bo_exchange_wait(bo_exchange *exchange);
/* Copies at most `capacity` bytes of the response. 0: none are ready and the connection is suspended, or the response
 * has ended, which *end indicates. */
typedef enum bo_stream_end { BO_STREAM_OPEN, BO_STREAM_COMPLETE, BO_STREAM_LOST } bo_stream_end;
size_t bo_exchange_read(bo_exchange *exchange, char *out, size_t capacity, bo_stream_end *end);
/* After the end of a response that is not streamed: writes its body, which the exchange owns, and returns the status.
 * *body NULL: out of memory. */
int bo_exchange_finish(bo_context *context, bo_exchange *exchange, const char **body, size_t *size);
void bo_exchange_get_stats(bo_exchange *exchange, bo_exchange_stats *out);
/* Ends the jobs, because the client has disconnected. The exchange exists until bo_exchange_release. */
void bo_exchange_cancel(bo_exchange *exchange);
/* Releases the reference of the HTTP thread. */
void bo_exchange_release(bo_exchange *exchange);

#endif
