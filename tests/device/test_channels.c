/* The kernels over 16 channels, for every instruction set, compared with plain loops in double. */
#include <complex.h>
#include "testing.h"
#include "isas.h"

enum { L = BO_CHANNELS, MAX = 9, RANKS = 3, TOKENS = 11, FLOATS = MAX * RANKS * BO_COMPLEX_ROW };
typedef double complex number;

static void fill(float *x, size_t count, double size, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, 5);
    for (size_t i = 0; i < count; i++) x[i] = (float)(size * bo_rng_normal(&rng));
}

static number at(const float *rows, size_t i, size_t lane)
{
    const float *x = rows + i * BO_COMPLEX_ROW + lane;
    return (double)x[0] + (double)x[L] * I;
}

/* ---- systems ----------------------------------------------------------------------------------------------------- */

typedef struct trial {
    float mu[FLOATS], c[FLOATS], b[FLOATS], p[FLOATS], q[FLOATS], s[FLOATS], g[FLOATS], u[TOKENS * L], y[TOKENS * L];
    bo_systems systems;
} trial;

static void trial_make(trial *t, size_t size, size_t rank)
{
    float *const rows[] = {t->mu, t->c, t->b, t->p, t->q, t->s, t->g};
    for (size_t i = 0; i < 7; i++) fill(rows[i], FLOATS, i == 0 || i == 3 || i == 4 ? 0.2 : 1, i);
    fill(t->u, TOKENS * L, 1, 7), fill(t->y, TOKENS * L, 1, 8);
    t->systems = (bo_systems){.size = size, .rank = rank, .mu = t->mu, .c = t->c};
    if (rank) t->systems.b = t->b, t->systems.p = t->p, t->systems.q = t->q;
}

/* Σ y_t dy_t + Re Σ conj(g) s after the last token, starting from y = 0: the function that run_back differentiates.
 * Writes the states after each token to `states` and the outputs to y. `dy` NULL: ones. */
static double run_lane(const trial *t, size_t lane, const float *dy, number states[TOKENS][MAX], double y[TOKENS])
{
    const bo_systems *a = &t->systems;
    number s[MAX], next[MAX];
    double sum = 0;
    for (size_t n = 0; n < a->size; n++) s[n] = at(t->s, n, lane);
    for (size_t i = 0; i < TOKENS; i++) {
        double u = (double)t->u[i * L + lane];
        y[i] = 0;
        for (size_t n = 0; n < a->size; n++) {
            next[n] = s[n] * (1 + at(t->mu, n, lane)) + (a->rank ? at(t->b, n, lane) : 1) * u;
            for (size_t j = 0; j < a->rank; j++)
                for (size_t m = 0; m < a->size; m++)
                    next[n] += at(t->p, n * a->rank + j, lane) * at(t->q, m * a->rank + j, lane) * s[m];
            y[i] += creal(at(t->c, n, lane) * next[n]);
        }
        memcpy(s, next, sizeof s);
        memcpy(states[i], s, sizeof s);
        sum += y[i] * (dy ? (double)dy[i * L + lane] : 1);
    }
    for (size_t n = 0; n < a->size; n++) sum += creal(conj(at(t->g, n, lane)) * s[n]);
    return sum;
}

/* Rounding errors of TOKENS steps of MAX · RANKS terms, relative to the outputs: 38 · 2^-23. */
static double tolerance_for(const double y[TOKENS])
{
    double max_size = 1;
    for (size_t i = 0; i < TOKENS; i++) max_size = fmax(max_size, fabs(y[i]));
    return 38 * 0x1p-23 * max_size;
}

static void systems_run(void **state)
{
    (void)state;
    static trial t;
    number states[TOKENS][MAX];
    double y[TOKENS], tolerance[L];
    float s[FLOATS], out[TOKENS * L], read[TOKENS * L], kept[TOKENS * MAX * BO_COMPLEX_ROW];
    FOR_EACH_TABLE(table)
    for (size_t size = 1; size <= MAX; size++)
        for (size_t rank = 0; rank <= RANKS; rank++) {
            trial_make(&t, size, rank);
            memcpy(s, t.s, sizeof s), memcpy(out, t.y, sizeof out), memcpy(read, t.y, sizeof read);
            table->channels->run(&t.systems, TOKENS, s, t.u, out);
            for (size_t lane = 0; lane < L; lane++) {
                run_lane(&t, lane, NULL, states, y);
                tolerance[lane] = tolerance_for(y);
                for (size_t i = 0; i < TOKENS; i++)
                    assert_close(out[i * L + lane] - t.y[i * L + lane], y[i], tolerance[lane]);
                for (size_t n = 0; n < size; n++)
                    assert_close(cabs(at(s, n, lane) - states[TOKENS - 1][n]), 0, tolerance[lane]);
                for (size_t i = 0; i < TOKENS * size; i++) {
                    float *to = kept + i * BO_COMPLEX_ROW + lane;
                    to[0] = (float)creal(states[i / size][i % size]), to[L] = (float)cimag(states[i / size][i % size]);
                }
            }
            table->channels->read(size, t.c, TOKENS, kept, read);
            for (size_t i = 0; i < TOKENS * L; i++) assert_close(read[i], out[i], 2 * tolerance[i % L]);
            for (size_t i = size * BO_COMPLEX_ROW; i < FLOATS; i++) assert_true(s[i] == t.s[i]);
        }
}

/* The gradient of element i of `x` in a lane, by finite differences. */
static double slope(trial *t, float *x, size_t i, size_t lane, const float *dy)
{
    number states[TOKENS][MAX];
    double y[TOKENS], h = 0x1p-9, value[2];
    float before = x[i];
    for (size_t k = 0; k < 2; k++) {
        x[i] = before + (float)(k ? h : -h);
        value[k] = run_lane(t, lane, dy, states, y);
    }
    x[i] = before;
    return (value[1] - value[0]) / (2 * h);
}

static void systems_run_back(void **state)
{
    (void)state;
    static trial t;
    static float sums[5][FLOATS], g[FLOATS], du[TOKENS * L], dy[TOKENS * L], work[TOKENS * MAX * BO_COMPLEX_ROW];
    static const size_t sizes[] = {1, 4, 5};
    FOR_EACH_TABLE(table)
    for (size_t k = 0; k < 3; k++)
        for (size_t rank = 0; rank < 3; rank++) {
            size_t size = sizes[k], lane = (3 * k + rank) % L;
            trial_make(&t, size, rank);
            fill(dy, TOKENS * L, 1, 9);
            memcpy(g, t.g, sizeof g), memset(sums, 0, sizeof sums), memset(du, 0, sizeof du);
            bo_systems_gradients d = {sums[0], sums[1], sums[2], sums[3], sums[4]};
            table->channels->run_back(&t.systems, TOKENS, t.s, t.u, dy, g, work, &d, du);
            float *const inputs[] = {t.mu, t.c, t.b, t.p, t.q};
            for (size_t which = 0; which < (rank ? 5 : 2); which++)
                for (size_t i = 0; i < size * (which < 3 ? 1 : rank); i++)
                    for (size_t part = 0; part < 2;
                         part++) { /* differences of polynomials of degree TOKENS: h² = 4e-6 */
                        size_t place = i * BO_COMPLEX_ROW + part * L + lane;
                        double expected = slope(&t, inputs[which], place, lane, dy);
                        assert_close(sums[which][place], expected, 3e-3 * (1 + fabs(expected)));
                    }
            for (size_t i = 0; i < TOKENS; i++)
                assert_close(du[i * L + lane], slope(&t, t.u, i * L + lane, lane, dy), 1e-3);
            for (size_t n = 0; n < size; n++)
                assert_close(g[n * BO_COMPLEX_ROW + lane], slope(&t, t.s, n * BO_COMPLEX_ROW + lane, lane, dy), 1e-3);
        }
}

/* ---- transforms -------------------------------------------------------------------------------------------------- */

enum { LONGEST = 128 };

static void fill_roots(size_t n, float *roots)
{
    for (size_t k = 0; k < 3 * n / 4; k++) {
        double angle = 2 * 3.14159265358979323846 * (double)k / (double)n;
        roots[2 * k] = (float)cos(angle), roots[2 * k + 1] = (float)-sin(angle);
    }
}

/* Forward transform, product and inverse transform give a circular convolution, or with `conjugate` a correlation: sums
 * of n terms of size 1. */
static void check_transform(const bo_channels *kernels, size_t n, bool conjugate)
{
    static float roots[2 * LONGEST], a[LONGEST * BO_COMPLEX_ROW], b[LONGEST * BO_COMPLEX_ROW];
    static float x[LONGEST * BO_COMPLEX_ROW], z[LONGEST * BO_COMPLEX_ROW], zeros[LONGEST * BO_COMPLEX_ROW];
    fill_roots(n, roots);
    fill(a, n * BO_COMPLEX_ROW, 1, 1), fill(b, n * BO_COMPLEX_ROW, 1, 2);
    memcpy(x, a, sizeof x), memcpy(z, b, sizeof z);
    kernels->fourier(n, roots, x), kernels->fourier(n, roots, z);
    kernels->multiply(n, x, z, conjugate, false, x);
    kernels->multiply(n, x, zeros, false, true, x); /* adds nothing */
    kernels->fourier_back(n, roots, x);
    for (size_t lane = 0; lane < L; lane++)
        for (size_t t = 0; t < n; t++) {
            number sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += conjugate ? at(a, (t + k) % n, lane) * conj(at(b, k, lane))
                                 : at(a, (t + n - k) % n, lane) * at(b, k, lane);
            assert_close(cabs(at(x, t, lane) / (double)n - sum), 0, 2e-5 * sqrt((double)n));
        }
}

static void transforms(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    for (size_t n = 1; n <= LONGEST; n *= 2) {
        check_transform(table->channels, n, false);
        check_transform(table->channels, n, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(systems_run),
        cmocka_unit_test(systems_run_back),
        cmocka_unit_test(transforms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
