/* The table of attention parameters: their kinds, number of floats, allowed values, and the position of their gradients
 * in a task. A new parameter is one line in the table. */
#ifndef BO_ATTENTION_PARAMETERS_H
#define BO_ATTENTION_PARAMETERS_H

#include "internal.h"

/* Returns the index at which its gradient starts in a task's `parameters`. */
size_t bo_parameter_offset(const bo_attention *attention, bo_parameter which);
/* Returns the array in inputs or in gradients. NULL: not given or not requested. */
const float *bo_parameter_in(const bo_attention_inputs *in, bo_parameter which);
float *bo_parameter_gradient(const bo_attention_gradients *gradients, bo_parameter which);
/* Checks that every given parameter belongs to this attention, is finite and in its range. f64: see bo_call. */
bo_status bo_parameters_check(bo_context *context, const bo_attention *attention, const bo_attention_inputs *in,
                              bool f64);
/* Checks that every requested gradient belongs to a parameter of this attention. */
bo_status bo_parameter_gradients_check(bo_context *context, const bo_attention *attention,
                                       const bo_attention_gradients *gradients);
/* Fails with the position of the first NaN or infinity in the gradients, followed by `advice`. */
bo_status bo_parameter_gradients_locate_nonfinite(bo_context *context, const bo_attention *attention,
                                                  const bo_attention_gradients *gradients, bool f64,
                                                  const char *advice);

#endif
