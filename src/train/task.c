/* Selects the task that a descriptor names, and freezes weights. */
#include <assert.h>
#include <string.h>
#include "../model/model.h"
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
    if (bo_weights_parameters(weights, true) == 0)
        return bo_fail(context, BO_INVALID, "freeze: '%s' freezes every weight; nothing is left to train", list);
    return BO_OK;
}

bo_status bo_train_freeze(bo_context *context, bo_train_task *task)
{
    bo_weights *weights = task->weights;
    const size_t count = bo_weights_count(weights);
    task->frozen = bo_alloc(context, count, sizeof(bool), "flags of weights");
    if (!task->frozen) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) task->frozen[i] = bo_weights_at(weights, i)->frozen;
    if (task->desc->imitate == BO_IMITATION_ATTENTION) {
        BO_TRY(bo_model_freeze_original(context, task->desc->model));
        if (bo_weights_parameters(weights, true) == 0)
            return bo_fail(
                context, BO_INVALID,
                "imitate: the attention has no parameters that its teacher has not; nothing is left to train");
    }
    return task->desc->freeze ? freeze_all(context, weights, task->desc->freeze) : BO_OK;
}

static void thaw(bo_train_task *task)
{
    for (size_t i = 0; task->frozen && i < bo_weights_count(task->weights); i++)
        bo_weights_set_frozen(task->weights, i, task->frozen[i]);
    bo_free(task->frozen);
    task->frozen = NULL;
}

/* ====================================================================================================================
 * The task that a descriptor names. */

/* True if the last of its files holds the weights. */
static bool files_hold(const bo_train_task *task)
{
    const char *const *last = task->files;
    while (last[0] && last[1]) last++;
    return last[0] && strstr(last[0], ".safetensors");
}

bo_status bo_train_task_create(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    *out = NULL;
    if (!desc->model) return bo_fail(context, BO_INVALID, "training: the model is NULL");
    const bo_status status = desc->model->network || desc->examples ? bo_train_network(context, desc, out)
                             : desc->texts                          ? bo_train_texts(context, desc, out)
                                                                    : bo_train_language(context, desc, out);
    assert(status != BO_OK || files_hold(*out));
    if (status == BO_OK && !(*out)->windows) (*out)->windows = 1;
    return status;
}

void bo_train_task_destroy(bo_train_task *task)
{
    if (!task) return;
    thaw(task);
    task->methods->close(task);
    bo_free(task);
}
