/* The heads of a language model with exact attention, looked at one by one: their weights in double, where they look, and
 * the residual stream they read and write. For models with RMSNorm, none of q and k, and RoPE (halves) or no positions. */
#ifndef BO_LAB_TOOLS_HEADS_H
#define BO_LAB_TOOLS_HEADS_H

#include "../../src/model/model.h"
#include "../experiment.h"

/* One head of one layer. It reads rows of the stream over their root mean square; the norm's gain is within q, k, v. */
typedef struct lab_head {
    size_t width, dim;
    double scale;      /* of q·k */
    double rope_base;  /* 0: nothing turns */
    double *q, *k, *v; /* dim x width */
    double *o;         /* width x dim */
} lab_head;

bo_status lab_head_read(bo_context *context, const bo_model *model, size_t layer, size_t index, lab_head *out);
void lab_head_free(lab_head *head);
/* Queries or keys of x (tokens x width, normalized), `matrix` the head's q or k, turned to their places: tokens x dim. */
bo_status lab_head_turned(bo_context *context, const lab_head *head, const double *matrix, size_t tokens,
                          const double *x, double *out);
/* x: tokens x width, normalized; weights: tokens x tokens, rows sum up to 1, nothing above the diagonal. */
bo_status lab_head_attention(bo_context *context, const lab_head *head, size_t tokens, const double *x,
                             double *weights);
/* Its circuits, width x width: what it writes for what it reads, W_O W_V, and whom it looks for, W_Qᵀ W_K. */
bo_status lab_head_ov(bo_context *context, const lab_head *head, double *out);
bo_status lab_head_qk(bo_context *context, const lab_head *head, double *out);

/* The residual stream over one window: 1 + 2 layers times context x width; the embedding first, then what each layer's
 * attention and its MLP leave. */
bo_status lab_stream(lab_run *run, const bo_model *model, const int32_t *ids, float *out);
/* Rows over their root mean square. */
void lab_normalize(size_t rows, size_t width, double epsilon, const float *x, double *out);

#endif
