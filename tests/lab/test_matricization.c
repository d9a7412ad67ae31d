/* Ranks of functions with known separation rank, derived by hand or by counting monomials. */
#include "testing.h"
#include "lab/tools/polynomial.h"

static bo_rng make_rng(uint64_t number)
{
    return bo_rng_make(7, bo_rng_stream("test.matricization", number));
}

static size_t network_rank(bo_context *context, lab_polynomial_desc desc, size_t settings, uint64_t seed)
{
    bo_rng rng = make_rng(seed);
    lab_polynomial *net;
    size_t rank = 0;
    assert_ok(context, lab_polynomial_create(context, &desc, &rng, &net));
    lab_function f = lab_polynomial_function(net);
    assert_ok(context, lab_exact_rank(context, &f, settings, &rng, &rank));
    lab_polynomial_destroy(net);
    return rank;
}

static void test_known_ranks(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = make_rng(0);
    for (size_t rank = 1; rank <= 20; rank += 3) {
        lab_known_rank known;
        size_t found;
        double matrix[32 * 32], values[32];
        assert_ok(context, lab_known_rank_open(context, 3, rank, 3, &rng, &known)); /* C(6, 3) = 20 monomials */
        lab_function f = lab_known_rank_function(&known);
        assert_ok(context, lab_exact_rank(context, &f, 32, &rng, &found));
        assert_int_equal(found, rank);
        assert_ok(context, lab_matricize(context, &f, 32, &rng, matrix));
        assert_ok(context, bo_singular_values(context, 32, 32, matrix, values));
        assert_int_equal(lab_numerical_rank(values, 32, 0), rank);
        lab_known_rank_close(&known);
    }
    bo_context_destroy(context);
}

/* A product of two linear forms of both halves has rank 4: 1 · β₁β₂, α times β twice, α₁α₂ · 1. A sum of six of them
 * has rank 1 + 3 + 1, where 3 comes from bilinear forms in 3 and 3 inputs. Two layers of three factors have rank 70;
 * four layers of two factors have rank 285, the same as two layers of four. */
static void test_networks(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_int_equal(network_rank(context, (lab_polynomial_desc){2, 1, 1, 6, 0}, 12, 1), 4);
    assert_int_equal(network_rank(context, (lab_polynomial_desc){2, 1, 6, 6, 0}, 12, 1), 5);
    assert_int_equal(network_rank(context, (lab_polynomial_desc){3, 1, 1, 6, 0}, 12, 2), 8);
    assert_int_equal(network_rank(context, (lab_polynomial_desc){3, 2, 6, 6, 0}, 80, 3), 70);
    assert_int_equal(network_rank(context, (lab_polynomial_desc){2, 4, 6, 6, 0}, 300, 4), 285);
    assert_int_equal(network_rank(context, (lab_polynomial_desc){4, 2, 6, 6, 0}, 300, 5), 285);
    assert_close(lab_monomial_rank(9, 3), 70, 0);
    assert_close(lab_monomial_rank(16, 3), 285, 0);
    assert_close(lab_monomial_rank(7, 1), 8, 0);
    bo_context_destroy(context);
}

/* One layer of linear attention with one head: the query of the last token meets the sum of keys and values of A in
 * `width` numbers, and B alone contributes one term. */
static void test_transformer_cut(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t width = 1; width <= 4; width++)
        assert_int_equal(network_rank(context, (lab_polynomial_desc){3, 1, width, 6 * width, 6}, 12, 10 + width),
                         width + 1);
    bo_context_destroy(context);
}

static void test_degrees(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t degree = 2; degree <= 4; degree++)
        for (size_t layers = 0, power = 1; layers <= 3; layers++, power *= degree)
            for (size_t tokens = 0; tokens <= 4; tokens += 4) {
                bo_rng rng = make_rng(100 * degree + 10 * layers + tokens);
                lab_polynomial *net;
                size_t found;
                lab_polynomial_desc desc = {degree, layers, 2, 8, tokens};
                assert_ok(context, lab_polynomial_create(context, &desc, &rng, &net));
                lab_function f = lab_polynomial_function(net);
                assert_ok(context, lab_polynomial_degree(context, &f, 70, &rng, &found));
                assert_int_equal(found, power);
                lab_polynomial_destroy(net);
            }
    bo_context_destroy(context);
}

/* ---- distances --------------------------------------------------------------------------------------------------- */

static double same(const void *user, const double *x)
{
    (void)user;
    return x[0] == x[1];
}

/* The identity of size n: the zero matrix has a mean error of 1/n, a root mean squared error of 1/√n, and a largest
 * error of 1. */
static void test_distances(void **state)
{
    (void)state;
    enum { N = 16 };
    bo_context *context = test_context(1);
    double templates[N], matrix[N * N], values[N];
    lab_sizes errors[N + 1];
    for (size_t i = 0; i < N; i++) templates[i] = (double)i;
    lab_function f = {.left = 1, .right = 1, .real = same};
    assert_ok(context, lab_matricize_grid(context, &f, N, templates, matrix));
    assert_ok(context, bo_singular_values(context, N, N, matrix, values));
    assert_close(bo_effective_rank(values, N), N, 1e-12);
    assert_ok(context, lab_truncation_errors(context, N, N, matrix, errors));
    assert_close(errors[0].mean, 1.0 / N, 1e-15);
    assert_close(errors[0].square, 0.25, 1e-15);
    assert_close(errors[0].largest, 1, 1e-15);
    assert_close(errors[N / 2].square, sqrt(0.5 / N), 1e-12); /* half of the singular values, all 1, remain */
    assert_close(errors[N].largest, 0, 1e-12);
    const lab_epsilon_ranks ranks = lab_epsilon_rank(errors, N, 0.5); /* √((16 − R) / 256) ≤ 1/8: R = 12 */
    assert_int_equal(ranks.square, 12);
    assert_int_equal(ranks.largest, N);
    assert_true(ranks.mean < ranks.square);
    assert_int_equal(bo_rank_within(values, N, 0.5), 12);
    assert_int_equal(bo_rank_within(values, N, 0), N);
    bo_context_destroy(context);
}

/* The first input varies slowest, and rows belong to A. */
static double places(const void *user, const double *x)
{
    (void)user;
    return 1000 * x[0] + 100 * x[1] + 10 * x[2] + x[3];
}

static void test_grid_order(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double matrix[16];
    lab_function f = {.left = 2, .right = 2, .real = places};
    assert_ok(context, lab_matricize_grid(context, &f, 2, (double[]){0, 1}, matrix));
    assert_close(matrix[1], 1, 0);
    assert_close(matrix[2], 10, 0);
    assert_close(matrix[4], 100, 0);
    assert_close(matrix[8], 1000, 0);
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = make_rng(9);
    lab_polynomial *net;
    size_t rank;
    lab_function f = {.left = 60, .right = 5, .real = same};
    assert_fails(context, BO_INVALID, "degree 9",
                 lab_polynomial_create(context, &(lab_polynomial_desc){9, 1, 2, 4, 0}, &rng, &net));
    assert_fails(context, BO_INVALID, "3 tokens",
                 lab_polynomial_create(context, &(lab_polynomial_desc){2, 1, 2, 4, 3}, &rng, &net));
    assert_fails(context, BO_INVALID, "60 and 5", lab_exact_rank(context, &f, 4, &rng, &rank));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_ranks), cmocka_unit_test(test_networks),  cmocka_unit_test(test_transformer_cut),
        cmocka_unit_test(test_degrees),     cmocka_unit_test(test_distances), cmocka_unit_test(test_grid_order),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
