/* Code shared by the tasks of models: settings, sizes, frequencies. */
#ifndef BO_TRAIN_MODELS_H
#define BO_TRAIN_MODELS_H

#include "task.h"

/* Rejects models that no task can train. */
bo_status bo_train_model_check(bo_context *context, const bo_train_task *task);
/* Writes the settings of a model. The task writes the settings of its data. */
void bo_train_model_settings(const bo_train_task *task, bo_json_text *text);
/* Approximate bytes of activations per row in `layers` layers. */
double bo_train_model_row_bytes(const bo_train_task *task, size_t layers);

/* Calibrates data-aware attention and redraws random frequencies, if due at this step. */
bo_status bo_train_model_prepare(bo_context *context, bo_train_task *task, uint64_t step);

#endif
