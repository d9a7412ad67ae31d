/* The purpose of data-aware frequencies: the order of their errors for equal numbers of features, compared with softmax
 * attention and with the theory for Gaussian data. */
#include "attention/attention.h"
#include "features/enums.h"
#include "attention/enums.h"
#include "testing.h"

enum { HEADS = 2, TOKENS = 256, DIM = 8, FEATURES = 64, DRAWS = 24 };

typedef struct data {
    float q[HEADS * TOKENS * DIM], k[HEADS * TOKENS * DIM], v[HEADS * TOKENS * DIM];
} data;

/* √s q and √s k ~ N(0, diag λ), s = 1/√DIM. */
static data *make_data(uint64_t seed, const double *lambda)
{
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.order", 0));
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) {
        double each = sqrt(lambda[i % DIM]) * pow(DIM, 0.25);
        d->q[i] = (float)(each * bo_rng_normal(&rng));
        d->k[i] = (float)(each * bo_rng_normal(&rng));
        d->v[i] = (float)bo_rng_normal(&rng);
    }
    return d;
}

static const bo_attention_shape one_sequence = {.sequences = 1, .tokens = TOKENS};

typedef struct found {
    double output, kernel, predicted; /* root mean squares over draws */
    bo_calibration_report report;
} found;

/* Calibrates on one set of rows and measures on another. */
static found measure(bo_context *context, bo_proposal proposal, bo_sampling sampling, bo_draw coupling,
                     const data *calibration_data, const data *d)
{
    bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = HEADS, .dim = DIM, .proposal = proposal};
    desc.features = (bo_features_desc){.features = FEATURES, .sampling = sampling, .draw = coupling, .seed = 5};
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v},
                        before = {.q = calibration_data->q, .k = calibration_data->k};
    bool drawn = proposal == BO_PROPOSAL_NONE && sampling == BO_SAMPLING_DRAWN;
    bo_attention *attention;
    bo_calibration *c = NULL;
    found f = {0};
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    if (!drawn) {
        assert_ok(context, bo_calibration_create(context, attention, 0, &c));
        assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &before));
    }
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        bo_attention_accuracy e;
        if (drawn)
            assert_ok(context, bo_attention_redraw(context, attention, draw));
        else
            assert_ok(context, bo_calibration_apply(context, c, attention, draw, draw ? NULL : &f.report));
        assert_ok(context, bo_attention_measure_arrays(context, attention, &one_sequence, &in, NULL, 64, &e));
        f.output += e.against_softmax * e.against_softmax / DRAWS;
        f.kernel += e.kernel_error * e.kernel_error / DRAWS;
        f.predicted += e.kernel_predicted * e.kernel_predicted / DRAWS;
    }
    f.output = sqrt(f.output), f.kernel = sqrt(f.kernel), f.predicted = sqrt(f.predicted);
    bo_calibration_destroy(c);
    bo_attention_destroy(attention);
    return f;
}

/* log of the second moments over Gaussian data, relative to that of the kernel: dark.h, or per direction 1/√((1 + 2λ)(1
 * - 6λ)), 1/(1 - 2λ) and 1/√(1 - 4λ²). */
static void theory(const double *lambda, double *isotropic, double *floor_value)
{
    *isotropic = *floor_value = 0;
    for (size_t j = 0; j < DIM; j++) {
        double l = lambda[j], square = -0.5 * log(1 - 4 * l * l);
        *isotropic += -0.5 * log((1 + 2 * l) * (1 - 6 * l)) - square;
        *floor_value += -log(1 - 2 * l) - square;
    }
}

/* Eigenvalues small enough that the variance of every proposal can be measured (the fourth moment of the estimate
 * exists): 512 rows and 24 draws determine it within a fifth. For independent frequencies the predicted error equals
 * the measured one. */
static void errors_are_as_predicted(void **state)
{
    (void)state;
    const double lambda[DIM] = {0.06, 0.05, 0.04, 0.03, 0.02, 0.02, 0.01, 0.01};
    bo_context *context = test_context(2);
    data *calibration_data = make_data(1, lambda), *d = make_data(2, lambda);
    double isotropic, floor_value;
    theory(lambda, &isotropic, &floor_value);
    for (int p = 0; p < BO_PROPOSAL_COUNT; p++)
        for (int s = BO_SAMPLING_DRAWN; s <= BO_SAMPLING_OPTIMAL; s++) {
            found f = measure(context, (bo_proposal)p, (bo_sampling)s, BO_DRAW_IID, calibration_data, d);
            if (!(fabs(f.kernel / f.predicted - 1) < 0.2))
                fail_msg("%s, %s: kernel error %g, predicted %g", bo_proposal_name((bo_proposal)p),
                         bo_sampling_name((bo_sampling)s), f.kernel, f.predicted);
            if (!p && !s) continue;
            assert_close(f.report.log_isotropic, isotropic, 0.15 * isotropic);
            assert_close(f.report.log_floor, floor_value, 0.1 * floor_value);
            assert_true(f.report.log_drawn > f.report.log_floor - 0.02);
            assert_true(f.report.log_drawn < f.report.log_isotropic);
            /* there are 8 times as many candidates of N(0, I), which add an eighth of its variance */
            if (p) assert_close(f.report.log_drawn, f.report.log_floor, 0.15 * floor_value);
            assert_int_equal(f.report.rows, 2 * HEADS * TOKENS);
        }
    free(calibration_data);
    free(d);
    bo_context_destroy(context);
}

static void expect_order(bo_context *context, const char *what, const double *lambda, double oprf, double sderf,
                         double gaussian, double optimal)
{
    data *calibration_data = make_data(3, lambda), *d = make_data(4, lambda);
    const struct {
        bo_proposal proposal;
        bo_sampling sampling;
        double max_ratio; /* upper bound relative to the error of FAVOR+ */
    } laws[] = {{BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN, oprf},
                {BO_PROPOSAL_SDERF, BO_SAMPLING_DRAWN, sderf},
                {BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_DRAWN, gaussian},
                {BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_OPTIMAL, optimal}};
    found plain = measure(context, BO_PROPOSAL_NONE, BO_SAMPLING_DRAWN, BO_DRAW_DEFAULT, calibration_data, d);
    double before = plain.output;
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        found f = measure(context, laws[i].proposal, laws[i].sampling, BO_DRAW_DEFAULT, calibration_data, d);
        double floor = sqrt(expm1(f.report.log_floor) / FEATURES);
        if (!(f.output < laws[i].max_ratio * plain.output))
            fail_msg("%s, %s, %s: output error %g, of favor+ %g", what, bo_proposal_name(laws[i].proposal),
                     bo_sampling_name(laws[i].sampling), f.output, plain.output);
        if (i < 3 &&
            /* each at least as good as the previous one, up to the uncertainty of 24 draws */
            !(f.output < 1.03 * before))
            fail_msg("%s: %s has %g, the one before %g", what, bo_proposal_name(laws[i].proposal), f.output, before);
        before = f.output;
        /* the best proposal is near the minimum for independent frequencies; orthogonal ones may be below it */
        if (i >= 2 && !(f.kernel < 1.3 * floor)) fail_msg("%s: kernel error %g, floor %g", what, f.kernel, floor);
    }
    free(calibration_data);
    free(d);
}

/* Errors compared with softmax attention, relative to those of FAVOR+. For isotropic data of norm 1 the three proposals
 * are equivalent; if two directions dominate, one parameter for all directions gains little, and one per direction
 * gains much. */
static void errors_are_in_order(void **state)
{
    (void)state;
    const double even[DIM] = {0.12, 0.12, 0.12, 0.12, 0.12, 0.12, 0.12, 0.12};
    const double uneven[DIM] = {0.3, 0.2, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01};
    bo_context *context = test_context(2);
    expect_order(context, "isotropic", even, 0.8, 0.8, 0.8, 0.9);
    expect_order(context, "anisotropic", uneven, 0.95, 0.75, 0.65, 0.65);
    bo_context_destroy(context);
}

/* Returns the mean of f(|w|²) over w ~ N(0, I) in DIM dimensions. */
static double radial_mean(double (*f)(double spread, double norm2), double spread)
{
    double sum = 0, mass = 0;
    for (double r = 0.0005; r < 12; r += 0.001) {
        double density = pow(r, DIM - 1) * exp(-0.5 * r * r);
        sum += density * f(spread, r * r);
        mass += density;
    }
    return sum / mass;
}

/* √tr(A B) of one frequency for q, k ~ N(0, λ I), up to factors that do not depend on it. The moments of hyperbolic
 * pairs are e^{β|w|²}, e^{β|w|²} and 1 with β = 2λ / (1 + 2λ), those of [cos u, sin u] depend on E cos 2u =
 * e^{-2λ|w|²}. */
static double hyperbolic_root(double lambda, double norm2)
{
    return sqrt(0.5 * (exp(4 * lambda / (1 + 2 * lambda) * norm2) + 1));
}

static double circle_root(double lambda, double norm2)
{
    return sqrt(0.5 * (1 + exp(-4 * lambda * norm2)));
}

static bo_calibration_report calibration_report(bo_context *context, const bo_attention_desc *desc, const data *d)
{
    bo_attention_inputs in = {.q = d->q, .k = d->k};
    bo_attention *attention;
    bo_calibration *c;
    bo_calibration_report report;
    assert_ok(context, bo_attention_create(context, desc, &attention));
    assert_ok(context, bo_calibration_create(context, attention, 0, &c));
    assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
    assert_ok(context, bo_calibration_apply(context, c, attention, 0, &report));
    bo_calibration_destroy(c);
    bo_attention_destroy(attention);
    return report;
}

/* A frequency that has two features: the floor is lower than that of two independent features. The logarithms grow like
 * λ², which the rows of the worse of two heads determine within a twentieth (one deviation). */
static void floors_of_pairs_have_closed_forms(void **state)
{
    (void)state;
    const double l = 0.03, lambda[DIM] = {l, l, l, l, l, l, l, l};
    bo_context *context = test_context(2);
    data *d = make_data(6, lambda);
    bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = HEADS, .dim = DIM};
    desc.features = (bo_features_desc){
        .features = 2 * FEATURES, .function = BO_FUNCTION_HYPERBOLIC, .sampling = BO_SAMPLING_OPTIMAL, .seed = 5};
    bo_calibration_report report = calibration_report(context, &desc, d);
    double square = -0.5 * DIM * log(1 - 4 * l * l), common = -DIM * log(1 + 2 * l) - square;
    double isotropic = common + log(0.5 * (pow(1 - 8 * l / (1 + 2 * l), -0.5 * DIM) + 1));
    double floor_value = common + 2 * log(radial_mean(hyperbolic_root, l));
    assert_close(report.log_isotropic, isotropic, 0.15 * isotropic);
    assert_close(report.log_floor, floor_value, 0.15 * floor_value);
    assert_true(floor_value < 0.75 * (-DIM * log(1 - 2 * l) - square)); /* (E k(x, x))², one feature per frequency */

    desc = (bo_attention_desc){.kind = BO_ATTENTION_LINEAR, .heads = HEADS, .dim = DIM};
    desc.features = (bo_features_desc){.kernel = BO_KERNEL_RBF,
                                       .features = 2 * FEATURES,
                                       .sampling = BO_SAMPLING_OPTIMAL,
                                       .gamma = 0.5 / sqrt(DIM), /* w ~ N(0, 2 gamma I) */
                                       .seed = 5};
    report = calibration_report(context, &desc, d);
    square = -0.5 * DIM * log(1 + 4 * l);
    isotropic = log(0.5 * (1 + pow(1 + 8 * l, -0.5 * DIM))) - square;
    floor_value = 2 * log(radial_mean(circle_root, l)) - square;
    assert_close(report.log_isotropic, isotropic, 0.15 * isotropic);
    assert_close(report.log_isotropic - report.log_floor, isotropic - floor_value, 0.15 * (isotropic - floor_value));
    assert_close(report.log_drawn, report.log_isotropic, 0);
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_as_predicted),
        cmocka_unit_test(errors_are_in_order),
        cmocka_unit_test(floors_of_pairs_have_closed_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
