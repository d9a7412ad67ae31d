/* Reference results for trials with GLA, DELTA and RIDGE. */
#ifndef BO_TEST_ATTENTION_JUDGE_MEMORY_H
#define BO_TEST_ATTENTION_JUDGE_MEMORY_H

#include "judge_head.h"
#include "oracle_memory.h"

/* The matrices of a state: S, or G followed by H. */
static inline float *judge_matrices(const trial *t, const void *state, size_t key_head)
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
static inline void judge_symmetrize(const trial *t, float *matrices)
{
    size_t dim = t->d->dim;
    float *h = matrices + dim * t->d->value_dim;
    for (size_t i = 0; t->d->kind == BO_ATTENTION_RIDGE && i < dim; i++)
        for (size_t j = 0; j < i; j++)
            h[i * dim + j] = h[j * dim + i] = (float)(((double)h[i * dim + j] + (double)h[j * dim + i]) / 2);
}

static inline void judge_memory_states(judge_head *j, const trial *t, memory_head *h)
{
    size_t sums = trial_sums(t), matrix = t->d->dim * t->d->value_dim;
    if (t->initial) {
        float *initial = judge_matrices(t, t->initial[j->sequence], j->key_head);
        double *s0 = judge_doubles(j, sums, initial), *d0 = judge_array(j, sums);
        h->s0 = s0, h->h0 = s0 + matrix, h->ds0 = d0;
        free(initial);
    }
    double *final = judge_array(j, sums);
    double *d_final = judge_doubles(j, sums, t->d_final[j->sequence] + j->key_head * sums);
    h->s_final = final, h->ds_final = d_final;
    if (t->d->kind != BO_ATTENTION_RIDGE) return;
    h->h_final = final + matrix, h->dh_final = d_final + matrix;
    if (h->ds0) h->dh0 = h->ds0 + matrix;
}

static inline memory_head judge_memory_make(judge_head *j, const trial *t, const trial_answer *a)
{
    const bo_attention_desc *d = t->d;
    size_t keys = t->keys[j->sequence];
    memory_head h = {.desc = d, .group = j->group, .queries = j->queries, .keys = keys};
    h.asks = t->desc.across || !d->causal;
    h.q = judge_queries(j, t, t->array[Q], d->dim);
    h.dout = judge_queries(j, t, t->gradient[OUT], d->value_dim);
    h.k = judge_rows(j, t, K), h.v = judge_rows(j, t, V);
    if (t->count[LOG_GATE]) h.log_gate = judge_rows(j, t, LOG_GATE);
    if (t->count[BETA]) h.beta = judge_rows(j, t, BETA);
    h.lambda = judge_parameter(j, t, LAMBDA);
    h.residual = d->tolerance;
    h.out = judge_array(j, j->group * j->queries * d->value_dim);
    judge_memory_states(j, t, &h);
    if (t->desc.forward_only) return h;
    h.dq = judge_array(j, j->group * j->queries * d->dim), h.dk = judge_array(j, keys * d->dim);
    h.dv = judge_array(j, keys * d->value_dim), h.dbeta = judge_array(j, keys);
    h.dlog_gate = judge_array(j, keys * trial_width(d, LOG_GATE));
    h.dlambda = judge_parameter_gradient(j, t, a, LAMBDA);
    return h;
}

static inline void judge_memory_put(const judge_head *j, const trial *t, const memory_head *h, trial_answer *a)
{
    size_t sums = trial_sums(t), at = j->key_head * sums;
    judge_put_queries(j, t, h->out, t->d->value_dim, a->out);
    memcpy(a->sums + j->sequence * t->d->key_heads * sums + at, h->s_final, sums * sizeof(double));
    if (t->desc.forward_only) return;
    judge_put_queries(j, t, h->dq, t->d->dim, a->gradient[Q]);
    judge_put_rows(j, t, h->dk, K, a->gradient[K]);
    judge_put_rows(j, t, h->dv, V, a->gradient[V]);
    if (t->count[LOG_GATE]) judge_put_rows(j, t, h->dlog_gate, LOG_GATE, a->gradient[LOG_GATE]);
    if (t->count[BETA]) judge_put_rows(j, t, h->dbeta, BETA, a->gradient[BETA]);
    if (h->ds0) memcpy(a->initial + j->sequence * t->gradient_floats + at, h->ds0, sums * sizeof(double));
}

static inline void judge_memory(const trial *t, judge_head *j, oracle_noise *noise, trial_answer *a)
{
    memory_head h = judge_memory_make(j, t, a);
    h.noise = *noise;
    memory_compute(&h);
    judge_memory_put(j, t, &h, a);
    *noise = h.noise;
}

#endif
