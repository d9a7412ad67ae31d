/* The scheduler: continuous batching of the sequences of many clients in the lanes of one model. Sequences join and
 * leave at every step, prompts are read in chunks between steps, and states of prefixes are cached.
 *
 * bo_scheduler_run() computes on the thread of its caller. bo_scheduler_submit() may be called from any thread. */
#ifndef BO_SERVE_SCHEDULER_H
#define BO_SERVE_SCHEDULER_H

#include "job.h"
#include "counters.h"
#include "memory.h"
#include "store.h"

typedef struct bo_scheduler bo_scheduler;

typedef struct bo_scheduler_desc {
    const bo_model *model;
    size_t slots;    /* maximum concurrent sequences (default: as many as fit into memory, at most BO_SLOTS_DEFAULT) */
    size_t capacity; /* attention with a KV cache: maximum tokens of a sequence (default: the context) */
    size_t queue;    /* maximum number of waiting jobs */
    double grace;    /* seconds to finish jobs after a stop was requested */
    size_t memory_bytes, disk_bytes; /* of the store */
    const char *directory;
    const char *const *keys; /* the API keys that own states */
    size_t key_count;
    bo_counters *counters;
    /* Polled at least five times per second; true: stop. */
    bool (*stop)(void *user);
    void *user;
} bo_scheduler_desc;

bo_status bo_scheduler_create(bo_context *context, const bo_scheduler_desc *desc, bo_scheduler **out);
void bo_scheduler_destroy(bo_scheduler *scheduler);
bo_store *bo_scheduler_store(const bo_scheduler *scheduler);
const bo_slots_memory *bo_scheduler_memory(const bo_scheduler *scheduler);
/* Returns the maximum number of tokens of a sequence; SIZE_MAX: unlimited. */
size_t bo_scheduler_max_tokens(const bo_scheduler *scheduler);
/* Returns the bytes of a state of this number of tokens. */
size_t bo_scheduler_state_bytes(const bo_scheduler *scheduler, size_t tokens);

/* Runs jobs until `stop` returns true, then finishes jobs within the grace period and ends the remaining ones. */
bo_status bo_scheduler_run(bo_context *context, bo_scheduler *scheduler);
/* Adds all `count` jobs or none. */
typedef enum bo_submission { BO_SUBMIT_DONE, BO_SUBMIT_FULL, BO_SUBMIT_STOPPING } bo_submission;
bo_submission bo_scheduler_submit(bo_scheduler *scheduler, bo_job *const *jobs, size_t count);
void bo_scheduler_cancel(bo_scheduler *scheduler, bo_job *job);
/* Checks that a state was made by this model, and that a job can start from it. May be called from any thread. */
bo_status bo_scheduler_validate(bo_context *context, const bo_scheduler *scheduler, const void *bytes, size_t size);

#endif
