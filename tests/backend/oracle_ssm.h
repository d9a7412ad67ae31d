/* Reference for state-space systems: the matrices of operations.h and a plain recurrence. Part of oracle.h. */
#ifndef BO_TEST_BACKEND_ORACLE_SSM_H
#define BO_TEST_BACKEND_ORACLE_SSM_H

#include <complex.h>

/* One channel: A (N x N), B and C. */
typedef struct plain_system {
    size_t size;
    double complex *a, *b, *c;
    double d;
} plain_system;

static inline double complex plain_complex(double re, double im)
{
    return re + im * I;
}

static inline double complex plain_pair(const plain_tensor *t, size_t row, size_t i)
{
    return plain_complex(plain_at(t, row, 2 * i), plain_at(t, row, 2 * i + 1));
}

/* 1 / √(1 + |row|²) */
static inline double plain_shrinking(const plain_tensor *t, size_t row)
{
    double sum = 1;
    for (size_t i = 0; i < t->columns; i++) sum += plain_at(t, row, i) * plain_at(t, row, i);
    return 1 / sqrt(sum);
}

/* Λ on the diagonal of A, and B: common to DIAGONAL and LOW_RANK. */
static inline void plain_modes(const plain_op *op, size_t channel, plain_system *s)
{
    double step = exp(plain_at(&op->in[1], channel, 0));
    for (size_t n = 0; n < s->size; n++) {
        double complex lambda =
            plain_complex(-plain_softplus(plain_at(&op->in[2], channel, n)), plain_at(&op->in[3], channel, n));
        s->a[n * s->size + n] = cexp(step * lambda);
        s->b[n] = (cexp(step * lambda) - 1) / lambda;
    }
}

static inline void plain_low_rank(const plain_op *op, size_t channel, size_t rank, plain_system *s)
{
    const plain_tensor *p = &op->in[4], *q = &op->in[5];
    double factor = plain_shrinking(p, channel) * plain_shrinking(q, channel);
    double *root = plain_zeros(s->size);
    for (size_t n = 0; n < s->size; n++) root[n] = sqrt(1 - cabs(s->a[n * s->size + n]));
    for (size_t n = 0; n < s->size; n++)
        for (size_t m = 0; m < s->size; m++)
            for (size_t j = 0; j < rank; j++)
                s->a[n * s->size + m] += factor * root[n] * root[m] * plain_pair(p, channel, n * rank + j) *
                                         plain_pair(q, channel, m * rank + j);
    free(root);
}

static inline void plain_closed(const plain_op *op, size_t channel, size_t rank, plain_system *s)
{
    const plain_tensor *p = &op->in[2];
    double sigma = exp(-exp(plain_at(&op->in[1], channel, 0))), shrink = plain_shrinking(p, channel);
    for (size_t n = 0; n < s->size; n++) {
        for (size_t m = 0; m < s->size; m++)
            for (size_t j = 0; j < rank; j++)
                s->a[n * s->size + m] += (1 - sigma) * shrink * shrink * plain_at(p, channel, n * rank + j) *
                                         plain_at(p, channel, m * rank + j);
        s->a[n * s->size + n] += sigma;
        s->b[n] = (1 - sigma) * plain_at(&op->in[3], channel, n);
        s->c[n] = plain_at(&op->in[4], channel, n);
    }
}

static inline plain_system plain_system_of(const plain_op *op, size_t channel)
{
    const bo_ssm_attributes *a = op->attributes;
    size_t size = a->size, rank = a->rank ? a->rank : 1;
    plain_system s = {.size = size, .d = plain_at(&op->in[op->inputs - 1], channel, 0)};
    s.a = calloc(size * size, sizeof *s.a), s.b = calloc(size, sizeof *s.b), s.c = calloc(size, sizeof *s.c);
    assert_true(s.a && s.b && s.c);
    if (a->kind == BO_SSM_CLOSED) {
        plain_closed(op, channel, rank, &s);
        return s;
    }
    plain_modes(op, channel, &s);
    if (a->kind == BO_SSM_LOW_RANK) plain_low_rank(op, channel, rank, &s);
    for (size_t n = 0; n < size; n++) s.c[n] = plain_pair(&op->in[op->inputs - 2], channel, n);
    return s;
}

static inline void plain_system_drop(plain_system *s)
{
    free(s->a);
    free(s->b);
    free(s->c);
}

/* s = A s + B u; returns Re(C s) + D u. `next` is scratch. */
static inline double plain_system_step(const plain_system *s, double u, double complex *state, double complex *next)
{
    double complex y = s->d * u;
    for (size_t n = 0; n < s->size; n++) {
        next[n] = s->b[n] * u;
        for (size_t m = 0; m < s->size; m++) next[n] += s->a[n * s->size + m] * state[m];
        y += s->c[n] * next[n];
    }
    memcpy(state, next, s->size * sizeof *state);
    return creal(y);
}

/* Tokens of sequence s, which starts at `first`. */
static inline size_t plain_tokens(const plain_op *op, size_t s, size_t first)
{
    const bo_ssm_attributes *a = op->attributes;
    const size_t *lengths = plain_lengths(op, a->sequences.source);
    if (lengths) return lengths[s];
    return a->sequences.tokens ? a->sequences.tokens : op->in[0].rows - first;
}

static inline void plain_ssm(plain_op *op)
{
    size_t width = op->in[0].columns, rows = op->in[0].rows;
    for (size_t channel = 0; channel < width; channel++) {
        plain_system system = plain_system_of(op, channel);
        double complex *state = calloc(2 * system.size, sizeof *state);
        assert_non_null(state);
        for (size_t first = 0, s = 0; first < rows; s++) {
            size_t end = first + plain_tokens(op, s, first);
            memset(state, 0, 2 * system.size * sizeof *state);
            for (; first < end; first++)
                op->out[0].x[first * width + channel] =
                    plain_system_step(&system, plain_at(&op->in[0], first, channel), state, state + system.size);
        }
        free(state);
        plain_system_drop(&system);
    }
}

#endif
