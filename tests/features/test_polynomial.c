/* Polynomials with enough dimensions to fill several vectors: exact maps give their kernel for every degree and size,
 * and blocks of these maps and of the self-tensored sketch have the float64 gradients. */
#include "maps.h"
#include "isas.h"
#include "features/block.h"
#include "features/facts.h"

enum { WIDE = 70, ROWS = 18 }; /* more rows than the sketch takes at a time */

typedef struct map_case {
    bo_kernel kernel;
    bo_function function;
    size_t dim;
    int degree;
    size_t features;
} map_case;

static const map_case cases[] = {
    {BO_KERNEL_TAYLOR, 0, 1, 0, 0},
    {BO_KERNEL_TAYLOR, 0, 33, 0, 0},
    {BO_KERNEL_TAYLOR, 0, WIDE, 0, 0},
    {BO_KERNEL_POLYNOMIAL, 0, 1, 5, 0},
    {BO_KERNEL_POLYNOMIAL, 0, WIDE, 1, 0},
    {BO_KERNEL_POLYNOMIAL, 0, 16, 2, 0},
    {BO_KERNEL_POLYNOMIAL, 0, WIDE, 2, 0},
    {BO_KERNEL_POLYNOMIAL, 0, 35, 3, 0},
    {BO_KERNEL_POLYNOMIAL, 0, 18, 4, 0},
    {BO_KERNEL_POLYNOMIAL, 0, 5, 7, 0},
    {BO_KERNEL_POLYNOMIAL, BO_FUNCTION_SELFTENSOR, WIDE, 2, 820},
    {BO_KERNEL_POLYNOMIAL, BO_FUNCTION_SELFTENSOR, WIDE, 4, 153},
    {BO_KERNEL_POLYNOMIAL, BO_FUNCTION_SELFTENSOR, 33, 6, 561},
    {BO_KERNEL_POLYNOMIAL, BO_FUNCTION_SELFTENSOR, 1, 12, 15},
};

typedef struct setting {
    bo_features *f;
    size_t dim, length;
    float x[ROWS * WIDE], dx[ROWS * WIDE];
    double wide[ROWS * WIDE], exact_dx[ROWS * WIDE];
    float *z, *dz;
    double *exact_z, *exact_dz;
} setting;

static setting *create_setting(bo_context *context, const map_case *c)
{
    setting *s = malloc(sizeof *s);
    bo_rng rng = bo_rng_make(7, 7);
    bo_features_desc desc = {.kernel = c->kernel,
                             .function = c->function,
                             .dim = c->dim,
                             .degree = c->degree,
                             .features = c->features,
                             .gamma = 1 / (double)c->dim};
    assert_ok(context, bo_features_create(context, &desc, &s->f));
    s->dim = c->dim;
    s->length = bo_features_describe(s->f)->features;
    s->z = malloc(ROWS * s->length * sizeof *s->z);
    s->dz = malloc(ROWS * s->length * sizeof *s->dz);
    s->exact_z = malloc(ROWS * s->length * sizeof *s->exact_z);
    s->exact_dz = malloc(ROWS * s->length * sizeof *s->exact_dz);
    for (size_t i = 0; i < ROWS * s->dim; i++) s->wide[i] = (double)(s->x[i] = (float)bo_rng_normal(&rng));
    for (size_t i = 0; i < ROWS * s->length; i++) s->exact_dz[i] = (double)(s->dz[i] = (float)bo_rng_normal(&rng));
    return s;
}

static void drop(setting *s)
{
    bo_features_destroy(s->f);
    free(s->z), free(s->dz), free(s->exact_z), free(s->exact_dz), free(s);
}

static void run(bo_context *context, setting *s)
{
    size_t bytes = bo_features_block_bytes(s->f, ROWS);
    float log_scale[ROWS];
    void *scratch = aligned_alloc(64, bytes + 64);
    memset(scratch, 0xff, bytes);
    bo_features_block(s->f, ROWS, s->x, s->dim, s->z, s->length, log_scale, scratch);
    bo_features_block_backward(s->f, ROWS, s->x, s->dim, s->z, s->length, s->dz, s->length, s->dx, s->dim, scratch);
    free(scratch);
    assert_ok(context, bo_features_apply_f64(context, s->f, ROWS, s->wide, s->dim, s->exact_z, s->length));
    assert_ok(context, bo_features_backward_f64(context, s->f, ROWS, s->wide, s->dim, s->exact_dz, s->length,
                                                s->exact_dx, s->dim, NULL, NULL));
}

static double largest(const double *x, size_t count)
{
    double largest_value = 0;
    for (size_t i = 0; i < count; i++) largest_value = fmax(largest_value, fabs(x[i]));
    return largest_value;
}

/* A feature is a product of at most p inputs, a sketched one a product of sums of dim inputs: 1e-5 of the largest
 * allows for a hundred rounding errors; a misplaced entry has an error as large as the entry. A gradient sums as many
 * terms of either sign as there are features. */
static void blocks_agree_with_float64(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_ISAS; i++) {
        bo_context_desc about = {.threads = 1, .isa = test_isas[i]};
        bo_context *context = NULL;
        if (bo_context_create(&about, &context) != BO_OK) continue; /* not on this CPU */
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            setting *s = create_setting(context, &cases[k]);
            run(context, s);
            double largest_z = largest(s->exact_z, ROWS * s->length), largest_dx = largest(s->exact_dx, ROWS * s->dim);
            for (size_t j = 0; j < ROWS * s->length; j++)
                if (!(fabs((double)s->z[j] - s->exact_z[j]) <= 1e-5 * largest_z))
                    fail_msg("case %zu on %s: feature %zu is %.9g, expected %.9g", k, test_isas[i], j, (double)s->z[j],
                             s->exact_z[j]);
            for (size_t j = 0; j < ROWS * s->dim; j++)
                if (!(fabs((double)s->dx[j] - s->exact_dx[j]) <= 2e-5 * largest_dx))
                    fail_msg("case %zu on %s: gradient %zu is %.9g, expected %.9g", k, test_isas[i], j,
                             (double)s->dx[j], s->exact_dx[j]);
            drop(s);
        }
        bo_context_destroy(context);
    }
}

/* In float64: the features of two rows give the kernel, and along any direction v the derivative of φ(x + εv)·c agrees
 * with the gradient. Central differences have an error of ε² times the third derivative plus 1e-16/ε. */
static void exact_features_give_the_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        setting *s = create_setting(context, &cases[k]);
        const double step = 1e-5;
        double k00[ROWS * ROWS], slope = 0, along = 0;
        run(context, s);
        assert_ok(context, bo_kernel_matrix(context, bo_features_describe(s->f), ROWS, s->x, s->dim, ROWS, s->x, s->dim,
                                            k00, ROWS));
        for (size_t i = 0; i < ROWS && s->f->function->exact; i++) {
            double dot = 0;
            for (size_t j = 0; j < s->length; j++) dot += s->exact_z[j] * s->exact_z[i * s->length + j];
            assert_close(dot, k00[i], 1e-12 * fmax(fabs(k00[i]), k00[0]));
        }
        double moved[2 * WIDE];
        for (size_t j = 0; j < s->dim; j++) { /* the second row is the direction */
            moved[j] = s->wide[j] + step * s->wide[s->dim + j];
            moved[s->dim + j] = s->wide[j] - step * s->wide[s->dim + j];
            along += s->exact_dx[j] * s->wide[s->dim + j];
        }
        assert_ok(context, bo_features_apply_f64(context, s->f, 2, moved, s->dim, s->exact_z, s->length));
        for (size_t j = 0; j < s->length; j++)
            slope += (s->exact_z[j] - s->exact_z[s->length + j]) / (2 * step) * s->exact_dz[j];
        if (!(fabs(slope - along) <= 1e-6 * (1 + fabs(along))))
            fail_msg("case %zu: the numerical derivative is %.12g, the gradient %.12g", k, slope, along);
        drop(s);
    }
    bo_context_destroy(context);
}

static double gram(const double *z, size_t length, size_t i, size_t j)
{
    double sum = 0;
    for (size_t k = 0; k < length; k++) sum += z[i * length + k] * z[j * length + k];
    return sum;
}

/* φ(x)·φ(x') is the square of y·y'. For p = 2, y is affine in x: halfway between two inputs, |y|² is a quarter of |y₁|²
 * + |y₂|² + 2 y₁·y₂, and all four of these are roots of products of features. */
static void selftensor_squares(void **state)
{
    (void)state;
    enum { D = 5, LENGTH = 28 };
    bo_context *context = test_context(1);
    bo_features_desc desc = {
        .kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .dim = D, .features = LENGTH, .degree = 2};
    bo_features *f;
    double x[3 * D], z[3 * LENGTH];
    for (size_t j = 0; j < D; j++) { /* close to each other, so that y₁·y₂ > 0 */
        x[j] = 0.3 * (double)j - 0.5;
        x[D + j] = x[j] + 0.1;
        x[2 * D + j] = (x[j] + x[D + j]) / 2;
    }
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_apply_f64(context, f, 3, x, D, z, LENGTH));
    double expected = sqrt(gram(z, LENGTH, 0, 0)) + sqrt(gram(z, LENGTH, 1, 1)) + 2 * sqrt(gram(z, LENGTH, 0, 1));
    assert_close(sqrt(gram(z, LENGTH, 2, 2)), expected / 4, 1e-13 * expected);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_agree_with_float64),
        cmocka_unit_test(exact_features_give_the_kernel),
        cmocka_unit_test(selftensor_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
