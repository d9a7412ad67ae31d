/* Frequencies that are chosen by data: the scores, and the predicted error of the kernel over pairs of rows. */
#include "features/enums.h"
#include "maps.h"
#include "math/linalg.h"

enum { ROWS = 24, KEPT = 16, CANDIDATES = 8 * KEPT, SEEDS = 60, LARGEST_DIM = 12 };

/* Rows small enough that the error of positive features has finite fourth moments. */
static void make_rows(uint64_t seed, size_t dim, double offset, float *x)
{
    test_inputs(seed, ROWS * dim, x);
    for (size_t i = 0; i < ROWS * dim; i++) x[i] = (float)((double)x[i] * sqrt(fmin(1, 6.0 / (double)dim)) + offset);
}

/* Returns g[i] = m f_i(x)·f_i(y) / m: the part of frequency i in φ(x)·φ(y). */
static double part(const bo_features *f, const double *zx, const double *zy, size_t i)
{
    double sum = 0;
    for (size_t at = i; at < f->desc.features; at += f->frequencies) sum += zx[at] * zy[at];
    return sum;
}

static double *features_of(bo_context *context, const bo_features *f, const float *x)
{
    size_t dim = f->desc.dim;
    double *wide = malloc(ROWS * dim * sizeof *wide), *z = malloc(ROWS * f->desc.features * sizeof *z);
    for (size_t i = 0; i < ROWS * dim; i++) wide[i] = (double)x[i];
    assert_ok(context, bo_features_apply_f64(context, f, ROWS, wide, dim, z, f->desc.features));
    free(wide);
    return z;
}

/* Ridge leverage scores, diag(Zᵀ (ZZᵀ + λI)⁻¹ Z), summed over the features of each frequency. */
static void leverage(bo_context *context, const bo_features *f, const double *z, double *score)
{
    size_t columns = f->desc.features;
    double gram[ROWS * ROWS], *solved = malloc(ROWS * columns * sizeof *solved);
    memcpy(solved, z, ROWS * columns * sizeof *solved);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            gram[i * ROWS + j] = i == j ? f->desc.leverage_lambda : 0;
            for (size_t c = 0; c < columns; c++) gram[i * ROWS + j] += z[i * columns + c] * z[j * columns + c];
        }
    assert_ok(context, bo_cholesky(context, ROWS, gram, ROWS, NULL));
    assert_ok(context, bo_solve_lower(context, ROWS, columns, gram, ROWS, solved, columns));
    for (size_t i = 0; i < f->frequencies; i++) score[i] = 0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < columns; c++)
            score[c % f->frequencies] += solved[r * columns + c] * solved[r * columns + c];
    free(solved);
}

/* Returns the mean squared error over pairs of different rows for KEPT independent choices among the candidates, with a
 * twentieth of the probability uniform. */
static double independent_error(bo_context *context, const bo_features_desc *desc, const float *x)
{
    bo_features_desc drawn = *desc;
    drawn.sampling = BO_SAMPLING_DRAWN;
    drawn.candidates = 0;
    drawn.features = desc->features / KEPT * CANDIDATES;
    bo_features *f;
    assert_ok(context, bo_features_create(context, &drawn, &f));
    double *z = features_of(context, f, x), q[CANDIDATES], reached[CANDIDATES], sum = 0, error = 0;
    bo_feature_sample sample = {x, ROWS, desc->dim};
    if (desc->sampling == BO_SAMPLING_LEVERAGE) {
        f->desc.leverage_lambda = desc->leverage_lambda;
        leverage(context, f, z, q);
    } else {
        assert_ok(context, bo_features_log_scores(context, f, &sample, &sample, q));
        for (size_t i = 0; i < CANDIDATES; i++) q[i] = exp(q[i]);
    }
    for (size_t i = 0; i < CANDIDATES; i++) sum += q[i];
    for (size_t i = 0; i < CANDIDATES; i++) {
        q[i] = 0.95 * q[i] / sum + 0.05 / CANDIDATES;
        reached[i] = q[i] + (i ? reached[i - 1] : 0);
    }
    bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("test.choice", 0));
    size_t chosen[KEPT];
    for (size_t k = 0; k < KEPT; k++) {
        double u = bo_rng_uniform(&rng);
        for (chosen[k] = 0; chosen[k] + 1 < CANDIDATES && reached[chosen[k]] < u; chosen[k]++) {
        }
    }
    for (size_t a = 0; a < ROWS; a++)
        for (size_t b = 0; b < ROWS; b++) {
            if (a == b) continue;
            bo_pair pair = bo_pair_make(&f->desc, f->factor, x + a * desc->dim, x + b * desc->dim);
            double estimate = 0;
            for (size_t k = 0; k < KEPT; k++)
                estimate +=
                    part(f, z + a * f->desc.features, z + b * f->desc.features, chosen[k]) / q[chosen[k]] / KEPT;
            double difference = estimate - bo_kernel_value(&f->desc, &pair);
            error += difference * difference / (ROWS * (ROWS - 1));
        }
    free(z);
    bo_features_destroy(f);
    return error;
}

/* The predicted error, the error of independent choices and the error of the library's systematic choices have the
 * means P, I and S over seeds: I = P and S <= P, up to the standard error of the differences. */
static void check_prediction(bo_context *context, bo_features_desc desc, const float *x, double ratio[2])
{
    double mean[3] = {0}, square[2] = {0};
    for (size_t s = 0; s < SEEDS; s++) {
        bo_features *f;
        bo_features_accuracy accuracy;
        desc.seed = s;
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_true(bo_features_resampled(f));
        assert_ok(context, bo_features_measure(context, f, &(bo_inputs){.rows = ROWS, .x = x}, 2000, s, &accuracy));
        desc.leverage_lambda = f->desc.leverage_lambda;
        bo_features_destroy(f);
        assert_true(accuracy.predicted_rms > 0 && isfinite(accuracy.features_for_1pct));
        double predicted = accuracy.predicted_rms * accuracy.predicted_rms;
        double errors[] = {independent_error(context, &desc, x), accuracy.error_rms * accuracy.error_rms};
        mean[2] += predicted / SEEDS;
        for (size_t i = 0; i < 2; i++) {
            mean[i] += errors[i] / SEEDS;
            square[i] += (errors[i] - predicted) * (errors[i] - predicted) / SEEDS;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        double difference = mean[i] - mean[2], standard = sqrt((square[i] - difference * difference) / SEEDS);
        if (!(difference <= 4.5 * standard && (i == 1 || difference >= -4.5 * standard)))
            fail_msg("%s, dim %zu, %s choices: mean squared error %.4g, predicted %.4g, standard error %.2g",
                     map_name(&desc), desc.dim, i ? "systematic" : "independent", mean[i], mean[2], standard);
        ratio[i] = sqrt(mean[i] / mean[2]);
    }
}

static void predictions_hold_for_independent_choices(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const size_t dims[] = {1, 4, LARGEST_DIM};
    size_t maps = 0;
    for (int sampling = BO_SAMPLING_OPTIMAL; sampling <= BO_SAMPLING_LEVERAGE; sampling++)
        for (int function = 1; function < BO_FUNCTION_CUSTOM; function++) {
            double sums[2] = {0}, ratio[2];
            size_t before = maps;
            for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
                for (int kernel = 0; kernel < BO_KERNEL_CUSTOM; kernel++) {
                    float x[ROWS * LARGEST_DIM];
                    make_rows(7, dims[d], 0.1, x);
                    const bo_function_definition *definition = bo_function_find((bo_function)function);
                    if (!(definition->kernels & BO_KERNEL_BIT(kernel)) || !definition->per_frequency ||
                        (definition->flat && sampling == BO_SAMPLING_OPTIMAL) || definition->exact)
                        continue;
                    bo_features_desc desc = {.kernel = (bo_kernel)kernel,
                                             .function = (bo_function)function,
                                             .draw = BO_DRAW_IID,
                                             .dim = dims[d],
                                             .features = definition->per_frequency * KEPT,
                                             .gamma = 0.7,
                                             .sampling = (bo_sampling)sampling,
                                             .sample = x,
                                             .sample_rows = ROWS};
                    check_prediction(context, desc, x, ratio);
                    for (size_t i = 0; i < 2; i++) sums[i] += ratio[i];
                    maps++;
                }
            if (maps > before)
                print_message("%s, %s: measured over predicted, independent %.3f, systematic %.3f\n",
                              bo_sampling_name((bo_sampling)sampling), bo_function_name((bo_function)function),
                              sums[0] / (double)(maps - before), sums[1] / (double)(maps - before));
        }
    assert_true(maps > 60);
    bo_context_destroy(context);
}

/* The score of a frequency with features f is √tr(A B), A = E f(x) f(x)ᵀ and B = E f(y) f(y)ᵀ over the rows of either
 * side: the square of the score is the mean over pairs of (f(x)·f(y))². */
static void scores_are_optimal(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM], y[ROWS * DIM];
    make_rows(3, DIM, 0.2, x);
    make_rows(4, DIM, -0.3, y);
    size_t maps = 0;
    for (int function = 1; function < BO_FUNCTION_CUSTOM; function++)
        for (int kernel = 0; kernel < BO_KERNEL_CUSTOM; kernel++) {
            const bo_function_definition *definition = bo_function_find((bo_function)function);
            if (!(definition->kernels & BO_KERNEL_BIT(kernel)) || !definition->per_frequency || definition->exact)
                continue;
            bo_features_desc desc = {.kernel = (bo_kernel)kernel,
                                     .function = (bo_function)function,
                                     .draw = BO_DRAW_IID,
                                     .dim = DIM,
                                     .features = definition->per_frequency * KEPT,
                                     .gamma = 0.7,
                                     .sample = x,
                                     .sample_rows = ROWS};
            bo_features *f;
            assert_ok(context, bo_features_create(context, &desc, &f));
            double *zx = features_of(context, f, x), *zy = features_of(context, f, y), score[KEPT];
            bo_feature_sample samples[] = {{x, ROWS, DIM}, {y, ROWS, DIM}};
            for (size_t same = 0; same < 2; same++) {
                assert_ok(context, bo_features_log_scores(context, f, &samples[0], &samples[same ? 0 : 1], score));
                for (size_t i = 0; i < KEPT; i++) {
                    double mean = 0;
                    for (size_t a = 0; a < ROWS; a++)
                        for (size_t b = 0; b < ROWS; b++) {
                            double g = KEPT * part(f, zx + a * desc.features, (same ? zx : zy) + b * desc.features, i);
                            mean += g * g / (ROWS * ROWS);
                        }
                    if (!(fabs(exp(2 * score[i]) - mean) <= 2e-6 * mean))
                        fail_msg("%s, frequency %zu: the square of the score is %g, the second moment is %g",
                                 map_name(&desc), i, exp(2 * score[i]), mean);
                }
            }
            maps++;
            free(zx);
            free(zy);
            bo_features_destroy(f);
        }
    assert_true(maps >= 18);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_hold_for_independent_choices),
        cmocka_unit_test(scores_are_optimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
