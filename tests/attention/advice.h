/* Queries, keys and values of a chosen size, for tests of advice. */
#ifndef BO_TEST_ADVICE_H
#define BO_TEST_ADVICE_H

#include <bochner/attention.h>
#include "testing.h"

enum { HEADS = 4, KEY_HEADS = 2, TOKENS = 300, DIM = 16, VALUES = 8 };

typedef struct data {
    float q[HEADS * TOKENS * DIM], k[KEY_HEADS * TOKENS * DIM], v[KEY_HEADS * TOKENS * VALUES];
} data;

/* √s q ~ N(0, size²/DIM) in each coordinate, so that its norm is about `size`; s = 1/√DIM */
static inline data *make_data(double size)
{
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(17, bo_rng_stream("test.advise", 0));
    double each = size / sqrt(DIM) * pow(DIM, 0.25);
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) d->q[i] = (float)(each * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->k[i] = (float)(each * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] = (float)bo_rng_normal(&rng);
    return d;
}

static inline bo_attention_desc desc_of(bool causal)
{
    return (bo_attention_desc){
        .heads = HEADS, .key_heads = KEY_HEADS, .dim = DIM, .value_dim = VALUES, .causal = causal};
}

static const bo_attention_shape whole = {.sequences = 1, .tokens = TOKENS};

#endif
