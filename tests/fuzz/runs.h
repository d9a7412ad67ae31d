/* The run whose checkpoint is fuzzed: seeds.c trains it, and the targets load into it. */
#ifndef BO_FUZZ_RUNS_H
#define BO_FUZZ_RUNS_H

#include "src/base/base.h"
#include <bochner/bochner.h>

static const char fuzz_text[] = "the cat eats. the dog sleeps. the hen runs away. the cow eats. the cat sleeps. ";

static inline bo_status fuzz_small_model(bo_context *context, bo_model **out)
{
    bo_model_desc desc = {.layers = 1, .heads = 1, .width = 8, .context = 8, .hidden = 4};
    bo_tokenizer *bytes;
    BO_TRY(bo_tokenizer_create(context, &bytes));
    bo_attention_preset("rfa-gate", &desc.attention);
    desc.attention.features.features = 8;
    return bo_model_create(context, &desc, bytes, out);
}

/* folder NULL: nothing is written. The model and the corpus stay open. */
static inline bo_status fuzz_run(bo_context *context, const char *folder, bo_model **model, bo_trainer **out)
{
    bo_corpus *corpus;
    BO_TRY(fuzz_small_model(context, model));
    const bo_corpus_desc text = {
        .memory = fuzz_text, .memory_bytes = sizeof fuzz_text - 1, .tokenizer = bo_model_tokenizer(*model)};
    BO_TRY(bo_corpus_open(context, &text, &corpus));
    const bo_trainer_desc desc = {.model = *model, .train = corpus, .valid = corpus, .steps = 2, .folder = folder};
    return bo_trainer_create(context, &desc, out);
}

static inline bo_status fuzz_adapt(bo_context *context, bo_model *model, const char *base)
{
    const bo_lora_desc desc = {.rank = 2, .targets = "q_proj,v_proj", .whole = "lm_head", .base = base};
    return bo_model_adapt(context, model, &desc);
}

#endif
