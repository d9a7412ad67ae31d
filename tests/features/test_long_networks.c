/* Kernels of infinitely wide networks: the closed forms against the recursion in long double, against finite networks
 * and their Jacobians, and the features of random networks against the closed forms. */
#include "features/enums.h"
#include "features/facts.h"
#include "maps.h"
#include "network_oracle.h"

static const bo_kernel kernels[] = {BO_KERNEL_NNGP, BO_KERNEL_NTK};

static bo_features_desc network(bo_kernel kernel, bo_hidden_activation activation, int depth, double bias)
{
    return (bo_features_desc){.kernel = kernel,
                              .dim = DIM,
                              .gamma = 0.3,
                              .depth = depth,
                              .activation = activation,
                              .weight_variance = 1.7,
                              .bias_variance = bias};
}

static double value(bo_context *context, const bo_features_desc *desc, const float *x, const float *y)
{
    double k;
    assert_ok(context, bo_kernel_matrix(context, desc, 1, x, DIM, 1, y, DIM, &k, 1));
    return k;
}

/* Differences of 2⁻ᵉ between two rows. The reference has 64 bits and takes an angle from 1 - cos: its error is √2⁻⁶³ =
 * 3e-10 at worst. The angle of a double would have an error of 1e-8. */
static void closed_forms_match_the_recursion(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kernel = 0; kernel < 2; kernel++)
        for (int activation = 0; activation < 2; activation++)
            for (int depth = 1; depth <= 4; depth++)
                for (int bias = 0; bias < 2; bias++)
                    for (int e = 0; e <= 24; e += 2) {
                        bo_features_desc desc =
                            network(kernels[kernel], (bo_hidden_activation)activation, depth, 0.2 * bias);
                        float x[2 * DIM];
                        double wide[2 * DIM];
                        test_inputs((uint64_t)e, 2 * DIM, x);
                        for (size_t j = 0; j < DIM; j++) x[DIM + j] = x[j] + ldexpf(x[DIM + j], -e);
                        for (size_t j = 0; j < 2 * DIM; j++) wide[j] = (double)x[j];
                        double k = value(context, &desc, x, x + DIM),
                               expected = oracle_network(&desc, wide, wide + DIM);
                        double limit = (e < 6 ? 1e-13 : 2e-9) * (1 + fabs(expected));
                        if (!(fabs(k - expected) <= limit))
                            fail_msg("%s, activation %d, depth %d, distance 2^-%d: %.17g, expected %.17g",
                                     bo_kernel_name(desc.kernel), activation, depth, e, k, expected);
                    }
    bo_context_destroy(context);
}

/* Equal rows have an angle of exactly 0: k(x, x) - k(x, y) of neighbors is as smooth as |x - y| for ntk of ReLU. */
static void neighbors_are_ordered(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features_desc desc = network(BO_KERNEL_NTK, BO_HIDDEN_RELU, 3, 0.1);
    float x[2 * DIM];
    test_inputs(3, DIM, x);
    memcpy(x + DIM, x, DIM * sizeof *x);
    double same = value(context, &desc, x, x), last = 0, slope = 0;
    for (int e = 20; e >= 8; e--) {
        x[DIM] = x[0] + ldexpf(1, -e);
        double gap = same - value(context, &desc, x, x + DIM);
        assert_true(gap > last);
        if (slope > 0) assert_close(gap / last, 2, 0.05); /* a cusp, linear in the distance */
        slope = last = gap;
    }
    bo_context_destroy(context);
}

static void one_layer_is_the_arc_cosine_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[2 * DIM];
    test_inputs(4, 2 * DIM, x);
    bo_features_desc plain = {.kernel = BO_KERNEL_ARCCOS, .dim = DIM, .gamma = 0.3};
    bo_features_desc desc = {.kernel = BO_KERNEL_NNGP, .dim = DIM, .gamma = 0.3}; /* depth 1, variance 2, no bias */
    assert_close(value(context, &desc, x, x + DIM), 4 * value(context, &plain, x, x + DIM), 1e-14);
    desc.gamma = plain.gamma = 0;
    plain.gamma = 1.0 / DIM; /* the default of networks */
    assert_close(value(context, &desc, x, x + DIM), 4 * value(context, &plain, x, x + DIM), 1e-14);
    bo_context_destroy(context);
}

/* Rounding moves eigenvalues by at most N times the error of an entry. */
static void matrices_are_positive_semidefinite(void **state)
{
    (void)state;
    enum { N = 60 };
    bo_context *context = test_context(2);
    float x[N * DIM];
    static double k[N * N];
    double values[N];
    test_inputs(5, N * DIM, x);
    for (size_t i = 0; i < DIM; i++) x[DIM + i] = x[i], x[2 * DIM + i] = x[i] * (1 + 1e-6f), x[3 * DIM + i] = 0;
    for (int kernel = 0; kernel < 2; kernel++)
        for (int activation = 0; activation < 2; activation++) {
            bo_features_desc desc = network(kernels[kernel], (bo_hidden_activation)activation, 3, 0);
            assert_ok(context, bo_kernel_matrix(context, &desc, N, x, DIM, N, x, DIM, k, N));
            double trace = 0;
            for (size_t i = 0; i < N; i++) trace += k[i * N + i];
            assert_ok(context, bo_eigen(context, N, k, N, values));
            for (size_t i = 0; i < N; i++)
                if (!(values[i] > -1e-14 * N * trace)) fail_msg("eigenvalue %g of a trace of %g", values[i], trace);
        }
    bo_context_destroy(context);
}

/* ---- finite networks --------------------------------------------------------------------------------------------- */

enum { WIDEST = 256, LAYERS = 2 };

/* A network in the tangent parametrization: u¹ = σ_w/√d W¹x + σ_b b¹, and so on, f linear in the last layer. */
typedef struct mlp {
    size_t width;
    double w1[WIDEST * DIM], w2[WIDEST * WIDEST], w3[WIDEST], b[3][WIDEST];
} mlp;

static void draw_mlp(mlp *net, size_t width, bo_rng *rng)
{
    net->width = width;
    for (size_t i = 0; i < width * DIM; i++) net->w1[i] = bo_rng_normal(rng);
    for (size_t i = 0; i < width * width; i++) net->w2[i] = bo_rng_normal(rng);
    for (size_t i = 0; i < width; i++) net->w3[i] = bo_rng_normal(rng);
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < width; i++) net->b[l][i] = bo_rng_normal(rng);
}

static double act(bo_hidden_activation a, double u)
{
    return a == BO_HIDDEN_ERF ? erf(u) : fmax(u, 0);
}

static double act_slope(bo_hidden_activation a, double u)
{
    return a == BO_HIDDEN_ERF ? 2 / sqrt(acos(-1)) * exp(-u * u) : u > 0 ? 1 : 0;
}

typedef struct passed { /* activations and back-propagated derivatives of one input */
    double h1[WIDEST], h2[WIDEST], d1[WIDEST], d2[WIDEST], t[DIM];
} passed;

static void pass(const mlp *net, const bo_features_desc *desc, const float *x, passed *p)
{
    size_t n = net->width;
    double w = sqrt(desc->weight_variance), b = sqrt(desc->bias_variance), s = w / sqrt((double)n), u2[WIDEST],
           u1[WIDEST];
    for (size_t j = 0; j < DIM; j++) p->t[j] = w * sqrt(desc->gamma) * (double)x[j];
    for (size_t i = 0; i < n; i++) {
        u1[i] = b * net->b[0][i];
        for (size_t j = 0; j < DIM; j++) u1[i] += net->w1[i * DIM + j] * p->t[j];
        p->h1[i] = act(desc->activation, u1[i]);
    }
    for (size_t i = 0; i < n; i++) {
        u2[i] = b * net->b[1][i];
        for (size_t j = 0; j < n; j++) u2[i] += s * net->w2[i * n + j] * p->h1[j];
        p->h2[i] = act(desc->activation, u2[i]);
        p->d2[i] = s * net->w3[i] * act_slope(desc->activation, u2[i]);
    }
    for (size_t j = 0; j < n; j++) {
        p->d1[j] = 0;
        for (size_t i = 0; i < n; i++) p->d1[j] += s * net->w2[i * n + j] * p->d2[i];
        p->d1[j] *= act_slope(desc->activation, u1[j]);
    }
}

/* The inner product of the gradients of f at two inputs: of W³ and b³, W² and b², W¹ and b¹. */
static double jacobians(const mlp *net, const bo_features_desc *desc, const passed *x, const passed *y)
{
    size_t n = net->width;
    double b = desc->bias_variance, scale = desc->weight_variance / (double)n;
    double h1 = 0, h2 = 0, d1 = 0, d2 = 0, t = 0;
    for (size_t i = 0; i < n; i++) {
        h1 += x->h1[i] * y->h1[i];
        h2 += x->h2[i] * y->h2[i];
        d1 += x->d1[i] * y->d1[i];
        d2 += x->d2[i] * y->d2[i];
    }
    for (size_t j = 0; j < DIM; j++) t += x->t[j] * y->t[j];
    return b + scale * h2 + d2 * (b + scale * h1) + d1 * (b + t);
}

/* The mean over networks tends to the limit, and the deviation of one network from it decreases like 1/√width: from 16
 * to 256 by a factor of 4. With 40 networks its logarithm has a standard error of 1/√80 at each width. */
static void finite_networks_approach_the_kernels(void **state)
{
    (void)state;
    enum { NETWORKS = 40 };
    bo_context *context = test_context(1);
    static const size_t widths[2] = {16, WIDEST};
    mlp *net = malloc(sizeof *net);
    passed *p = malloc(2 * sizeof *p);
    float x[2 * DIM];
    test_inputs(6, 2 * DIM, x);
    for (size_t i = 0; i < 2 * DIM; i++) x[i] *= 3;
    for (int activation = 0; activation < 2; activation++) {
        bo_features_desc desc = network(BO_KERNEL_NTK, (bo_hidden_activation)activation, LAYERS, 0.1), gp = desc;
        gp.kernel = BO_KERNEL_NNGP;
        const double theta = value(context, &desc, x, x + DIM), sigma = value(context, &gp, x, x + DIM);
        double error[2] = {0};
        for (size_t k = 0; k < 2; k++) {
            double mean = 0, squares = 0, last = 0;
            for (size_t i = 0; i < NETWORKS; i++) {
                bo_rng rng = bo_rng_make(i, bo_rng_stream("test.mlp", k));
                draw_mlp(net, widths[k], &rng);
                pass(net, &desc, x, &p[0]);
                pass(net, &desc, x + DIM, &p[1]);
                double found = jacobians(net, &desc, &p[0], &p[1]), h = 0;
                for (size_t j = 0; j < widths[k]; j++) h += p[0].h2[j] * p[1].h2[j];
                mean += found / NETWORKS;
                last += (desc.bias_variance + desc.weight_variance * h / (double)widths[k]) / NETWORKS;
                squares += (found - theta) * (found - theta) / NETWORKS;
            }
            error[k] = sqrt(squares);
            if (k == 0) continue;
            assert_close(mean, theta, 4 * error[k] / sqrt(NETWORKS) + theta / WIDEST);
            assert_close(last, sigma, 4 * error[k] / sqrt(NETWORKS) + sigma / WIDEST);
        }
        const double ratio = error[0] / error[1];
        if (!(ratio > 2.4 && ratio < 6.7)) /* 4 within three standard errors of e^(1/√40) */
            fail_msg("activation %d: error %g at width 16, %g at width 256", activation, error[0], error[1]);
    }
    free(net), free(p);
    bo_context_destroy(context);
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

static double dot_of_features(bo_context *context, const bo_features_desc *desc, const float *x)
{
    bo_features *f;
    assert_ok(context, bo_features_create(context, desc, &f));
    size_t n = desc->features;
    float *z = malloc(2 * n * sizeof *z);
    assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 2, .x = x, .stride = DIM}, z, n));
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)z[i] * (double)z[n + i];
    free(z);
    bo_features_destroy(f);
    return sum;
}

/* Sixteen times the features: the error decreases by a factor of 4, or more for orthogonal weights. The mean agrees
 * within its standard error and the stated bias of order 1 / features for depth 3; there is none for depth 1. */
static void features_approach_the_kernels(void **state)
{
    (void)state;
    enum { SEEDS = 60 };
    bo_context *context = test_context(2);
    float x[2 * DIM];
    test_inputs(7, 2 * DIM, x);
    for (size_t i = 0; i < DIM; i++) x[i] *= 3, x[DIM + i] += x[i]; /* an angle at which every part matters */
    for (int kernel = 0; kernel < 2; kernel++)
        for (int activation = 0; activation < 2; activation++)
            for (int depth = 1; depth <= 3; depth += 2) {
                bo_features_desc desc = network(kernels[kernel], (bo_hidden_activation)activation, depth, 0.1);
                const size_t few = depth > 1 ? 64 : 256, lengths[] = {few, 16 * few};
                const double k = value(context, &desc, x, x + DIM);
                double error[2] = {0};
                for (size_t l = 0; l < 2; l++) {
                    double mean = 0, squares = 0, seeds = l ? SEEDS / 2 : SEEDS;
                    desc.features = lengths[l];
                    for (desc.seed = 0; (double)desc.seed < seeds; desc.seed++) {
                        double found = dot_of_features(context, &desc, x);
                        mean += found / seeds;
                        squares += (found - k) * (found - k) / seeds;
                    }
                    error[l] = sqrt(squares);
                    double bias = depth > 1 ? 12 * fabs(k) / (double)lengths[l] : 0;
                    if (!(fabs(mean - k) <= 4 * error[l] / sqrt(seeds) + bias))
                        fail_msg("%s, activation %d, depth %d, %zu features: mean %g, kernel %g, error %g",
                                 bo_kernel_name(desc.kernel), activation, depth, lengths[l], mean, k, error[l]);
                }
                const double ratio = error[0] / error[1];
                if (!(ratio > (depth > 1 ? 1.8 : 2.4))) /* products of derivatives have heavy tails */
                    fail_msg("%s, activation %d, depth %d: error %g with %zu features, %g with %zu",
                             bo_kernel_name(desc.kernel), activation, depth, error[0], few, error[1], 16 * few);
            }
    bo_context_destroy(context);
}

/* Every part of a deep network of each kernel: differences of a smooth activation, and the file. */
static void deep_features_have_gradients_and_files(void **state)
{
    (void)state;
    enum { LENGTH = 40, ROWS = 3 };
    static const double step = 1.0 / 65536;
    bo_context *context = test_context(1);
    for (int kernel = 0; kernel < 2; kernel++) {
        bo_features_desc desc = network(kernels[kernel], BO_HIDDEN_ERF, 3, 0.1);
        desc.features = LENGTH;
        bo_features *f, *again;
        assert_ok(context, bo_features_create(context, &desc, &f));
        float x[ROWS * DIM], z[ROWS * LENGTH], back[ROWS * LENGTH];
        double wide[ROWS * DIM], dz[ROWS * LENGTH], dx[ROWS * DIM], up[ROWS * LENGTH], down[ROWS * LENGTH];
        test_inputs(8, ROWS * DIM, x);
        bo_rng rng = bo_rng_make(1, 1);
        for (size_t i = 0; i < ROWS * DIM; i++) wide[i] = (double)x[i];
        for (size_t i = 0; i < ROWS * LENGTH; i++) dz[i] = bo_rng_normal(&rng);
        assert_ok(context, bo_features_backward_f64(context, f, ROWS, wide, DIM, dz, LENGTH, dx, DIM, NULL, NULL));
        for (size_t i = 0; i < ROWS * DIM; i++) {
            double keep = wide[i], slope = 0;
            wide[i] = keep + step;
            assert_ok(context, bo_features_apply_f64(context, f, ROWS, wide, DIM, up, LENGTH));
            wide[i] = keep - step;
            assert_ok(context, bo_features_apply_f64(context, f, ROWS, wide, DIM, down, LENGTH));
            wide[i] = keep;
            for (size_t j = 0; j < ROWS * LENGTH; j++) slope += dz[j] * (up[j] - down[j]) / (2 * step);
            assert_close(dx[i], slope, 1e-7 * (1 + fabs(slope)));
        }
        void *bytes;
        size_t size;
        assert_ok(context, bo_features_save(context, f, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_ok(context, bo_features_load(context, &(bo_source){.bytes = bytes, .size = size}, &again));
        assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, z, LENGTH));
        assert_ok(context,
                  bo_features_apply(context, again, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, back, LENGTH));
        assert_memory_equal(z, back, sizeof z);
        assert_int_equal(bo_features_describe(again)->depth, 3);
        assert_int_equal(bo_features_describe(again)->activation, BO_HIDDEN_ERF);
        assert_true(bo_features_describe(again)->bias_variance == 0.1);
        bo_free(bytes);
        bo_features_destroy(f), bo_features_destroy(again);
    }
    bo_context_destroy(context);
}

static void wrong_networks_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const struct {
        bo_features_desc desc;
        const char *message;
    } cases[] = {
        {{.kernel = BO_KERNEL_NTK, .dim = 3, .features = 64, .depth = 17}, "depth must be 1 to 16"},
        {{.kernel = BO_KERNEL_NTK, .dim = 3, .features = 64, .depth = -1}, "depth must be 1 to 16"},
        {{.kernel = BO_KERNEL_NTK, .dim = 3, .features = 64, .activation = (bo_hidden_activation)2},
         "unknown activation"},
        {{.kernel = BO_KERNEL_NTK, .dim = 3, .features = 64, .bias_variance = -1}, "bias_variance must be at least 0"},
        {{.kernel = BO_KERNEL_NTK, .dim = 3, .features = 64, .weight_variance = -1}, "weight_variance must be"},
        {{.kernel = BO_KERNEL_NTK, .dim = 3, .features = 3, .depth = 3}, "at least 4 features"},
        {{.kernel = BO_KERNEL_RBF, .function = BO_FUNCTION_SECTIONS, .dim = 3, .features = 3}, "kernel machines only"},
        {{.kernel = BO_KERNEL_RBF, .function = BO_FUNCTION_NETWORK, .dim = 3, .features = 3}, "cannot be used"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_features *f;
        assert_int_not_equal(bo_features_create(context, &cases[i].desc, &f), BO_OK);
        if (!strstr(bo_context_error(context), cases[i].message))
            fail_msg("case %zu: %s", i, bo_context_error(context));
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_match_the_recursion),       cmocka_unit_test(neighbors_are_ordered),
        cmocka_unit_test(one_layer_is_the_arc_cosine_kernel),     cmocka_unit_test(matrices_are_positive_semidefinite),
        cmocka_unit_test(finite_networks_approach_the_kernels),   cmocka_unit_test(features_approach_the_kernels),
        cmocka_unit_test(deep_features_have_gradients_and_files), cmocka_unit_test(wrong_networks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
