/* A choice: one of the texts that a request generates, with its job. */
#ifndef BO_SERVE_CHOICE_H
#define BO_SERVE_CHOICE_H

#include "conversation.h"
#include "service.h"
#include "../text/text_stream.h"

typedef struct bo_top {
    int32_t id;
    float logprob;
} bo_top;

/* A generated token that is not yet in the response. */
typedef struct bo_record {
    int32_t id;
    bool scored;
    float logprob;
    size_t first_top, top_count; /* in `tops` of the choice */
    size_t offset;               /* of its text in the whole text, in characters */
    size_t bytes_before;         /* of the preceding text */
} bo_record;

typedef struct bo_choice_records {
    bo_record *items;
    size_t count, capacity;
    bo_top *tops;
    size_t top_count, top_capacity;
    size_t characters, bytes; /* of the text of all tokens so far */
} bo_choice_records;

typedef struct bo_choice_text {
    bo_job job;
    struct bo_exchange *exchange;
    size_t index, prompt;
    bo_text_stream text;
    bo_choice_records records;
    size_t bytes_before; /* of the text of the prompt, if the records contain it */
    bool begun, ended;   /* the first event was sent; the job is done */
    char state_id[BO_SNAPSHOT_ID + 1];
    uint64_t state_tokens;
    size_t state_bytes;       /* of the state that is kept or returned; 0: none */
    bo_refusal state_refusal; /* why the state is not returned or kept; status 0: no error */
    /* If the state of a conversation is kept: the reply before `text`, and the hash of all tokens except the last. */
    bo_json_text reply;
    bo_xxh64 ids_hash;
    uint64_t hashed;
    int32_t last;
} bo_choice_text;

/* Writes the name of a token: its text, "bytes:\xe2\x82" if the text is not UTF-8, or its id without a tokenizer. */
void bo_token_write_name(const bo_service *service, int32_t id, bo_json_text *out);

/* Adds a token to the records. */
bo_status bo_records_add(bo_context *context, const bo_service *service, bo_choice_records *records,
                         const bo_job_token *token);
void bo_records_clear(bo_choice_records *records); /* after they have been written */
void bo_records_free(bo_choice_records *records);
/* Drops tokens that start after this number of text bytes: the text ends before a stop text. */
void bo_records_cut(bo_choice_records *records, size_t bytes);
/* Writes the value of "logprobs" as completions or chat completions have it; with the ids of the most likely tokens if
 * `ids`. */
void bo_records_write(const bo_service *service, const bo_choice_records *records, bool chat, bool ids,
                      bo_json_text *out);
void bo_records_write_ids(const bo_choice_records *records, bo_json_text *out);

#endif
