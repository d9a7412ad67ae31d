/* The gate of a layer, from its input. */
#ifndef BO_ATTENTION_GATE_H
#define BO_ATTENTION_GATE_H

#include <bochner/base.h>

/* log g = log sigmoid(x w_hᵀ + b_h) for each head h. x: tokens x width; w: heads x width; b: one number per head, NULL:
 * 0; log_gate: tokens x heads. */
bo_status bo_gate_forward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                          const float *w, const float *b, float *log_gate);
/* Gradients are overwritten; NULL: not computed. x may be NULL without dw, and w without dx. */
bo_status bo_gate_backward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                           const float *w, const float *log_gate, const float *dlog_gate, float *dx, float *dw,
                           float *db);

#endif
