/* Reference results for trials with GLA, DELTA and RIDGE. */
#ifndef BO_TEST_ATTENTION_VERIFY_MEMORY_H
#define BO_TEST_ATTENTION_VERIFY_MEMORY_H

#include "verify_head.h"
#include "oracle_memory.h"

/* The matrices of a state: S, or G followed by H. */
static inline float *verify_matrices(const trial *t, const void *state, size_t key_head)
{
    float *found = trial_floats(trial_sums(t));
    bool ridge = t->d->kind == BO_ATTENTION_RIDGE;
    double log_scale = NAN;
    assert_ok(t->context, bo_attention_state_get(t->context, t->attention, state, key_head, found,
                                                 ridge ? found + t->d->dim * t->d->value_dim : NULL, &log_scale));
    assert_close(log_scale, 0, 0);
    return found;
}

/* H and its gradient are symmetric; a gradient may be stored in one half, doubled, or in both halves. */
static inline void verify_symmetrize(const trial *t, float *matrices)
{
    size_t dim = t->d->dim;
    float *h = matrices + dim * t->d->value_dim;
    for (size_t i = 0; t->d->kind == BO_ATTENTION_RIDGE && i < dim; i++)
        for (size_t j = 0; j < i; j++)
            h[i * dim + j] = h[j * dim + i] = (float)(((double)h[i * dim + j] + (double)h[j * dim + i]) / 2);
}

static inline void verify_memory_states(verify_head *j, const trial *t, memory_head *h)
{
    size_t sums = trial_sums(t), matrix = t->d->dim * t->d->value_dim;
    if (t->initial) {
        float *initial = verify_matrices(t, t->initial[j->sequence], j->key_head);
        double *s0 = verify_doubles(j, sums, initial), *d0 = verify_array(j, sums);
        h->s0 = s0, h->h0 = s0 + matrix, h->ds0 = d0;
        free(initial);
    }
    double *final = verify_array(j, sums);
    double *d_final = verify_doubles(j, sums, t->d_final[j->sequence] + j->key_head * sums);
    h->s_final = final, h->ds_final = d_final;
    if (t->d->kind != BO_ATTENTION_RIDGE) return;
    h->h_final = final + matrix, h->dh_final = d_final + matrix;
    if (h->ds0) h->dh0 = h->ds0 + matrix;
}

static inline memory_head verify_memory_make(verify_head *j, const trial *t, const trial_result *a)
{
    const bo_attention_desc *d = t->d;
    size_t keys = t->keys[j->sequence];
    memory_head h = {.desc = d, .group = j->group, .queries = j->queries, .keys = keys};
    h.read_only = t->desc.across || !d->causal;
    h.q = verify_queries(j, t, t->array[Q], d->dim);
    h.dout = verify_queries(j, t, t->gradient[OUT], d->value_dim);
    h.k = verify_rows(j, t, K), h.v = verify_rows(j, t, V);
    if (t->count[LOG_GATE]) h.log_gate = verify_rows(j, t, LOG_GATE);
    if (t->count[BETA]) h.beta = verify_rows(j, t, BETA);
    h.lambda = verify_parameter(j, t, LAMBDA);
    h.residual = d->tolerance;
    h.out = verify_array(j, j->group * j->queries * d->value_dim);
    verify_memory_states(j, t, &h);
    if (t->desc.forward_only) return h;
    h.dq = verify_array(j, j->group * j->queries * d->dim), h.dk = verify_array(j, keys * d->dim);
    h.dv = verify_array(j, keys * d->value_dim), h.dbeta = verify_array(j, keys);
    h.dlog_gate = verify_array(j, keys * trial_width(d, LOG_GATE));
    h.dlambda = verify_parameter_gradient(j, t, a, LAMBDA);
    return h;
}

static inline void verify_memory_write(const verify_head *j, const trial *t, const memory_head *h, trial_result *a)
{
    size_t sums = trial_sums(t), at = j->key_head * sums;
    verify_write_queries(j, t, h->out, t->d->value_dim, a->out);
    memcpy(a->sums + j->sequence * t->d->key_heads * sums + at, h->s_final, sums * sizeof(double));
    if (t->desc.forward_only) return;
    verify_write_queries(j, t, h->dq, t->d->dim, a->gradient[Q]);
    verify_write_rows(j, t, h->dk, K, a->gradient[K]);
    verify_write_rows(j, t, h->dv, V, a->gradient[V]);
    if (t->count[LOG_GATE]) verify_write_rows(j, t, h->dlog_gate, LOG_GATE, a->gradient[LOG_GATE]);
    if (t->count[BETA]) verify_write_rows(j, t, h->dbeta, BETA, a->gradient[BETA]);
    if (h->ds0) memcpy(a->initial + j->sequence * t->gradient_floats + at, h->ds0, sums * sizeof(double));
}

static inline void verify_memory(const trial *t, verify_head *j, oracle_noise *noise, trial_result *a)
{
    memory_head h = verify_memory_make(j, t, a);
    h.noise = *noise;
    memory_compute(&h);
    verify_memory_write(j, t, &h, a);
    *noise = h.noise;
}

#endif
