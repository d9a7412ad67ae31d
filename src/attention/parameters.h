/* The parameters of attention as a table: whose they are, how many floats, what they must be, and where a task's own
 * gradients of them lie. Adding one is a line here. */
#ifndef BO_ATTENTION_PARAMETERS_H
#define BO_ATTENTION_PARAMETERS_H

#include "internal.h"

/* Where its gradient begins in a task's `parameters`. */
size_t bo_parameter_offset(const bo_attention *attention, bo_parameter which);
/* The array in inputs or gradients; NULL: not given, not wanted. */
float *bo_parameter_gradient(const bo_attention_gradients *gradients, bo_parameter which);
/* Every parameter given is this attention's, finite and in its range. */
bo_status bo_parameters_check(bo_context *context, const bo_attention *attention, const bo_attention_inputs *in);
/* Every gradient asked for is of a parameter this attention has. */
bo_status bo_parameter_gradients_check(bo_context *context, const bo_attention *attention,
                                       const bo_attention_gradients *gradients);
/* Names the first of them that is not finite, then `advice`. */
bo_status bo_parameter_gradients_blame(bo_context *context, const bo_attention *attention,
                                       const bo_attention_gradients *gradients, const char *advice);

#endif
