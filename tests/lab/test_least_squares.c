/* Least squares problems have the prescribed spectrum, and their solutions solve them. */
#include "testing.h"
#include "lab/tools/least_squares.h"

enum { ROWS = 12, DIM = 5 };
static const double scales[DIM] = {4, 3, 2, 1, 0.5};

static lab_least_squares open_problem(bo_context *context, const lab_least_squares_desc *desc)
{
    bo_rng rng = bo_rng_make(3, 4);
    lab_least_squares p;
    assert_ok(context, lab_least_squares_open(context, desc, &rng, &p));
    return p;
}

/* X v_i = s_i u_i with orthonormal u and v. */
static void check_spectrum(const lab_least_squares *p)
{
    double images[16][16];
    for (size_t i = 0; i < p->rank; i++)
        for (size_t r = 0; r < p->rows; r++)
            images[i][r] = lab_dot(p->x + r * p->dim, p->directions + i * p->dim, p->dim);
    for (size_t i = 0; i < p->rank; i++)
        for (size_t j = 0; j < p->rank; j++) {
            const double same = i == j;
            assert_close(lab_dot(p->directions + i * p->dim, p->directions + j * p->dim, p->dim), same, 1e-9);
            assert_close(lab_dot(images[i], images[j], p->rows), same * p->scales[i] * p->scales[i], 1e-5);
        }
    for (size_t i = 0; i < p->rows * p->dim; i++) assert_true(p->x[i] == (double)p->x_single[i]);
    for (size_t i = 0; i < p->rows; i++) assert_true(p->y_single[i] == (float)p->y[i]);
}

static void test_spectrum(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    lab_least_squares p = open_problem(context, &(lab_least_squares_desc){.rows = ROWS, .dim = DIM, .scales = scales});
    check_spectrum(&p);
    for (size_t i = 0; i < DIM; i++) assert_true(p.scales[i] == scales[i]);
    assert_close(lab_squares(&p, p.truth), 0, 1e-20); /* without noise */
    lab_least_squares_close(&p);
    p = open_problem(context, &(lab_least_squares_desc){.rows = DIM, .dim = ROWS, .scales = scales}); /* wide */
    assert_int_equal(p.rank, DIM);
    check_spectrum(&p);
    lab_least_squares_close(&p);
    p = open_problem(context, &(lab_least_squares_desc){.rows = ROWS, .dim = DIM, .noise = 1});
    check_spectrum(&p);
    assert_true(lab_squares(&p, p.truth) > 1);
    lab_least_squares_close(&p);
    const float fixed[4] = {3, 0, 0, 1};
    p = open_problem(context, &(lab_least_squares_desc){.rows = 2, .dim = 2, .x = fixed});
    assert_true(p.x[0] == 3 && p.x[1] == 0 && p.x[3] == 1);
    assert_close(p.scales[0], 3, 1e-12);
    assert_close(p.scales[1], 1, 1e-12);
    lab_least_squares_close(&p);
    lab_least_squares_close(&p); /* a zeroed structure */
    bo_context_destroy(context);
}

/* Xᵀ(y - Xw) = λ penalty ∘ w. */
static void check_solution(const lab_least_squares *p, double lambda, const double *penalty, const double *w)
{
    for (size_t j = 0; j < p->dim; j++) {
        double sum = 0;
        for (size_t r = 0; r < p->rows; r++)
            sum += p->x[r * p->dim + j] * (p->y[r] - lab_dot(p->x + r * p->dim, w, p->dim));
        assert_close(sum, lambda * (penalty ? penalty[j] : 1) * w[j], 1e-9);
    }
}

static void test_ridge(void **state)
{
    (void)state;
    static const double penalty[DIM] = {1, 0, 3, 0.5, 2};
    bo_context *context = test_context(1);
    double w[ROWS];
    lab_least_squares p =
        open_problem(context, &(lab_least_squares_desc){.rows = ROWS, .dim = DIM, .scales = scales, .noise = 1});
    assert_ok(context, lab_ridge(context, &p, 2.5, NULL, w));
    check_solution(&p, 2.5, NULL, w);
    assert_ok(context, lab_ridge(context, &p, 2.5, penalty, w));
    check_solution(&p, 2.5, penalty, w);
    lab_least_squares_close(&p);
    p = open_problem(context, &(lab_least_squares_desc){.rows = ROWS, .dim = DIM, .scales = scales});
    assert_ok(context, lab_ridge(context, &p, 0, NULL, w));
    assert_close(lab_distance(w, p.truth, DIM), 0, 1e-9);
    lab_least_squares_close(&p);
    p = open_problem(context, &(lab_least_squares_desc){.rows = DIM, .dim = ROWS, .scales = scales, .noise = 1});
    assert_ok(context, lab_ridge(context, &p, 0.1, NULL, w)); /* fewer rows than columns */
    check_solution(&p, 0.1, NULL, w);
    lab_least_squares_close(&p);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spectrum), cmocka_unit_test(test_ridge)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
