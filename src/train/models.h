/* What tasks of models share: files, settings, sizes, frequencies drawn from data. */
#ifndef BO_TRAIN_MODELS_H
#define BO_TRAIN_MODELS_H

#include "../model/model.h"
#include "task.h"

const char *const *bo_train_model_files(const bo_model *model);
bo_status bo_train_model_write(bo_context *context, const bo_train_task *task, const char *folder);
bo_status bo_train_model_read(bo_context *context, bo_train_task *task, const char *folder);
/* Refuses what no task of a model can train. */
bo_status bo_train_model_check(bo_context *context, const bo_train_task *task);
/* What a model is, as settings; what it learns from is the task's. */
void bo_train_model_settings(const bo_train_task *task, bo_json_text *text);
/* Activations of a row in `layers` layers, roughly. */
double bo_train_model_row_bytes(const bo_train_task *task, size_t layers);

/* New frequencies for attention that draws them from data, where this step wants them. */
bo_status bo_train_model_calibrate(bo_context *context, bo_train_task *task, uint64_t step);

#endif
