/* State-space systems in float64. */
#include "systems.h"
#include <complex.h>
#include <math.h>

enum { N = LAB_SYSTEM_STATES, MAX_CHANNELS = 16 };

/* Reads `columns` numbers of one channel of a parameter. */
static bo_status parameter(lab_tape *tape, const char *prefix, const char *suffix, size_t channels, size_t channel,
                           size_t columns, double *out)
{
    float all[MAX_CHANNELS * 2 * N];
    if (channels > MAX_CHANNELS) return bo_fail(tape->context, BO_INVALID, "expected at most 16 channels");
    BO_TRY(lab_tape_read(tape, lab_join(prefix, suffix).text, all));
    for (size_t i = 0; i < columns; i++) out[i] = (double)all[channel * columns + i];
    return BO_OK;
}

static double squares(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sum;
}

/* σ I + P̂ P̂ᵀ, all real. */
static bo_status closed(lab_tape *tape, const char *prefix, size_t channels, size_t channel, double step,
                        lab_system *out)
{
    double p[N], b[N], c[N];
    BO_TRY(parameter(tape, prefix, ".p", channels, channel, N, p));
    BO_TRY(parameter(tape, prefix, ".b", channels, channel, N, b));
    BO_TRY(parameter(tape, prefix, ".c", channels, channel, N, c));
    const double sigma = exp(-step), scale = (1 - sigma) / (1 + squares(p, N));
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) out->a[i * N + j] = (i == j ? sigma : 0) + scale * p[i] * p[j];
        out->b[i] = (1 - sigma) * b[i];
        out->c[i] = c[i];
    }
    return BO_OK;
}

/* + P̂ Q̂ᵀ, P̂ = E P / √(1 + |P|²). */
static bo_status add_low_rank(lab_tape *tape, const char *prefix, size_t channels, size_t channel, lab_system *out)
{
    double p[2 * N], q[2 * N], envelope[N];
    BO_TRY(parameter(tape, prefix, ".p", channels, channel, 2 * N, p));
    BO_TRY(parameter(tape, prefix, ".q", channels, channel, 2 * N, q));
    const double scale = 1 / sqrt((1 + squares(p, 2 * N)) * (1 + squares(q, 2 * N)));
    for (size_t i = 0; i < N; i++) envelope[i] = sqrt(1 - cabs(out->a[i * N + i]));
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            out->a[i * N + j] +=
                scale * envelope[i] * envelope[j] * (p[2 * i] + I * p[2 * i + 1]) * (q[2 * j] + I * q[2 * j + 1]);
    return BO_OK;
}

/* exp(Δ λ), λ = -softplus(a) + i w; B = (A - 1) / λ. */
static bo_status modes(lab_tape *tape, const char *prefix, size_t channels, size_t channel, double step,
                       lab_system *out)
{
    double a[N], w[N], c[2 * N];
    BO_TRY(parameter(tape, prefix, ".a", channels, channel, N, a));
    BO_TRY(parameter(tape, prefix, ".w", channels, channel, N, w));
    BO_TRY(parameter(tape, prefix, ".c", channels, channel, 2 * N, c));
    for (size_t i = 0; i < N; i++) {
        const lab_number lambda = -log1p(exp(a[i])) + I * w[i], mode = cexp(step * lambda);
        out->a[i * N + i] = mode;
        out->b[i] = (mode - 1) / lambda;
        out->c[i] = c[2 * i] + I * c[2 * i + 1];
    }
    return BO_OK;
}

bo_status lab_system_of(lab_tape *tape, const char *prefix, bo_ssm kind, size_t channels, size_t channel,
                        lab_system *out)
{
    double log_step;
    *out = (lab_system){.d = 0};
    BO_TRY(parameter(tape, prefix, ".log_step", channels, channel, 1, &log_step));
    BO_TRY(parameter(tape, prefix, ".d", channels, channel, 1, &out->d));
    if (kind == BO_SSM_CLOSED) return closed(tape, prefix, channels, channel, exp(log_step), out);
    BO_TRY(modes(tape, prefix, channels, channel, exp(log_step), out));
    return kind == BO_SSM_LOW_RANK ? add_low_rank(tape, prefix, channels, channel, out) : BO_OK;
}

void lab_system_run(const lab_system *system, size_t tokens, const double *u, double *y)
{
    lab_number state[N] = {0}, next[N];
    for (size_t t = 0; t < tokens; t++) {
        y[t] = system->d * u[t];
        for (size_t i = 0; i < N; i++) {
            next[i] = system->b[i] * u[t];
            for (size_t j = 0; j < N; j++) next[i] += system->a[i * N + j] * state[j];
        }
        for (size_t i = 0; i < N; i++) {
            state[i] = next[i];
            y[t] += creal(system->c[i] * state[i]);
        }
    }
}
