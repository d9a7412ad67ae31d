/** @file
 * Low-rank adapters of models (LoRA, 2106.09685).
 *
 * The weight of each adapted linear layer becomes W0 + (α / r) B A. Training changes only A and B (and the
 * classification heads, which are small). The files of an adapter are small.
 *
 *     bo_model_load(context, &(bo_source){.path = "base"}, NULL, &model);
 *     bo_model_adapt(context, model, &(bo_lora_desc){.rank = 8, .targets = "q_proj,v_proj", .base = "base"});
 *     …                                                  // bo_trainer_run of train.h, bo_model_save: the adapter
 *     bo_model_merge(context, model);                    // as fast as the base
 *     bo_model_save(context, model, &(bo_sink){.path = "merged"});
 *
 * For all initial values A0 and B0 of A and B, the adapted model initially computes the same function as the base: the
 * weight is W0 + (α / r) (B A - B0 A0), which the graph computes from left to right without changing W0. Merging sums B
 * A - B0 A0 over the rank in double, in a fixed order, and rounds W0 + … once to float: an adapter that was not trained
 * merges to the bits of W0, and the merged model differs from the adapted one by rounding only. Unmerging restores the
 * exact bits of W0, A and B, because they are kept.
 *
 * **Files** have the format of PEFT. bo_model_save() of an adapted model writes adapter_config.json, which names the
 * base, and adapter_model.safetensors. An adapter whose initial values are not zero is written with twice the rank, so
 * that it subtracts them. Layers that are trained fully are written as a whole and listed in "modules_to_save".
 * bo_model_save() of a merged model writes the model as usual, and a directory `adapter` with the adapter and
 * base.safetensors, the weights before merging. bo_model_load() of the directory of an adapter loads the base and
 * merges.
 *
 * **Ownership.** Adapters belong to the model. **Threads.** The functions change the model and need exclusive access.
 */
#ifndef BOCHNER_LORA_H
#define BOCHNER_LORA_H

#include <bochner/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The settings of adapters. `rank` has no default. */
typedef struct bo_lora_desc {
    size_t rank;  /**< r; at most the smaller side of every adapted layer, with init GRADIENT half of that */
    double alpha; /**< α (default: twice the rank) */
    /** The linear layers to adapt: suffixes of their names ("q_proj,v_proj"), patterns with `*`, or the layers of a
     * block of the model ("block-1", "block-1.q_proj"; blocks are numbered from 0) (default: "all", the hidden
     * layers). */
    const char *targets;
    /** Layers that are trained fully, named likewise; "": none. Default: the classification heads (score and match, of
     * the tasks classify and match), which are freshly initialized when the task changes. */
    const char *whole;
    bo_lora_init init;     /**< initial values (default: A random, B zero) */
    const bo_corpus *data; /**< GRADIENT: the corpus on which the gradient of the mean loss is computed */
    size_t sequences;      /**< GRADIENT: number of windows of the corpus (default: 32) */
    uint64_t seed;         /**< seed of the initial values */
    const char *base;      /**< directory or file of the base, which the files of the adapter name; or NULL */
    size_t window;         /**< GRADIENT: tokens per window, at most the context (default: the context of the model) */
    uint64_t reserved[3];  /**< must be zero */
} bo_lora_desc;

/** Adds adapters to a model in memory and freezes all other weights except those in `whole`.
 *
 * No session of the model may exist.
 *
 * @param context         the context
 * @param[in,out] model   the model
 * @param desc            the adapters
 * @return BO_OK; BO_INVALID if the model has adapters already, its weights are not float32, or no layer matches
 *     `targets`
 */
BO_API bo_status bo_model_adapt(bo_context *context, bo_model *model, const bo_lora_desc *desc);

/** Adds the adapters of a model to its weights. No session of the model may exist.
 *
 * @param context         the context
 * @param[in,out] model   the model
 * @return BO_OK; BO_INVALID if the model has no adapters or they are merged already
 */
BO_API bo_status bo_model_merge(bo_context *context, bo_model *model);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Sets the base of the adapters of a model, as named in their files. The caller is responsible for its weights:
 * loading the adapters compares them with the adapted weights.
 *
 * @param context        the context
 * @param[in,out] model  a model with adapters
 * @param base           directory or file of the base, which exists; stored as an absolute path
 * @return BO_OK; BO_INVALID if the model has no adapters or the base is not a model
 */
BO_API bo_status bo_model_set_base(bo_context *context, bo_model *model, const char *base);

#endif

#ifdef __cplusplus
}
#endif
#endif
