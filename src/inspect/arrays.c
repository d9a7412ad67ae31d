/* Passes arrays inside a model to the caller. */
#include <string.h>
#include "internal.h"

static bo_status send_array(bo_inspection_run *in, bo_inspect_array_kind kind, size_t layer, size_t rank,
                            const size_t *shape, const float *values)
{
    const bo_inspect_array array = {.kind = kind, .layer = layer, .rank = rank, .shape = shape, .values = values};
    if (in->desc.receive(in->desc.user, &array)) return BO_OK;
    return bo_fail(in->context, BO_CANCELED, "inspect: stopped by the receiver of arrays");
}

/* Sends (windows, tokens, heads, dim) as (windows, heads, tokens, dim). buffer: the same number of floats. */
static bo_status send_heads(bo_inspection_run *in, bo_inspect_array_kind kind, size_t heads, size_t dim,
                            const float *values, float *buffer)
{
    const bo_layer_arrays *x = &in->arrays;
    for (size_t n = 0; n < x->windows; n++)
        for (size_t t = 0; t < x->tokens; t++)
            for (size_t h = 0; h < heads; h++)
                memcpy(buffer + ((n * heads + h) * x->tokens + t) * dim,
                       values + ((n * x->tokens + t) * heads + h) * dim, dim * sizeof *buffer);
    return send_array(in, kind, x->layer, 4, (const size_t[]){x->windows, heads, x->tokens, dim}, buffer);
}

static bo_status send_pattern(bo_inspection_run *in)
{
    const bo_layer_arrays *x = &in->arrays;
    const bo_attention_desc *a = x->attention;
    const size_t square = x->tokens * x->tokens, group = a->heads / a->key_heads;
    float *m, *buffer = bo_alloc_raw(in->context, a->heads * square, sizeof *buffer, "attention patterns");
    if (!buffer) return BO_MEMORY;
    bo_status status = bo_matrix_read(in, x->layer, &m);
    for (size_t h = 0; status == BO_OK && h < a->heads; h++)
        status = bo_pattern_of(in, 0, h, m ? m + h / group * a->rank * a->dim : NULL, buffer + h * square);
    if (status == BO_OK)
        status = send_array(in, BO_INSPECT_ARRAY_PATTERN, x->layer, 3, (const size_t[]){a->heads, x->tokens, x->tokens},
                            buffer);
    bo_free(m);
    bo_free(buffer);
    return status;
}

static bo_status send_write_bases(bo_inspection_run *in)
{
    bo_layer_weights w;
    size_t rank;
    bo_status status = bo_layer_weights_read(in->context, in->model, in->arrays.layer, &w);
    const size_t count = w.width * w.value_dim;
    double *basis = bo_alloc_raw(in->context, count, sizeof *basis, "the subspace of a head");
    float *buffer = bo_alloc_raw(in->context, w.heads * count, sizeof *buffer, "the subspaces of heads");
    if (!basis || !buffer) status = BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < w.heads; h++) {
        status = bo_write_basis(in->context, &w, h, basis, &rank);
        for (size_t i = 0; i < count; i++) buffer[h * count + i] = (float)basis[i];
    }
    if (status == BO_OK)
        status = send_array(in, BO_INSPECT_ARRAY_WRITES, in->arrays.layer, 3,
                            (const size_t[]){w.heads, w.width, w.value_dim}, buffer);
    bo_free(basis);
    bo_free(buffer);
    bo_layer_weights_free(&w);
    return status;
}

bo_status bo_arrays_send(bo_inspection_run *in)
{
    const bo_layer_arrays *x = &in->arrays;
    const bo_attention_desc *a = x->attention;
    const size_t count = x->windows * x->tokens * a->heads * bo_max(a->dim, a->value_dim);
    float *buffer = bo_alloc_raw(in->context, count, sizeof *buffer, "an array of a layer");
    bo_status status = buffer ? send_heads(in, BO_INSPECT_ARRAY_Q, a->heads, a->dim, x->q, buffer) : BO_MEMORY;
    if (status == BO_OK) status = send_heads(in, BO_INSPECT_ARRAY_K, a->key_heads, a->dim, x->k, buffer);
    if (status == BO_OK) status = send_heads(in, BO_INSPECT_ARRAY_V, a->key_heads, a->value_dim, x->v, buffer);
    if (status == BO_OK) status = send_heads(in, BO_INSPECT_ARRAY_OUT, a->heads, a->value_dim, x->out, buffer);
    bo_free(buffer);
    if (status == BO_OK && bo_has_pattern(a)) status = send_pattern(in);
    return status == BO_OK && bo_has_circuits(in->model) ? send_write_bases(in) : status;
}

bo_status bo_arrays_send_stream(bo_inspection_run *in)
{
    const bo_layer_arrays *x = &in->arrays;
    const size_t width = in->d->width, shape[] = {x->windows, x->tokens, width};
    float *stream = bo_alloc_raw(in->context, x->windows * x->tokens * width, sizeof *stream, "the residual stream");
    bo_status status = stream ? BO_OK : BO_MEMORY;
    for (size_t p = 0; status == BO_OK && p < bo_capture_places(in->capture); p++) {
        status = bo_capture_read_stream(in->context, in->capture, p, stream);
        if (status == BO_OK) status = send_array(in, BO_INSPECT_ARRAY_STREAM, p, 3, shape, stream);
    }
    bo_free(stream);
    return status;
}
