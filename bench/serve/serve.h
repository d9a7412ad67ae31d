/* Shared by the parts of `bochner bench serve`: options, the server, and what it says of its model. */
#ifndef BO_BENCH_SERVE_SERVE_H
#define BO_BENCH_SERVE_SERVE_H

#include "client.h"
#include <sys/types.h>

typedef struct load_options {
    cli_given was_given;
    bench_run run;
    const char *directory, *url; /* one of them is NULL */
    size_t pid;                  /* of the server at the url; 0: not known */
    const char *clients_text;
    cli_counts clients;
    size_t prompt, tokens, requests; /* tokens of a prompt and of its continuation; requests per client */
    size_t longest, conversations;   /* tokens of the repeated prompt; 0: default */
    bool text, chat;                 /* prompts are words; they are messages */
    double temperature;
    size_t slots, context;
    bo_storage weights;
    bo_precision precision;
} load_options;

/* What GET /v1/models tells. Numbers are 0 if they are unknown. */
typedef struct load_model {
    char name[256];
    bool is_bochner; /* the server is Bochner's */
    size_t vocab;
    size_t max_tokens; /* of a conversation; 0: not limited, or unknown */
    size_t state_bytes, state_bytes_per_token;
    size_t kv_bytes_per_token; /* of a softmax model with the same shape */
} load_model;

/* Invariant: `child` is 0 if the server is not ours; then there is no log. */
typedef struct load_server {
    pid_t child, pid; /* pid: whose memory is measured; 0: unknown */
    FILE *log;        /* what the child has printed */
    load_address address;
} load_server;

typedef struct load_bench {
    bench_run *run;
    const load_options *options;
    load_server server;
    load_model model;
    size_t prompts; /* number of prompts that were made, so that all differ */
} load_bench;

/* Starts `bochner serve` as a child, or looks the address of --url up, and reads what the server says of its model.
 * `cache` is the memory for states, 0: default. Returns false after a message; load_close is due in both cases. */
bool load_open(load_bench *bench, size_t cache);
void load_close(load_bench *bench);
size_t load_resident(const load_bench *bench); /* bytes of memory of the server; 0: unknown */

/* Body of a request with a new prompt of random tokens or words. The caller frees it. */
char *load_completion(load_bench *bench, size_t prompt, size_t tokens);
char *load_state(load_bench *bench, size_t prompt);
/* Request of a body, to the path of completions or of --chat. Frees the body. */
load_request load_post(const load_bench *bench, char *body);

/* Outcomes of requests that are made at the same time. */
typedef struct load_results {
    load_request *requests;
    load_outcome *outcomes;
    size_t count;
} load_results;
load_results load_results_make(size_t count);
void load_results_free(load_results *results);
double load_percentile(double *values, size_t count, double share); /* sorts the values; NAN: there are none */

/* Parts. Each returns false after a message if it could not finish. */
bool load_clients_part(load_bench *bench);
bool load_repeated_part(load_bench *bench);
bool load_idle_part(load_bench *bench);

#endif
