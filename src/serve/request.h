/* Requests: parsed and checked JSON bodies with defaults filled in. */
#ifndef BO_SERVE_REQUEST_H
#define BO_SERVE_REQUEST_H

#include "../io/json.h"
#include "job.h"

/* An error of a request; `status` is an HTTP status. */
typedef struct bo_refusal {
    int status;
    char message[400];
    char param[64]; /* name of the member; "": none */
} bo_refusal;

/* Fills in a refusal and returns false, so that a function can end with `return bo_refuse(...)`. */
bool bo_refuse(bo_refusal *refusal, int status, const char *param, const char *format, ...) BO_PRINTF(4, 5);

typedef enum bo_request_kind {
    BO_REQUEST_COMPLETION,
    BO_REQUEST_CHAT,
    BO_REQUEST_EMBEDDING,
    BO_REQUEST_TOKENIZE,
    BO_REQUEST_DETOKENIZE,
    BO_REQUEST_STATE
} bo_request_kind;

/* Either a text or tokens. */
typedef struct bo_prompt {
    char *text; /* NULL: tokens */
    size_t bytes;
    int32_t *ids;
    size_t count;
} bo_prompt;

typedef enum bo_state_return { BO_STATE_NONE, BO_STATE_DATA, BO_STATE_ID } bo_state_return;

enum { BO_REQUEST_MAX_STOPS = 16, BO_REQUEST_MAX_N = 128, BO_REQUEST_MAX_INPUTS = 2048 };

/* Free with bo_request_free. */
typedef struct bo_request {
    bo_request_kind kind;
    bo_prompt *prompts;
    size_t prompt_count;
    char *variables; /* conversations: the variables of the template, with `messages`; NULL: prompts */
    size_t n, max_tokens;
    bo_sampler_desc sampling;
    bool seeded;
    double presence_penalty, frequency_penalty;
    bo_bias *biases;
    size_t bias_count;
    char *stops[BO_REQUEST_MAX_STOPS];
    size_t stop_count;
    int top; /* -1: no log probabilities */
    bool ignore_end, echo, parse_special, stream, usage, token_ids, special_tokens, base64;
    char *state;                  /* id; NULL: none */
    char *state_data;             /* base64; NULL: none */
    bo_state_return return_state; /* return_state */
    size_t dimensions;            /* embeddings; 0: default */
} bo_request;

/* Parses a body. Tokens must be below `vocab`. */
bool bo_request_parse(bo_context *context, bo_request_kind kind, const char *body, size_t size, size_t vocab,
                      bo_request *out, bo_refusal *refusal);
void bo_request_free(bo_request *request);
/* True for 1 to 64 letters, digits, "-" and "_". */
bool bo_state_id_is_valid(const char *id);

#endif
