/* The matrices M of DARK and HYBRID from text. */
#include "../attention/attention.h"
#include "../attention/enums.h"
#include "whiten.h"
#include <stdio.h>
#include "capture.h"
#include "internal.h"

static bool has_matrix(const bo_model *model, size_t layer)
{
    const bo_attention *attention = bo_model_attention(model, layer);
    return attention && bo_attention_has(bo_attention_describe(attention), BO_TRAIT_MATRIX);
}

bo_status bo_model_whiten_check(bo_context *context, const bo_model *model)
{
    size_t found = 0;
    BO_TRY(bo_model_require_language(context, model, "whiten"));
    for (size_t i = 0; i < model->desc.layers; i++) {
        if (!has_matrix(model, i)) continue;
        const bo_attention_desc *d = bo_attention_describe(bo_model_attention(model, i));
        found++;
        if (d->proposal != BO_PROPOSAL_NONE || d->features.sampling == BO_SAMPLING_OPTIMAL)
            return bo_fail(
                context, BO_INVALID,
                "whiten: not possible for frequencies that are drawn from data (%s), because they are fitted "
                "to the queries and keys themselves",
                d->proposal != BO_PROPOSAL_NONE ? bo_proposal_name(d->proposal) : "sampling optimal");
    }
    if (found) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "whiten: no layer of the model has a matrix M; expected dark attention, or hybrid with a rank");
}

static bo_status whiten_layer(bo_context *context, bo_model *model, bo_capture *capture, size_t layer, double amount)
{
    const bo_attention *attention = bo_model_attention(model, layer);
    const bo_attention_desc *d = bo_attention_describe(attention);
    const size_t rows = bo_capture_rows(capture), sequences = bo_capture_sequences(capture);
    const bo_attention_shape shape = {
        .sequences = sequences, .tokens = rows / sequences, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_nn_name name;
    snprintf(name.text, sizeof name.text, "model.layers.%zu.self_attn.m", layer);
    float *m = bo_alloc(context, d->key_heads * d->rank * d->dim, sizeof *m, "a matrix M");
    float *q = bo_alloc_raw(context, rows * d->heads * d->dim, sizeof *q, "the queries of a layer");
    float *k = bo_alloc_raw(context, rows * d->key_heads * d->dim, sizeof *k, "the keys of a layer");
    bo_status status = m && q && k ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = bo_capture_read(context, capture, layer, BO_CAPTURE_ARRAY_Q, q);
    if (status == BO_OK) status = bo_capture_read(context, capture, layer, BO_CAPTURE_ARRAY_K, k);
    if (status == BO_OK) status = bo_attention_whiten_arrays(context, attention, &shape, q, k, amount, m);
    if (status == BO_OK) status = bo_weights_set(context, bo_model_weights(model), name.text, m);
    bo_free(m);
    bo_free(q);
    bo_free(k);
    return status;
}

bo_status bo_model_whiten_windows(bo_context *context, bo_model *model, const bo_corpus *corpus, size_t window,
                                  uint64_t tokens, double amount)
{
    bo_capture *capture;
    BO_TRY(bo_model_whiten_check(context, model));
    BO_TRY(bo_capture_text(context, model, corpus, window, tokens, "whiten", &capture));
    bo_status status = BO_OK;
    for (size_t i = 0; i < model->desc.layers && status == BO_OK; i++)
        if (has_matrix(model, i)) status = whiten_layer(context, model, capture, i, amount);
    bo_capture_destroy(capture);
    return status;
}
