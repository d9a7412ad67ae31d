/* Features of a block of rows in float64, for every map: compared with φ in float64, with the log scales of float32,
 * and at norms where φ would overflow or underflow. */
#include "maps.h"
#include "features/facts.h"

enum { ROWS = 5, MAX_LENGTH = 128 };

typedef struct block {
    bo_features *f;
    size_t length;
    double x[ROWS * DIM], dx[ROWS * DIM], z[ROWS * MAX_LENGTH], dz[ROWS * MAX_LENGTH], log_scale[ROWS];
} block;

/* Forward and backward with exactly the announced scratch. */
static block *make_block(bo_context *context, const bo_features_desc *map, double norm)
{
    float scales[DIM];
    bo_features_desc desc = *map;
    block *b = calloc(1, sizeof *b);
    double w[FREQUENCIES * DIM];
    bo_rng rng = bo_rng_make(5, 5);
    for (size_t j = 0; j < DIM; j++) scales[j] = (float)(0.8 + 0.1 * (double)j);
    if (map->draw == BO_DRAW_IID) desc.length_scales = scales;
    assert_ok(context, bo_features_create(context, &desc, &b->f));
    b->length = bo_features_describe(b->f)->features;
    assert_true(b->length <= MAX_LENGTH && bo_features_has_f64(b->f));
    for (size_t i = 0; i < ROWS * DIM; i++) b->x[i] = (double)(float)(norm / sqrt(DIM) * bo_rng_normal(&rng));
    for (size_t i = 0; i < ROWS * MAX_LENGTH; i++) b->dz[i] = bo_rng_normal(&rng);
    if (b->f->frequencies) assert_ok(context, bo_features_dense_f64(context, b->f, w));
    size_t bytes = bo_features_block_f64_bytes(b->f);
    unsigned char *scratch = aligned_alloc(64, bytes + 64);
    assert_int_equal(bytes % 64, 0);
    memset(scratch, 0xff, bytes + 64); /* NaN */
    bo_features_block_f64(b->f, w, ROWS, b->x, b->z, b->log_scale, scratch);
    bo_features_block_backward_f64(b->f, w, ROWS, b->x, b->z, b->dz, b->dx, scratch);
    for (size_t i = bytes; i < bytes + 64; i++)
        if (scratch[i] != 0xff) fail_msg("byte %zu behind the scratch was written", i - bytes);
    free(scratch);
    return b;
}

static void drop(block *b)
{
    bo_features_destroy(b->f);
    free(b);
}

/* Both are sums in double, in another order; a map of landmarks solves a linear system and amplifies rounding. */
static void assert_row(const block *b, const char *what, size_t row, size_t width, const double *found,
                       const double *expected)
{
    double size = 1, limit = b->f->landmarks ? 1e-9 : 1e-12;
    for (size_t i = 0; i < width; i++) size = fmax(size, fabs(expected[i]));
    for (size_t i = 0; i < width; i++)
        if (!(fabs(found[i] - expected[i]) <= limit * size))
            fail_msg("%s: %s %zu of row %zu is %.17g, expected %.17g", map_name(&b->f->desc), what, i, row, found[i],
                     expected[i]);
}

/* If nothing overflows, φ = exp(log scale) z and dz = exp(log scale) dφ. */
static void check_moderate(bo_context *context, const bo_features_desc *desc, void *user)
{
    (void)user;
    if (desc->kernel == BO_KERNEL_CUSTOM) return;
    block *b = make_block(context, desc, 0.9);
    for (size_t r = 0; r < ROWS; r++) {
        double phi[MAX_LENGTH], dphi[MAX_LENGTH], found[MAX_LENGTH], dx[DIM], *z = b->z + r * b->length,
                                                                              *dz = b->dz + r * b->length;
        assert_ok(context, bo_features_apply_f64(context, b->f, 1, b->x + r * DIM, DIM, phi, b->length));
        for (size_t i = 0; i < b->length; i++) {
            found[i] = exp(b->log_scale[r]) * z[i];
            dphi[i] = exp(-b->log_scale[r]) * dz[i];
        }
        assert_row(b, "feature", r, b->length, found, phi);
        assert_ok(context, bo_features_backward_f64(context, b->f, 1, b->x + r * DIM, DIM, dphi, b->length, dx, DIM,
                                                    NULL, NULL));
        assert_row(b, "gradient", r, DIM, b->dx + r * DIM, dx);
    }
    drop(b);
}

/* The log scale of float32 differs by the rounding of u, of |t|²/2 and of the scale, which are all below 1e6 at
 * a norm of 1000: at most a few units of 2^-24 1e6. The largest feature is near 1/√features. */
static void check_large(bo_context *context, const bo_features_desc *desc, void *user)
{
    (void)user;
    if (desc->kernel == BO_KERNEL_CUSTOM || desc->function == BO_FUNCTION_LANDMARKS) return;
    block *b = make_block(context, desc, 1000);
    bool scaled = bo_features_scaled(b->f);
    void *scratch = aligned_alloc(64, bo_features_block_bytes(b->f, 1) + 64);
    for (size_t r = 0; r < ROWS; r++) {
        float x[DIM], z[MAX_LENGTH], log_scale;
        double top = 0;
        for (size_t j = 0; j < DIM; j++) x[j] = (float)b->x[r * DIM + j];
        bo_features_block(b->f, 1, x, DIM, z, b->length, &log_scale, scratch);
        assert_close(b->log_scale[r], (double)log_scale, scaled ? 8 * 0x1p-24 * 1e6 : 0);
        for (size_t i = 0; i < b->length; i++) top = fmax(top, fabs(b->z[r * b->length + i]) * sqrt((double)b->length));
        if (scaled && !(top > 0.2 && top < 1.5 * sqrt(20)))
            fail_msg("%s: the largest of row %zu is %g", map_name(desc), r, top);
        for (size_t j = 0; j < DIM; j++) assert_true(isfinite(b->dx[r * DIM + j]));
    }
    free(scratch);
    drop(b);
}

static void visit_all(map_visitor visit)
{
    float sample[SAMPLE_ROWS * DIM];
    bo_context *context = test_context(1);
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    assert_true(for_each_map(context, sample, visit, NULL) > 200);
    bo_context_destroy(context);
}

static void blocks_are_features(void **state)
{
    (void)state;
    visit_all(check_moderate);
}

static void large_norms_neither_overflow_nor_vanish(void **state)
{
    (void)state;
    visit_all(check_large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_features),
                                       cmocka_unit_test(large_norms_neither_overflow_nor_vanish)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
