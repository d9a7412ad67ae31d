/* An exchange: a request that the scheduler works on, and its answer, which is made while tokens arrive.
 *
 * The scheduler adds to the answer on its thread; an HTTP thread takes from it. If there is nothing to take, the HTTP
 * thread sleeps (its connection is suspended) until the scheduler wakes it. */
#ifndef BO_SERVE_EXCHANGE_H
#define BO_SERVE_EXCHANGE_H

#include "service.h"

typedef struct bo_exchange bo_exchange;

/* How the HTTP thread sleeps and is woken; both are called with the lock of the exchange. */
typedef struct bo_suspension {
    void (*suspend)(void *user);
    void (*resume)(void *user);
    void *user;
} bo_suspension;

/* Numbers of the access log. */
typedef struct bo_exchange_stats {
    size_t prompt_tokens, cached_tokens, generated_tokens;
} bo_exchange_stats;

/* Starts an exchange; takes the contents of the request, also if it is refused. */
bool bo_exchange_start(bo_context *context, bo_service *service, bo_request *request, bo_client client,
                       bo_suspension suspension, bo_exchange **out, bo_refusal *refusal);
bool bo_exchange_streams(const bo_exchange *exchange);
/* Sleeps unless the exchange is finished. Returns whether it is. */
bool bo_exchange_wait(bo_exchange *exchange);
/* Copies at most `room` bytes of the answer. 0: there are none now, and the thread sleeps; or it ended, as *end
 * tells. */
typedef enum bo_stream_end { BO_STREAM_OPEN, BO_STREAM_COMPLETE, BO_STREAM_LOST } bo_stream_end;
size_t bo_exchange_read(bo_exchange *exchange, char *out, size_t capacity, bo_stream_end *end);
/* After the end, of an answer that is not streamed: writes its body, which the exchange owns, and returns the status.
 * NULL: there is no memory for it. */
int bo_exchange_finish(bo_context *context, bo_exchange *exchange, const char **body, size_t *size);
void bo_exchange_get_stats(bo_exchange *exchange, bo_exchange_stats *out);
/* The client is gone: its jobs end. The exchange stays until bo_exchange_release. */
void bo_exchange_cancel(bo_exchange *exchange);
/* The HTTP thread is done with it. */
void bo_exchange_release(bo_exchange *exchange);

#endif
