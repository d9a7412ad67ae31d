/* Kernels on pairs of rows, for every instruction set, compared with plain loops in double: distances, functions of
 * distances and their derivatives, sums of gradients. */
#include "testing.h"
#include "isas.h"

enum { ROWS = 9, DIM = 13, LDX = 15, LDO = BO_PAIR_ROWS + 3, STRIP = 83 };

static void normals(size_t count, uint64_t seed, float *x)
{
    bo_rng rng = bo_rng_make(seed, 3);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
}

static double distance_of(bo_distance distance, size_t dim, const float *x, const float *weight, const float *y)
{
    double s = distance == BO_DISTANCE_PRODUCT ? 1 : 0;
    for (size_t p = 0; p < dim; p++) {
        double d = (double)x[p] - (double)y[p * BO_PAIR_ROWS], w = weight ? (double)weight[p] : 1;
        if (distance == BO_DISTANCE_SQUARES) s += w * d * d;
        if (distance == BO_DISTANCE_ABSOLUTES) s += w * fabs(d);
        if (distance == BO_DISTANCE_PRODUCT) s *= 1 + w * d * d;
    }
    return s;
}

/* Each coordinate contributes at most four rounding errors of its term, and one of the sum; terms do not cancel. */
static void check_distances(const bo_kernels *table, bo_distance distance, size_t rows, size_t columns,
                            const float *weight)
{
    float x[ROWS * LDX], panel[DIM * BO_PAIR_ROWS], out[ROWS * LDO];
    normals(ROWS * LDX, 1, x);
    normals(DIM * BO_PAIR_ROWS, 2, panel);
    for (size_t p = 0; p < DIM; p++) panel[p * BO_PAIR_ROWS + 5] = x[2 * LDX + p]; /* an equal row */
    for (size_t i = 0; i < ROWS * LDO; i++) out[i] = -77;
    table->distances(distance, rows, columns, DIM, x, LDX, weight, panel, out, LDO);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < LDO; j++) {
            double expected = -77;
            if (i < rows && j < columns) expected = distance_of(distance, DIM, x + i * LDX, weight, panel + j);
            if (!(fabs((double)out[i * LDO + j] - expected) <= 5 * DIM * 0x1p-24 * fabs(expected)))
                fail_msg("%s, distance %d, %zu x %zu: (%zu, %zu) is %.9g, expected %.9g", table->isa, (int)distance,
                         rows, columns, i, j, (double)out[i * LDO + j], expected);
        }
}

static void distances_match(void **state)
{
    (void)state;
    float weight[DIM];
    for (size_t p = 0; p < DIM; p++) weight[p] = 0.1f + 0.07f * (float)p;
    const size_t columns[] = {1, 7, 8, 31, 33, 63, BO_PAIR_ROWS};
    FOR_EACH_TABLE(table)
    for (int distance = 0; distance <= BO_DISTANCE_PRODUCT; distance++)
        for (size_t rows = 0; rows <= ROWS; rows += rows < 5 ? 1 : 4)
            for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
                check_distances(table, (bo_distance)distance, rows, columns[c], NULL);
                check_distances(table, (bo_distance)distance, rows, columns[c], weight);
            }
}

static double value_of(const bo_radial *radial, double s)
{
    double a = (double)radial->scale * sqrt(s);
    switch (radial->form) {
    case BO_RADIAL_EXP:
        return exp(-(double)radial->scale * s);
    case BO_RADIAL_ROOT:
        return exp(-a);
    case BO_RADIAL_MATERN32:
        return a < 700 ? (1 + a) * exp(-a) : 0;
    case BO_RADIAL_MATERN52:
        return a < 700 ? (1 + a + a * a / 3) * exp(-a) : 0;
    case BO_RADIAL_RATIONAL:
        return pow(1 + (double)radial->scale * s, -(double)radial->power);
    default:
        return 1 / s;
    }
}

/* Central differences of the value, with respect to log s: s f'(s). */
static double log_derivative_of(const bo_radial *radial, double s)
{
    const double h = 1e-5;
    return (value_of(radial, s * exp(h)) - value_of(radial, s * exp(-h))) / (2 * h);
}

/* Distances from 1e-8 to 1e8 and beyond. The rounding of √s, a, s and of the scale changes an exponent t by less than 4
 * · 2⁻²⁴ t, and t exp(-t) < 0.37; the polynomials add a few roundings. Derivatives are compared as s f'(s), which is of
 * order 1. */
static void check_radial(const bo_kernels *table, const bo_radial *radial)
{
    float s[STRIP], y[STRIP + 1], derivative[STRIP + 1];
    bool reciprocal = radial->form == BO_RADIAL_RECIPROCAL; /* of a product, which is at least 1 */
    for (size_t i = 0; i < STRIP; i++)
        s[i] = (reciprocal ? 1.0f : 0.0f) + (float)pow(10, -8 + 16.0 * (double)i / (STRIP - 1));
    s[7] = reciprocal ? 1 : 0;
    s[8] = 1e30f, s[9] = INFINITY, s[10] = NAN;
    y[STRIP] = derivative[STRIP] = -77;
    table->radial(radial, STRIP, s, y);
    table->radial_derivative(radial, STRIP, s, derivative);
    for (size_t i = 0; i < STRIP; i++) {
        double expected = value_of(radial, (double)s[i]), found = (double)y[i], change = 0, product = 0;
        if (i == 10) {
            assert_true(isnan(y[i]) && isnan(derivative[i]));
            continue;
        }
        assert_true(isfinite(derivative[i]));
        if (s[i] > 0 && s[i] < 1e9f) {
            change = log_derivative_of(radial, (double)s[i]);
            product = (double)derivative[i] * (reciprocal ? 1 : (double)s[i]);
        }
        if (!(fabs(found - expected) <= 5e-7) || (i == 7 && y[i] != 1) || !(fabs(product - change) <= 1e-6))
            fail_msg("%s, form %d: f(%g) is %.9g, expected %.9g; s f' is %.9g, expected %.9g", table->isa,
                     (int)radial->form, (double)s[i], found, expected, product, change);
    }
    assert_true(y[STRIP] == -77 && derivative[STRIP] == -77);
}

static void functions_of_distances_match(void **state)
{
    (void)state;
    const float scales[] = {0.01f, 0.7f, 30};
    FOR_EACH_TABLE(table)
    for (int form = 0; form <= BO_RADIAL_RECIPROCAL; form++)
        for (size_t i = 0; i < 3; i++) {
            check_radial(table, &(bo_radial){.form = (bo_radial_form)form, .scale = scales[i], .power = 1.5f});
            if (form == BO_RADIAL_RATIONAL)
                check_radial(table, &(bo_radial){.form = BO_RADIAL_RATIONAL, .scale = scales[i], .power = 1000});
        }
}

/* Every partial sum has BO_PAIR_ROWS / BO_PAIR_LANES terms and a start, with at most five roundings each. */
static void check_sums(const bo_kernels *table, bo_distance distance, const float *weight)
{
    float x[DIM], panel[DIM * BO_PAIR_ROWS], factor[BO_PAIR_ROWS], sums[DIM * BO_PAIR_LANES + 1],
        start[DIM * BO_PAIR_LANES];
    normals(DIM, 4, x);
    normals(DIM * BO_PAIR_ROWS, 5, panel);
    normals(BO_PAIR_ROWS, 6, factor);
    normals(DIM * BO_PAIR_LANES, 7, start);
    for (size_t p = 0; p < DIM; p++) panel[p * BO_PAIR_ROWS + 5] = x[p];
    memcpy(sums, start, sizeof start);
    sums[DIM * BO_PAIR_LANES] = -77;
    table->pair_sums(distance, DIM, x, weight, panel, factor, sums);
    for (size_t p = 0; p < DIM; p++)
        for (size_t l = 0; l < BO_PAIR_LANES; l++) {
            double expected = (double)start[p * BO_PAIR_LANES + l], size = fabs(expected);
            for (size_t j = l; j < BO_PAIR_ROWS; j += BO_PAIR_LANES) {
                double d = (double)x[p] - (double)panel[p * BO_PAIR_ROWS + j], h = d;
                if (distance == BO_DISTANCE_ABSOLUTES) h = (d > 0) - (d < 0);
                if (distance == BO_DISTANCE_PRODUCT) h = d / (1 + (double)weight[p] * d * d);
                expected += (double)factor[j] * h;
                size += fabs((double)factor[j] * h);
            }
            double found = (double)sums[p * BO_PAIR_LANES + l];
            if (!(fabs(found - expected) <= 10 * 0x1p-24 * size))
                fail_msg("%s, distance %d: sum (%zu, %zu) is %.9g, expected %.9g", table->isa, (int)distance, p, l,
                         found, expected);
        }
    assert_true(sums[DIM * BO_PAIR_LANES] == -77);
}

static void sums_of_gradients_match(void **state)
{
    (void)state;
    float weight[DIM];
    for (size_t p = 0; p < DIM; p++) weight[p] = 0.1f + 0.07f * (float)p;
    FOR_EACH_TABLE(table)
    for (int distance = 0; distance <= BO_DISTANCE_PRODUCT; distance++)
        check_sums(table, (bo_distance)distance, weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_match),
        cmocka_unit_test(functions_of_distances_match),
        cmocka_unit_test(sums_of_gradients_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
