#include "logits.h"
#include <math.h>
#include <string.h>

/* log Σ exp(x), in parallel sums that the compiler vectorizes. */
static double log_sum_exp(const float *logits, size_t vocab, float top)
{
    enum { LANES = 8 };
    double lanes[LANES] = {0}, total = 0;
    size_t i = 0;
    for (; i + LANES <= vocab; i += LANES)
        for (size_t l = 0; l < LANES; l++) lanes[l] += (double)expf(logits[i + l] - top);
    for (; i < vocab; i++) total += (double)expf(logits[i] - top);
    for (size_t l = 0; l < LANES; l++) total += lanes[l];
    return (double)top + log(total);
}

/* Inserts a token into the list of the most likely ones, which is ordered. */
static void insert(bo_job_token *token, size_t max_count, int32_t id, float logit)
{
    size_t at = token->top_count < max_count ? token->top_count++ : max_count - 1;
    for (; at > 0 && token->top_logprobs[at - 1] < logit; at--) {
        token->top_ids[at] = token->top_ids[at - 1];
        token->top_logprobs[at] = token->top_logprobs[at - 1];
    }
    token->top_ids[at] = id;
    token->top_logprobs[at] = logit;
}

static void find_top(const float *logits, size_t vocab, size_t max_count, bo_job_token *token)
{
    token->top_count = 0;
    if (max_count > vocab) max_count = vocab;
    for (size_t i = 0; max_count > 0 && i < vocab; i++)
        if (token->top_count < max_count || logits[i] > token->top_logprobs[max_count - 1])
            insert(token, max_count, (int32_t)i, logits[i]);
}

void bo_score_token(const float *logits, size_t vocab, int top, bo_job_token *token)
{
    float largest = -INFINITY;
    for (size_t i = 0; i < vocab; i++) largest = logits[i] > largest ? logits[i] : largest;
    const double all = log_sum_exp(logits, vocab, largest);
    find_top(logits, vocab, top > 0 ? (size_t)top : 0, token);
    for (size_t i = 0; i < token->top_count; i++)
        token->top_logprobs[i] = (float)((double)token->top_logprobs[i] - all);
    token->logprob = (float)((double)logits[token->id] - all);
    token->scored = true;
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

bo_status bo_occurrences_add(bo_context *context, bo_occurrences *all, int32_t id)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].id == id) {
            all->items[i].times++;
            return BO_OK;
        }
    if (all->count == all->capacity) {
        const size_t capacity = 2 * all->capacity + 64;
        bo_occurrence *larger = bo_realloc(context, all->items, capacity, sizeof *larger, "generated tokens");
        if (!larger) return BO_MEMORY;
        all->items = larger;
        all->capacity = capacity;
    }
    all->items[all->count++] = (bo_occurrence){id, 1};
    return BO_OK;
}

static void adjust(const bo_job *job, const bo_occurrences *occurrences, float *logits)
{
    for (size_t i = 0; i < occurrences->count; i++)
        logits[occurrences->items[i].id] -=
            (float)(job->presence_penalty + job->frequency_penalty * (double)occurrences->items[i].times);
    for (size_t i = 0; i < job->bias_count; i++) logits[job->biases[i].id] += job->biases[i].amount;
}

/* Log probabilities are those of the model, before penalties, bias and temperature. */
void bo_choose_token(const bo_job *job, const bo_occurrences *occurrences, float *logits, float *scratch, size_t vocab,
                     bo_job_token *out)
{
    float *chosen = job->top >= 0 ? memcpy(scratch, logits, vocab * sizeof *scratch) : logits;
    adjust(job, occurrences, chosen);
    *out = (bo_job_token){.id = bo_sampler_next(job->sampler, chosen, vocab)};
    if (job->top >= 0) bo_score_token(logits, vocab, job->top, out);
}
