/* Shared by tests of invalid input: valid descriptors to modify, and a call that must fail. */
#ifndef BO_TEST_ATTENTION_REFUSALS_H
#define BO_TEST_ATTENTION_REFUSALS_H

#include "attention/attention.h"
#include "trial.h"

/* Fields that make a descriptor valid. */
#define GOOD          .heads = 4, .dim = 8
#define EXACT_(...)   {.kind = BO_ATTENTION_SOFTMAX, __VA_ARGS__}
#define FAVOR_(...)   {.kind = BO_ATTENTION_FAVOR, .features.features = 16, __VA_ARGS__}
#define LINEAR_(...)  {.kind = BO_ATTENTION_LINEAR, .features.features = 16, __VA_ARGS__}
#define HYBRID_(...)  {.kind = BO_ATTENTION_HYBRID, .features.features = 16, __VA_ARGS__}
#define RFA_(...)     {.kind = BO_ATTENTION_RFA, .features.features = 16, __VA_ARGS__}
#define DARK_(...)    {.kind = BO_ATTENTION_DARK, .features.features = 16, __VA_ARGS__}
#define POWER_(...)   {.kind = BO_ATTENTION_POWER, __VA_ARGS__}
#define GLA_(...)     {.kind = BO_ATTENTION_GLA, .causal = true, __VA_ARGS__}
#define DELTA_(...)   {.kind = BO_ATTENTION_DELTA, .causal = true, __VA_ARGS__}
#define RIDGE_(...)   {.kind = BO_ATTENTION_RIDGE, .causal = true, __VA_ARGS__}
#define LEARNED_(...) {.kind = BO_ATTENTION_LEARNED, __VA_ARGS__}

enum { TOKENS = 5 };

static inline trial make_trial(bo_context *context, bo_attention_desc desc, size_t past)
{
    trial_desc full = {
        .name = "refused", .attention = desc, .shape = {.sequences = 2, .tokens = TOKENS}, .past = past, .seed = 1};
    return trial_make(context, &full);
}

/* The call fails, the message contains both strings, and out does not change. */
static inline void refuse(trial *t, const bo_attention_inputs *in, bo_status status, const char *one, const char *two)
{
    float *out = trial_floats(t->count[OUT]), *before = trial_floats(t->count[OUT]);
    bo_status found = bo_attention_forward_arrays(t->context, t->attention, &t->desc.shape, in, NULL, NULL, out, NULL);
    const char *message = bo_context_error(t->context);
    if (found != status || !strstr(message, one) || !strstr(message, two))
        fail_msg("%s %s: %s, '%s'", one, two, bo_status_string(found), message);
    if (status == BO_INVALID) assert_memory_equal(out, before, t->count[OUT] * sizeof *out);
    free(out);
    free(before);
}

#endif
