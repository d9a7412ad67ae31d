/* Keys in the order in which the sums absorb them: stream.h. */
#include <string.h>
#include "stream.h"
#include "linear.h"

/* Returns one log gate per key: the given log gates or, with gate FIXED, the same for all keys. at NULL: no gate. */
static bo_rows gates_of(const bo_call *call, size_t sequence, size_t key_head)
{
    const bo_attention *attention = call->attention;
    if (attention->desc.gate == BO_GATE_FIXED)
        return (bo_rows){.at = (float *)bo_fixed_gate(attention, call->in, key_head), .stride = 0};
    return bo_rows_at(call, call->in->log_gate, attention->desc.key_heads, 1, true, sequence, key_head);
}

bo_key_stream bo_stream_of(const bo_call *call, size_t sequence, size_t key_head)
{
    const bo_attention_desc *d = &call->attention->desc;
    return (bo_key_stream){.k = bo_rows_at(call, call->in->k, d->key_heads, d->dim, true, sequence, key_head),
                           .v = bo_rows_at(call, call->in->v, d->key_heads, d->value_dim, true, sequence, key_head),
                           .gate = gates_of(call, sequence, key_head)};
}

bo_gradient_stream bo_gradient_stream_of(const bo_call *call, size_t sequence, size_t key_head)
{
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *g = call->gradients;
    return (bo_gradient_stream){.k = bo_rows_at(call, g->k, d->key_heads, d->dim, true, sequence, key_head),
                                .v = bo_rows_at(call, g->v, d->key_heads, d->value_dim, true, sequence, key_head)};
}

/* Returns the log gate of the token whose key is row `row` of the stream. */
static float gate_of_row(const bo_key_stream *stream, size_t row)
{
    if (row >= stream->delay) return stream->gate.at[(row - stream->delay) * stream->gate.stride];
    return stream->early_gate ? stream->early_gate[row - (stream->delay - stream->early)] : *stream->gate.at;
}

/* Computes the log weights with which `keys` keys enter the sums, the first as row `first`: the sum of the log gates of
 * the tokens after a key, up to the token with which it enters, as a difference of prefix sums. */
static void find_entries(const bo_attention *attention, const bo_key_stream *stream, size_t first, size_t keys,
                         double *entry)
{
    double sum = 0;
    size_t wiped = 0; /* the latest gate that clears the sums */
    for (size_t x = 0; x < stream->delay + keys; x++) {
        float gate = gate_of_row(stream, first + x);
        if (x > 0 && gate < BO_MIN_LOG_GATE) wiped = x;
        if (x > 0 && gate >= BO_MIN_LOG_GATE) sum += (double)gate;
        if (x >= stream->delay) {
            size_t j = x - stream->delay;
            entry[j] = wiped > j ? BO_NO_ENTRY : sum - entry[j];
        }
        if (x < keys) entry[x] = sum - (double)bo_log_input(attention, bo_log_gate(&gate));
    }
}

bo_key_rows bo_stream_load(const bo_attention *attention, const bo_key_stream *stream, size_t first, size_t rows,
                           float *k, float *v, double *entry)
{
    size_t dim = attention->desc.dim, values = attention->desc.value_dim, begin = stream->delay - stream->early;
    size_t lag = begin > first ? begin - first : 0;
    if (lag > rows) lag = rows;
    bo_key_rows loaded = {.lag = lag, .keys = rows - lag};
    size_t from = first + lag, end = first + rows;
    if (stream->gate.at) {
        loaded.gate = stream->gate.at + first * stream->gate.stride;
        loaded.gate_stride = stream->gate.stride;
        if (stream->delay) loaded.entry = entry;
        if (stream->delay && loaded.keys) find_entries(attention, stream, from, loaded.keys, entry);
    }
    if (from >= stream->delay) { /* all rows belong to the call */
        size_t token = from - stream->delay;
        loaded.k = stream->k.at ? stream->k.at + token * stream->k.stride : NULL;
        loaded.v = stream->v.at ? stream->v.at + token * stream->v.stride : NULL;
        loaded.ldk = stream->k.stride;
        loaded.ldv = stream->v.stride;
        return loaded;
    }
    for (size_t j = from; j < end; j++) {
        bool early = j < stream->delay;
        const float *key =
            early ? stream->early_k + (j - begin) * dim : stream->k.at + (j - stream->delay) * stream->k.stride;
        const float *value =
            early ? stream->early_v + (j - begin) * values : stream->v.at + (j - stream->delay) * stream->v.stride;
        memcpy(k + (j - from) * dim, key, dim * sizeof *k);
        memcpy(v + (j - from) * values, value, values * sizeof *v);
    }
    loaded.k = k;
    loaded.v = v;
    loaded.ldk = dim;
    loaded.ldv = values;
    return loaded;
}

static void write_row(const bo_kernels *kernels, bool add, size_t width, const float *from, float *to)
{
    if (add)
        kernels->axpy(width, 1, from, to);
    else
        memcpy(to, from, width * sizeof *to);
}

void bo_stream_write_gradients(const bo_attention *attention, const bo_gradient_stream *stream, size_t first,
                               size_t count, const float *dk, const float *dv)
{
    size_t dim = attention->desc.dim, values = attention->desc.value_dim, begin = stream->delay - stream->early;
    for (size_t j = first; j < first + count; j++) {
        float *key = NULL, *value = NULL;
        if (j < stream->delay) {
            if (stream->early_k) key = stream->early_k + (j - begin) * dim;
            if (stream->early_v) value = stream->early_v + (j - begin) * values;
        } else {
            if (stream->k.at) key = stream->k.at + (j - stream->delay) * stream->k.stride;
            if (stream->v.at) value = stream->v.at + (j - stream->delay) * stream->v.stride;
        }
        if (key) write_row(attention->kernels, stream->add, dim, dk + (j - first) * dim, key);
        if (value) write_row(attention->kernels, stream->add, values, dv + (j - first) * values, value);
    }
}
