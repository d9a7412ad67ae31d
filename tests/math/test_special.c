/* The normal distribution compared with long double, and its inverse. */
#include "testing.h"
#include "math/special.h"

static long double cdf(long double x)
{
    return 0.5L * erfcl(-x * 0.707106781186547524400844362104849039L);
}

static void cdf_matches_long_double(void **state)
{
    (void)state;
    for (double x = -37.0; x < 9.0; x += 0.0371) {
        /* the argument is rounded once before erfc, whose condition number is about x² there */
        double bound = (4.0 + 2.0 * x * x) * 0x1p-53 * (double)cdf(x);
        assert_close(bo_normal_cdf(x), (double)cdf(x), bound);
    }
    assert_true(bo_normal_cdf(0.0) == 0.5 && bo_normal_cdf(INFINITY) == 1.0 && bo_normal_cdf(-INFINITY) == 0.0);
}

/* The Newton correction in long double is the error of x: (Φ(x) - p) / φ(x). */
static double error_of(double x, double p)
{
    long double density = expl(-0.5L * (long double)x * x) * 0.398942280401432677939946059934381868L;
    return (double)((cdf(x) - p) / density);
}

static void quantile_inverts_cdf(void **state)
{
    (void)state;
    for (double e = -300.0; e < -0.31; e += 0.0613) {
        double p = pow(10.0, e), x = bo_normal_quantile(p);
        assert_close(error_of(x, p), 0.0, 1e-14 * fabs(x));
    }
    for (double p = 0.001; p < 0.9995; p += 0.00073) {
        double x = bo_normal_quantile(p);
        /* above 1/2 the rounding of p moves x by u / φ(x) */
        assert_close(error_of(x, p), 0.0, 1e-14 * (fabs(x) + 0.01));
        assert_close(bo_normal_quantile(1.0 - p), -x, 1e-14 + 0x1p-53 / exp(-0.5 * x * x) * 2.6);
    }
}

static void quantile_at_the_ends(void **state)
{
    (void)state;
    assert_true(bo_normal_quantile(0.5) == 0.0);
    assert_true(bo_normal_quantile(0.0) == -INFINITY && bo_normal_quantile(1.0) == INFINITY);
    assert_true(isnan(bo_normal_quantile(-0.1)) && isnan(bo_normal_quantile(1.1)) && isnan(bo_normal_quantile(NAN)));
    assert_true(bo_normal_quantile(5e-324) < -38.0 && isfinite(bo_normal_quantile(5e-324)));
    assert_true(isfinite(bo_normal_quantile(1.0 - 0x1p-53)));
    double before = -INFINITY;
    for (double p = 0.0; p <= 1.0; p += 0x1p-10) {
        assert_true(bo_normal_quantile(p) >= before);
        before = bo_normal_quantile(p);
    }
}

/* Tables of the t distribution, closed forms for 1 and 2 degrees of freedom, symmetry and the ends. */
static void student_quantiles(void **state)
{
    (void)state;
    static const struct {
        int freedom;
        double p, t;
    } table[] = {
        {3, 0.975, 3.182446}, {4, 0.975, 2.776445}, {5, 0.995, 4.032143}, {10, 0.95, 1.812461}, {30, 0.975, 2.042272}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_close(bo_student_quantile(table[i].p, table[i].freedom), table[i].t, 1e-6);
    for (double p = 1e-6; p < 1; p = p < 0.9 ? p + 0.0137 : 1 - 0.5 * (1 - p)) {
        if (1 - p < 1e-6) break;
        const double one = tan(M_PI * (p - 0.5)), two = (2 * p - 1) / sqrt(2 * p * (1 - p));
        assert_close(bo_student_quantile(p, 1), one, 1e-9 * fmax(1, fabs(one) * fabs(one)));
        assert_close(bo_student_quantile(p, 2), two, 1e-9 * fmax(1, fabs(two) * fabs(two)));
        assert_close(bo_student_quantile(1 - p, 7), -bo_student_quantile(p, 7), 1e-7 * fabs(bo_student_quantile(p, 7)));
    }
    assert_true(bo_student_quantile(0, 3) == -INFINITY && bo_student_quantile(1, 3) == INFINITY);
    assert_true(isnan(bo_student_quantile(-0.1, 3)) && isnan(bo_student_quantile(0.5, 0)) &&
                isnan(bo_student_quantile(NAN, 3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cdf_matches_long_double),
        cmocka_unit_test(quantile_inverts_cdf),
        cmocka_unit_test(quantile_at_the_ends),
        cmocka_unit_test(student_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
