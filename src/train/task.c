/* Tasks: which one a descriptor names, and weights that it does not train. */
#include <assert.h>
#include <fnmatch.h>
#include <string.h>
#include "task.h"

/* ====================================================================================================================
 * Weights that are not trained, by name. */

enum { PATTERN = 256 };

/* A beginning of the name; with a star, the whole of it as in file names. */
static bool fits(const char *pattern, const char *name)
{
    if (strpbrk(pattern, "*?[")) return fnmatch(pattern, name, 0) == 0;
    return strncmp(name, pattern, strlen(pattern)) == 0;
}

static bo_status freeze_one(bo_context *context, bo_weights *weights, const char *pattern)
{
    size_t found = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_weight *weight = bo_weights_at(weights, i);
        if (!fits(pattern, weight->name)) continue;
        weight->frozen = true;
        found++;
    }
    if (found) return BO_OK;
    return bo_fail(context, BO_INVALID, "freeze: no weight's name begins with or fits '%s'; the first is '%s'", pattern,
                   bo_weights_at(weights, 0)->name);
}

static bo_status freeze_all(bo_context *context, bo_weights *weights, const char *list)
{
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ",");
        char pattern[PATTERN];
        if (length >= sizeof pattern) return bo_fail(context, BO_INVALID, "freeze: a name of %zu letters", length);
        memcpy(pattern, at, length);
        pattern[length] = 0;
        if (length) BO_TRY(freeze_one(context, weights, pattern));
        at += length + (at[length] == ',');
    }
    if (bo_weights_numbers(weights, true) == 0)
        return bo_fail(context, BO_INVALID, "freeze: '%s' leaves nothing to train", list);
    return BO_OK;
}

bo_status bo_train_freeze(bo_context *context, bo_train_task *task)
{
    bo_weights *weights = task->weights;
    const size_t count = bo_weights_count(weights);
    task->frozen = bo_alloc(context, count, sizeof(bool), "flags of weights");
    if (!task->frozen) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) task->frozen[i] = bo_weights_at(weights, i)->frozen;
    return task->desc->freeze ? freeze_all(context, weights, task->desc->freeze) : BO_OK;
}

static void thaw(bo_train_task *task)
{
    for (size_t i = 0; task->frozen && i < bo_weights_count(task->weights); i++)
        bo_weights_at(task->weights, i)->frozen = task->frozen[i];
    bo_free(task->frozen);
    task->frozen = NULL;
}

/* ====================================================================================================================
 * Which task a descriptor names. */

/* Has the last of its files the weights? */
static bool files_hold(const bo_train_task *task)
{
    const char *const *last = task->files;
    while (last[0] && last[1]) last++;
    return last[0] && strstr(last[0], ".safetensors");
}

bo_status bo_train_task_create(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    *out = NULL;
    const bo_status status = desc->network ? bo_train_network(context, desc, out)
                             : desc->texts ? bo_train_texts(context, desc, out)
                                           : bo_train_language(context, desc, out);
    assert(status != BO_OK || files_hold(*out));
    return status;
}

void bo_train_task_destroy(bo_train_task *task)
{
    if (!task) return;
    thaw(task);
    task->methods->close(task);
    bo_free(task);
}
