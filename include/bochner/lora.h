/* Bochner: low-rank adapters of language models (LoRA, 2106.09685). A model becomes W0 + (α / r) B A in the linear layers that
 * are named; training changes A and B alone (and what says labels, which is small), and a folder of theirs is small.
 *
 *     bo_model_load(context, "base", &model);
 *     bo_model_adapt(context, model, &(bo_lora_desc){.rank = 8, .targets = "q_proj,v_proj", .base = "base"});
 *     …                                                  // bo_trainer_run of train.h, bo_model_save: the adapter's folder
 *     bo_model_merge(context, model);                    // as fast as the base again
 *     bo_model_save(context, model, "merged");
 *
 * Whatever A and B begin with, A0 and B0, the model begins as it was: the weight is W0 + (α / r) (B A - B0 A0), which the graph
 * computes from left to right with W0 untouched. Merging sums B A - B0 A0 over the rank in double, in one order, and rounds
 * W0 + … once to float: an adapter that was not trained merges to the bits of W0, and the merged model differs from the
 * adapted one by rounding alone. Unmerging gives back the very bits of W0, A and B, because they are kept. */
#ifndef BOCHNER_LORA_H
#define BOCHNER_LORA_H

#include <bochner/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bo_lora_desc {
    size_t rank;  /* at most the smaller side of every layer it is put around; of init GRADIENT half of that */
    double alpha; /* 0: twice the rank */
    /* linear layers by the end of their names ("q_proj,v_proj") or *patterns*; NULL, "all": the hidden */
    const char *targets;
    /* Layers that are trained themselves, by names likewise; NULL: those that say labels, which a model that was made of another
     * has at random (score and match, of the tasks classify and match); "": none. */
    const char *whole;
    bo_lora_init init;
    const bo_corpus *data; /* GRADIENT: of the mean loss over … */
    size_t sequences;      /* … so many windows of this; 0: 32 */
    uint64_t seed;
    const char *base; /* the folder the model was loaded from, which the adapter's files name; NULL: none */
} bo_lora_desc;

/* Puts adapters into the model, in its memory; all else of it but `whole` is frozen. No session of it may exist. */
BO_API bo_status bo_model_adapt(bo_context *context, bo_model *model, const bo_lora_desc *desc);
/* Of an adapted model: its adapters go into its weights, and out again. No session of it may exist. */
BO_API bo_status bo_model_merge(bo_context *context, bo_model *model);
BO_API bo_status bo_model_unmerge(bo_context *context, bo_model *model);

/* Files as PEFT has them: bo_model_save of an adapted model writes adapter_config.json, which names the base, and
 * adapter_model.safetensors (an adapter that did not begin at zero as one of twice the rank, which subtracts its beginning;
 * layers that are trained themselves as they are, named by "modules_to_save");
 * of a merged one, the model as usual and beside it adapter/ with the adapter and base.safetensors, the weights as they were.
 * bo_model_load of an adapter's folder loads the base and merges. */
/* The adapted model, to go on with. */
BO_API bo_status bo_model_load_adapted(bo_context *context, const char *folder, bo_model **out);
/* The base out of a merged model's folder, bit for bit. */
BO_API bo_status bo_model_load_unmerged(bo_context *context, const char *folder, bo_model **out);

#ifdef __cplusplus
}
#endif
#endif
