/* The slots of the scheduler: jobs in lanes. The first `decoding` slots generate; the others read their prompts. */
#ifndef BO_SERVE_SLOTS_H
#define BO_SERVE_SLOTS_H

#include <bochner/tasks.h>
#include "../model/lanes.h"
#include "scheduler.h"
#include "logits.h"

/* Invariants: the lane of the slot has read the tokens of job->start and the first `read` tokens of the prompt, and, if
 * `next` is not one of the prompt, the tokens generated before it. `prefix` is the hash of all of them. */
typedef struct bo_slot {
    bo_job *job;
    size_t read;   /* tokens of the prompt that were read or cached */
    size_t saved;  /* value of `read` when the state was last saved or loaded */
    size_t branch; /* another prompt was the same up to here: the state is worth caching; 0: no such place */
    int32_t next;  /* decoding: the token that the next step reads */
    bool decoding;
    bo_prefix prefix;
    bo_occurrences occurrences;
    size_t bytes; /* memory that its lane may take */
} bo_slot;

/* Hashes of prefixes that were read, to find where prompts branch; one of each place. */
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

/* Fills in desc->slots (0: as many as fit, at most BO_SLOTS_DEFAULT), and checks that the memory suffices for one text
 * of the maximum length, and the address space, or the memory of the device, for all slots. */
bo_status bo_slots_plan(bo_context *context, bo_scheduler_desc *desc, bo_slots_memory *out);
bo_status bo_slots_create(bo_context *context, const bo_scheduler_desc *desc, const bo_slots_memory *memory,
                          bo_slots *out);
void bo_slots_destroy(bo_slots *slots);
/* False: the jobs in slots may need the memory that this one may need. */
bool bo_slots_fits(const bo_slots *slots, const bo_job *job);
/* Puts a job into a free slot. */
void bo_slots_start(bo_context *context, bo_slots *slots, bo_job *job);
/* True if the prompt of the job is being read in another slot, whose state it can use soon. */
bool bo_slots_is_reading_prefix(const bo_slots *slots, const bo_job *job);
/* Reads a part of the prompts, and generates a token in every slot whose prompt was read. */
void bo_slots_step(bo_context *context, bo_slots *slots);
/* Ends canceled jobs, and those whose time is over. */
void bo_slots_check(bo_context *context, bo_slots *slots, double now);
/* Ends all jobs; their states are cached, so that a repeated request continues there. */
void bo_slots_end_all(bo_context *context, bo_slots *slots, bo_job_end end);
/* Ends a job that has no slot. */
void bo_job_finish(bo_context *context, bo_counters *counters, bo_job *job, bo_job_end end);

#endif
