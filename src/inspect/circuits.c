/* Circuits: W_QK = s W_Qᵀ W_K and W_OV = W_O W_V of every head (Elhage et al. 2021).
 *
 * Both are width x width of rank at most dim. Their singular values are those of a small matrix: if A = U₁ S₁ V₁ᵀ and B
 * = U₂ S₂ V₂ᵀ, then A B = U₁ (S₁ V₁ᵀ U₂ S₂) V₂ᵀ. The nonzero eigenvalues of A B are those of B A. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "internal.h"

/* A (n x m) = U diag(values) Vᵀ with k = min(n, m) columns of U. */
typedef struct factors {
    size_t k;
    double *u, *values, *vt;
} factors;

static void factors_free(factors *f)
{
    bo_free(f->u);
    bo_free(f->values);
    bo_free(f->vt);
    *f = (factors){0};
}

/* Overwrites a. The caller must free *out, also on failure. */
static bo_status factor(bo_context *context, size_t n, size_t m, double *a, factors *out)
{
    static const char what[] = "singular values of a head";
    const size_t k = bo_min(n, m);
    *out =
        (factors){k, bo_alloc_raw(context, n * k, sizeof(double), what), bo_alloc_raw(context, k, sizeof(double), what),
                  bo_alloc_raw(context, k * m, sizeof(double), what)};
    if (!out->u || !out->values || !out->vt) return BO_MEMORY;
    return bo_svd(context, n, m, a, out->u, out->values, out->vt);
}

/* The core S₁ V₁ᵀ U₂ S₂ of the product of A (n x dim) and B (dim x n). */
static bo_status core_of(bo_context *context, size_t dim, const factors *a, const factors *b, double *core)
{
    BO_TRY(bo_gemm64(context, false, false, a->k, b->k, dim, 1, a->vt, dim, b->u, b->k, 0, core, b->k));
    for (size_t i = 0; i < a->k * b->k; i++) core[i] *= a->values[i / b->k] * b->values[i % b->k];
    return BO_OK;
}

/* Factors A B of A (width x dim) and B (dim x width), both overwritten. left: the factors of A; core: of the core. */
static bo_status factor_product(bo_context *context, size_t width, size_t dim, double *a, double *b, factors *left,
                                factors *core)
{
    factors right = {0};
    double *small = NULL;
    bo_status status = factor(context, width, dim, a, left);
    if (status == BO_OK) status = factor(context, dim, width, b, &right);
    if (status == BO_OK) {
        small = bo_alloc_raw(context, left->k * right.k, sizeof *small, "the core of a circuit");
        status = small ? core_of(context, dim, left, &right, small) : BO_MEMORY;
    }
    if (status == BO_OK) status = factor(context, left->k, right.k, small, core);
    bo_free(small);
    factors_free(&right);
    return status;
}

/* ---- matrices of a head ------------------------------------------------------------------------------------------ */

static const double *query_rows(const bo_layer_weights *w, size_t head)
{
    return w->q + head * w->dim * w->width;
}

static const double *key_rows(const bo_layer_weights *w, size_t head)
{
    return w->k + head / (w->heads / w->key_heads) * w->dim * w->width;
}

static const double *value_rows(const bo_layer_weights *w, size_t head)
{
    return w->v + head / (w->heads / w->key_heads) * w->value_dim * w->width;
}

/* Copies W_O of a head: width x value_dim. */
static void copy_outputs(const bo_layer_weights *w, size_t head, double *out)
{
    for (size_t r = 0; r < w->width; r++)
        memcpy(out + r * w->value_dim, w->o + (r * w->heads + head) * w->value_dim, w->value_dim * sizeof *out);
}

static void transpose(size_t rows, size_t columns, const double *a, double *out)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) out[c * rows + r] = a[r * columns + c];
}

/* ---- singular values and eigenvalues ----------------------------------------------------------------------------- */

/* Σ Re λ / Σ |λ| of a matrix (n x n, overwritten); 0 if all eigenvalues are 0. */
static bo_status positive_share(bo_context *context, size_t n, double *a, double *out)
{
    double *real = bo_alloc_raw(context, 2 * n, sizeof *real, "eigenvalues of a head"), sum = 0, size = 0;
    bo_status status = real ? bo_eigenvalues(context, n, a, real, real + n) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < n; i++) {
        sum += real[i];
        size += hypot(real[i], real[n + i]);
    }
    if (status == BO_OK) *out = size > 0 ? sum / size : 0;
    bo_free(real);
    return status;
}

static bo_status fill_circuit(bo_inspection_run *in, const factors *core, bo_circuit *out)
{
    double *values = bo_inspection_alloc(in->context, in->report, core->k, sizeof *values), sum = 0, squares = 0;
    if (!values) return BO_MEMORY;
    for (size_t i = 0; i < core->k; i++) {
        values[i] = core->values[i];
        sum += values[i];
        squares += values[i] * values[i];
    }
    out->rank = core->k;
    out->singular = values;
    out->effective = squares > 0 ? sum * sum / squares : 0;
    return BO_OK;
}

/* W_QK = s W_Qᵀ W_K; its eigenvalues are those of s W_K W_Qᵀ. */
static bo_status analyze_qk(bo_inspection_run *in, const bo_layer_weights *w, size_t head, double scale,
                            double *workspace, bo_circuit *out)
{
    const size_t count = w->dim * w->width;
    double *a = workspace, *b = workspace + count, *loop = b + count;
    factors left = {0}, core = {0};
    BO_TRY(bo_gemm64(in->context, false, true, w->dim, w->dim, w->width, scale, key_rows(w, head), w->width,
                     query_rows(w, head), w->width, 0, loop, w->dim));
    BO_TRY(positive_share(in->context, w->dim, loop, &out->positive));
    transpose(w->dim, w->width, query_rows(w, head), a);
    for (size_t i = 0; i < count; i++) b[i] = scale * key_rows(w, head)[i];
    bo_status status = factor_product(in->context, w->width, w->dim, a, b, &left, &core);
    if (status == BO_OK) status = fill_circuit(in, &core, out);
    factors_free(&left);
    factors_free(&core);
    return status;
}

/* Factors W_OV. workspace: two matrices of value_dim x width. */
static bo_status factor_ov(bo_context *context, const bo_layer_weights *w, size_t head, double *workspace,
                           factors *left, factors *core)
{
    const size_t count = w->value_dim * w->width;
    copy_outputs(w, head, workspace);
    memcpy(workspace + count, value_rows(w, head), count * sizeof *workspace);
    return factor_product(context, w->width, w->value_dim, workspace, workspace + count, left, core);
}

static bo_status analyze_ov(bo_inspection_run *in, const bo_layer_weights *w, size_t head, double *workspace,
                            bo_circuit *out)
{
    const size_t count = w->value_dim * w->width;
    double *loop = workspace + 2 * count;
    factors left = {0}, core = {0};
    copy_outputs(w, head, workspace);
    BO_TRY(bo_gemm64(in->context, false, false, w->value_dim, w->value_dim, w->width, 1, value_rows(w, head), w->width,
                     workspace, w->value_dim, 0, loop, w->value_dim));
    BO_TRY(positive_share(in->context, w->value_dim, loop, &out->positive));
    bo_status status = factor_ov(in->context, w, head, workspace, &left, &core);
    if (status == BO_OK) status = fill_circuit(in, &core, out);
    factors_free(&left);
    factors_free(&core);
    return status;
}

bo_status bo_write_basis(bo_context *context, const bo_layer_weights *w, size_t head, double *basis, size_t *rank)
{
    double *workspace = bo_alloc_raw(context, 2 * w->value_dim * w->width, sizeof *workspace, "the subspace of a head");
    factors left = {0}, core = {0};
    bo_status status = workspace ? factor_ov(context, w, head, workspace, &left, &core) : BO_MEMORY;
    *rank = 0;
    memset(basis, 0, w->width * w->value_dim * sizeof *basis);
    if (status == BO_OK) {
        while (*rank < core.k && core.values[*rank] > 1e-9 * core.values[0]) ++*rank;
        status = bo_gemm64(context, false, false, w->width, *rank, left.k, 1, left.u, left.k, core.u, core.k, 0, basis,
                           w->value_dim);
    }
    factors_free(&left);
    factors_free(&core);
    bo_free(workspace);
    return status;
}

/* ---- the vocabulary ---------------------------------------------------------------------------------------------- */

/* Computes E = Σ_v e_v (u_v - ū)ᵀ (width x width) over the vocabulary, with rows e of the embedding and u of the output
 * matrix: the nonzero eigenvalues of U W_OV Eᵀ, with the mean of each column of logits subtracted, are those of W_V E
 * W_O. */
static bo_status vocabulary_of(bo_inspection_run *in, double **out)
{
    const size_t vocab = in->d->vocab, width = in->d->width;
    static const char what[] = "the circuit of the vocabulary";
    float *output = NULL, *embedding = bo_alloc_raw(in->context, vocab * width, sizeof *embedding, what);
    float *product = bo_alloc_raw(in->context, width * width, sizeof *product, what);
    double *wide = bo_alloc_raw(in->context, width * width, sizeof *wide, what);
    bo_status status = embedding && product && wide ? bo_output_matrix(in->context, in->model, &output) : BO_MEMORY;
    if (status == BO_OK)
        status = bo_weights_get(in->context, bo_model_weights(in->model), "model.embed_tokens.weight", embedding, NULL);
    if (status == BO_OK) status = bo_subtract_mean_row(in->context, vocab, width, output);
    if (status == BO_OK)
        status = bo_gemm(in->context, true, false, width, width, vocab, 1, embedding, width, output, width, 0, product,
                         width);
    for (size_t i = 0; status == BO_OK && i < width * width; i++) wide[i] = (double)product[i];
    bo_free(embedding);
    bo_free(output);
    bo_free(product);
    *out = wide;
    return status;
}

/* workspace: 2 value_dim x width, value_dim x value_dim */
static bo_status analyze_copying(bo_inspection_run *in, const bo_layer_weights *w, size_t head,
                                 const double *vocabulary, double *workspace, double *out)
{
    const size_t count = w->value_dim * w->width;
    double *read = workspace, *outputs = workspace + count, *loop = workspace + 2 * count;
    BO_TRY(bo_gemm64(in->context, false, false, w->value_dim, w->width, w->width, 1, value_rows(w, head), w->width,
                     vocabulary, w->width, 0, read, w->width));
    copy_outputs(w, head, outputs);
    BO_TRY(bo_gemm64(in->context, false, false, w->value_dim, w->value_dim, w->width, 1, read, w->width, outputs,
                     w->value_dim, 0, loop, w->value_dim));
    return positive_share(in->context, w->value_dim, loop, out);
}

static bo_status analyze_layer(bo_inspection_run *in, size_t layer, const double *vocabulary)
{
    bo_layer_weights w;
    const double scale = bo_inspection_scale(bo_inspection_attention(in, layer));
    bo_status status = bo_layer_weights_read(in->context, in->model, layer, &w);
    const size_t columns = bo_max(w.dim, w.value_dim);
    double *workspace =
        bo_alloc_raw(in->context, columns * (2 * w.width + columns), sizeof *workspace, "the circuits of a head");
    if (!workspace) status = BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < w.heads; h++) {
        bo_head_report *head = &in->report->heads[layer][h];
        status = analyze_qk(in, &w, h, scale, workspace, &head->qk);
        if (status == BO_OK) status = analyze_ov(in, &w, h, workspace, &head->ov);
        if (status == BO_OK) status = analyze_copying(in, &w, h, vocabulary, workspace, &head->copying);
    }
    bo_free(workspace);
    bo_layer_weights_free(&w);
    return status;
}

bo_status bo_circuits(bo_inspection_run *in)
{
    double *vocabulary = NULL;
    bo_status status = vocabulary_of(in, &vocabulary);
    for (size_t l = 0; status == BO_OK && l < in->d->layers; l++) {
        status = analyze_layer(in, l, vocabulary);
        if (status == BO_OK) status = bo_progress(in->context, "inspecting", ++in->done, in->steps);
    }
    bo_free(vocabulary);
    return status;
}
