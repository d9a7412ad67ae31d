/* Gradients of every map compared with central differences in float64, and float32 gradients with float64 ones.
 *
 * A central difference with step h has an error of h² f'''/6 and a rounding error of 1e-16/h. Frequencies of
 * heavy-tailed spectra make f''' as large as |w|³, so features of frequencies beyond LARGE get no weight in the loss:
 * at h = 2⁻¹⁷ and |w| < 32 the relative error is (|w| h)²/6 < 1e-8. */
#include "maps.h"
#include "features/facts.h"

enum { ROWS = 3, MAX_LENGTH = 128 };
static const double large = 32, step = 1.0 / 131072, tolerance = 1e-6;

typedef struct problem {
    bo_context *context;
    bo_features *f;
    double x[ROWS * DIM], dz[ROWS * MAX_LENGTH], dx[ROWS * DIM], dl[DIM], dw[FREQUENCIES * DIM];
    size_t length;
} problem;

static double largest_entry(const bo_features *f, const float *w, size_t i)
{
    double largest_value = 0;
    for (size_t j = 0; j < f->desc.dim; j++) largest_value = fmax(largest_value, fabs((double)w[i * f->desc.dim + j]));
    return largest_value;
}

static double loss(const problem *p)
{
    double z[ROWS * MAX_LENGTH], sum = 0;
    assert_ok(p->context, bo_features_apply_f64(p->context, p->f, ROWS, p->x, DIM, z, p->length));
    for (size_t i = 0; i < ROWS * p->length; i++) sum += z[i] * p->dz[i];
    return sum;
}

static void begin(problem *p, bo_context *context, const bo_features_desc *map)
{
    float scales[DIM], w[FREQUENCIES * DIM];
    bo_features_desc desc = *map;
    bo_rng rng = bo_rng_make(7, 7);
    for (size_t j = 0; j < DIM; j++) scales[j] = (float)(0.8 + 0.1 * (double)j);
    desc.length_scales = scales;
    p->context = context;
    assert_ok(context, bo_features_create(context, &desc, &p->f));
    p->length = bo_features_describe(p->f)->features;
    assert_true(p->length <= MAX_LENGTH);
    size_t m = bo_features_frequencies(p->f);
    for (size_t i = 0; i < ROWS * DIM; i++) p->x[i] = (double)(float)(0.4 * bo_rng_normal(&rng));
    for (size_t i = 0; i < ROWS * p->length; i++) p->dz[i] = (double)(float)bo_rng_normal(&rng);
    if (!m) return;
    assert_ok(context, bo_features_get_frequencies(context, p->f, w));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < p->length; i++)
            if (largest_entry(p->f, w, i % m) > large) p->dz[r * p->length + i] = 0;
}

static void compare(const problem *p, const char *what, size_t index, double analytic, double numeric, double size)
{
    if (!(fabs(analytic - numeric) <= tolerance * (1 + size)))
        fail_msg("%s: gradient of %s %zu is %.10g, by differences %.10g", map_name(&p->f->desc), what, index, analytic,
                 numeric);
}

static double largest(const double *values, size_t count)
{
    double largest_value = 0;
    for (size_t i = 0; i < count; i++) largest_value = fmax(largest_value, fabs(values[i]));
    return largest_value;
}

static void check_inputs(problem *p)
{
    double size = largest(p->dx, ROWS * DIM);
    for (size_t i = 0; i < ROWS * DIM; i++) {
        double keep = p->x[i];
        p->x[i] = keep + step;
        double up = loss(p);
        p->x[i] = keep - step;
        double down = loss(p);
        p->x[i] = keep;
        compare(p, "input", i, p->dx[i], (up - down) / (2 * step), size);
    }
}

/* A length scale changes the factors of the object: input_scale / ℓ. */
static void check_length_scales(problem *p)
{
    double size = largest(p->dl, DIM);
    for (size_t j = 0; j < DIM; j++) {
        double keep = p->f->factor[j], l = (double)p->f->length_scales[j];
        p->f->factor[j] = p->f->input_scale / (l + step);
        double up = loss(p);
        p->f->factor[j] = p->f->input_scale / (l - step);
        double down = loss(p);
        p->f->factor[j] = keep;
        compare(p, "length scale", j, p->dl[j], (up - down) / (2 * step), size);
    }
}

/* Frequencies are floats: the actual step is the difference of two of them. */
static void check_frequencies(problem *p)
{
    bo_features *f = p->f;
    double size = largest(p->dw, f->frequencies * DIM);
    for (size_t i = 0; i < f->frequencies * DIM; i++) {
        float keep = f->w[i];
        if (largest_entry(f, f->w, i / DIM) > large) continue;
        float next = keep + 0.0001f, before = keep - (next - keep);
        f->w[i] = next;
        assert_ok(p->context, bo_features_finish(p->context, f));
        double up = loss(p);
        f->w[i] = before;
        assert_ok(p->context, bo_features_finish(p->context, f));
        double down = loss(p);
        f->w[i] = keep;
        double difference = ((double)next - (double)before) * f->input_scale;
        compare(p, "frequency", i, p->dw[i], (up - down) / difference, size);
    }
    assert_ok(p->context, bo_features_finish(p->context, f));
}

/* Length scales would move landmarks: there is no gradient. */
static bool has_scales(const bo_features *f)
{
    return !f->landmarks;
}

/* Float: u has a rounding error of 6e-8 Σ|w t| <= 6e-8 · 32 · 4, and gradients are sums of about MOST such terms with
 * random signs. */
static void check_float(const problem *p)
{
    float x[ROWS * DIM], dz[ROWS * MAX_LENGTH], dx[ROWS * DIM], dl[DIM], dw[FREQUENCIES * DIM];
    const float limit = 1e-4f;
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] = (float)p->x[i];
    for (size_t i = 0; i < ROWS * p->length; i++) dz[i] = (float)p->dz[i];
    assert_ok(p->context, bo_features_backward(p->context, p->f, &(bo_inputs){.rows = ROWS, .x = x}, dz, p->length, dx,
                                               DIM, has_scales(p->f) ? dl : NULL, p->f->w ? dw : NULL));
    double size = largest(p->dx, ROWS * DIM), sizel = largest(p->dl, DIM);
    for (size_t i = 0; i < ROWS * DIM; i++) assert_close((double)dx[i], p->dx[i], (double)limit * (1 + size));
    for (size_t j = 0; has_scales(p->f) && j < DIM; j++)
        assert_close((double)dl[j], p->dl[j], (double)limit * (1 + sizel));
    double sizew = p->f->w ? largest(p->dw, p->f->frequencies * DIM) : 0;
    for (size_t i = 0; p->f->w && i < p->f->frequencies * DIM; i++)
        assert_close((double)dw[i], p->dw[i], (double)limit * (1 + sizew));
}

static void check_map(bo_context *context, const bo_features_desc *desc, void *user)
{
    problem p = {0};
    (void)user;
    if (desc->kernel == BO_KERNEL_CUSTOM) return;
    begin(&p, context, desc);
    if (!has_scales(p.f))
        assert_fails(context, BO_UNSUPPORTED, "length scales",
                     bo_features_backward_f64(context, p.f, ROWS, p.x, DIM, p.dz, p.length, p.dx, DIM, p.dl, NULL));
    assert_ok(context, bo_features_backward_f64(context, p.f, ROWS, p.x, DIM, p.dz, p.length, p.dx, DIM,
                                                has_scales(p.f) ? p.dl : NULL, p.f->w ? p.dw : NULL));
    check_inputs(&p);
    if (has_scales(p.f)) check_length_scales(&p);
    if (p.f->w && desc->draw == BO_DRAW_IID) check_frequencies(&p);
    check_float(&p);
    bo_features_destroy(p.f);
}

static void every_map_has_its_gradients(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float sample[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    assert_true(for_each_map(context, sample, check_map, NULL) > 200);
    bo_context_destroy(context);
}

/* More rows than a chunk: sums over rows are sums over chunks. */
static void gradients_add_up_over_chunks(void **state)
{
    (void)state;
    enum { MANY = 600, R = 32 };
    bo_context *context = test_context(2);
    bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX, .dim = DIM, .features = R, .seed = 2};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &desc, &f));
    double *x = malloc(MANY * DIM * sizeof *x), *dz = malloc(MANY * R * sizeof *dz), dw[R * DIM], dl[DIM];
    double sum[R * DIM] = {0}, suml[DIM] = {0}, dx[DIM], *all = malloc(MANY * DIM * sizeof *all);
    bo_rng rng = bo_rng_make(3, 3);
    for (size_t i = 0; i < MANY * DIM; i++) x[i] = 0.3 * bo_rng_normal(&rng);
    for (size_t i = 0; i < MANY * R; i++) dz[i] = bo_rng_normal(&rng);
    assert_ok(context, bo_features_backward_f64(context, f, MANY, x, DIM, dz, R, all, DIM, dl, dw));
    for (size_t r = 0; r < MANY; r++) {
        double one[R * DIM], onel[DIM];
        assert_ok(context,
                  bo_features_backward_f64(context, f, 1, x + r * DIM, DIM, dz + r * R, R, dx, DIM, onel, one));
        for (size_t i = 0; i < R * DIM; i++) sum[i] += one[i];
        for (size_t j = 0; j < DIM; j++) suml[j] += onel[j];
        for (size_t j = 0; j < DIM; j++) assert_close(all[r * DIM + j], dx[j], 1e-12);
    }
    /* 600 rounding errors of numbers below 10 */
    for (size_t i = 0; i < R * DIM; i++) assert_close(dw[i], sum[i], 1e-11);
    for (size_t j = 0; j < DIM; j++) assert_close(dl[j], suml[j], 1e-11);
    free(x);
    free(dz);
    free(all);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* The gradient of a custom function: differences of the float features with a step that float can resolve. */
static void a_callback_has_gradients(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features_desc desc = map_desc(BO_KERNEL_CUSTOM, BO_FUNCTION_CUSTOM, BO_DRAW_IID, BO_SAMPLING_DRAWN, NULL);
    bo_features *f;
    float x[DIM], dz[FREQUENCIES], z[2][FREQUENCIES], dx[DIM];
    assert_ok(context, bo_features_create(context, &desc, &f));
    test_inputs(5, DIM, x);
    test_inputs(6, FREQUENCIES, dz);
    assert_ok(context,
              bo_features_backward(context, f, &(bo_inputs){.rows = 1, .x = x}, dz, FREQUENCIES, dx, DIM, NULL, NULL));
    for (size_t j = 0; j < DIM; j++) {
        float keep = x[j], h = 1.0f / 128;
        for (int side = 0; side < 2; side++) {
            x[j] = side ? keep + h : keep - h;
            assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 1, .x = x, .stride = DIM}, z[side],
                                                 FREQUENCIES));
        }
        x[j] = keep;
        double numeric = 0;
        for (size_t i = 0; i < FREQUENCIES; i++) numeric += (double)((z[1][i] - z[0][i]) * dz[i]) / (2 * (double)h);
        assert_close((double)dx[j], numeric, 1e-3); /* h² |w|³/3 Σ|dz| */
    }
    bo_features_destroy(f);
    desc.custom_backward = NULL;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_fails(
        context, BO_UNSUPPORTED, "custom_backward",
        bo_features_backward(context, f, &(bo_inputs){.rows = 1, .x = x}, dz, FREQUENCIES, dx, DIM, NULL, NULL));
    bo_features_destroy(f);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_map_has_its_gradients),
        cmocka_unit_test(gradients_add_up_over_chunks),
        cmocka_unit_test(a_callback_has_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
