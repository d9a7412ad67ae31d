/* The engine: sequences of many clients in the lanes of one model. Sequences join and leave at every step; prompts are read in
 * chunks between the steps; states of prefixes are cached.
 *
 * bo_engine_run() computes on the thread of its caller. bo_engine_submit() may be called from any thread. */
#ifndef BO_SERVE_ENGINE_H
#define BO_SERVE_ENGINE_H

#include "job.h"
#include "counters.h"
#include "store.h"

typedef struct bo_engine bo_engine;

typedef struct bo_engine_desc {
    const bo_model *model;
    size_t slots;    /* sequences at a time */
    size_t capacity; /* attention that keeps every key: maximum tokens of a sequence (default: the context) */
    size_t queue;    /* maximum number of waiting jobs */
    double grace;    /* seconds to finish jobs after a stop was requested */
    size_t memory_bytes, disk_bytes; /* of the store */
    const char *folder;
    bo_counters *counters;
    /* Polled at least five times per second; true: stop. */
    bool (*stop)(void *user);
    void *user;
} bo_engine_desc;

bo_status bo_engine_create(bo_context *context, const bo_engine_desc *desc, bo_engine **out);
void bo_engine_destroy(bo_engine *engine);
bo_store *bo_engine_store(const bo_engine *engine);
/* The maximum number of tokens of a sequence; SIZE_MAX: not limited. */
size_t bo_engine_most_tokens(const bo_engine *engine);
/* The bytes of a state of this number of tokens. */
size_t bo_engine_state_bytes(const bo_engine *engine, size_t tokens);

/* Runs jobs until `stop`, then finishes those that run within the grace period and ends the others. */
bo_status bo_engine_run(bo_context *context, bo_engine *engine);
/* Adds `count` jobs, or none. */
typedef enum bo_submission { BO_SUBMITTED, BO_QUEUE_FULL, BO_ENGINE_STOPPING } bo_submission;
bo_submission bo_engine_submit(bo_engine *engine, bo_job *const *jobs, size_t count);
void bo_engine_cancel(bo_engine *engine, bo_job *job);
/* Checks that a state was made by this model. */
bo_status bo_engine_recognize(bo_context *context, const bo_engine *engine, const void *bytes, size_t size);

#endif
