/* From logits to a token and its log probability. */
#ifndef BO_SERVE_LOGITS_H
#define BO_SERVE_LOGITS_H

#include "job.h"

/* Fills in the log probability of token->id and the `top` most likely tokens (ties: lower ids first). Does not change
 * the logits. */
void bo_score_token(const float *logits, size_t vocab, int top, bo_job_token *token);
/* The distinct tokens that a job has generated, with their numbers of occurrences, for penalties. */
typedef struct bo_occurrence {
    int32_t id;
    uint32_t times;
} bo_occurrence;
typedef struct bo_occurrences {
    bo_occurrence *items; /* freed with bo_free */
    size_t count, capacity;
} bo_occurrences;
bo_status bo_occurrences_add(bo_context *context, bo_occurrences *occurrences, int32_t id);

/* Chooses the next token of a job. Overwrites the logits or, if the job reports log probabilities, `scratch`, which
 * must have `vocab` elements. */
void bo_choose_token(const bo_job *job, const bo_occurrences *occurrences, float *logits, float *scratch, size_t vocab,
                     bo_job_token *out);

#endif
