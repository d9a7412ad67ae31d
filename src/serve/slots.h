/* The slots of the scheduler: jobs in lanes. The first `decoding` slots generate; the remaining ones read their
 * prompts. */
#ifndef BO_SERVE_SLOTS_H
#define BO_SERVE_SLOTS_H

#include <bochner/tasks.h>
#include "../model/lanes.h"
#include "scheduler.h"
#include "logits.h"

/* Invariants: the lane of the slot has read the tokens of job->start, the first `read` tokens of the prompt and, if
 * `next` is a generated token, all generated tokens before it. `prefix` is the hash of all these tokens. */
typedef struct bo_slot {
    bo_job *job;
    size_t read;   /* tokens of the prompt that were read or cached */
    size_t saved;  /* value of `read` when the state was last saved or loaded */
    size_t branch; /* length of the prefix that another prompt shares, at which the state is cached; 0: none */
    int32_t next;  /* decoding: the token that the next step reads */
    bool decoding;
    bo_prefix prefix;
    bo_occurrences occurrences;
    size_t bytes; /* maximum memory of its lane */
} bo_slot;

/* A hash table of prefixes that were read, to find where prompts branch; one hash per slot of the table. */
enum { BO_PROMPT_HASHES = 1 << 18 };

typedef struct bo_slots {
    const bo_scheduler_desc *desc;
    bo_store *store;
    bo_lanes *lanes;
    bo_slot *items;
    size_t used, decoding;
    size_t turn;             /* the slot whose prompt is read next */
    int32_t *ids;            /* one per slot */
    size_t *from;            /* one per slot */
    float *logits, *scratch; /* slots x vocab */
    bool *finite;            /* one per slot: its logits are finite */
    const struct bo_kernels *kernels;
    bo_job_token *tokens; /* one per slot */
    float *rows;          /* results of a chunk of a prompt */
    uint64_t *prompt_hashes;
    size_t vocab, width, max_tokens;
    bo_slots_memory memory;
} bo_slots;

/* Fills in desc->slots (0: as many as fit, at most BO_SLOTS_DEFAULT). Checks that one sequence of the maximum length
 * fits into memory, and that all slots fit into the address space or the device memory. */
bo_status bo_slots_plan(bo_context *context, bo_scheduler_desc *desc, bo_slots_memory *out);
bo_status bo_slots_create(bo_context *context, const bo_scheduler_desc *desc, const bo_slots_memory *memory,
                          bo_slots *out);
void bo_slots_destroy(bo_slots *slots);
/* True if the maximum memory of this job fits besides that of the jobs in slots. */
bool bo_slots_fits(const bo_slots *slots, const bo_job *job);
/* Starts a job in a free slot. */
void bo_slots_start(bo_context *context, bo_slots *slots, bo_job *job);
/* True if another slot is reading the same prompt, so that the job can use its cached state later. */
bool bo_slots_is_reading_prefix(const bo_slots *slots, const bo_job *job);
/* Reads chunks of prompts, and generates a token in every decoding slot. */
void bo_slots_step(bo_context *context, bo_slots *slots);
/* Ends jobs that were canceled or have timed out. */
void bo_slots_check(bo_context *context, bo_slots *slots, double now);
/* Ends all jobs and caches their states, so that a repeated request can continue from them. */
void bo_slots_end_all(bo_context *context, bo_slots *slots, bo_job_end end);
/* Ends a job that has no slot. */
void bo_job_finish(bo_context *context, bo_counters *counters, bo_job *job, bo_job_end end);

#endif
