/* Individual heads of a language model with softmax attention: their weights in float64, their attention, and the
 * residual stream that they read and write. For models with RMSNorm, without normalization of q and k, and with RoPE
 * (halves) or no positions. */
#ifndef BO_LAB_TOOLS_HEADS_H
#define BO_LAB_TOOLS_HEADS_H

#include "../measurement.h"
#include <bochner/model.h>

/* One head of one layer. It reads rows of the residual stream divided by their root mean square; q, k and v include the
 * gain of the normalization. */
typedef struct lab_head {
    size_t width, dim;
    double scale;      /* of q·k */
    double rope_base;  /* 0: no rotation */
    double *q, *k, *v; /* dim x width */
    double *o;         /* width x dim */
} lab_head;

bo_status lab_head_read(bo_context *context, const bo_model *model, size_t layer, size_t index, lab_head *out);
void lab_head_free(lab_head *head);
/* Computes the rotated queries or keys of x (tokens x width, normalized), where `matrix` is q or k of the head: tokens
 * x dim. */
bo_status lab_head_turned(bo_context *context, const lab_head *head, const double *matrix, size_t tokens,
                          const double *x, double *out);
/* x: tokens x width, normalized; weights: tokens x tokens, rows sum to 1, zero above the diagonal. */
bo_status lab_head_attention(bo_context *context, const lab_head *head, size_t tokens, const double *x,
                             double *weights);
/* The circuits of a head, width x width: W_O W_V maps what it reads to what it writes, and W_Qᵀ W_K determines its
 * attention. */
bo_status lab_head_ov(bo_context *context, const lab_head *head, double *out);
bo_status lab_head_qk(bo_context *context, const lab_head *head, double *out);

/* The residual stream over one window: 1 + 2 layers times context x width: the embedding, then the stream after the
 * attention and the MLP of each layer. */
bo_status lab_stream(lab_run *run, const bo_model *model, const int32_t *ids, float *out);
/* Divides rows by their root mean square. */
void lab_normalize(size_t rows, size_t width, double epsilon, const float *x, double *out);

#endif
