/* The parameters of DARK: the minimum-variance proposal by Monte Carlo compared with its closed form, whitening, the
 * report. */
#include <bochner/attention.h>
#include "attention/dark.h"
#include "math/metric.h"
#include "testing.h"

/* ---- proposal ---------------------------------------------------------------------------------------------------- */

enum { D = 3 };

/* A matrix Λ with these eigenvalues, rotated by an angle in the planes (0, 1) and (1, 2), and a factor A with Λ = A
 * Aᵀ. */
static void turned(const double *values, double angle, double *lambda, double *factor)
{
    double c = cos(angle), s = sin(angle);
    double u[D][D] = {{c, s, 0}, {-s * c, c * c, s}, {s * s, -c * s, c}};
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            factor[i * D + j] = u[j][i] * sqrt(values[j]);
            lambda[i * D + j] = 0;
            for (size_t e = 0; e < D; e++) lambda[i * D + j] += values[e] * u[e][i] * u[e][j];
        }
}

static void draw(bo_rng *rng, const double *factor, double *x)
{
    double g[D];
    for (size_t j = 0; j < D; j++) g[j] = bo_rng_normal(rng);
    for (size_t i = 0; i < D; i++) {
        x[i] = 0;
        for (size_t j = 0; j < D; j++) x[i] += factor[i * D + j] * g[j];
    }
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (size_t j = 0; j < D; j++) sum += a[j] * b[j];
    return sum;
}

/* log of (p/ψ) f(x, w) f(y, w) for w = root·g, where ψ is the density of w */
static double log_estimate(bo_rng *rng, const double *root, double log_det_precision, const double *x, const double *y)
{
    static const double one[D * D] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double g[D], w[D];
    draw(rng, one, g);
    for (size_t i = 0; i < D; i++) w[i] = dot(root + i * D, g);
    double log_ratio = 0.5 * (dot(g, g) - dot(w, w)) - 0.5 * log_det_precision;
    return log_ratio + dot(w, x) + dot(w, y) - 0.5 * dot(x, x) - 0.5 * dot(y, y);
}

typedef struct mean {
    double value, error; /* standard error */
} mean;

/* E[estimate²] over data and frequencies */
static mean second_moment(const double *factor_q, const double *factor_k, const double *root, double log_det)
{
    enum { DRAWS = 400000 };
    bo_rng rng = bo_rng_make(7, bo_rng_stream("test.law", 0));
    double sum = 0, squares = 0, x[D], y[D];
    for (size_t n = 0; n < DRAWS; n++) {
        draw(&rng, factor_q, x);
        draw(&rng, factor_k, y);
        double value = exp(2 * log_estimate(&rng, root, log_det, x, y));
        sum += value;
        squares += value * value;
    }
    double average = sum / DRAWS;
    return (mean){average, sqrt((squares / DRAWS - average * average) / DRAWS)};
}

static double log_det_of(bo_context *context, const double *matrix, double shift, double factor)
{
    double vectors[D * D], values[D], sum = 0;
    assert_ok(context, bo_eigen_of(context, D, matrix, vectors, values));
    for (size_t i = 0; i < D; i++) sum += log(shift + factor * values[i]);
    return sum;
}

/* Λ_q and Λ_k do not commute. They are small enough that E[estimate⁴] exists for both proposals, so that the standard
 * error is meaningful; the margin is five standard errors. */
static void second_moments_match_the_closed_form(void **state)
{
    (void)state;
    static const double one[D * D] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const double values_q[D] = {0.02, 0.05, 0.01}, values_k[D] = {0.03, 0.005, 0.04};
    double lambda_q[D * D], lambda_k[D * D], factor_q[D * D], factor_k[D * D];
    bo_context *context = test_context(1);
    bo_law law;
    turned(values_q, 0.7, lambda_q, factor_q);
    turned(values_k, -0.4, lambda_k, factor_k);
    assert_ok(context, bo_law_make(context, D, lambda_q, lambda_k, &law));
    assert_int_equal(law.clipped, 0);
    assert_true(law.isotropic_finite && law.proposal_finite);
    assert_close(law.log_det, log_det_of(context, law.shape, 0, 1), 1e-12);

    double common = -0.5 * (log_det_of(context, lambda_q, 1, 2) + log_det_of(context, lambda_k, 1, 2));
    double isotropic = exp(common - 0.5 * log_det_of(context, law.shape, -1, 2)), proposal = exp(common - law.log_det);
    mean m = second_moment(factor_q, factor_k, one, 0);
    assert_close(m.value, isotropic, 5 * m.error);
    m = second_moment(factor_q, factor_k, law.root, law.log_det);
    assert_close(m.value, proposal, 5 * m.error);
    assert_true(m.error < 0.01);
    assert_close(law.log_gain, log(isotropic / proposal), 1e-12);
    assert_true(law.log_gain > 0);
    bo_law_free(&law);
    bo_context_destroy(context);
}

/* Equal Λ: Σ* = (I + 2Λ)(I - 2Λ)⁻¹; the second moments in one dimension are 1/√((1 + 2λ)(1 - 6λ)) and 1/(1 - 2λ). */
static void equal_sides_agree_with_the_theorem(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double values[D] = {0.02, 0.1, 0.16};
    double lambda[D * D], factor[D * D], expected = 0;
    bo_law law;
    turned(values, 1.1, lambda, factor);
    assert_ok(context, bo_law_make(context, D, lambda, lambda, &law));
    for (size_t i = 0; i < D; i++) {
        double l = values[i], direction[D], image[D];
        for (size_t r = 0; r < D; r++) direction[r] = factor[r * D + i] / sqrt(l);
        for (size_t r = 0; r < D; r++) image[r] = dot(law.root + r * D, direction);
        assert_close(dot(image, image), (1 + 2 * l) / (1 - 2 * l), 1e-12);
        assert_close(dot(image, direction), sqrt((1 + 2 * l) / (1 - 2 * l)), 1e-12);
        expected += -0.5 * log((1 + 2 * l) * (1 - 6 * l)) + log(1 - 2 * l);
    }
    assert_close(law.log_gain, expected, 1e-10);
    bo_law_free(&law);
    bo_context_destroy(context);
}

static bo_law law_of(bo_context *context, double q, double k)
{
    double lambda_q[D * D] = {q, 0, 0, 0, 0.01, 0, 0, 0, 0.02}, lambda_k[D * D] = {k, 0, 0, 0, 0.01, 0, 0, 0, 0.02};
    bo_law law;
    assert_ok(context, bo_law_make(context, D, lambda_q, lambda_k, &law));
    return law;
}

/* Isotropic data: finite iff λ_q/(1 + 2λ_q) + λ_k/(1 + 2λ_k) < 1/4, which is λ < 1/6 for equal ones. With the proposal:
 * λ < 1/2, and with C = 0.05 if the precision p is below it, 2p > 0.05. */
static void infinite_variances_are_reported(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const struct {
        double q, k;
        bool proposal;
        size_t clipped;
    } cases[] = {
        {1 / 6.0 - 1e-6, 1 / 6.0 - 1e-6, true, 0},
        {1 / 6.0 + 1e-6, 1 / 6.0 + 1e-6, true, 0},
        {0.05, 0.34, true, 0},  /* 0.0454… + 0.2023… */
        {0.05, 0.36, true, 0},  /* 0.0454… + 0.2093… */
        {0.46, 0.46, true, 1},  /* p = 0.08 / 1.92 = 0.0417 */
        {0.49, 0.49, false, 1}, /* p = 0.0101 */
        {3, 3, false, 1},
    };
    int finite = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double q = cases[i].q, k = cases[i].k;
        bo_law law = law_of(context, q, k);
        assert_int_equal(law.isotropic_finite, q / (1 + 2 * q) + k / (1 + 2 * k) < 0.25);
        finite += law.isotropic_finite;
        assert_int_equal(law.proposal_finite, cases[i].proposal);
        assert_int_equal(law.clipped, cases[i].clipped);
        assert_true(isfinite(law.root[0]) && law.root[0] <= 1 / sqrt(BO_MIN_PRECISION) + 1e-12);
        if (!law.proposal_finite) assert_true(isnan(law.log_gain));
        if (law.proposal_finite && !law.isotropic_finite) assert_true(law.log_gain == INFINITY);
        bo_law_free(&law);
    }
    assert_int_equal(finite, 2);
    bo_context_destroy(context);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

enum { HEADS = 4, KEY_HEADS = 2, TOKENS = 3000, DIM = 6 };

typedef struct data {
    float q[HEADS * TOKENS * DIM], k[KEY_HEADS * TOKENS * DIM];
} data;

typedef double (*sampler)(bo_rng *rng);

/* Coordinate j has standard deviation size (j + 1)/DIM, mixed slightly with the previous one, and a mean. */
static void fill(bo_rng *rng, sampler sample, double size, double offset, size_t rows, float *x)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < DIM; j++) {
            double value = size * (double)(j + 1) / DIM * sample(rng) + offset;
            x[r * DIM + j] = (float)(j ? value + 0.3 * (double)x[r * DIM + j - 1] : value);
        }
}

static data *make_data(sampler sample, double size_q, double size_k, double offset)
{
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(3, bo_rng_stream("test.dark", 0));
    fill(&rng, sample, size_q, offset, HEADS * TOKENS, d->q);
    fill(&rng, sample, size_k, offset, KEY_HEADS * TOKENS, d->k);
    return d;
}

static double uniform(bo_rng *rng)
{
    return sqrt(12) * (bo_rng_uniform(rng) - 0.5);
}

static double laplace(bo_rng *rng)
{
    double u = bo_rng_uniform(rng) - 0.5;
    return (u < 0 ? log(1 + 2 * u) : -log(1 - 2 * u)) / sqrt(2);
}

static bo_attention *make_attention(bo_context *context, bo_attention_kind kind, size_t rank, uint64_t seed)
{
    bo_attention_desc desc = {.kind = kind,
                              .heads = HEADS,
                              .key_heads = KEY_HEADS,
                              .dim = DIM,
                              .rank = rank,
                              .causal = kind == BO_ATTENTION_HYBRID,
                              .scale = 0.5,
                              .features = {.features = 16, .draw = BO_DRAW_IID, .seed = seed}};
    bo_attention *attention = NULL;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

static const bo_attention_shape one_sequence = {.sequences = 1, .tokens = TOKENS};

/* ---- whitening --------------------------------------------------------------------------------------------------- */

/* Means of |x|², |Mx|² and (Mx - mean)(Mx - mean)ᵀ over q and k of key head 1, with equal weights. */
static void through(const data *d, const float *m, size_t rank, double *before, double *after, double *covariance)
{
    memset(covariance, 0, rank * rank * sizeof *covariance);
    *before = *after = 0;
    for (int side = 0; side < 2; side++) {
        size_t rows = side ? TOKENS : 2 * TOKENS;
        const float *x = side ? d->k + TOKENS * DIM : d->q + 2 * TOKENS * DIM;
        double mean_of[DIM] = {0};
        for (int pass = 0; pass < 2; pass++)
            for (size_t r = 0; r < rows; r++) {
                double y[DIM] = {0};
                for (size_t i = 0; i < rank; i++)
                    for (size_t j = 0; j < DIM; j++) y[i] += (double)m[i * DIM + j] * (double)x[r * DIM + j];
                for (size_t i = 0; pass == 0 && i < rank; i++) mean_of[i] += y[i] / (double)rows;
                for (size_t j = 0; pass == 0 && j < DIM; j++)
                    *before += 0.5 * (double)x[r * DIM + j] * (double)x[r * DIM + j] / (double)rows;
                for (size_t i = 0; pass == 0 && i < rank; i++) *after += 0.5 * y[i] * y[i] / (double)rows;
                for (size_t i = 0; pass == 1 && i < rank; i++)
                    for (size_t j = 0; j < rank; j++)
                        covariance[i * rank + j] += 0.5 * (y[i] - mean_of[i]) * (y[j] - mean_of[j]) / (double)rows;
            }
    }
}

/* With shrinkage by 0.01 and a ridge of 1e-4 the covariance is white up to about these amounts. */
static void whitening_whitens(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(bo_rng_normal, 1.5, 0.7, 0.4);
    for (size_t rank = 2; rank <= DIM; rank += 4) {
        bo_attention *attention = make_attention(context, BO_ATTENTION_DARK, rank, 1);
        float m[KEY_HEADS * DIM * DIM];
        double before, after, covariance[DIM * DIM];
        for (double amount = 0; amount < 2; amount += 1.5) {
            assert_ok(context, bo_attention_whiten_arrays(context, attention, &one_sequence, d->q, d->k, amount, m));
            bo_attention *hybrid = make_attention(context, BO_ATTENTION_HYBRID, rank, 1);
            float same[KEY_HEADS * DIM * DIM];
            assert_ok(context, bo_attention_whiten_arrays(context, hybrid, &one_sequence, d->q, d->k, amount, same));
            assert_memory_equal(same, m, KEY_HEADS * rank * DIM * sizeof *m);
            bo_attention_destroy(hybrid);
            through(d, m + rank * DIM, rank, &before, &after, covariance);
            if (amount == 0) assert_close(after / before, 1, 1e-5);
            double level = amount == 0 ? covariance[0] : amount * amount;
            for (size_t i = 0; i < rank; i++)
                for (size_t j = 0; j < rank; j++) assert_close(covariance[i * rank + j] / level, i == j, 0.03);
        }
        if (rank == DIM)
            for (size_t i = 0; i < DIM * DIM; i++)
                assert_close((double)m[i], (double)m[i % DIM * DIM + i / DIM], 1e-6); /* the symmetric root */
        bo_attention_destroy(attention);
    }
    free(d);
    bo_context_destroy(context);
}

/* For rank 1 and data along one axis, M is that axis. */
static void low_rank_uses_the_leading_directions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(bo_rng_normal, 0.01, 0.01, 0);
    bo_rng rng = bo_rng_make(5, 0);
    for (size_t r = 0; r < HEADS * TOKENS; r++) d->q[r * DIM + 2] = (float)bo_rng_normal(&rng);
    for (size_t r = 0; r < KEY_HEADS * TOKENS; r++) d->k[r * DIM + 2] = (float)bo_rng_normal(&rng);
    bo_attention *attention = make_attention(context, BO_ATTENTION_DARK, 1, 1);
    float m[KEY_HEADS * DIM];
    assert_ok(context, bo_attention_whiten_arrays(context, attention, &one_sequence, d->q, d->k, 0, m));
    for (size_t h = 0; h < KEY_HEADS; h++)
        for (size_t j = 0; j < DIM; j++) assert_close(fabs((double)m[h * DIM + j]), j == 2, 0.02);
    bo_attention_destroy(attention);
    free(d);
    bo_context_destroy(context);
}

/* ---- proposal for data ------------------------------------------------------------------------------------------- */

/* Over seeds, φ(x)·φ(y) with a proposal has the mean exp(s x·y) and, with m frequencies, the variance (|C|^-½ |2I -
 * C|^-½ exp(2 z'(2I - C)⁻¹z - |x|² - |y|²) - exp(2 x·y)) / m, z = x + y, for x and y scaled by √s. */
static void proposals_stay_unbiased(void **state)
{
    (void)state;
    enum { SEEDS = 4000, FEATURES = 16 };
    bo_context *context = test_context(1);
    data *d = make_data(bo_rng_normal, 0.4, 0.3, 0);
    double sum = 0, squares = 0, fourth = 0, scale = 0.5;
    const float *x = d->q, *y = d->k + 4 * DIM;
    bo_side queries, keys;
    bo_law law = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bo_attention *attention = make_attention(context, seed % 2 ? BO_ATTENTION_FAVOR : BO_ATTENTION_DARK, 0, seed);
        float zx[FEATURES], zy[FEATURES];
        bo_proposal_report report;
        bo_attention_shape shape = {.sequences = 1, .tokens = 50}; /* a few rows suffice for a proposal */
        assert_ok(context, bo_attention_propose_arrays(context, attention, &shape, d->q, d->k, &report));
        const bo_features *map = bo_attention_features(attention, 0);
        assert_ok(context,
                  bo_features_apply(context, map, &(bo_inputs){.rows = 1, .x = x, .stride = DIM}, zx, FEATURES));
        assert_ok(context,
                  bo_features_apply(context, map, &(bo_inputs){.rows = 1, .x = y, .stride = DIM}, zy, FEATURES));
        double value = 0;
        for (size_t i = 0; i < FEATURES; i++) value += (double)zx[i] * (double)zy[i];
        sum += value;
        squares += value * value;
        fourth += value * value * value * value;
        if (seed == 0) { /* the proposal for these rows, for the variance below */
            bo_geometry geometry;
            bo_second_moments mq, mk;
            assert_ok(context, bo_geometry_make(context, attention, &shape, &geometry));
            bo_call call = bo_layout_of(attention, &shape, &geometry);
            queries = bo_side_queries(&call, d->q, 0, 1);
            keys = bo_side_keys(&call, d->k, 0, 1);
            assert_ok(context, bo_second_moments_measure(context, &queries, scale, &mq));
            assert_ok(context, bo_second_moments_measure(context, &keys, scale, &mk));
            assert_ok(context, bo_law_make(context, DIM, mq.second, mk.second, &law));
            bo_second_moments_free(&mq);
            bo_second_moments_free(&mk);
            bo_geometry_free(&geometry);
        }
        bo_attention_destroy(attention);
    }
    double vectors[DIM * DIM], values[DIM], log_second = 0, log_kernel = 0;
    assert_ok(context, bo_eigen_of(context, DIM, law.shape, vectors, values));
    for (size_t i = 0; i < DIM; i++) {
        double along = 0;
        for (size_t j = 0; j < DIM; j++) along += vectors[i * DIM + j] * sqrt(scale) * ((double)x[j] + (double)y[j]);
        log_second += 2 * along * along / (2 - values[i]) - 0.5 * log(values[i] * (2 - values[i]));
        log_second -= scale * ((double)x[i] * (double)x[i] + (double)y[i] * (double)y[i]);
        log_kernel += scale * (double)x[i] * (double)y[i];
    }
    double variance = (exp(log_second) - exp(2 * log_kernel)) / FEATURES, n = SEEDS;
    double measured = squares / n - sum / n * (sum / n);
    assert_close(sum / n, exp(log_kernel), 5 * sqrt(variance / n));
    assert_close(measured, variance, 5 * sqrt((fourth / n - squares / n * (squares / n)) / n));
    bo_law_free(&law);
    free(d);
    bo_context_destroy(context);
}

static bo_proposal_report report_of(bo_context *context, const data *d)
{
    bo_attention *attention = make_attention(context, BO_ATTENTION_FAVOR, 0, 1);
    bo_proposal_report report;
    assert_ok(context, bo_attention_propose_arrays(context, attention, &one_sequence, d->q, d->k, &report));
    bo_attention_destroy(attention);
    return report;
}

/* Statistics like E|x|⁴ of n rows have a relative deviation of about √(8/(n d)): five times that at n = 3000, d = 6 is
 * 0.11. */
static void reports_state_the_assumptions(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(bo_rng_normal, 0.5, 0.5, 0);
    bo_proposal_report r = report_of(context, d);
    assert_close(r.normality, 1, 0.11);
    assert_true(r.mean_share < 0.01 && r.mismatch < 0.1 && r.clipped == 0);
    assert_true(r.proposal_finite && r.isotropic_finite && r.log_gain > 0 && isfinite(r.log_gain));
    assert_true(r.smallest > 0 && r.smallest < r.largest && r.largest < 1 / 6.0);
    free(d);

    /* coordinates are independent up to the mixing: Laplace has kurtosis 6, uniform 1.8, normal 3. In six dimensions
     * this gives (6·6 + 6·5)/48 = 1.375 and (6·1.8 + 30)/48 = 0.85, for any linear map */
    d = make_data(laplace, 0.5, 0.5, 0);
    assert_close(report_of(context, d).normality, 1.375, 0.2);
    free(d);
    d = make_data(uniform, 0.5, 0.5, 0);
    assert_close(report_of(context, d).normality, 0.85, 0.06);
    free(d);

    /* Λ_k = Λ_q / 4: |3/4| / |5/4| */
    d = make_data(bo_rng_normal, 0.6, 0.3, 0);
    assert_close(report_of(context, d).mismatch, 0.6, 0.05);
    free(d);

    d = make_data(bo_rng_normal, 3, 3, 1);
    for (size_t i = TOKENS * DIM; i < 2 * TOKENS * DIM; i++) d->k[i] *= 2; /* key head 1 is the worst */
    r = report_of(context, d);
    assert_int_equal(r.key_head, 1);
    assert_true(r.clipped > KEY_HEADS && !r.proposal_finite && !r.isotropic_finite && isnan(r.log_gain));
    assert_true(r.mean_share > 0.1);
    free(d);
    bo_context_destroy(context);
}

static void layouts_and_packing_agree(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(bo_rng_normal, 0.5, 0.4, 0.1), *t = malloc(sizeof *t);
    for (size_t n = 0; n < TOKENS; n++) {
        for (size_t h = 0; h < HEADS; h++)
            memcpy(t->q + (n * HEADS + h) * DIM, d->q + (h * TOKENS + n) * DIM, DIM * sizeof(float));
        for (size_t h = 0; h < KEY_HEADS; h++)
            memcpy(t->k + (n * KEY_HEADS + h) * DIM, d->k + (h * TOKENS + n) * DIM, DIM * sizeof(float));
    }
    size_t lengths[] = {1, 1200, TOKENS - 1201};
    bo_attention_shape tokens_first = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST},
                       packed = {.sequences = 3, .lengths = lengths, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention *attention = make_attention(context, BO_ATTENTION_DARK, 0, 1);
    float m[3][KEY_HEADS * DIM * DIM];
    bo_proposal_report r[3];
    assert_ok(context, bo_attention_whiten_arrays(context, attention, &one_sequence, d->q, d->k, 0, m[0]));
    assert_ok(context, bo_attention_whiten_arrays(context, attention, &tokens_first, t->q, t->k, 0, m[1]));
    assert_ok(context, bo_attention_whiten_arrays(context, attention, &packed, t->q, t->k, 0, m[2]));
    assert_ok(context, bo_attention_propose_arrays(context, attention, &one_sequence, d->q, d->k, &r[0]));
    assert_ok(context, bo_attention_propose_arrays(context, attention, &tokens_first, t->q, t->k, &r[1]));
    assert_ok(context, bo_attention_propose_arrays(context, attention, &packed, t->q, t->k, &r[2]));
    for (int i = 1; i < 3; i++) {
        for (size_t e = 0; e < KEY_HEADS * DIM * DIM; e++) assert_close((double)m[i][e], (double)m[0][e], 1e-5);
        assert_close(r[i].log_gain, r[0].log_gain, 1e-9);
        assert_close(r[i].largest, r[0].largest, 1e-9);
        assert_close(r[i].mean_share, r[0].mean_share, 1e-9);
    }
    bo_attention_destroy(attention);
    free(d);
    free(t);
    bo_context_destroy(context);
}

static void states_from_before_no_longer_fit(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(bo_rng_normal, 0.5, 0.4, 0);
    bo_attention *attention = make_attention(context, BO_ATTENTION_FAVOR, 0, 1);
    void *bytes = malloc(bo_attention_state_bytes(attention));
    assert_ok(context, bo_attention_state_init(context, attention, bytes));
    assert_ok(context, bo_attention_state_check(context, attention, bytes));
    assert_ok(context, bo_attention_propose_arrays(context, attention, &one_sequence, d->q, d->k, NULL));
    assert_int_equal(bo_attention_state_check(context, attention, bytes), BO_INVALID);
    free(bytes);
    bo_attention_destroy(attention);
    free(d);
    bo_context_destroy(context);
}

static void count_warnings(void *user, bo_log_level level, const char *message)
{
    *(int *)user += level == BO_LOG_WARNING && strstr(message, "eigenvalues") != NULL;
}

static void clipping_is_reported(void **state)
{
    (void)state;
    int warnings = 0;
    bo_context_desc desc = {.threads = 1, .log = count_warnings, .user = &warnings};
    bo_context *context;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    data *d = make_data(bo_rng_normal, 0.3, 0.3, 0);
    report_of(context, d);
    assert_int_equal(warnings, 0);
    free(d);
    d = make_data(bo_rng_normal, 5, 5, 0);
    report_of(context, d);
    assert_int_equal(warnings, 1);
    free(d);
    bo_context_destroy(context);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(bo_rng_normal, 1, 1, 0);
    bo_attention *favor = make_attention(context, BO_ATTENTION_FAVOR, 0, 1),
                 *dark = make_attention(context, BO_ATTENTION_DARK, 0, 1),
                 *low = make_attention(context, BO_ATTENTION_DARK, 2, 1);
    float m[KEY_HEADS * DIM * DIM];
    bo_attention_shape no_keys = {.sequences = 1, .tokens = TOKENS, .no_keys = true};
    assert_fails(context, BO_INVALID, "favor",
                 bo_attention_whiten_arrays(context, favor, &one_sequence, d->q, d->k, 0, m));
    assert_fails(context, BO_INVALID, "-1",
                 bo_attention_whiten_arrays(context, dark, &one_sequence, d->q, d->k, -1, m));
    assert_fails(context, BO_INVALID, "nan",
                 bo_attention_whiten_arrays(context, dark, &one_sequence, d->q, d->k, NAN, m));
    assert_fails(context, BO_INVALID, "argument 'k' is NULL",
                 bo_attention_whiten_arrays(context, dark, &one_sequence, d->q, NULL, 0, m));
    assert_fails(context, BO_INVALID, "needs keys",
                 bo_attention_whiten_arrays(context, dark, &no_keys, d->q, d->k, 0, m));
    assert_fails(context, BO_INVALID, "rank 2",
                 bo_attention_propose_arrays(context, low, &one_sequence, d->q, d->k, NULL));
    assert_fails(context, BO_INVALID, "argument 'shape' is NULL",
                 bo_attention_propose_arrays(context, dark, NULL, d->q, d->k, NULL));
    bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = HEADS, .dim = DIM};
    desc.features = (bo_features_desc){.features = 16, .function = BO_FUNCTION_HYPERBOLIC};
    bo_attention *hyperbolic;
    assert_ok(context, bo_attention_create(context, &desc, &hyperbolic));
    assert_fails(context, BO_INVALID, "hyperbolic",
                 bo_attention_propose_arrays(context, hyperbolic, &one_sequence, d->q, d->q, NULL));
    float lengths[DIM] = {1, 2, 1, 1, 1, 1};
    desc.features = (bo_features_desc){.features = 16, .length_scales = lengths};
    bo_attention *scaled;
    assert_ok(context, bo_attention_create(context, &desc, &scaled));
    assert_fails(context, BO_INVALID, "length scales",
                 bo_attention_propose_arrays(context, scaled, &one_sequence, d->q, d->q, NULL));
    bo_attention_destroy(scaled);
    d->k[TOKENS * DIM + 17 * DIM + 3] = NAN;
    assert_fails(context, BO_NUMERIC, "k is nan at sequence 0, head 1, token 17, column 3",
                 bo_attention_propose_arrays(context, dark, &one_sequence, d->q, d->k, NULL));
    memset(d, 0, sizeof *d);
    assert_fails(context, BO_NUMERIC, "are constant",
                 bo_attention_whiten_arrays(context, dark, &one_sequence, d->q, d->k, 0, m));
    assert_ok(context, bo_attention_propose_arrays(context, dark, &one_sequence, d->q, d->k, NULL)); /* Λ = 0: Σ* = I */
    bo_attention_destroy(favor);
    bo_attention_destroy(dark);
    bo_attention_destroy(low);
    bo_attention_destroy(hyperbolic);
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_moments_match_the_closed_form),
        cmocka_unit_test(equal_sides_agree_with_the_theorem),
        cmocka_unit_test(infinite_variances_are_reported),
        cmocka_unit_test(whitening_whitens),
        cmocka_unit_test(low_rank_uses_the_leading_directions),
        cmocka_unit_test(proposals_stay_unbiased),
        cmocka_unit_test(reports_state_the_assumptions),
        cmocka_unit_test(layouts_and_packing_agree),
        cmocka_unit_test(states_from_before_no_longer_fit),
        cmocka_unit_test(clipping_is_reported),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
