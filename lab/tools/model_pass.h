/* Internals of a language model that experiments use: weights with their gradients, and redrawn attention features. */
#ifndef BO_LAB_TOOLS_MODEL_PASS_H
#define BO_LAB_TOOLS_MODEL_PASS_H

#include "../measurement.h"
#include <bochner/graph.h>
#include <bochner/model.h>

bo_weights *lab_model_weights(const bo_model *model); /* the weights of the model */
/* Redraws the random features of all layers. */
bo_status lab_model_redraw(bo_context *context, bo_model *model, uint64_t seed);

/* Forward and backward passes over one sequence of `tokens` tokens. */
typedef struct lab_model_pass lab_model_pass;
bo_status lab_model_pass_open(bo_context *context, const bo_model *model, size_t tokens, lab_model_pass **out);
void lab_model_pass_close(lab_model_pass *pass); /* accepts NULL */
/* The gradients in the weights of the model are those of scale times the sum of the losses of the targets; a target of
 * -1 is ignored. */
bo_status lab_model_pass_run(bo_context *context, lab_model_pass *pass, const int32_t *ids, const int32_t *targets,
                             double scale);

#endif
