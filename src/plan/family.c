/* Counts of a training step of any model, by the graph that the trainer would run. */
#include "../model/enums.h"
#include "family.h"
#include "../model/config.h"
#include "../model/model.h"
#include <string.h>

enum { ITERATIONS = 5 }; /* Muon's */

/* The update: the norm of the gradient, then g, w and two moments of AdamW, or, for matrices under Muon, momentum,
 * update, and five times A = XXᵀ and A² (half of each, by symmetry) and BX. */
static void add_update(const bo_model *model, bo_optimizer_kind optimizer, bo_plan_counts *out)
{
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++) {
        const bo_weight *w = bo_weights_at(bo_model_weights(model), i);
        const double r = (double)(w->rows < w->columns ? w->rows : w->columns);
        const double size = (double)w->rows * (double)w->columns;
        if (w->frozen) continue;
        if (optimizer == BO_OPTIMIZER_MUON && w->role == BO_WEIGHT_ROLE_MATRIX) {
            out->operations += ITERATIONS * (3 * r * size + r * r * r);
            out->copies += 8 * size + ITERATIONS * (4 * size + 5 * r * r);
        } else {
            out->copies += 8 * size;
        }
    }
}

/* Activations are written in forward, and read and written in backward; each micro-batch reads the weights twice and
 * adds to their gradients. */
static bo_status count_model(bo_context *context, const bo_model *model, const bo_trainer_desc *desc,
                             bo_plan_counts *out, bo_training_cost *cost)
{
    BO_TRY(bo_trainer_estimate(context, desc, cost));
    const bo_model_desc *m = bo_model_describe(model);
    const double pieces = (double)desc->batch / (double)cost->micro_batch;
    const double number = desc->activations == BO_STORAGE_BFLOAT16 ? 2 : sizeof(float);
    *out = (bo_plan_counts){.parameters = (double)cost->parameters,
                            .tokens = (double)desc->batch * (double)m->context,
                            .layers = (double)m->layers * pieces,
                            .operations = cost->operations};
    out->copies = 3 * pieces * ((double)cost->activation_bytes / number + (double)cost->parameters);
    add_update(model, desc->optimizer.kind, out);
    return BO_OK;
}

/* The model has no weight values, so counting takes the same time for all sizes. */
bo_status bo_plan_count_cost(bo_context *context, const bo_model_desc *model, const bo_trainer_desc *training,
                             bo_plan_counts *out, bo_training_cost *cost)
{
    bo_tokenizer *tokenizer = NULL;
    bo_corpus *corpus = NULL;
    bo_model *built = NULL;
    if (model->task != BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID, "plan: expected a language model, found task %s",
                       bo_model_task_name(model->task));
    bo_status status = bo_tokenizer_create(context, &tokenizer);
    if (status == BO_OK) status = bo_model_build(context, model, tokenizer, &built);
    if (status == BO_OK) status = bo_plan_noise(context, tokenizer, 4 * bo_model_describe(built)->context, &corpus);
    const bo_trainer_desc desc = {.model = built,
                                  .train.corpus = corpus,
                                  .steps = 1,
                                  .batch = training->batch ? training->batch : 16,
                                  .micro_batch = training->micro_batch,
                                  .optimizer = {.kind = training->optimizer.kind},
                                  .activations = training->activations,
                                  .checkpointing = training->checkpointing};
    if (status == BO_OK) status = count_model(context, built, &desc, out, cost);
    bo_corpus_close(corpus);
    bo_model_destroy(built);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

bo_status bo_plan_count_training(bo_context *context, const bo_model_desc *model, const bo_trainer_desc *training,
                                 bo_plan_counts *out)
{
    BO_REQUIRE(context, model, training, out);
    bo_training_cost cost;
    return bo_plan_count_cost(context, model, training, out, &cost);
}

bo_status bo_plan_compare(bo_context *context, const bo_model_desc *first, const bo_model_desc *second)
{
    BO_REQUIRE(context, first, second);
    return bo_config_compare(context, first, second);
}

bo_status bo_plan_family_model(bo_context *context, const bo_plan_family *family, bo_model_desc *out)
{
    bo_config config;
    BO_TRY(bo_config_read(context, "config of the law", family->config, strlen(family->config), &config));
    const bo_block_list list = bo_blocks_of(&config.desc, BO_MODEL_PART_LAYERS);
    bool plain = config.desc.task == BO_MODEL_TASK_LANGUAGE;
    for (size_t i = 0; i < list.count; i++) plain = plain && !list.blocks[i].custom_mlp.name;
    *out = config.desc;
    if (plain) return BO_OK;
    bo_config_free(&config);
    return bo_fail(context, BO_INVALID, "config of the law: expected a language model without custom layers");
}
