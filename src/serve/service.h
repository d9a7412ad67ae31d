/* The service: a model with its tokenizer and chat template, the scheduler, and the parts of request handling that do
 * not depend on HTTP. */
#ifndef BO_SERVE_SERVICE_H
#define BO_SERVE_SERVICE_H

#include <bochner/generate.h>
#include "scheduler.h"
#include "request.h"
#include "reserve.h"
#include "serve.h"

typedef struct bo_service {
    const bo_server_desc *desc;
    bo_scheduler *scheduler;
    bo_counters counters;
    bo_reservations reservations;
    const bo_tokenizer *tokenizer; /* NULL: none */
    bo_chat_template *chat;        /* of the model, or a plain one; NULL: no tokenizer */
    bool has_template;             /* the model has a chat template */
    int32_t turn_end;              /* the token that ends a reply, in addition to those of the model; -1: none */
    char name[256];                /* name of the model's directory, which the system limits to 255 bytes */
    int64_t started;               /* Unix time */
    size_t state_bytes, state_bytes_per_token, kv_bytes_per_token;
} bo_service;

bo_status bo_service_create(bo_context *context, const bo_server_desc *desc, bo_service *out);
void bo_service_destroy(bo_service *service);

/* Encodes a prompt or a whole conversation. `continues`: the tokens follow a state, and their number is not checked. */
bool bo_service_encode(bo_context *context, const bo_service *service, const bo_request *request, size_t prompt,
                       bool continues, bo_ids *out, bo_refusal *refusal);
/* Refuses a request with more than the maximum number of tokens to read. */
bool bo_service_check_count(const bo_service *service, const bo_request *request, size_t count, bo_refusal *refusal);
/* Finds the state from which a request starts; *out NULL: none. */
bool bo_service_find_state(bo_context *context, const bo_service *service, bo_prefix owner, const bo_request *request,
                           bo_snapshot **out, bo_refusal *refusal);
/* Checks uploaded bytes. */
bool bo_service_read_state(bo_context *context, const bo_service *service, const void *bytes, size_t size,
                           bo_snapshot **out, bo_refusal *refusal);
/* Stores a state under an id. */
bool bo_service_keep_state(bo_context *context, const bo_service *service, bo_prefix owner, const char *id,
                           bo_snapshot *snapshot, bo_refusal *refusal);

/* Changes the memory that is reserved for a request. Refuses if the limit is exceeded. */
bool bo_service_reserve(bo_service *service, bo_client client, size_t *reserved, size_t bytes, bo_refusal *refusal);

/* Response bodies. */
void bo_service_write_model(const bo_service *service, bo_json_text *out);
bool bo_service_tokenize(bo_context *context, const bo_service *service, const bo_request *request, bo_json_text *out,
                         bo_refusal *refusal);
bool bo_service_detokenize(bo_context *context, const bo_service *service, const bo_request *request, bo_json_text *out,
                           bo_refusal *refusal);
/* {"object": "state", …} */
void bo_service_write_state(const bo_service *service, const char *id, uint64_t tokens, size_t bytes,
                            bo_json_text *out);
void bo_refusal_write(const bo_refusal *refusal, bo_json_text *out);

#endif
