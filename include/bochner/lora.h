/* Bochner: low-rank adapters of models (LoRA, 2106.09685). The weight of each named linear layer becomes W0 + (α / r) B A.
 * Training changes A and B alone (and the layer that computes labels, which is small); the folder of an adapter is small.
 *
 *     bo_model_load(context, "base", &model);
 *     bo_model_adapt(context, model, &(bo_lora_desc){.rank = 8, .targets = "q_proj,v_proj", .base = "base"});
 *     …                                                  // bo_trainer_run of train.h, bo_model_save: the adapter's folder
 *     bo_model_merge(context, model);                    // as fast as the base again
 *     bo_model_save(context, model, "merged");
 *
 * Whatever the first values A0 and B0 of A and B are, the model begins as it was: the weight is W0 + (α / r) (B A - B0 A0), which
 * the graph computes from left to right without changing W0. Merging sums B A - B0 A0 over the rank in double, in one order, and
 * rounds W0 + … once to float: an adapter that was not trained merges to the bits of W0, and the merged model differs from the
 * adapted one by rounding alone. Unmerging restores the exact bits of W0, A and B, because they are kept. */
#ifndef BOCHNER_LORA_H
#define BOCHNER_LORA_H

#include <bochner/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* Zero means the default, except rank. */
typedef struct bo_lora_desc {
    size_t rank;  /* at most the smaller side of every named layer; init GRADIENT: half of that */
    double alpha; /* (default: twice the rank) */
    /* Linear layers, by the end of their names ("q_proj,v_proj") or *patterns* (default: "all", the hidden ones). */
    const char *targets;
    /* Layers that are trained themselves, named likewise; "": none. Default: those that compute labels (score and match, of the
     * tasks classify and match), which are random in a model that adopted the weights of another. */
    const char *whole;
    bo_lora_init init;
    const bo_corpus *data; /* GRADIENT: the gradient is that of the mean loss over windows of this corpus */
    size_t sequences;      /* GRADIENT: the number of windows (default: 32) */
    uint64_t seed;
    const char *base;     /* the folder or file the model was loaded from, which the adapter's files name, or NULL */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_lora_desc;

/* Adds adapters to the model, in memory, and freezes all other weights but `whole`. No session of the model may exist. */
BO_API bo_status bo_model_adapt(bo_context *context, bo_model *model, const bo_lora_desc *desc);
/* Puts the adapters of an adapted model into its weights, and takes them out again. No session of the model may exist. */
BO_API bo_status bo_model_merge(bo_context *context, bo_model *model);
BO_API bo_status bo_model_unmerge(bo_context *context, bo_model *model);

/* ==== Advanced ==================================================================================================== */

/* Files are those of PEFT. bo_model_save of an adapted model writes adapter_config.json, which names the base, and
 * adapter_model.safetensors; an adapter whose first values are not zero is written with twice the rank, so that it subtracts
 * them; layers that are trained themselves are written whole and named by "modules_to_save". bo_model_save of a merged model
 * writes the model as usual, and a folder adapter with the adapter and base.safetensors, the weights before merging.
 * bo_model_load of an adapter's folder loads the base and merges. */

/* Loads an adapter's folder and its base as an adapted model, to train it further. */
BO_API bo_status bo_model_load_adapted(bo_context *context, const char *folder, bo_model **out);
/* Loads the base from the folder of a merged model, bit for bit. */
BO_API bo_status bo_model_load_unmerged(bo_context *context, const char *folder, bo_model **out);

#ifdef __cplusplus
}
#endif
#endif
