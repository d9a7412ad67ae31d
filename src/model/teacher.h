/* The teacher of a linearized model (bo_model_original), over the same weights without adapters. Both are recorded in
 * one graph, so the weights are stored once. */
#ifndef BO_MODEL_TEACHER_H
#define BO_MODEL_TEACHER_H

#include "stack.h"

/* The model must outlive the teacher, and the teacher the graphs that record it. */
bo_status bo_teacher_create(bo_context *context, const bo_model *model, bo_teacher **out);
void bo_teacher_destroy(bo_teacher *teacher); /* accepts NULL */

/* Records the teacher on the graph of the student's stack, with the same tokens and positions. LOGITS: sets
 * out->taught. ATTENTION: records for each linearized layer the student's attention with the teacher's q, k and v,
 * and sets out->loss (the mean of the relative squared errors) and out->losses (the errors, one column per such
 * layer). */
void bo_teacher_record(bo_teacher *teacher, const bo_stack *student, bo_imitation imitate, bo_model_graph *out);

#endif
