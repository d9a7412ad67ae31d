/* A job: one sequence that the scheduler reads and continues. */
#ifndef BO_SERVE_JOB_H
#define BO_SERVE_JOB_H

#include <bochner/generate.h>
#include "snapshot.h"

enum { BO_MAX_TOP = 20 }; /* most likely tokens per token */

/* A token with its log probability, if the job requests it. */
typedef struct bo_job_token {
    int32_t id;
    bool scored;    /* false: no log probability, because nothing precedes the token or none was requested */
    bool of_prompt; /* false: generated */
    float logprob;
    size_t top_count;
    int32_t top_ids[BO_MAX_TOP];
    float top_logprobs[BO_MAX_TOP];
} bo_job_token;

typedef enum bo_job_end {
    BO_JOB_RUNNING = 0,
    BO_JOB_STOP,     /* an end token, or the receiver stopped the job */
    BO_JOB_LENGTH,   /* the maximum number of tokens, or the end of the context */
    BO_JOB_CANCELED, /* the client has disconnected */
    BO_JOB_TIMEOUT,
    BO_JOB_STOPPING, /* the server stops */
    BO_JOB_FAILED,
    BO_JOB_BAD_STATE /* the initial state cannot be loaded */
} bo_job_end;

typedef struct bo_bias {
    int32_t id;
    float amount;
} bo_bias;

/* The sender of a request. */
typedef struct bo_client {
    uint64_t id;     /* a hash of the key or address; slots are shared fairly among clients */
    bo_prefix owner; /* of the client's states (bo_store_owner_of) */
} bo_client;

typedef struct bo_job bo_job;

/* The creator fills in the first part and frees what it points to after `done`. The scheduler calls `token` and `done`
 * on its thread and does not access the job after `done`. */
struct bo_job {
    const int32_t *prompt; /* the tokens to read, at least one; with `start`, those that follow its tokens */
    size_t prompt_count;
    const bo_prefix *chain; /* prompt_count + 1 hashes: of the start, and after each token */
    bo_snapshot *start;     /* NULL: an empty text */
    bool embed;             /* compute the mean of the hidden states; nothing is generated */
    bool score_prompt;      /* also report log probabilities of the prompt */
    size_t max_tokens;      /* to generate; 0: the last token of the prompt is not read */
    int top;                /* most likely tokens to report; -1: no log probabilities */
    bo_sampler *sampler;    /* NULL only if nothing is generated */
    const bo_bias *biases;
    size_t bias_count;
    double presence_penalty, frequency_penalty;
    bool ignore_end;
    int32_t end_token; /* ends the text in addition to those of the model; -1: none */
    bool keep_state;   /* create `state` */
    bool keep_end;     /* the state includes the end token */
    bo_client client;
    double deadline; /* of bo_seconds() */
    /* Returns false to stop the job. */
    bool (*token)(bo_context *context, bo_job *job, const bo_job_token *token);
    void (*done)(bo_context *context, bo_job *job);
    void *user;

    atomic_bool canceled; /* set by any thread */

    /* Results, valid in `done`. */
    bo_job_end end;
    char message[256];  /* FAILED, BAD_STATE; or `overflowed` */
    bool overflowed;    /* keep_state: there is no state, because it would contain NaN or infinity */
    size_t cached;      /* tokens of the prompt that were found in the prefix cache */
    size_t generated;   /* tokens that were generated */
    bo_snapshot *state; /* keep_state: released by the creator; NULL if it could not be created */
    double *embedding;  /* embed: memory of the creator, `width` numbers */

    /* Private to the scheduler. */
    bo_job *next;
    double submitted, started, last_token;
};

#endif
