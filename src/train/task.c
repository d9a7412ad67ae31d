/* Selects the task that a descriptor names, and freezes weights. */
#include <assert.h>
#include <string.h>
#include "task.h"

/* ====================================================================================================================
 * Weights that are not trained, selected by name. */

enum { PATTERN = 256 };

static bo_status freeze_all(bo_context *context, bo_weights *weights, const char *list)
{
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ",");
        char pattern[PATTERN];
        if (length >= sizeof pattern)
            return bo_fail(context, BO_INVALID, "freeze: the pattern %.40s… has %zu bytes, expected at most %d", at,
                           length, PATTERN - 1);
        memcpy(pattern, at, length);
        pattern[length] = 0;
        if (length) BO_TRY(bo_weights_freeze(context, weights, pattern, true));
        at += length + (at[length] == ',');
    }
    if (bo_weights_describe(weights)->trained == 0)
        return bo_fail(context, BO_INVALID, "freeze: '%s' freezes every weight; nothing is left to train", list);
    return BO_OK;
}

bo_status bo_train_freeze(bo_context *context, bo_train_task *task)
{
    bo_weights *weights = task->desc->model->weights;
    const size_t count = bo_weights_count(weights);
    task->frozen = bo_alloc(context, count, sizeof(bool), "flags of weights");
    if (!task->frozen) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) task->frozen[i] = bo_weights_at(weights, i)->frozen;
    if (task->desc->imitate == BO_IMITATION_ATTENTION) {
        BO_TRY(bo_model_freeze_original(context, task->desc->model));
        if (bo_weights_describe(weights)->trained == 0)
            return bo_fail(context, BO_INVALID,
                           "imitate: the attention has the same parameters as its teacher; nothing is left to train");
    }
    return task->desc->freeze ? freeze_all(context, weights, task->desc->freeze) : BO_OK;
}

static void unfreeze(bo_train_task *task)
{
    for (size_t i = 0; task->frozen && i < bo_weights_count(task->desc->model->weights); i++)
        bo_weights_set_frozen(task->desc->model->weights, i, task->frozen[i]);
    bo_free(task->frozen);
    task->frozen = NULL;
}

/* ====================================================================================================================
 * The task that a descriptor names, its files and its graph. */

static const char *const files[] = {
    "config.json",         "generation_config.json", "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja", "tokenizer.json",         "model.safetensors",     NULL};
static const char *const adapter_files[] = {"adapter_config.json", "tokenizer.json", "adapter_model.safetensors", NULL};
static const char *const network_files[] = {"config.json", "model.safetensors", NULL};

/* True if the last of its files holds the weights. */
static bool files_hold(const bo_train_task *task)
{
    const char *const *last = task->files;
    while (last[0] && last[1]) last++;
    return last[0] && strstr(last[0], ".safetensors");
}

/* Data of several tasks would be ambiguous. */
static bo_status check_data(bo_context *context, const bo_trainer_desc *desc)
{
    const bo_training_data *train = &desc->train, *valid = &desc->valid;
    if ((train->corpus != NULL) + (train->texts != NULL) + (train->examples != NULL) > 1)
        return bo_fail(context, BO_INVALID, "training: expected a corpus, texts or examples, found several of them");
    if ((valid->corpus && !train->corpus) || (valid->texts && !train->texts) || (valid->examples && !train->examples))
        return bo_fail(context, BO_INVALID, "training: the validation data is of another kind than the training data");
    return BO_OK;
}

bo_status bo_train_task_create(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    *out = NULL;
    if (!desc->model) return bo_fail(context, BO_INVALID, "training: the model is NULL");
    BO_TRY(check_data(context, desc));
    const bo_status status = desc->model->network || desc->train.examples ? bo_train_network(context, desc, out)
                             : desc->train.texts                          ? bo_train_texts(context, desc, out)
                                                                          : bo_train_language(context, desc, out);
    if (status != BO_OK) return status;
    (*out)->files = desc->model->network ? network_files : desc->model->adapter ? adapter_files : files;
    assert(files_hold(*out));
    if (!(*out)->windows) (*out)->windows = 1;
    return BO_OK;
}

bo_status bo_train_graph(bo_context *context, bo_train_task *task, bo_model_graph_desc desc)
{
    desc.loss = desc.gradients = true;
    desc.checkpoint = task->desc->checkpointing;
    desc.bfloat16 = task->desc->activations == BO_STORAGE_BFLOAT16;
    return bo_model_graph_create(context, task->desc->model, &desc, &task->graph);
}

void bo_train_task_destroy(bo_train_task *task)
{
    if (!task) return;
    unfreeze(task);
    task->methods->close(task);
    bo_model_graph_destroy(&task->graph);
    bo_free(task);
}
