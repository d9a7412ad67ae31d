/* Features of a block of rows in a task, for every map: compared with the float64 reference, at norms where φ would
 * overflow or underflow, with the same bits for each row, in exactly the announced scratch. */
#include "maps.h"
#include "isas.h"
#include "features/block.h"
#include "features/facts.h"

enum { ROWS = 70, MAX_LENGTH = 128, GAP = 3 }; /* a block of rows and a part */
static const double large = 32;                /* larger frequencies get no weight in gradients, see test_gradients.c */

/* ---- blocks and their results ------------------------------------------------------------------------------------ */

/* Rows have gaps that contain -7. */
typedef struct block {
    bo_features *f;
    size_t length, ldz, ldx;
    float x[ROWS * (DIM + GAP)], dx[ROWS * (DIM + GAP)];
    float z[ROWS * (MAX_LENGTH + GAP)], dz[ROWS * (MAX_LENGTH + GAP)];
    float log_scale[ROWS];
} block;

static block *make_block(bo_context *context, const bo_features_desc *map, bool length_scales, double norm)
{
    float scales[DIM];
    bo_features_desc desc = *map;
    block *b = malloc(sizeof *b);
    bo_rng rng = bo_rng_make(5, 5);
    for (size_t j = 0; j < DIM; j++) scales[j] = (float)(0.8 + 0.1 * (double)j);
    if (length_scales) desc.length_scales = scales;
    assert_ok(context, bo_features_create(context, &desc, &b->f));
    b->length = bo_features_describe(b->f)->features;
    assert_true(b->length <= MAX_LENGTH);
    b->ldz = b->length + GAP;
    b->ldx = DIM + GAP;
    for (size_t i = 0; i < sizeof b->x / sizeof *b->x; i++) b->x[i] = b->dx[i] = -7;
    for (size_t i = 0; i < sizeof b->z / sizeof *b->z; i++) b->z[i] = -7, b->dz[i] = (float)bo_rng_normal(&rng);
    for (size_t r = 0; r < ROWS; r++) {
        double squares = 0, v[DIM];
        for (size_t j = 0; j < DIM; j++) v[j] = bo_rng_normal(&rng), squares += v[j] * v[j];
        for (size_t j = 0; j < DIM; j++) b->x[r * b->ldx + j] = (float)(norm * v[j] / sqrt(squares));
    }
    return b;
}

static void drop(block *b)
{
    bo_features_destroy(b->f);
    free(b);
}

/* Forward and backward of rows first .. first + count - 1, with exactly the announced scratch. */
static void run(block *b, size_t first, size_t count)
{
    size_t bytes = bo_features_block_bytes(b->f, count);
    unsigned char *scratch = aligned_alloc(64, bytes + 64);
    assert_int_equal(bytes % 64, 0);
    memset(scratch, 0xff, bytes + 64); /* NaN */
    bo_features_block(b->f, count, b->x + first * b->ldx, b->ldx, b->z + first * b->ldz, b->ldz, b->log_scale + first,
                      scratch);
    bo_features_block_backward(b->f, count, b->x + first * b->ldx, b->ldx, b->z + first * b->ldz, b->ldz,
                               b->dz + first * b->ldz, b->ldz, b->dx + first * b->ldx, b->ldx, scratch);
    for (size_t i = bytes; i < bytes + 64; i++)
        if (scratch[i] != 0xff) fail_msg("byte %zu behind the scratch was written", i - bytes);
    free(scratch);
}

/* ---- references in float64 --------------------------------------------------------------------------------------- */

/* z of one row, relative to exp(log_scale): the formulas of features.h, in logarithms if φ is an exponential. */
static void reference(const bo_features *f, const double *w, const double *t, double log_scale, double *z)
{
    size_t m = f->frequencies;
    double half = 0;
    for (size_t j = 0; j < DIM; j++) half += 0.5 * t[j] * t[j];
    if (f->desc.function == BO_FUNCTION_EXPONENTIAL)
        for (size_t j = 0; j < DIM; j++) z[j] = exp(t[j] - log_scale), z[DIM + j] = exp(-t[j] - log_scale);
    for (size_t i = 0; i < m; i++) {
        double u = 0;
        for (size_t j = 0; j < DIM; j++) u += f->u_scale * w[i * DIM + j] * t[j];
        double offset = (f->offset ? f->offset[i] : 0) + f->log_d - half - log_scale;
        double weight = f->weights ? (double)f->weights[i] : 1;
        if (f->desc.function == BO_FUNCTION_SINCOS) {
            z[i] = weight * exp(half - log_scale) * cos(u) / sqrt((double)m);
            z[m + i] = weight * exp(half - log_scale) * sin(u) / sqrt((double)m);
        } else if (f->desc.function == BO_FUNCTION_HYPERBOLIC) {
            z[i] = exp(offset + u) / sqrt(2 * (double)m);
            z[m + i] = exp(offset - u) / sqrt(2 * (double)m);
        } else {
            z[i] = exp(offset + u) / sqrt((double)m);
        }
    }
}

static void scaled_row(const block *b, size_t r, double *x, double *t)
{
    for (size_t j = 0; j < DIM; j++) x[j] = (double)b->x[r * b->ldx + j], t[j] = x[j] * b->f->factor[j];
}

/* The largest rounding error of a row: the error of a log scale affects every feature. */
static double row_rounding(const bo_features *f, const double *w, const double *t)
{
    double largest_value = map_rounding(f, w, t, 0, 0);
    if (!f->frequencies && bo_features_scaled(f)) /* t is the exponent */
        for (size_t j = 0; j < DIM; j++) largest_value = fmax(largest_value, map_rounding(f, w, t, 0, fabs(t[j])));
    for (size_t i = 1; i < f->frequencies; i++) largest_value = fmax(largest_value, map_rounding(f, w, t, i, 0));
    return 2 * largest_value; /* one rounding for the feature and one for the shift */
}

static void check_features(bo_context *context, block *b)
{
    const bo_features *f = b->f;
    double w[FREQUENCIES * DIM], x[DIM], t[DIM], z[MAX_LENGTH];
    bool scaled = bo_features_scaled(f);
    if (f->frequencies) assert_ok(context, bo_features_dense_f64(context, f, w));
    for (size_t r = 0; r < ROWS; r++) {
        double largest_value = 0, top = 0;
        scaled_row(b, r, x, t);
        if (scaled)
            reference(f, w, t, (double)b->log_scale[r], z);
        else
            assert_ok(context, bo_features_apply_f64(context, f, 1, x, DIM, z, b->length));
        for (size_t i = 0; i < b->length; i++) largest_value = fmax(largest_value, fabs(z[i]));
        double limit = largest_value * expm1(row_rounding(f, w, t));
        if (!scaled) assert_true(b->log_scale[r] == 0);
        for (size_t i = 0; i < b->length; i++) {
            double value = (double)b->z[r * b->ldz + i];
            if (!(fabs(value - z[i]) <= limit))
                fail_msg("%s: feature %zu of row %zu is %.9g, expected %.9g within %.2g", map_name(&f->desc), i, r,
                         value, z[i], limit);
            if (bo_features_nonnegative(f) && f->desc.function != BO_FUNCTION_SELFTENSOR) assert_true(value >= 0);
            top = fmax(top, fabs(value) * sqrt((double)b->length));
        }
        /* 1/√features: exact for the largest exponential up to the rounding of the float log scale */
        bool exponential = f->function->exponential || f->desc.function == BO_FUNCTION_EXPONENTIAL;
        if (scaled && !(top < (exponential ? 1.1 : 1.5 * sqrt(20)) && top > (exponential ? 0.9 : 0.2)))
            fail_msg("%s: the largest of row %zu is %g", map_name(&f->desc), r, top);
        for (size_t i = b->length; i < b->ldz; i++) assert_true(b->z[r * b->ldz + i] == -7);
    }
}

/* ∂z_i/∂t_j of scaled maps as two parts, whose sizes bound the rounding: u' W, and the part from |t|²/2. */
static void derivatives(const bo_features *f, const double *w, const double *t, const double *z, size_t i, size_t j,
                        double *along, double *across)
{
    size_t m = f->frequencies ? f->frequencies : DIM;
    bool second = i >= m, wave = f->desc.function == BO_FUNCTION_SINCOS;
    double slope = wave ? (second ? z[i - m] : -z[i + m]) : (second ? -z[i] : z[i]);
    *along = f->frequencies ? f->u_scale * w[i % m * DIM + j] * slope : i % m == j ? slope : 0;
    *across = f->frequencies ? t[j] * (wave ? z[i] : -z[i]) : 0;
}

/* dz/dx of scaled maps: du = ±dz z, dt = s du W ∓ t Σ dz z. */
static void check_scaled_gradients(bo_context *context, const block *b)
{
    const bo_features *f = b->f;
    double w[FREQUENCIES * DIM], x[DIM], t[DIM], z[MAX_LENGTH], along, across;
    if (f->frequencies) assert_ok(context, bo_features_dense_f64(context, f, w));
    for (size_t r = 0; r < ROWS; r++) {
        const float *dz = b->dz + r * b->ldz;
        double dt[DIM] = {0}, size[DIM] = {0};
        scaled_row(b, r, x, t);
        reference(f, w, t, (double)b->log_scale[r], z);
        for (size_t i = 0; i < b->length; i++) {
            for (size_t j = 0; j < DIM; j++) {
                derivatives(f, w, t, z, i, j, &along, &across);
                dt[j] += (double)dz[i] * (along + across);
                size[j] += fabs((double)dz[i] * along) + fabs((double)dz[i] * across);
            }
        }
        double limit = expm1(row_rounding(f, w, t)) + (double)b->length * 0x1p-24;
        if (f->desc.function == BO_FUNCTION_SINCOS) limit *= 8; /* errors have size 1, and features may be smaller */
        for (size_t j = 0; j < DIM; j++) {
            double value = (double)b->dx[r * b->ldx + j], expected = dt[j] * f->factor[j];
            if (!(fabs(value - expected) <= limit * size[j] * f->factor[j] + 1e-30))
                fail_msg("%s: gradient %zu of row %zu is %.9g, expected %.9g", map_name(&f->desc), j, r, value,
                         expected);
        }
    }
}

/* If nothing overflows, φ = exp(log scale) z and dz = exp(log scale) dφ: the gradients of the reference. */
static void check_gradients(bo_context *context, const block *b)
{
    double x[DIM], t[DIM], dz[MAX_LENGTH], dx[DIM], size = 0;
    for (size_t r = 0; r < ROWS; r++) {
        scaled_row(b, r, x, t);
        for (size_t i = 0; i < b->length; i++) dz[i] = (double)b->dz[r * b->ldz + i] * exp(-(double)b->log_scale[r]);
        assert_ok(context, bo_features_backward_f64(context, b->f, 1, x, DIM, dz, b->length, dx, DIM, NULL, NULL));
        for (size_t j = 0; j < DIM; j++) size = fmax(size, fabs(dx[j]));
        for (size_t j = 0; j < DIM; j++) {
            double value = (double)b->dx[r * b->ldx + j];
            if (!(fabs(value - dx[j]) <= 1e-4 * (1 + size)))
                fail_msg("%s: gradient %zu of row %zu is %.9g, expected %.9g", map_name(&b->f->desc), j, r, value,
                         dx[j]);
        }
    }
}

static void ignore_large_frequencies(bo_context *context, block *b)
{
    float w[FREQUENCIES * DIM];
    size_t m = b->f->frequencies;
    if (!m) return;
    assert_ok(context, bo_features_dense_f32(context, b->f, w));
    for (size_t i = 0; i < b->length; i++)
        for (size_t j = 0; j < DIM; j++)
            if (fabs((double)w[i % m * DIM + j]) > large)
                for (size_t r = 0; r < ROWS; r++) b->dz[r * b->ldz + i] = 0;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void check_moderate(bo_context *context, const bo_features_desc *desc, void *user)
{
    (void)user;
    if (desc->kernel == BO_KERNEL_CUSTOM) return; /* float only: a_callback_makes_blocks */
    for (int length_scales = 0; length_scales < 2; length_scales++) {
        block *b = make_block(context, desc, length_scales, 0.9);
        ignore_large_frequencies(context, b);
        run(b, 0, ROWS);
        check_features(context, b);
        check_gradients(context, b);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t j = DIM; j < DIM + GAP; j++) assert_true(b->dx[r * b->ldx + j] == -7);
        drop(b);
    }
}

static void every_isa_agrees_with_float64(void **state)
{
    (void)state;
    float sample[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    for (size_t i = 0; i < TEST_ISAS; i++) {
        bo_context_desc desc = {.threads = 1, .isa = test_isas[i]};
        bo_context *context = NULL;
        if (bo_context_create(&desc, &context) != BO_OK) continue; /* not on this CPU */
        assert_true(for_each_map(context, sample, check_moderate, NULL) > 200);
        bo_context_destroy(context);
    }
}

static void check_large(bo_context *context, const bo_features_desc *desc, void *user)
{
    const double norms[] = {0, 30, 1000};
    (void)user;
    if (desc->kernel == BO_KERNEL_CUSTOM) return;
    if (desc->function == BO_FUNCTION_LANDMARKS) return; /* they vanish or grow with the kernel */
    for (size_t i = 0; i < 3; i++) {
        block *b = make_block(context, desc, i == 1, norms[i]);
        run(b, 0, ROWS);
        check_features(context, b);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t j = 0; j < DIM; j++)
                if (!isfinite(b->dx[r * b->ldx + j])) fail_msg("%s: a gradient is not finite", map_name(desc));
        if (bo_features_scaled(b->f)) check_scaled_gradients(context, b);
        drop(b);
    }
}

static void large_norms_neither_overflow_nor_vanish(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float sample[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    for_each_map(context, sample, check_large, NULL);
    bo_context_destroy(context);
}

static void check_rows(bo_context *context, const bo_features_desc *desc, void *user)
{
    (void)user;
    block *whole = make_block(context, desc, false, 2), *parts = make_block(context, desc, false, 2);
    run(whole, 0, ROWS);
    for (size_t first = 0, count = 1; first < ROWS; first += count, count = count % 7 + 1)
        run(parts, first, first + count < ROWS ? count : ROWS - first);
    run(parts, 0, 0);
    if (memcmp(whole->z, parts->z, sizeof whole->z) || memcmp(whole->dx, parts->dx, sizeof whole->dx) ||
        memcmp(whole->log_scale, parts->log_scale, sizeof whole->log_scale))
        fail_msg("%s: a row's bits depend on the other rows", map_name(desc));
    drop(whole);
    drop(parts);
}

static void a_row_depends_on_that_row_alone(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float sample[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    for_each_map(context, sample, check_rows, NULL);
    bo_context_destroy(context);
}

/* A NaN gives NaN in its row and does not affect other rows. */
static void check_nan(bo_context *context, const bo_features_desc *desc, void *user)
{
    (void)user;
    block *b = make_block(context, desc, false, 2);
    b->x[b->ldx + 1] = NAN;
    run(b, 0, 3);
    for (size_t r = 0; r < 3; r++) {
        bool found = isnan(b->log_scale[r]);
        for (size_t i = 0; i < b->length; i++) found |= isnan(b->z[r * b->ldz + i]);
        if (found != (r == 1)) fail_msg("%s: row %zu has %s NaN", map_name(desc), r, found ? "a" : "no");
    }
    drop(b);
}

static void a_nan_is_not_lost(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float sample[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    for_each_map(context, sample, check_nan, NULL);
    bo_context_destroy(context);
}

static void a_callback_makes_blocks(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features_desc desc = map_desc(BO_KERNEL_CUSTOM, BO_FUNCTION_CUSTOM, BO_DRAW_IID, BO_SAMPLING_DRAWN, NULL);
    block *b = make_block(context, &desc, true, 1);
    float z[ROWS * FREQUENCIES], dx[ROWS * DIM];
    run(b, 0, ROWS);
    assert_true(bo_features_differentiable(b->f));
    assert_ok(context, bo_features_apply(context, b->f, &(bo_inputs){.rows = ROWS, .x = b->x, .stride = b->ldx}, z,
                                         FREQUENCIES));
    assert_ok(context, bo_features_backward(context, b->f, &(bo_inputs){.rows = ROWS, .x = b->x, .stride = b->ldx},
                                            b->dz, b->ldz, dx, DIM, NULL, NULL));
    for (size_t r = 0; r < ROWS; r++) {
        assert_memory_equal(z + r * FREQUENCIES, b->z + r * b->ldz, FREQUENCIES * sizeof *z);
        for (size_t j = 0; j < DIM; j++) assert_close((double)b->dx[r * b->ldx + j], (double)dx[r * DIM + j], 1e-5);
    }
    drop(b);
    desc.custom_backward = NULL;
    b = make_block(context, &desc, true, 1);
    assert_false(bo_features_differentiable(b->f));
    drop(b);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_agrees_with_float64),   cmocka_unit_test(large_norms_neither_overflow_nor_vanish),
        cmocka_unit_test(a_row_depends_on_that_row_alone), cmocka_unit_test(a_nan_is_not_lost),
        cmocka_unit_test(a_callback_makes_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
