/* Decoding: one token for some sequences of one key head. Their features are computed together, as a chunk's would
 * be; then each state is read and written once. */
#include <math.h>
#include <string.h>
#include "linear.h"

bo_linear_step_work bo_linear_step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                        size_t count, bo_carver *carver)
{
    bo_linear_step_work work = {.mapper = bo_mapper_make(attention, in, key_head, count, carver)};
    work.fk = bo_carve_floats(carver, count * attention->count);
    work.lk = bo_carve_floats(carver, count);
    work.fq = bo_carve_floats(carver, attention->group * count * attention->count);
    work.lq = bo_carve_floats(carver, attention->group * count);
    work.n = bo_carve_floats(carver, attention->group * attention->desc.value_dim);
    return work;
}

void bo_linear_step_queries(const bo_attention *attention, const bo_linear_step_work *work,
                            const bo_attention_inputs *in, size_t first, size_t count, size_t key_head)
{
    const bo_attention_desc *d = &attention->desc;
    for (size_t g = 0; g < attention->group; g++) {
        const float *q = in->q + (first * d->heads + key_head * attention->group + g) * d->dim;
        bo_mapper_features(&work->mapper, BO_OF_QUERIES, count, q, d->heads * d->dim,
                           work->fq + g * count * attention->count, work->lq + g * count);
    }
}

size_t bo_linear_step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    bo_linear_step_make(attention, NULL, 0, count, &carver);
    return carver.bytes;
}

void bo_sums_step(const bo_attention *attention, bo_sums sums, float *fk, float lk, const float *v,
                  const float *log_gate, const float *fq, size_t ldq, float *n)
{
    const bo_kernels *kernels = attention->kernels;
    size_t features = attention->count, values = attention->desc.value_dim;
    float decay = 1;
    if (v) {
        bo_token token = bo_linear_token(attention, *sums.log_scale, lk, log_gate);
        decay = token.decay;
        *sums.log_scale = token.log_scale;
        if (token.weight != 1) kernels->scale(features, token.weight, fk, fk);
        if (decay != 1) kernels->scale(features, decay, sums.z, sums.z);
        kernels->axpy(features, 1, fk, sums.z);
    }
    kernels->state_step(features, values, v != NULL, decay, fk, v, sums.s, attention->group, fq, ldq, n, values);
}

/* The state takes its token in and answers every query of the group; false where numbers left float. */
static bool step_one(const bo_attention *attention, bo_linear_step_work *work, size_t row, size_t count, const float *v,
                     const float *log_gate, bo_sums sums, float *out)
{
    size_t features = attention->count, values = attention->desc.value_dim;
    bo_sums_step(attention, sums, work->fk + row * features, work->lk[row], v, log_gate, work->fq + row * features,
                 count * features, work->n);
    for (size_t g = 0; g < attention->group; g++) {
        const float *fq = work->fq + (g * count + row) * features;
        float denominator = attention->kernels->dot_f32(features, fq, sums.z);
        if (!bo_linear_finite(attention, denominator, work->n + g * values)) return false;
        bo_normalize(attention, denominator, work->n + g * values, out + g * values);
    }
    return true;
}

/* A chunk of one key, by linear.h's formulas. */
bo_token bo_linear_token(const bo_attention *attention, float log_scale, float lk, const float *log_gate)
{
    float gate = bo_log_gate(log_gate);
    double own = (double)lk + (double)bo_log_input(attention, gate);
    float next = attention->scaled ? fmaxf(log_scale + gate, (float)own) : 0;
    /* In double: what rounding has put into `next` goes into the sums, or slow gates would be lost in large log
     * scales. */
    return (bo_token){.log_scale = next,
                      .decay = (float)exp((double)log_scale + (double)gate - (double)next),
                      .weight = (float)exp(own - (double)next)};
}

/* The log gate of token `at`; NULL without one. */
static const float *step_gate(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t at)
{
    if (attention->desc.gate == BO_GATE_FIXED) return bo_fixed_gate(attention, in, key_head);
    return in->log_gate ? in->log_gate + at : NULL;
}

static bool queries_fit(const bo_linear_step_work *work, size_t group, size_t count, size_t row)
{
    bool fit = true;
    for (size_t g = 0; g < group; g++) fit = fit && bo_log_scales_fit(1, work->lq + g * count + row);
    return fit;
}

void bo_linear_step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                    size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *d = &attention->desc;
    bo_carver carver = {.at = scratch};
    bo_linear_step_work work = bo_linear_step_make(attention, in, key_head, count, &carver);
    size_t head = key_head * attention->group;
    if (in->k) {
        const float *k = in->k + (first * d->key_heads + key_head) * d->dim;
        bo_mapper_features(&work.mapper, BO_OF_KEYS, count, k, d->key_heads * d->dim, work.fk, work.lk);
    }
    bo_linear_step_queries(attention, &work, in, first, count, key_head);
    for (size_t row = 0; row < count; row++) {
        size_t at = (first + row) * d->key_heads + key_head;
        bo_sums sums = bo_state_sums(attention, states[first + row], key_head);
        bool fit = (!in->k || bo_log_scales_fit(1, work.lk + row)) && queries_fit(&work, attention->group, count, row);
        if (!fit || !step_one(attention, &work, row, count, in->k ? in->v + at * d->value_dim : NULL,
                              step_gate(attention, in, key_head, at), sums,
                              out + ((first + row) * d->heads + head) * d->value_dim))
            atomic_store(not_finite, true);
    }
}
