/* The names of what models are for. */
#include <bochner/model.h>
#include "../base/base.h"

static const char *const task_names[BO_MODEL_TASK_COUNT] = {"language", "classify", "match", "translate"};
static const char *const pooling_names[BO_POOLING_COUNT] = {"mean", "max", "first", "last"};
static const char *const cross_names[BO_CROSS_COUNT] = {"attention", "summary"};

BO_NAMED(model_task, bo_model_task, task_names)
BO_NAMED(pooling, bo_pooling, pooling_names)
BO_NAMED(cross, bo_cross, cross_names)
