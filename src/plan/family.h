/* Models of a family: counts, and the descriptor that shapes are derived from. */
#ifndef BO_PLAN_FAMILY_H
#define BO_PLAN_FAMILY_H

#include "plan.h"

/* bo_plan_count_training, with the memory that the trainer needs. */
bo_status bo_plan_count_cost(bo_context *context, const bo_model_desc *model, const bo_trainer_desc *training,
                             bo_plan_counts *out, bo_training_cost *cost);

/* The model of `config`. Release it with bo_model_desc_release(). */
bo_status bo_plan_family_model(bo_context *context, const bo_plan_family *family, bo_model_desc *out);

#endif
