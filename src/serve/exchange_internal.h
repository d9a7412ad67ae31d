/* Internals of exchanges. */
#ifndef BO_SERVE_EXCHANGE_INTERNAL_H
#define BO_SERVE_EXCHANGE_INTERNAL_H

#include "choice.h"
#include "exchange.h"
#include <pthread.h>

/* Tokens of a scored prompt per event. */
enum { BO_EXCHANGE_RECORDS = 64 };

typedef struct bo_exchange_prompt {
    bo_ids ids;   /* the pending tokens of the state and those of the request; or a whole conversation */
    size_t first; /* the first token to read; a state has read the preceding ones */
    bo_prefix *chain;
    size_t request_tokens; /* tokens of the request */
} bo_exchange_prompt;

/* The lock guards the fields from `out` on, and the choices once the jobs have been submitted. Invariants: `open` jobs
 * have not ended; bytes before `sent` have been sent. */
struct bo_exchange {
    atomic_size_t owners; /* references of the HTTP thread and the jobs */
    bo_service *service;
    bo_request request;
    bo_client client;
    size_t needed_memory,
        reserved; /* bytes for inputs, the response and returned states; how many of them are reserved */
    bo_suspension suspension;
    char id[40];
    int64_t created;
    bo_exchange_prompt *prompts;
    size_t prompt_count;
    bo_snapshot *start;
    char *messages; /* of the conversation, if its state is kept; otherwise NULL */
    bo_choice_text *choices;
    size_t choice_count;
    pthread_mutex_t lock;
    bo_json_text out;
    size_t sent, open;
    double last_sent; /* time of the last read */
    bool suspended, finished;
    bo_refusal refusal; /* status 0: none */
    bo_exchange_stats stats;
};

/* exchange_write.c; call with the lock held */
void bo_exchange_write_event(bo_exchange *x, bo_choice_text *choice, bool last);
/* Appends the ready text to the reply, if the state of the conversation is kept. A failure loses the state only. */
void bo_exchange_keep_reply(bo_exchange *x, bo_choice_text *choice);
void bo_exchange_write_end(bo_exchange *x);  /* usage or error, and [DONE] */
void bo_exchange_write_body(bo_exchange *x); /* of a response that is not streamed */

#endif
