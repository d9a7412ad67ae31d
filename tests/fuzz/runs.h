/* The run whose checkpoint is fuzzed: seeds.c trains it, and the targets load into it. */
#ifndef BO_FUZZ_RUNS_H
#define BO_FUZZ_RUNS_H

#include "src/train/states.h"
#include "src/base/base.h"
#include <bochner/bochner.h>

static const char fuzz_text[] = "the cat eats. the dog sleeps. the hen runs away. the cow eats. the cat sleeps. ";

typedef struct fuzz_run {
    bo_tokenizer *bytes;
    bo_model *model;
    bo_corpus *corpus;
    bo_trainer *trainer;
} fuzz_run;

static inline bo_status fuzz_run_model(bo_context *context, fuzz_run *run)
{
    bo_model_desc desc = {.layers = 1, .block.heads = 1, .width = 8, .context = 8, .block.hidden = 4};
    BO_TRY(bo_tokenizer_create(context, &run->bytes));
    bo_attention_preset("rfa-gate", &desc.block.attention);
    desc.block.attention.features.features = 8;
    return bo_model_create(context, &desc, run->bytes, &run->model);
}

/* directory NULL: nothing is written. */
static inline bo_status fuzz_run_open(bo_context *context, const char *directory, fuzz_run *run)
{
    BO_TRY(fuzz_run_model(context, run));
    const bo_corpus_desc text = {.memory = fuzz_text, .memory_bytes = sizeof fuzz_text - 1, .tokenizer = run->bytes};
    BO_TRY(bo_corpus_open(context, &text, &run->corpus));
    const bo_trainer_desc desc = {.model = run->model,
                                  .train.corpus = run->corpus,
                                  .valid.corpus = run->corpus,
                                  .steps = 2,
                                  .directory = directory};
    return bo_trainer_create(context, &desc, &run->trainer);
}

/* Empty states of two sequences of the model of a run. */
static inline bo_status fuzz_run_states(bo_context *context, fuzz_run *run, bo_train_states **out)
{
    BO_TRY(fuzz_run_model(context, run));
    const bo_train_states_desc desc = {.model = run->model, .lanes = 2, .share = 2, .windows = 1, .micro_batch = 2};
    return bo_train_states_create(context, &desc, out);
}

static inline void fuzz_run_close(fuzz_run *run)
{
    bo_trainer_destroy(run->trainer);
    bo_corpus_close(run->corpus);
    bo_model_destroy(run->model);
    bo_tokenizer_destroy(run->bytes);
}

static inline bo_status fuzz_adapt(bo_context *context, bo_model *model, const char *base)
{
    const bo_lora_desc desc = {.rank = 2, .targets = "q_proj,v_proj", .whole = "lm_head", .base = base};
    return bo_model_adapt(context, model, &desc);
}

#endif
