/* Attribution: the contribution of each head to the residual stream and, directly, to the logit of the next token.
 *
 * The final norm is x γ / σ(x) (layer norm: of x minus its mean). With σ of the full stream, logits are a linear
 * function of the stream and therefore the sum of the contributions of its summands (Elhage et al. 2021). */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "internal.h"

bo_status bo_attribution_begin(bo_inspection_run *in, size_t layer)
{
    const size_t heads = bo_inspection_attention(in, layer)->heads;
    bo_layer_sums *sums = &in->sums[layer];
    sums->written2 = bo_alloc(in->context, heads, sizeof(double), "contributions of heads");
    sums->logits = bo_alloc(in->context, heads, sizeof(double), "contributions of heads");
    sums->logits2 = bo_alloc(in->context, heads, sizeof(double), "contributions of heads");
    return sums->written2 && sums->logits && sums->logits2 ? BO_OK : BO_MEMORY;
}

/* The divisor of a norm: the root mean square, for a layer norm about the mean. */
static double norm_scale(bo_norm norm, double epsilon, size_t count, const float *x)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) mean += (double)x[i] / (double)count;
    if (norm != BO_NORM_LAYER) mean = 0;
    for (size_t i = 0; i < count; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sqrt(squares / (double)count + epsilon);
}

/* ---- directions -------------------------------------------------------------------------------------------------- */

/* Replaces the final stream by the gradient of (logit of the next token - mean logit) at fixed σ. The last token of a
 * window has no next token: 0. */
static void turn_into_directions(const bo_inspection_run *in, const float *matrix, float *stream)
{
    const size_t width = in->d->width, tokens = in->arrays.tokens, rows = in->arrays.windows * tokens;
    const bo_block *last = bo_model_block(in->d, in->d->layers - 1); /* the final norm has the same kind */
    for (size_t t = 0; t < rows; t++) {
        float *row = stream + t * width;
        if (t % tokens == tokens - 1) {
            memset(row, 0, width * sizeof *row);
            continue;
        }
        const double scale = norm_scale(last->norm, last->norm_epsilon, width, row);
        const float *next = matrix + (size_t)in->batch_ids[t + 1] * width;
        for (size_t j = 0; j < width; j++) row[j] = (float)((double)next[j] / scale);
    }
}

bo_status bo_attribution_directions(bo_inspection_run *in, float **directions)
{
    const size_t width = in->d->width, rows = in->arrays.windows * in->arrays.tokens;
    float *matrix = NULL, *stream = bo_alloc_raw(in->context, rows * width, sizeof *stream, "directions of logits");
    *directions = NULL;
    bo_status status = stream ? bo_output_matrix(in->context, in->model, &matrix) : BO_MEMORY;
    if (status == BO_OK) status = bo_subtract_mean_row(in->context, in->d->vocab, width, matrix);
    if (status == BO_OK)
        status = bo_capture_read_stream(in->context, in->capture, bo_capture_places(in->capture) - 1, stream);
    if (status == BO_OK) turn_into_directions(in, matrix, stream);
    bo_free(matrix);
    if (status == BO_OK)
        *directions = stream;
    else
        bo_free(stream);
    return status;
}

/* ---- outputs of heads -------------------------------------------------------------------------------------------- */

typedef struct adding {
    bo_inspection_run *in;
    const bo_layer_weights *weights;
    size_t rows, columns; /* columns: heads x value_dim */
    float *outputs;       /* W_O: width x columns */
    float *z;             /* outputs of the heads with all token-dependent factors: rows x columns */
    float *stream;        /* rows x width */
    float *wide;          /* rows x columns, or rows x width */
} adding;

/* Divides the output of each head by its root mean square; the gain is part of W_O. */
static void norm_heads(const adding *a)
{
    const size_t dim = a->weights->value_dim;
    for (size_t i = 0; i < a->rows * a->weights->heads; i++) {
        float *z = a->z + i * dim;
        double squares = 0;
        for (size_t c = 0; c < dim; c++) squares += (double)z[c] * (double)z[c];
        const double scale = sqrt(squares / (double)dim + a->weights->epsilon);
        for (size_t c = 0; c < dim; c++) z[c] = (float)((double)z[c] / scale);
    }
}

/* Divides the outputs of the heads by the scale of the norm of their sum. */
static bo_status norm_summands(const adding *a)
{
    const bo_layer_weights *w = a->weights;
    for (size_t i = 0; i < w->width * a->columns; i++) a->outputs[i] = (float)w->o_plain[i];
    BO_TRY(bo_gemm(a->in->context, false, true, a->rows, w->width, a->columns, 1, a->z, a->columns, a->outputs,
                   a->columns, 0, a->wide, w->width));
    for (size_t t = 0; t < a->rows; t++) {
        float *row = a->wide + t * w->width;
        for (size_t j = 0; w->o_bias && j < w->width; j++) row[j] += (float)w->o_bias[j];
        const double scale = norm_scale(w->norm, w->epsilon, w->width, row);
        for (size_t c = 0; c < a->columns; c++)
            a->z[t * a->columns + c] = (float)((double)a->z[t * a->columns + c] / scale);
    }
    return BO_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Adds g·W_O z of every head, where g is the direction of the logit. */
static bo_status add_logits(const adding *a, const float *directions, bo_layer_sums *sums)
{
    const bo_layer_weights *w = a->weights;
    BO_TRY(bo_gemm(a->in->context, false, false, a->rows, a->columns, w->width, 1, directions, w->width, a->outputs,
                   a->columns, 0, a->wide, a->columns));
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < w->heads; h++) {
            const float *g = a->wide + (t * w->heads + h) * w->value_dim, *z = a->z + (t * w->heads + h) * w->value_dim;
            double part = 0;
            for (size_t c = 0; c < w->value_dim; c++) part += (double)g[c] * (double)z[c];
            sums->logits[h] += part;
            sums->logits2[h] += part * part;
        }
    sums->predictions += (double)(a->rows - a->in->arrays.windows);
    return BO_OK;
}

/* Adds Σ |W_O z|² = ⟨W_Oᵀ W_O, Σ z zᵀ⟩ of every head. */
static bo_status add_written(const adding *a, bo_layer_sums *sums)
{
    const bo_layer_weights *w = a->weights;
    const size_t dim = w->value_dim, square = dim * dim;
    double *second = bo_alloc_raw(a->in->context, 2 * square, sizeof *second, "outputs of a head");
    if (!second) return BO_MEMORY;
    bo_status status = BO_OK;
    for (size_t h = 0; status == BO_OK && h < w->heads; h++) {
        memset(second, 0, 2 * square * sizeof *second);
        status = bo_gram(a->in->context, dim, a->rows, a->z + h * dim, a->columns, second, dim, true);
        if (status == BO_OK)
            status =
                bo_gram(a->in->context, dim, w->width, a->outputs + h * dim, a->columns, second + square, dim, true);
        for (size_t i = 0; i < dim; i++) /* the upper triangles */
            for (size_t j = i; j < dim; j++)
                sums->written2[h] += (i == j ? 1 : 2) * second[i * dim + j] * second[square + i * dim + j];
    }
    bo_free(second);
    return status;
}

/* ---- subspaces --------------------------------------------------------------------------------------------------- */

/* Subtracts the mean of each column; returns the sum of the squares. */
static double center(size_t rows, size_t columns, float *x)
{
    double squares = 0;
    for (size_t j = 0; j < columns; j++) {
        double mean = 0;
        for (size_t t = 0; t < rows; t++) mean += (double)x[t * columns + j] / (double)rows;
        for (size_t t = 0; t < rows; t++) {
            x[t * columns + j] = (float)((double)x[t * columns + j] - mean);
            squares += (double)x[t * columns + j] * (double)x[t * columns + j];
        }
    }
    return squares;
}

/* Computes the share of the centered stream in the subspace of each head. */
static bo_status share_of_subspaces(const adding *a)
{
    const bo_layer_weights *w = a->weights;
    bo_inspection_run *in = a->in;
    const double total = center(a->rows, w->width, a->stream);
    double *basis = bo_alloc_raw(in->context, w->width * w->value_dim, sizeof *basis, "the subspace of a head");
    float *columns = bo_alloc_raw(in->context, w->width * w->value_dim, sizeof *columns, "the subspace of a head");
    bo_status status = basis && columns ? BO_OK : BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < w->heads; h++) {
        bo_head_report *head = &in->report->heads[in->arrays.layer][h];
        double part = 0;
        status = bo_write_basis(in->context, w, h, basis, &head->writes_dim);
        for (size_t i = 0; i < w->width * w->value_dim; i++) columns[i] = (float)basis[i];
        if (status == BO_OK)
            status = bo_gemm(in->context, false, false, a->rows, w->value_dim, w->width, 1, a->stream, w->width,
                             columns, w->value_dim, 0, a->wide, w->value_dim);
        for (size_t i = 0; status == BO_OK && i < a->rows * w->value_dim; i++)
            part += (double)a->wide[i] * (double)a->wide[i];
        head->subspace_share = total > 0 ? part / total : NAN;
    }
    bo_free(basis);
    bo_free(columns);
    return status;
}

/* ---- one layer --------------------------------------------------------------------------------------------------- */

static bo_status add_layer(const adding *a, const float *directions, bool first)
{
    const bo_layer_weights *w = a->weights;
    bo_inspection_run *in = a->in;
    bo_layer_sums *sums = &in->sums[in->arrays.layer];
    memcpy(a->z, in->arrays.out, a->rows * a->columns * sizeof *a->z);
    if (w->output_norm) norm_heads(a);
    if (w->summand_norm) BO_TRY(norm_summands(a));
    for (size_t i = 0; i < w->width * a->columns; i++) a->outputs[i] = (float)w->o[i];
    BO_TRY(add_logits(a, directions, sums));
    BO_TRY(add_written(a, sums));
    BO_TRY(bo_capture_read_stream(in->context, in->capture, 1 + 2 * in->arrays.layer, a->stream));
    for (size_t i = 0; i < a->rows * w->width; i++) sums->stream2 += (double)a->stream[i] * (double)a->stream[i];
    sums->stream_numbers += (double)a->rows;
    return first ? share_of_subspaces(a) : BO_OK;
}

bo_status bo_attribution_add(bo_inspection_run *in, const float *directions, bool first)
{
    static const char what[] = "contributions of heads";
    bo_layer_weights w;
    bo_status status = bo_layer_weights_read(in->context, in->model, in->arrays.layer, &w);
    const size_t rows = in->arrays.windows * in->arrays.tokens, columns = w.heads * w.value_dim;
    adding a = {.in = in, .weights = &w, .rows = rows, .columns = columns};
    a.outputs = bo_alloc_raw(in->context, w.width * columns, sizeof(float), what);
    a.z = bo_alloc_raw(in->context, rows * columns, sizeof(float), what);
    a.stream = bo_alloc_raw(in->context, rows * w.width, sizeof(float), what);
    a.wide = bo_alloc_raw(in->context, rows * bo_max(columns, w.width), sizeof(float), what);
    if (!a.outputs || !a.z || !a.stream || !a.wide) status = BO_MEMORY;
    if (status == BO_OK) status = add_layer(&a, directions, first);
    bo_free(a.outputs);
    bo_free(a.z);
    bo_free(a.stream);
    bo_free(a.wide);
    bo_layer_weights_free(&w);
    return status;
}

void bo_attribution_finish(bo_inspection_run *in, size_t layer)
{
    const bo_layer_sums *sums = &in->sums[layer];
    bo_layer_report *out = &in->report->layers[layer];
    out->stream_norm = sqrt(sums->stream2 / sums->stream_numbers);
    out->logit = 0;
    for (size_t h = 0; h < out->head_count; h++) {
        bo_head_report *head = &in->report->heads[layer][h];
        head->written = sums->stream2 > 0 ? sqrt(sums->written2[h] / sums->stream2) : NAN;
        head->logit = sums->predictions > 0 ? sums->logits[h] / sums->predictions : NAN;
        head->logit_size = sums->predictions > 0 ? sqrt(sums->logits2[h] / sums->predictions) : NAN;
        out->logit += head->logit;
    }
}
