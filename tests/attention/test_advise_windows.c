/* Predictions of advice for windows (HYBRID), on data where windows matter and every head has a different
 * distribution. */
#define ADVICE_HEADS     4
#define ADVICE_KEY_HEADS 4
#include "advice.h"

/* Neighbors are similar: the coordinates of q and k follow x_t = ρ x_(t-1) + √(1-ρ²) noise (AR(1)), with k close to q.
 * Four coordinates are large and differ between heads, so frequencies drawn for all heads together fit no head. */
static data *drifting_data(uint64_t seed)
{
    const double rho = 0.97, together = 0.6;
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.advise.drift", 0));
    for (size_t h = 0; h < HEADS; h++)
        for (size_t j = 0; j < DIM; j++) {
            double each = pow(DIM, 0.25) * (j / 4 == h ? 0.6 : 0.1), x = bo_rng_normal(&rng);
            for (size_t t = 0; t < TOKENS; t++) {
                size_t at = (h * TOKENS + t) * DIM + j;
                x = rho * x + sqrt(1 - rho * rho) * bo_rng_normal(&rng);
                d->q[at] = (float)(each * x);
                d->k[at] = (float)(each * (together * x + sqrt(1 - together * together) * bo_rng_normal(&rng)));
            }
        }
    for (size_t i = 0; i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] = (float)bo_rng_normal(&rng);
    return d;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every row with a window reports the error of actual attention over all queries, calibrated on all rows, with other
 * draws: within a quarter, in the median over data sets, each the median of draws. */
static void windows_have_the_predicted_error(void **state)
{
    (void)state;
    enum { SEEDS = 5, WINDOWS = 3 };
    bo_context *context = test_context(2);
    double ratios[SEEDS * WINDOWS];
    size_t count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        data *d = drifting_data(seed);
        float *exact = softmax_of(context, d, true);
        bo_attention_advice *a = advise(context, d, true, 0.15, 128);
        for (size_t i = 0; i < a->map_count; i++) {
            const bo_attention_desc *desc = &a->maps[i].desc;
            if (desc->kind != BO_ATTENTION_HYBRID) continue;
            ratios[count++] = a->maps[i].error / follow(context, d, d, desc, exact);
        }
        bo_attention_advice_destroy(a);
        free(exact);
        free(d);
    }
    assert_int_equal(count, SEEDS * WINDOWS);
    qsort(ratios, count, sizeof *ratios, ascending);
    if (!(ratios[count / 2] > 0.75 && ratios[count / 2] < 1.25))
        fail_msg("predicted %g times the measured error (from %g to %g)", ratios[count / 2], ratios[0],
                 ratios[count - 1]);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows_have_the_predicted_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
