/* Shared by the parts of `bochner bench serve`: options, the server, and the description of its model. */
#ifndef BO_BENCH_SERVE_SERVE_H
#define BO_BENCH_SERVE_SERVE_H

#include "client.h"
#include <sys/types.h>

typedef struct load_options {
    cli_given was_given;
    bench_run run;
    const char *directory, *url; /* one of them is NULL */
    size_t pid;                  /* process of the server at the URL; 0: unknown */
    const char *clients_text;
    cli_counts clients;
    size_t prompt, tokens, requests; /* tokens of a prompt and of its continuation; requests per client */
    size_t longest, conversations;   /* tokens of the repeated prompt; 0: default */
    bool text, chat;                 /* words: prompts are words; chat: prompts are messages */
    double temperature;
    size_t slots, context;
    bo_storage weights;
    bo_precision precision;
} load_options;

/* The response of GET /v1/models. Unknown numbers are 0. */
typedef struct load_model {
    char name[256];
    bool is_bochner; /* the server is bochner serve */
    size_t vocab;
    size_t max_tokens; /* of a conversation; 0: unlimited or unknown */
    size_t state_bytes, state_bytes_per_token;
    size_t kv_bytes_per_token; /* of a softmax model with the same shape */
} load_model;

/* Invariant: `child` is 0 if this program did not start the server; then log is NULL. */
typedef struct load_server {
    pid_t child, pid; /* pid: the process whose memory is measured; 0: unknown */
    FILE *log;        /* the output of the child */
    load_address address;
} load_server;

typedef struct load_bench {
    bench_run *run;
    const load_options *options;
    load_server server;
    load_model model;
    size_t prompts; /* number of prompts so far, so that all prompts differ */
} load_bench;

/* Starts `bochner serve` as a child, or resolves the address of --url, and reads the description of the model. `cache`
 * is the memory for states, 0: default. Prints a message and returns false on failure; call load_close in both cases.
 */
bool load_open(load_bench *bench, size_t cache);
void load_close(load_bench *bench);
size_t load_resident(const load_bench *bench); /* resident memory of the server in bytes; 0: unknown */

/* Body of a request with a new prompt of random tokens or words. The caller frees it. */
char *load_completion(load_bench *bench, size_t prompt, size_t tokens);
char *load_state(load_bench *bench, size_t prompt);
/* Creates a POST request with this body, for the path of completions or of --chat. Frees the body. */
load_request load_post(const load_bench *bench, char *body);

/* Outcomes of concurrent requests. */
typedef struct load_results {
    load_request *requests;
    load_outcome *outcomes;
    size_t count;
} load_results;
load_results load_results_make(size_t count);
void load_results_free(load_results *results);
double load_percentile(double *values, size_t count, double share); /* sorts the values; NAN: no values */

/* Parts. Each prints a message and returns false on failure. */
bool load_clients_part(load_bench *bench);
bool load_repeated_part(load_bench *bench);
bool load_idle_part(load_bench *bench);

#endif
