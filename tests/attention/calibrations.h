/* Data and attention for tests of calibration. */
#ifndef BO_TEST_CALIBRATIONS_H
#define BO_TEST_CALIBRATIONS_H

#include <bochner/attention.h>
#include "attention/calibration.h"
#include "testing.h"

enum { HEADS = 4, KEY_HEADS = 2, TOKENS = 90, DIM = 5, VALUES = 3 };

typedef struct data {
    float q[HEADS * TOKENS * DIM], k[KEY_HEADS * TOKENS * DIM], v[KEY_HEADS * TOKENS * VALUES];
} data;

/* Anisotropic data with nonzero means; key head 1 has larger rows. */
static inline data *make_data(uint64_t seed, double size)
{
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.calibration", 0));
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++)
        d->q[i] = (float)(size * (0.1 + (double)(1 + i % DIM) / DIM * bo_rng_normal(&rng)));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++)
        d->k[i] = (float)(size * (i < TOKENS * DIM ? 0.8 : 1) * ((double)(DIM - i % DIM) / DIM * bo_rng_normal(&rng)));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] = (float)bo_rng_normal(&rng);
    return d;
}

static inline bo_attention_inputs inputs_of(const data *d)
{
    return (bo_attention_inputs){.q = d->q, .k = d->k, .v = d->v};
}

static inline bo_attention_desc desc_of(bo_attention_kind kind, bo_proposal proposal, bo_sampling sampling)
{
    bo_attention_desc desc = {.kind = kind,
                              .heads = HEADS,
                              .key_heads = KEY_HEADS,
                              .dim = DIM,
                              .value_dim = VALUES,
                              .causal = true,
                              .proposal = proposal};
    if (kind != BO_ATTENTION_RFA && kind != BO_ATTENTION_LINEAR) desc.scale = 0.6;
    desc.features = (bo_features_desc){.features = 16, .sampling = sampling, .seed = 3};
    return desc;
}

static inline bo_attention *create_attention(bo_context *context, const bo_attention_desc *desc)
{
    bo_attention *attention = NULL;
    assert_ok(context, bo_attention_create(context, desc, &attention));
    return attention;
}

static const bo_attention_shape one_sequence = {.sequences = 1, .tokens = TOKENS};

#endif
