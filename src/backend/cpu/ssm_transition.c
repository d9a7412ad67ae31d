/* Converts parameters to systems s' = s + μ s + P (Qᵀ s) + b u, and system gradients to parameter gradients, in double,
 * one channel at a time. Formulas are in operations.h.
 *
 * The gradient of a complex number is the derivative with respect to its real part plus i times the derivative with
 * respect to its imaginary part: for analytic f(z), dz = conj(f'(z)) df. */
#include <complex.h>
#include <math.h>
#include "ssm.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* exp(z) - 1 without cancellation: Re is expm1(x) cos y - 2 sin²(y/2). */
static bo_number less_one(bo_number z)
{
    double x = creal(z), half = cimag(z) / 2, s = sin(half), c = cos(half), grown = expm1(x);
    return bo_number_of(grown * (1 - 2 * s * s) - 2 * s * s, (grown + 1) * 2 * s * c);
}

static bool is_small(bo_number z)
{
    return creal(z) * creal(z) + cimag(z) * cimag(z) < 1e-4;
}

/* a / b. The square of |b| must not overflow or underflow. */
static bo_number quotient(bo_number a, bo_number b)
{
    double size = creal(b) * creal(b) + cimag(b) * cimag(b);
    return bo_number_of((creal(a) * creal(b) + cimag(a) * cimag(b)) / size,
                        (cimag(a) * creal(b) - creal(a) * cimag(b)) / size);
}

/* φ(z) = (exp(z) - 1) / z and its derivative (exp(z) - φ) / z; near 0 by Taylor series with truncation errors below
 * 1e-16. */
static bo_number ramp(bo_number z, bo_number grown)
{
    if (!is_small(z)) return quotient(grown, z);
    return 1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7)))));
}

static bo_number ramp_derivative(bo_number z, bo_number grown)
{
    if (!is_small(z)) return quotient(grown + 1 - quotient(grown, z), z);
    return 0.5 + z / 3 + z * z * (1.0 / 8 + z / 30 + z * z * (1.0 / 144 + z / 840));
}

static bo_number pair_at(const float *pairs, size_t i)
{
    return bo_number_of((double)pairs[2 * i], (double)pairs[2 * i + 1]);
}

/* ---- one channel ------------------------------------------------------------------------------------------------- */

/* Pointers to the values of a channel: lane `lane` of a group. Gradients are double, summed over the parts. */
typedef struct channel {
    const bo_ssm_view *view;
    size_t index, lane;
    double step; /* Δ */
    bo_ssm_group group;
    const float *sums;    /* gradients of the group in part 0 */
    size_t parts, stride; /* number of parts, and their stride in floats */
} channel;

static const float *row(const channel *c, size_t input)
{
    const bo_tensor *in = &c->view->call->in[input];
    return (const float *)in->data + c->index * in->columns;
}

static void set(const channel *c, float *rows, size_t i, bo_number value)
{
    rows[i * BO_COMPLEX_ROW + c->lane] = (float)creal(value);
    rows[i * BO_COMPLEX_ROW + BO_CHANNELS + c->lane] = (float)cimag(value);
}

/* Returns complex row i of the array that corresponds to `rows`, summed over the gradients of the parts. */
static bo_number get(const channel *c, const float *rows, size_t i)
{
    const float *at = c->sums + (rows - c->group.mu) + i * BO_COMPLEX_ROW + c->lane;
    double re = 0, im = 0;
    for (size_t part = 0; part < c->parts; part++, at += c->stride) re += (double)at[0], im += (double)at[BO_CHANNELS];
    return bo_number_of(re, im);
}

/* Writes element j of the gradient of a row of an input. */
static void add_gradient(const channel *c, size_t input, size_t j, double value)
{
    const bo_op_call *call = c->view->call;
    float *out = call->din[input];
    if (out) bo_store(&out[c->index * call->in[input].columns + j], call->add[input], (float)value);
}

static void add_pair_gradient(const channel *c, size_t input, size_t i, bo_number value)
{
    add_gradient(c, input, 2 * i, creal(value));
    add_gradient(c, input, 2 * i + 1, cimag(value));
}

/* Returns 1 / √(1 + |x|²) of a row. */
static double shrinking(const channel *c, size_t input)
{
    const float *x = row(c, input);
    double sum = 1;
    for (size_t i = 0; i < c->view->call->in[input].columns; i++) sum += (double)x[i] * (double)x[i];
    return 1 / sqrt(sum);
}

enum { LOG_STEP = 1, A = 2, W = 3 };

/* ---- modes ------------------------------------------------------------------------------------------------------- */

typedef struct mode {
    double step, a, rate;       /* step: Δ */
    bo_number lambda, z, mu, b; /* z = Δ λ, μ = exp(z) - 1, b = Δ φ(z) */
} mode;

static mode mode_of(const channel *c, size_t n)
{
    mode m = {.step = c->step, .a = (double)row(c, A)[n]};
    m.rate = softplus(m.a);
    m.lambda = bo_number_of(-m.rate, (double)row(c, W)[n]);
    m.z = m.step * m.lambda;
    m.mu = less_one(m.z);
    m.b = m.step * ramp(m.z, m.mu);
    return m;
}

/* Computes the gradients of a and w from the gradients of μ, b and the rate. Returns the gradient of the step. */
static double mode_back(const channel *c, const mode *m, size_t n, bo_number dmu, bo_number db, double drate)
{
    bo_number dz = conj(m->mu + 1) * dmu + m->step * conj(ramp_derivative(m->z, m->mu)) * db;
    add_gradient(c, A, n, (drate - m->step * creal(dz)) * sigmoid(m->a));
    add_gradient(c, W, n, m->step * cimag(dz));
    return creal(conj(m->lambda) * dz) + creal(conj(ramp(m->z, m->mu)) * db);
}

static void add_step_gradient(const channel *c, double dstep)
{
    add_gradient(c, LOG_STEP, 0, c->step * dstep);
}

/* ---- DIAGONAL: b is merged into c -------------------------------------------------------------------------------- */

enum { DIAGONAL_C = 4, DIAGONAL_D = 5 };

static void diagonal_back(const channel *c)
{
    double dstep = 0;
    for (size_t n = 0; n < c->view->size; n++) {
        mode m = mode_of(c, n);
        bo_number dc = get(c, c->group.c, n);
        dstep += mode_back(c, &m, n, get(c, c->group.mu, n), conj(pair_at(row(c, DIAGONAL_C), n)) * dc, 0);
        add_pair_gradient(c, DIAGONAL_C, n, conj(m.b) * dc);
    }
    add_step_gradient(c, dstep);
}

/* ---- LOW_RANK ---------------------------------------------------------------------------------------------------- */

enum { LOW_P = 4, LOW_Q = 5, LOW_C = 6, LOW_D = 7 };

/* E = √(1 - |Λ|) */
static double slack(const mode *m)
{
    return sqrt(-expm1(-m->step * m->rate));
}

/* Σ E Re(conj(P) dP̂): the contribution of the norm of P. */
static double along(const channel *c, size_t input, const float *rows)
{
    double sum = 0;
    for (size_t n = 0; n < c->view->size; n++) {
        mode m = mode_of(c, n);
        for (size_t i = n * c->view->rank; i < (n + 1) * c->view->rank; i++)
            sum += slack(&m) * creal(conj(pair_at(row(c, input), i)) * get(c, rows, i));
    }
    return sum;
}

/* Computes dP of row n from dP̂ with P̂ = E k P, k = 1 / √(1 + |P|²). Returns its dE. */
static double low_rank_factor(const channel *c, size_t n, size_t input, const float *rows, double e, double k,
                              double sum)
{
    double de = 0;
    for (size_t i = n * c->view->rank; i < (n + 1) * c->view->rank; i++) {
        bo_number p = pair_at(row(c, input), i), d = get(c, rows, i);
        add_pair_gradient(c, input, i, e * k * d - k * k * k * sum * p);
        de += k * creal(conj(p) * d);
    }
    return de;
}

static void low_rank_back(const channel *c)
{
    double small_p = shrinking(c, LOW_P), small_q = shrinking(c, LOW_Q), dstep = 0;
    double sum_p = along(c, LOW_P, c->group.p), sum_q = along(c, LOW_Q, c->group.q);
    for (size_t n = 0; n < c->view->size; n++) {
        mode m = mode_of(c, n);
        double e = slack(&m), de = low_rank_factor(c, n, LOW_P, c->group.p, e, small_p, sum_p) +
                                   low_rank_factor(c, n, LOW_Q, c->group.q, e, small_q, sum_q);
        double fall = e > 0 ? de * exp(-m.step * m.rate) / (2 * e) : 0; /* dE/d(Δ rate) = |Λ| / 2E */
        dstep += mode_back(c, &m, n, get(c, c->group.mu, n), get(c, c->group.b, n), m.step * fall) + m.rate * fall;
        add_pair_gradient(c, LOW_C, n, get(c, c->group.c, n));
    }
    add_step_gradient(c, dstep);
}

/* ---- CLOSED ------------------------------------------------------------------------------------------------------ */

/* σ I + P̂ P̂ᵀ maps B to σ B plus a vector in the span of P̂, so z = P̂ᵀ s and v = C s form a state:
 *     z' = σ z + G z + P̂ᵀ B̄ u,   v' = σ v + (C P̂) z + C B̄ u,   G = P̂ᵀ P̂,   y = v,
 * with r + 1 values instead of N. As bo_systems, P has the rows of G and C P̂, and Q is the identity with an extra row
 * of zeros. */
enum { CLOSED_P = 2, CLOSED_B = 3, CLOSED_C = 4, CLOSED_D = 5 };

typedef struct closed {
    double complement, k, shrink; /* complement = 1 - σ; P̂ = k P with k = √complement shrink; B̄ = complement B */
    size_t size;                  /* N */
    const float *p, *b, *c;
} closed;

static closed closed_of(const channel *ch)
{
    closed s = {.complement = -expm1(-ch->step), .shrink = shrinking(ch, CLOSED_P)};
    s.k = sqrt(s.complement) * s.shrink;
    s.size = ch->view->attributes->size;
    s.p = row(ch, CLOSED_P), s.b = row(ch, CLOSED_B), s.c = row(ch, CLOSED_C);
    return s;
}

/* Computes Σ_n x[n] y[n] with the given steps between elements. */
static double dot(size_t count, const float *x, size_t step_x, const float *y, size_t step_y)
{
    double sum = 0;
    for (size_t n = 0; n < count; n++) sum += (double)x[n * step_x] * (double)y[n * step_y];
    return sum;
}

static void closed_system(const channel *ch)
{
    size_t r = ch->view->rank;
    closed s = closed_of(ch);
    for (size_t i = 0; i < r; i++) {
        for (size_t j = 0; j < r; j++) set(ch, ch->group.p, i * r + j, s.k * s.k * dot(s.size, s.p + i, r, s.p + j, r));
        set(ch, ch->group.p, r * r + i, s.k * dot(s.size, s.c, 1, s.p + i, r));
        set(ch, ch->group.q, i * r + i, 1);
        set(ch, ch->group.b, i, s.k * s.complement * dot(s.size, s.p + i, r, s.b, 1));
    }
    set(ch, ch->group.b, r, s.complement * dot(s.size, s.c, 1, s.b, 1));
    set(ch, ch->group.c, r, 1);
    for (size_t i = 0; i <= r; i++) set(ch, ch->group.mu, i, -s.complement);
}

/* dP̂[n, j] = Σ_i P̂_ni (dG_ij + dG_ji) + C_n d(CP̂)_j + B̄_n d(P̂ᵀB̄)_j */
static double closed_factor(const channel *ch, const closed *s, size_t n, size_t j)
{
    size_t r = ch->view->rank;
    const float *dp = ch->group.p;
    double sum = (double)s->c[n] * creal(get(ch, dp, r * r + j)) +
                 s->complement * (double)s->b[n] * creal(get(ch, ch->group.b, j));
    for (size_t i = 0; i < r; i++)
        sum += s->k * (double)s->p[n * r + i] * creal(get(ch, dp, i * r + j) + get(ch, dp, j * r + i));
    return sum;
}

static void closed_back(const channel *ch)
{
    size_t r = ch->view->rank;
    closed s = closed_of(ch);
    double dk = 0, dcomplement = 0, direct = creal(get(ch, ch->group.b, r)); /* gradient of C B̄ */
    for (size_t n = 0; n < s.size; n++)
        for (size_t j = 0; j < r; j++) dk += (double)s.p[n * r + j] * closed_factor(ch, &s, n, j);
    for (size_t n = 0; n < s.size; n++) {
        double db = (double)s.c[n] * direct, dc = s.complement * (double)s.b[n] * direct;
        for (size_t j = 0; j < r; j++) {
            double p = (double)s.p[n * r + j];
            add_gradient(ch, CLOSED_P, n * r + j, s.k * (closed_factor(ch, &s, n, j) - dk * s.shrink * s.shrink * p));
            db += s.k * p * creal(get(ch, ch->group.b, j));
            dc += s.k * p * creal(get(ch, ch->group.p, r * r + j));
        }
        add_gradient(ch, CLOSED_B, n, s.complement * db);
        add_gradient(ch, CLOSED_C, n, dc);
        dcomplement += (double)s.b[n] * db;
    }
    if (s.complement > 0) dcomplement += dk * s.k / (2 * s.complement);
    for (size_t i = 0; i <= r; i++) dcomplement -= creal(get(ch, ch->group.mu, i));
    add_step_gradient(ch, (1 - s.complement) * dcomplement);
}

/* ---- all kinds --------------------------------------------------------------------------------------------------- */

static const struct {
    void (*forward)(const channel *c); /* NULL: bo_ssm_modes, which processes all channels of a group */
    void (*back)(const channel *c);
    size_t d; /* index of the input D */
} kinds[BO_SSM_COUNT] = {
    [BO_SSM_DIAGONAL] = {NULL, diagonal_back, DIAGONAL_D},
    [BO_SSM_CLOSED] = {closed_system, closed_back, CLOSED_D},
    [BO_SSM_LOW_RANK] = {NULL, low_rank_back, LOW_D},
};

typedef struct job {
    const bo_ssm_view *view;
    const bo_kernels *kernels;
    float *systems;
    const float *sums;
    size_t parts;
} job;

static channel channel_of(const job *j, size_t group, size_t lane)
{
    const bo_ssm_view *view = j->view;
    channel c = {.view = view,
                 .index = group * BO_CHANNELS + lane,
                 .lane = lane,
                 .group = bo_ssm_group_at(view, j->systems ? j->systems + group * view->floats : NULL),
                 .sums = j->sums ? j->sums + group * view->floats : NULL,
                 .parts = j->parts,
                 .stride = view->groups * view->floats};
    c.step = exp((double)*row(&c, LOG_STEP));
    return c;
}

static void transition_task(void *arg, size_t group, int worker)
{
    (void)worker;
    const job *j = arg;
    bo_ssm kind = j->view->attributes->kind;
    float *systems = j->systems + group * j->view->floats;
    bo_ssm_group to = bo_ssm_group_at(j->view, systems);
    memset(systems, 0, j->view->floats * sizeof *systems);
    if (!kinds[kind].forward) bo_ssm_modes(j->view, j->kernels, group, &to);
    for (size_t lane = 0; lane < bo_ssm_lanes(j->view, group); lane++) {
        channel c = channel_of(j, group, lane);
        if (kinds[kind].forward) kinds[kind].forward(&c);
        to.d[lane] = *row(&c, kinds[kind].d);
    }
}

static void transition_back_task(void *arg, size_t group, int worker)
{
    (void)worker;
    const job *j = arg;
    size_t d = kinds[j->view->attributes->kind].d;
    for (size_t lane = 0; lane < bo_ssm_lanes(j->view, group); lane++) {
        channel c = channel_of(j, group, lane);
        double sum = 0;
        for (size_t part = 0; part < j->parts; part++)
            sum += (double)c.sums[part * c.stride + (size_t)(c.group.d - c.group.mu) + lane];
        kinds[j->view->attributes->kind].back(&c);
        add_gradient(&c, d, 0, sum);
    }
}

void bo_ssm_transition(bo_context *context, const bo_ssm_view *view, float *systems)
{
    job j = {.view = view, .kernels = bo_context_kernels(context), .systems = systems};
    bo_parallel(context, view->groups, transition_task, &j);
}

void bo_ssm_transition_back(bo_context *context, const bo_ssm_view *view, size_t parts, const float *sums)
{
    /* The gradients of a group have the layout of its systems; only the addresses differ. */
    job j = {.view = view, .systems = (float *)(uintptr_t)sums, .sums = sums, .parts = parts};
    bo_parallel(context, view->groups, transition_back_task, &j);
}
