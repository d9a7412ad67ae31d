#include "heads.h"
#include "reading.h"
#include "../../src/math/linalg.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static bo_status read_weight(bo_context *context, const bo_model *model, size_t layer, const char *name, float *out)
{
    char full[96];
    snprintf(full, sizeof full, "model.layers.%zu.%s.weight", layer, name);
    return bo_weights_get(context, bo_model_weights(model), full, out, NULL);
}

/* Extracts the rows of one head from the projection of all heads, multiplied by the gain of the preceding
 * normalization. */
static void copy_rows(const lab_head *h, size_t index, const float *matrix, const float *gain, double *out)
{
    for (size_t r = 0; r < h->dim; r++)
        for (size_t c = 0; c < h->width; c++)
            out[r * h->width + c] = (double)matrix[(index * h->dim + r) * h->width + c] * (double)gain[c];
}

static void copy_columns(const lab_head *h, size_t index, size_t inner, const float *matrix, double *out)
{
    for (size_t r = 0; r < h->width; r++)
        for (size_t c = 0; c < h->dim; c++) out[r * h->dim + c] = (double)matrix[r * inner + index * h->dim + c];
}

static bo_status read_all(bo_context *context, const bo_model *model, size_t layer, size_t index, lab_head *h,
                          float *matrix, float *gain)
{
    const size_t inner = bo_model_describe(model)->block.heads * h->dim;
    BO_TRY(read_weight(context, model, layer, "input_layernorm", gain));
    BO_TRY(read_weight(context, model, layer, "self_attn.q_proj", matrix));
    copy_rows(h, index, matrix, gain, h->q);
    BO_TRY(read_weight(context, model, layer, "self_attn.k_proj", matrix));
    copy_rows(h, index, matrix, gain, h->k);
    BO_TRY(read_weight(context, model, layer, "self_attn.v_proj", matrix));
    copy_rows(h, index, matrix, gain, h->v);
    BO_TRY(read_weight(context, model, layer, "self_attn.o_proj", matrix));
    copy_columns(h, index, inner, matrix, h->o);
    return BO_OK;
}

bo_status lab_head_read(bo_context *context, const bo_model *model, size_t layer, size_t index, lab_head *out)
{
    const bo_model_desc *d = bo_model_describe(model);
    const bo_attention_desc *attention = bo_attention_describe(bo_model_attention(model, layer));
    const size_t count = d->width * d->block.head_dim;
    *out = (lab_head){.width = d->width, .dim = d->block.head_dim, .scale = attention->scale};
    if (d->block.positions == BO_POSITIONS_ROPE) out->rope_base = d->block.rope_base;
    out->q = bo_alloc(context, 4 * count, sizeof *out->q, "a head");
    float *matrix = bo_alloc(context, d->block.heads * count, sizeof *matrix, "a projection");
    float *gain = bo_alloc(context, d->width, sizeof *gain, "gains");
    bo_status status = out->q && matrix && gain ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        out->k = out->q + count, out->v = out->k + count, out->o = out->v + count;
        status = read_all(context, model, layer, index, out, matrix, gain);
    }
    bo_free(matrix);
    bo_free(gain);
    if (status != BO_OK) lab_head_free(out);
    return status;
}

void lab_head_free(lab_head *head)
{
    bo_free(head->q);
    *head = (lab_head){0};
}

bo_status lab_head_ov(bo_context *context, const lab_head *h, double *out)
{
    return bo_gemm64(context, false, false, h->width, h->width, h->dim, 1, h->o, h->dim, h->v, h->width, 0, out,
                     h->width);
}

bo_status lab_head_qk(bo_context *context, const lab_head *h, double *out)
{
    return bo_gemm64(context, true, false, h->width, h->width, h->dim, 1, h->q, h->width, h->k, h->width, 0, out,
                     h->width);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Rotary positions (2104.09864): entries i and i + dim / 2 of row p are rotated by p base^(-2i / dim). */
static void turn(const lab_head *h, size_t tokens, double *x)
{
    const size_t half = h->dim / 2;
    for (size_t p = 0; h->rope_base > 0 && p < tokens; p++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)p * pow(h->rope_base, -2 * (double)i / (double)h->dim);
            double *a = &x[p * h->dim + i], *b = a + half, first = *a;
            *a = first * cos(angle) - *b * sin(angle);
            *b = first * sin(angle) + *b * cos(angle);
        }
}

static void softmax_below(size_t tokens, double *weights)
{
    for (size_t i = 0; i < tokens; i++) {
        double *row = weights + i * tokens, max = row[0], sum = 0;
        for (size_t j = 1; j <= i; j++) max = fmax(max, row[j]);
        for (size_t j = 0; j < tokens; j++) {
            row[j] = j <= i ? exp(row[j] - max) : 0;
            sum += row[j];
        }
        for (size_t j = 0; j <= i; j++) row[j] /= sum;
    }
}

bo_status lab_head_turned(bo_context *context, const lab_head *h, const double *matrix, size_t tokens, const double *x,
                          double *out)
{
    BO_TRY(bo_gemm64(context, false, true, tokens, h->dim, h->width, 1, x, h->width, matrix, h->width, 0, out, h->dim));
    turn(h, tokens, out);
    return BO_OK;
}

bo_status lab_head_attention(bo_context *context, const lab_head *h, size_t tokens, const double *x, double *weights)
{
    double *q = bo_alloc(context, 2 * tokens * h->dim, sizeof *q, "queries and keys");
    if (!q) return BO_MEMORY;
    double *k = q + tokens * h->dim;
    bo_status status = lab_head_turned(context, h, h->q, tokens, x, q);
    if (status == BO_OK) status = lab_head_turned(context, h, h->k, tokens, x, k);
    if (status == BO_OK)
        status =
            bo_gemm64(context, false, true, tokens, tokens, h->dim, h->scale, q, h->dim, k, h->dim, 0, weights, tokens);
    if (status == BO_OK) softmax_below(tokens, weights);
    bo_free(q);
    return status;
}

/* ---- residual stream --------------------------------------------------------------------------------------------- */

bo_status lab_stream(lab_run *run, const bo_model *model, const int32_t *ids, float *out)
{
    lab_reader reader;
    bo_status status = lab_reader_open(run, model, &(lab_reading){.stream = true}, &reader);
    const size_t numbers = reader.rows * bo_model_describe(model)->width;
    if (status == BO_OK) status = lab_reader_read(run, &reader, ids, 0);
    for (size_t i = 0; status == BO_OK && i < reader.parts; i++)
        status = lab_reader_part(run, &reader, i, out + i * numbers);
    lab_reader_close(&reader);
    return status;
}

void lab_normalize(size_t rows, size_t width, double epsilon, const float *x, double *out)
{
    for (size_t r = 0; r < rows; r++) {
        double square = 0;
        for (size_t i = 0; i < width; i++) square += (double)x[r * width + i] * (double)x[r * width + i];
        const double root = sqrt(square / (double)width + epsilon);
        for (size_t i = 0; i < width; i++) out[r * width + i] = (double)x[r * width + i] / root;
    }
}
