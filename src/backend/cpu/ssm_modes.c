/* Systems of modes, DIAGONAL and LOW_RANK, from their parameters: 16 channels at a time in float, since decoding
 * computes them for every token. Expressions that would cancel in float are rearranged. */
#include <math.h>
#include "ssm.h"

enum { A = 2, W = 3, DIAGONAL_C = 4, LOW_P = 4, LOW_Q = 5, LOW_C = 6, L = BO_CHANNELS };

/* exp(z) - 1, φ(z) = (exp(z) - 1) / z and √(1 - |exp(z)|) of z = Δ λ. */
typedef struct modes {
    float re[L], im[L], ramp_re[L], ramp_im[L], slack[L];
} modes;

static const float over[] = {0, 1, 1.0f / 2, 1.0f / 3, 1.0f / 4, 1.0f / 5, 1.0f / 6, 1.0f / 7, 1.0f / 8, 1.0f / 9};

/* Both alternatives are computed before one is selected, so that loops over channels have no branches. */
static inline float choose(bool first, const float *a, const float *b, size_t l)
{
    float x = a[l], y = b[l];
    return first ? x : y;
}

/* exp(x) - 1 for x <= 0, given exp(x): Taylor series near 0, with relative error 0.5⁹ / 10!. */
static void less_one(const float x[L], float grown[L])
{
    float near[L];
    for (size_t l = 0; l < L; l++) {
        float sum = 1;
        for (int k = 9; k > 1; k--) sum = 1 + x[l] * over[k] * sum;
        near[l] = x[l] * sum, grown[l] -= 1;
    }
    for (size_t l = 0; l < L; l++) grown[l] = choose(x[l] > -0.5f, near, grown, l);
}

/* sin h from the result of the sine kernel, which has a bounded absolute error. */
static void sine(const float h[L], float s[L])
{
    float near[L];
    for (size_t l = 0; l < L; l++) {
        float square = h[l] * h[l];
        near[l] = h[l] * (1 - square * (1.0f / 6) * (1 - square * (1.0f / 20) * (1 - square * (1.0f / 42))));
    }
    for (size_t l = 0; l < L; l++) s[l] = choose(fabsf(h[l]) < 0.25f, near, s, l);
}

/* φ(x + 2ih): Taylor series for |z| < 1/4, with relative error 0.25⁷ / 8!. */
static void ramp(const float x[L], const float half[L], modes *m)
{
    float near_re[L], near_im[L], square[L];
    for (size_t l = 0; l < L; l++) {
        float y = 2 * half[l], re = 1, im = 0;
        for (int k = 7; k > 1; k--) {
            float next = 1 + (x[l] * re - y * im) * over[k];
            im = (x[l] * im + y * re) * over[k];
            re = next;
        }
        near_re[l] = re, near_im[l] = im, square[l] = x[l] * x[l] + y * y;
        m->ramp_re[l] = (m->re[l] * x[l] + m->im[l] * y) / square[l];
        m->ramp_im[l] = (m->im[l] * x[l] - m->re[l] * y) / square[l];
    }
    for (size_t l = 0; l < L; l++) {
        m->ramp_re[l] = choose(square[l] < 0.0625f, near_re, m->ramp_re, l);
        m->ramp_im[l] = choose(square[l] < 0.0625f, near_im, m->ramp_im, l);
    }
}

/* Re(exp(x + iy) - 1) = (exp(x) - 1) cos y - 2 sin²(y/2). */
static void modes_of(const bo_kernels *kernels, const float step[L], const float a[L], const float w[L], modes *m)
{
    float x[L], half[L], fall[L], s[L], c[L];
    kernels->curve(BO_CURVE_SOFTPLUS, L, a, x);
    for (size_t l = 0; l < L; l++) x[l] *= -step[l], half[l] = step[l] * w[l] / 2;
    kernels->exp_shift(L, x, 0, fall);
    kernels->sincos(L, 1, half, s, c);
    less_one(x, fall);
    sine(half, s);
    for (size_t l = 0; l < L; l++) {
        float back = 2 * s[l] * s[l];
        m->re[l] = fall[l] * (1 - back) - back;
        m->im[l] = (fall[l] + 1) * 2 * s[l] * c[l];
        m->slack[l] = sqrtf(-fall[l]);
    }
    ramp(x, half, m);
}

/* ---- group ------------------------------------------------------------------------------------------------------- */

static const float *row(const bo_ssm_view *view, size_t input, size_t channel)
{
    const bo_tensor *in = &view->call->in[input];
    return (const float *)in->data + channel * in->columns;
}

/* Copies column j of the group's rows. */
static void column(const bo_ssm_view *view, size_t group, size_t input, size_t j, float out[L])
{
    const float *at = row(view, input, group * L) + j;
    size_t lanes = bo_ssm_lanes(view, group), columns = view->call->in[input].columns;
    for (size_t l = 0; l < L; l++, at += columns) out[l] = l < lanes ? *at : 0;
}

/* Sets complex row i of the group to factor times complex column i. */
static void scaled(const bo_ssm_view *view, size_t group, size_t input, size_t i, const float factor[L], float *to)
{
    float re[L], im[L];
    column(view, group, input, 2 * i, re), column(view, group, input, 2 * i + 1, im);
    for (size_t l = 0; l < L; l++) to[i * BO_COMPLEX_ROW + l] = factor[l] * re[l];
    for (size_t l = 0; l < L; l++) to[i * BO_COMPLEX_ROW + L + l] = factor[l] * im[l];
}

/* Computes 1 / √(1 + |row|²) of each channel. */
static void shrinking(const bo_ssm_view *view, const bo_kernels *kernels, size_t group, size_t input, float out[L])
{
    for (size_t l = 0; l < bo_ssm_lanes(view, group); l++) {
        const float *x = row(view, input, group * L + l);
        out[l] = (float)(1 / sqrt(1 + kernels->dot(view->call->in[input].columns, x, x)));
    }
}

/* c = B C: B = Δ φ is merged into c. */
static void diagonal(const bo_ssm_view *view, size_t group, const bo_ssm_group *to, size_t n, const float step[L],
                     const modes *m)
{
    float re[L], im[L], *c = to->c + n * BO_COMPLEX_ROW;
    column(view, group, DIAGONAL_C, 2 * n, re), column(view, group, DIAGONAL_C, 2 * n + 1, im);
    for (size_t l = 0; l < L; l++) {
        c[l] = step[l] * (m->ramp_re[l] * re[l] - m->ramp_im[l] * im[l]);
        c[L + l] = step[l] * (m->ramp_re[l] * im[l] + m->ramp_im[l] * re[l]);
    }
}

static void low_rank(const bo_ssm_view *view, size_t group, const bo_ssm_group *to, size_t n, const float step[L],
                     const modes *m, const float shrink[2][L])
{
    float one[L], p[L], q[L], *b = to->b + n * BO_COMPLEX_ROW;
    for (size_t l = 0; l < L; l++) {
        b[l] = step[l] * m->ramp_re[l], b[L + l] = step[l] * m->ramp_im[l];
        one[l] = 1, p[l] = m->slack[l] * shrink[0][l], q[l] = m->slack[l] * shrink[1][l];
    }
    scaled(view, group, LOW_C, n, one, to->c);
    for (size_t i = n * view->rank; i < (n + 1) * view->rank; i++) {
        scaled(view, group, LOW_P, i, p, to->p);
        scaled(view, group, LOW_Q, i, q, to->q);
    }
}

void bo_ssm_modes(const bo_ssm_view *view, const bo_kernels *kernels, size_t group, const bo_ssm_group *to)
{
    float step[L], a[L], w[L], shrink[2][L] = {{0}};
    modes m;
    column(view, group, 1, 0, step);
    kernels->exp_shift(L, step, 0, step);
    for (size_t i = 0; view->rank && i < 2; i++) shrinking(view, kernels, group, i ? LOW_Q : LOW_P, shrink[i]);
    for (size_t n = 0; n < view->size; n++) {
        column(view, group, A, n, a), column(view, group, W, n, w);
        modes_of(kernels, step, a, w, &m);
        for (size_t l = 0; l < L; l++)
            to->mu[n * BO_COMPLEX_ROW + l] = m.re[l], to->mu[n * BO_COMPLEX_ROW + L + l] = m.im[l];
        if (view->rank)
            low_rank(view, group, to, n, step, &m, (const float (*)[L])shrink);
        else
            diagonal(view, group, to, n, step, &m);
    }
}
