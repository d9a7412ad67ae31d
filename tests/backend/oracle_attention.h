/* Attention as an operation in double: every key head of every sequence is one call of the reference in
 * tests/attention. */
#ifndef BO_TEST_BACKEND_ORACLE_ATTENTION_H
#define BO_TEST_BACKEND_ORACLE_ATTENTION_H

#include "oracle.h"
#include "attention/oracle.h"
#include "attention/oracle_memory.h"
#include "attention/trial_arrays.h"

enum { PLAIN_GIVEN = 10 };

/* One key head of one sequence, extracted from the operands. */
typedef struct plain_head {
    const plain_op *op;
    const bo_attention_desc *d;
    size_t key_head, group;
    size_t first, tokens;   /* rows of its queries … */
    size_t first_key, keys; /* … and of its keys: the same rows, or those of the source */
    double *q, *k, *v, *log_gate, *beta, *out;
} plain_head;

/* An input by its bit; NULL: absent. */
static inline const plain_tensor *plain_given(const plain_op *op, bo_attention_given bit)
{
    const bo_attention_attributes *a = op->attributes;
    size_t at = 3;
    if (!(a->given & bit)) return NULL;
    for (unsigned lower = 1; lower < (unsigned)bit; lower <<= 1) at += (a->given & lower) != 0;
    return &op->in[at];
}

/* `width` columns of `count` rows from `first` on, from column `column` on. */
static inline double *plain_rows(const plain_tensor *t, size_t first, size_t count, size_t column, size_t width)
{
    double *rows = plain_zeros(count * width);
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < width; c++) rows[r * width + c] = plain_at(t, first + r, column + c);
    return rows;
}

/* Extracts an array that belongs to keys. */
static inline double *plain_cut(const plain_head *h, const plain_tensor *t, size_t column, size_t width)
{
    return plain_rows(t, h->first_key, h->keys, column, width);
}

/* The part of a parameter for this head, one of key_heads. NULL: absent. */
static inline const double *plain_part(const plain_head *h, bo_attention_given bit)
{
    const plain_tensor *t = plain_given(h->op, bit);
    return t ? t->x + h->key_head * (plain_count(t) / h->d->key_heads) : NULL;
}

static inline double *plain_queries(const plain_head *h)
{
    size_t dim = h->d->dim;
    double *q = plain_zeros(h->group * h->tokens * dim);
    for (size_t g = 0; g < h->group; g++) {
        size_t column = (h->key_head * h->group + g) * dim;
        double *one = plain_rows(&h->op->in[0], h->first, h->tokens, column, dim);
        memcpy(q + g * h->tokens * dim, one, h->tokens * dim * sizeof *q);
        free(one);
    }
    return q;
}

/* One gate per token (GLA: and channel): from the input, or one constant; NULL: no gate. */
static inline double *plain_gates(const plain_head *h)
{
    const plain_tensor *given = plain_given(h->op, BO_ATTENTION_GIVEN_LOG_GATE);
    size_t width = trial_width(h->d, LOG_GATE);
    if (given) return plain_cut(h, given, h->key_head * width, width);
    if (h->d->gate != BO_GATE_FIXED) return NULL;
    const double *decay = plain_part(h, BO_ATTENTION_GIVEN_LOG_DECAY);
    double *gates = plain_zeros(h->keys);
    for (size_t i = 0; i < h->keys; i++) gates[i] = decay ? decay[0] : log1p(-pow(2, -5 - (double)(h->key_head % 8)));
    return gates;
}

/* Equal for every call, so a perturbed result is still a smooth function of the operands. */
static inline oracle_noise plain_head_noise(const plain_head *h)
{
    return (oracle_noise){h->op->noise, 0x9e3779b97f4a7c15 * (h->op->seed + 1) + h->key_head + h->first};
}

static inline void plain_read_weights(const plain_head *h)
{
    const bo_attention_attributes *a = h->op->attributes;
    oracle_head o = {.context = h->op->context,
                     .desc = h->d,
                     .features = bo_attention_features(a->attention, h->key_head),
                     .group = h->group,
                     .queries = h->tokens,
                     .keys = h->keys,
                     .read_only = a->cross,
                     .noise = plain_head_noise(h)};
    o.q = h->q, o.k = h->k, o.v = h->v, o.log_gate = h->log_gate, o.out = h->out;
    o.sigma = plain_part(h, BO_ATTENTION_GIVEN_SIGMA), o.m = plain_part(h, BO_ATTENTION_GIVEN_M),
    o.mix = plain_part(h, BO_ATTENTION_GIVEN_MIX);
    o.bias = plain_part(h, BO_ATTENTION_GIVEN_BIAS), o.m_k = plain_part(h, BO_ATTENTION_GIVEN_M_K);
    o.bias_k = plain_part(h, BO_ATTENTION_GIVEN_BIAS_K);
    oracle_compute(&o);
}

static inline void plain_read_memory(const plain_head *h)
{
    const bo_attention_attributes *a = h->op->attributes;
    memory_head m = {.desc = h->d, .group = h->group, .queries = h->tokens, .keys = h->keys, .read_only = a->cross};
    m.q = h->q, m.k = h->k, m.v = h->v, m.log_gate = h->log_gate, m.beta = h->beta, m.out = h->out;
    m.lambda = plain_part(h, BO_ATTENTION_GIVEN_LAMBDA), m.noise = plain_head_noise(h), m.residual = h->d->tolerance;
    memory_compute(&m);
}

static inline void plain_read_head(plain_head *h)
{
    size_t dim = h->d->dim, value = h->d->value_dim, width = h->d->heads * value;
    const plain_tensor *beta = plain_given(h->op, BO_ATTENTION_GIVEN_BETA);
    h->q = plain_queries(h), h->k = plain_cut(h, &h->op->in[1], h->key_head * dim, dim);
    h->v = plain_cut(h, &h->op->in[2], h->key_head * value, value);
    h->log_gate = plain_gates(h), h->beta = beta ? plain_cut(h, beta, h->key_head, 1) : NULL;
    h->out = plain_zeros(h->group * h->tokens * value);
    if (h->tokens) (trial_is_memory(h->d) ? plain_read_memory : plain_read_weights)(h);
    for (size_t g = 0; g < h->group; g++)
        for (size_t r = 0; r < h->tokens; r++)
            memcpy(h->op->out[0].x + (h->first + r) * width + (h->key_head * h->group + g) * value,
                   h->out + (g * h->tokens + r) * value, value * sizeof *h->out);
    double *owned[] = {h->q, h->k, h->v, h->log_gate, h->beta, h->out};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* The sequences one by one; across streams, sequence s of one stream attends to sequence s of the other. */
static inline void plain_attention(plain_op *op)
{
    const bo_attention_attributes *a = op->attributes;
    const bo_attention_desc *d = bo_attention_describe(a->attention);
    size_t rows = op->in[0].rows, tokens = a->tokens ? a->tokens : rows;
    size_t keys = a->key_tokens ? a->key_tokens : op->in[1].rows;
    const size_t *lengths = plain_lengths(op, a->source), *sources = plain_lengths(op, a->source || a->cross);
    for (size_t s = 0, first = 0, key = 0; lengths ? s < op->pass->sequences : first < rows; s++) {
        plain_head head = {.op = op, .d = d, .group = d->heads / d->key_heads, .first = first, .first_key = key};
        head.tokens = lengths ? lengths[s] : tokens;
        head.keys = sources ? sources[s] : a->cross ? keys : tokens;
        for (head.key_head = 0; head.key_head < d->key_heads; head.key_head++) plain_read_head(&head);
        first += head.tokens, key += head.keys;
    }
}

#endif
