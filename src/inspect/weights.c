/* The weights of the heads of a layer, with the gains of norms (inspect.h). */
#include <math.h>
#include <stdio.h>
#include "internal.h"

static const char what[] = "weights of a layer";

bo_status bo_weight_read(bo_context *context, const bo_model *model, const char *name, size_t count, double **out)
{
    const bo_weight *weight = bo_weights_find(model->weights, name);
    *out = NULL;
    if (!weight) return BO_OK;
    if (weight->rows * weight->columns != count)
        return bo_fail(context, BO_INVALID, "inspect: %s has %zu numbers, expected %zu", name,
                       weight->rows * weight->columns, count);
    float *values = bo_alloc_raw(context, count, sizeof *values, what);
    double *wide = bo_alloc_raw(context, count, sizeof *wide, what);
    bo_status status =
        values && wide ? bo_weights_get(context, bo_model_weights(model), name, values, NULL) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < count; i++) wide[i] = weight->scale * (double)values[i];
    bo_free(values);
    if (status == BO_OK)
        *out = wide;
    else
        bo_free(wide);
    return status;
}

typedef struct reader {
    bo_context *context;
    const bo_model *model;
    size_t layer;
} reader;

static const bo_block *block_of(const reader *r)
{
    return bo_model_block(&r->model->desc, r->layer);
}

static bo_status read_part(const reader *r, const char *suffix, size_t count, double **out)
{
    char name[160];
    snprintf(name, sizeof name, "model.layers.%zu.%s", r->layer, suffix);
    return bo_weight_read(r->context, r->model, name, count, out);
}

/* Reads the gain of a norm of the layer. name NULL: the same as if the weight did not exist. */
static bo_status read_gain(const reader *r, const char *name, size_t count, double **out)
{
    char weight[64];
    *out = NULL;
    if (!name) return BO_OK;
    snprintf(weight, sizeof weight, "%s.weight", name);
    return read_part(r, weight, count, out);
}

/* Multiplies column j of each row by gain[j], and subtracts the mean of the row if the norm subtracts that of its
 * input. */
static void fold_input(size_t rows, size_t width, const double *gain, bool centered, double *w)
{
    for (size_t r = 0; r < rows; r++, w += width) {
        double mean = 0;
        for (size_t j = 0; j < width; j++) mean += (w[j] *= gain[j]) / (double)width;
        for (size_t j = 0; centered && j < width; j++) w[j] -= mean;
    }
}

static bo_status fold_input_norm(const reader *r, bo_layer_weights *w)
{
    const bo_block *b = block_of(r);
    const bool centered = b->norm == BO_NORM_LAYER;
    double *gain;
    BO_TRY(read_gain(r, bo_residual_rule_of(b->residual)->mixer, w->width, &gain));
    if (gain) {
        fold_input(w->heads * w->dim, w->width, gain, centered, w->q);
        fold_input(w->key_heads * w->dim, w->width, gain, centered, w->k);
        fold_input(w->key_heads * w->value_dim, w->width, gain, centered, w->v);
    }
    bo_free(gain);
    return BO_OK;
}

/* The gain of q_norm or k_norm: one number per column of a head, or of all heads. */
static bo_status fold_head_norm(const reader *r, const char *suffix, const bo_layer_weights *w, size_t heads,
                                double *matrix)
{
    const size_t count = block_of(r)->joint_norm ? heads * w->dim : w->dim;
    double *gain;
    BO_TRY(read_part(r, suffix, count, &gain));
    for (size_t i = 0; gain && i < heads * w->dim * w->width; i++) matrix[i] *= gain[i / w->width % count];
    bo_free(gain);
    return BO_OK;
}

static bo_status fold_output_norm(const reader *r, bo_layer_weights *w)
{
    double *gain;
    BO_TRY(read_part(r, "self_attn.o_norm.weight", w->value_dim, &gain));
    w->output_norm = gain != NULL;
    for (size_t i = 0; gain && i < w->width * w->heads * w->value_dim; i++) w->o[i] *= gain[i % w->value_dim];
    bo_free(gain);
    return BO_OK;
}

/* The norm of the summand: its mean is subtracted before its gain is applied. */
static void fold_summand(const bo_layer_weights *w, const double *gain, bool centered)
{
    const size_t columns = w->heads * w->value_dim;
    for (size_t c = 0; c < columns; c++) {
        double mean = 0;
        for (size_t r = 0; centered && r < w->width; r++) mean += w->o[r * columns + c] / (double)w->width;
        for (size_t r = 0; r < w->width; r++) w->o[r * columns + c] = gain[r] * (w->o[r * columns + c] - mean);
    }
}

static bo_status fold_summand_norm(const reader *r, bo_layer_weights *w)
{
    const bo_block *b = block_of(r);
    const size_t count = w->width * w->heads * w->value_dim;
    double *gain;
    BO_TRY(read_gain(r, bo_residual_rule_of(b->residual)->mixer_summand, w->width, &gain));
    if (!gain) return BO_OK;
    w->summand_norm = true;
    w->o_plain = bo_alloc_raw(r->context, count, sizeof *w->o_plain, what);
    bo_status status = w->o_plain ? read_part(r, "self_attn.o_proj.bias", w->width, &w->o_bias) : BO_MEMORY;
    if (status == BO_OK) {
        for (size_t i = 0; i < count; i++) w->o_plain[i] = w->o[i];
        fold_summand(w, gain, b->norm == BO_NORM_LAYER);
    }
    bo_free(gain);
    return status;
}

static bo_status read_matrices(const reader *r, bo_layer_weights *w)
{
    const double factor = block_of(r)->residual_scale;
    const size_t outputs = w->width * w->heads * w->value_dim;
    BO_TRY(read_part(r, "self_attn.q_proj.weight", w->heads * w->dim * w->width, &w->q));
    BO_TRY(read_part(r, "self_attn.k_proj.weight", w->key_heads * w->dim * w->width, &w->k));
    BO_TRY(read_part(r, "self_attn.v_proj.weight", w->key_heads * w->value_dim * w->width, &w->v));
    BO_TRY(read_part(r, "self_attn.o_proj.weight", outputs, &w->o));
    if (!w->q || !w->k || !w->v || !w->o)
        return bo_fail(r->context, BO_UNSUPPORTED, "inspect: layer %zu has no q_proj, k_proj, v_proj and o_proj",
                       r->layer);
    for (size_t i = 0; i < outputs; i++) w->o[i] *= factor;
    return BO_OK;
}

bo_status bo_layer_weights_read(bo_context *context, const bo_model *model, size_t layer, bo_layer_weights *out)
{
    const bo_attention_desc *a = bo_attention_describe(bo_model_attention(model, layer));
    const reader r = {context, model, layer};
    *out = (bo_layer_weights){.width = model->desc.width,
                              .heads = a->heads,
                              .key_heads = a->key_heads,
                              .dim = a->dim,
                              .value_dim = a->value_dim,
                              .norm = block_of(&r)->norm,
                              .epsilon = block_of(&r)->norm_epsilon};
    BO_TRY(read_matrices(&r, out));
    BO_TRY(fold_input_norm(&r, out));
    BO_TRY(fold_head_norm(&r, "self_attn.q_norm.weight", out, a->heads, out->q));
    BO_TRY(fold_head_norm(&r, "self_attn.k_norm.weight", out, a->key_heads, out->k));
    BO_TRY(fold_output_norm(&r, out));
    return fold_summand_norm(&r, out);
}

void bo_layer_weights_free(bo_layer_weights *weights)
{
    double *const blocks[] = {weights->q, weights->k, weights->v, weights->o, weights->o_plain, weights->o_bias};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    *weights = (bo_layer_weights){0};
}

/* Returns the factor of the logits besides the factor of the weight (src/model/graph.c). */
static double logit_factor(const bo_model *model, const bo_weight *weight)
{
    const double scale = model->desc.logit_scale != 0 ? model->desc.logit_scale : 1;
    return scale * (model->desc.untied ? weight->scale : 1 / weight->out);
}

bo_status bo_output_matrix(bo_context *context, const bo_model *model, float **out)
{
    const bo_model_desc *d = &model->desc;
    const bool centered = bo_model_block(d, d->layers - 1)->norm == BO_NORM_LAYER;
    const char *name = d->untied ? "lm_head.weight" : "model.embed_tokens.weight";
    const bo_weight *weight = bo_weights_find(model->weights, name);
    double *gain = NULL;
    *out = NULL;
    if (!weight) return bo_fail(context, BO_UNSUPPORTED, "inspect: the model has no %s", name);
    float *matrix = bo_alloc_raw(context, d->vocab * d->width, sizeof *matrix, "the output matrix");
    bo_status status = matrix ? bo_weights_get(context, bo_model_weights(model), name, matrix, NULL) : BO_MEMORY;
    if (status == BO_OK) status = bo_weight_read(context, model, "model.norm.weight", d->width, &gain);
    for (size_t v = 0; status == BO_OK && v < d->vocab; v++) {
        float *row = matrix + v * d->width;
        double mean = 0;
        for (size_t j = 0; j < d->width; j++) {
            row[j] = (float)(logit_factor(model, weight) * (double)row[j] * (gain ? gain[j] : 1));
            mean += (double)row[j] / (double)d->width;
        }
        for (size_t j = 0; centered && j < d->width; j++) row[j] -= (float)mean;
    }
    bo_free(gain);
    if (status == BO_OK)
        *out = matrix;
    else
        bo_free(matrix);
    return status;
}

bo_status bo_subtract_mean_row(bo_context *context, size_t rows, size_t width, float *matrix)
{
    double *mean = bo_alloc(context, width, sizeof *mean, "the mean of the output matrix");
    if (!mean) return BO_MEMORY;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < width; j++) mean[j] += (double)matrix[r * width + j] / (double)rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < width; j++) matrix[r * width + j] = (float)((double)matrix[r * width + j] - mean[j]);
    bo_free(mean);
    return BO_OK;
}
