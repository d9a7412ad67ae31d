/* Random trials from the whole space of descriptors and shapes, small enough for the reference. */
#ifndef BO_TEST_ATTENTION_RANDOM_H
#define BO_TEST_ATTENTION_RANDOM_H

#include "verify.h"
#include "kind_cases.h"

/* Arrays that a random trial points to. */
typedef struct random_case {
    char name[256];
    size_t lengths[6], key_lengths[6];
    float length_scales[128];
    trial_desc desc;
} random_case;

static inline size_t random_of(bo_rng *rng, const size_t *values, size_t count)
{
    return values[bo_rng_below(rng, count)];
}

static inline bool random_chance(bo_rng *rng, double chance)
{
    return bo_rng_uniform(rng) < chance;
}

/* Lengths near the sizes of chunks, tiles and panels. */
static inline size_t random_length(bo_rng *rng)
{
    static const size_t near[] = {1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 192, 200};
    if (random_chance(rng, 0.5)) return random_of(rng, near, sizeof near / sizeof *near);
    return 1 + (size_t)bo_rng_below(rng, 60);
}

/* Kinds with a scale that is independent of the map. */
static inline bool random_scales(const kind_of *kind)
{
    if (kind->kind == BO_ATTENTION_RIDGE) return false;
    return !kind_has_map(kind) || (kind->kernel == BO_KERNEL_SOFTMAX && kind->kind != BO_ATTENTION_LINEAR);
}

/* kind: NULL for a random one. */
static inline void random_attention(bo_rng *rng, const kind_of *kind, random_case *c)
{
    static const size_t widths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65};
    static const size_t chunks[] = {1, 2, 7, 8, 16, 17, 32, 48, 64, 128, 1024};
    static const size_t windows[] = {1, 2, 3, 7, 16, 33, 63, 64, 65, 128, 300};
    const kind_of *drawn = &kinds[bo_rng_below(rng, KINDS)];
    if (!kind) kind = drawn;
    size_t key_heads = 1 + (size_t)bo_rng_below(rng, 3), group = 1 + (size_t)bo_rng_below(rng, 3);
    size_t dim = random_of(rng, widths, sizeof widths / sizeof *widths),
           features = 2 + 2 * (size_t)bo_rng_below(rng, 40);
    size_t value = random_of(rng, widths, sizeof widths / sizeof *widths);
    if (kind_grows(kind) && dim > 9) dim = kind->degree > 2 ? 5 : 9;
    bo_attention_desc *d = &c->desc.attention;
    *d = kind_desc(kind, key_heads * group, key_heads, dim, value, random_chance(rng, 0.7), features);
    if (!kind_is_explicit(kind) && random_chance(rng, 0.5)) d->chunk = random_of(rng, chunks, 11);
    if (kind->window && random_chance(rng, 0.7)) d->window = random_of(rng, windows, 11);
    if (random_chance(rng, 0.2)) d->value_dim = 0;
    if (kind_has_map(kind) && random_chance(rng, 0.2)) d->clamp = pow(10, 1 - 4 * bo_rng_uniform(rng));
    if (random_scales(kind) && random_chance(rng, 0.3)) d->scale = 0.05 + bo_rng_uniform(rng);
    if (trial_accepts(d, M) && random_chance(rng, 0.5)) d->rank = 1 + (size_t)bo_rng_below(rng, dim);
    if (d->kind == BO_ATTENTION_POWER && random_chance(rng, 0.7)) d->power = 0.3 + 4 * bo_rng_uniform(rng);
    if (kind_is_memory(kind) && random_chance(rng, 0.5)) d->unit = !d->unit;
    if (d->kind == BO_ATTENTION_RIDGE && d->gate && random_chance(rng, 0.3))
        d->tolerance = pow(10, -3 - 3 * bo_rng_uniform(rng));
    if (d->kind == BO_ATTENTION_LINEAR && d->features.kernel != BO_KERNEL_CUSTOM && random_chance(rng, 0.2)) {
        for (size_t i = 0; i < 128; i++) c->length_scales[i] = (float)(0.5 + bo_rng_uniform(rng));
        d->features.length_scales = c->length_scales;
    }
    d->one_draw = random_chance(rng, 0.3) && kind_has_map(kind);
    d->features.seed = bo_rng_bits(rng);
    snprintf(c->name, sizeof c->name, "%s%s", kind->name, d->causal ? ", causal" : "");
}

static inline void random_shape(bo_rng *rng, random_case *c)
{
    bo_attention_shape *s = &c->desc.shape;
    bool causal = c->desc.attention.causal;
    s->sequences = 1 + (size_t)bo_rng_below(rng, 3);
    s->tokens = random_length(rng);
    s->layout = random_chance(rng, 0.5) ? BO_LAYOUT_HEADS_FIRST : BO_LAYOUT_TOKENS_FIRST;
    if (random_chance(rng, 0.3)) { /* packed */
        s->sequences = 1 + (size_t)bo_rng_below(rng, 6);
        for (size_t i = 0; i < 6; i++) {
            c->lengths[i] = random_chance(rng, 0.2) ? 0 : random_length(rng) / 2;
            c->key_lengths[i] = random_chance(rng, 0.2) ? 0 : random_length(rng) / 2;
        }
        s->lengths = c->lengths;
        if (!causal && random_chance(rng, 0.5)) s->key_lengths = c->key_lengths;
    } else if (!causal && random_chance(rng, 0.4)) {
        s->key_tokens = random_length(rng);
    }
}

static inline random_case *random_case_make(uint64_t seed, const kind_of *kind)
{
    random_case *c = calloc(1, sizeof *c);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.random", 0));
    random_attention(&rng, kind, c);
    random_shape(&rng, c);
    trial_desc *d = &c->desc;
    if (random_chance(&rng, 0.4)) d->past = random_length(&rng);
    d->shape.no_keys = d->past && random_chance(&rng, 0.15);
    if (oracle_explicit(&d->attention) && !d->attention.window) d->attention.capacity = 400;
    d->norm = random_chance(&rng, 0.15) ? 30 * bo_rng_uniform(&rng) : 0.3 + 3 * bo_rng_uniform(&rng);
    d->final_gradient = random_chance(&rng, 0.5);
    d->no_parameters = random_chance(&rng, 0.2);
    d->one_map = random_chance(&rng, 0.3);
    d->seed = seed;
    size_t used = strlen(c->name);
    snprintf(c->name + used, sizeof c->name - used,
             ", seed %llu: %zu of %zu heads, dim %zu, value_dim %zu, %zu sequences of %zu and %zu tokens, chunk %zu, "
             "window %zu, "
             "past %zu, norm %.2g, clamp %.2g",
             (unsigned long long)seed, d->attention.key_heads, d->attention.heads, d->attention.dim,
             d->attention.value_dim, d->shape.sequences, d->shape.tokens, d->shape.key_tokens, d->attention.chunk,
             d->attention.window, d->past, d->norm, d->attention.clamp);
    d->name = c->name;
    return c;
}

/* Checks forward and backward of the random trial with this seed. kind: NULL for a random one. */
static inline void random_check(bo_context *context, uint64_t seed, const kind_of *kind)
{
    random_case *c = random_case_make(seed, kind);
    trial t = trial_make(context, &c->desc);
    verify_trial(&t);
    trial_drop(&t);
    free(c);
}

#endif
