/* How good frequencies are for the data, by the second moment of a single one's estimate over independent rows of q and
 * k: c(w)² = E f(q, w)² E f(k, w)², with the weight of w in f. No importance sampling has less than (E c(w))², w ~ N(0,
 * I) (arXiv 2406.18802). Of positive features as drawn E c² is known for every pair of rows. Where a frequency has two
 * features (HYPERBOLIC) c² bounds the second moment from above. */
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "calibration.h"
#include "compare.h"

enum { FREQUENCIES = 2048 };

static double log_mean(size_t count, const double *x)
{
    return bo_log_sum(count, x) - log((double)count);
}

/* ---- the least -------------------------------------------------------------------------------------------------- */

/* E f(x, w)² times the density of w is the mixture of N(2t, I) over the rows t = √γ x / length scale, with weights
 * exp(|t|²): rows of one side, as the mixture has them. */
typedef struct mixture {
    double *t;        /* count x dim */
    double *reached;  /* sums of weights up to a row, in units of all */
    double log_whole; /* log of the mean of exp(|t|²) */
} mixture;

static bo_status mixture_make(bo_context *context, const bo_features_desc *map, const bo_feature_sample *x,
                              mixture *out)
{
    size_t dim = map->dim;
    out->t = bo_alloc_raw(context, x->count * dim, sizeof *out->t, "rows of a mixture");
    out->reached = bo_alloc_raw(context, x->count, sizeof *out->reached, "rows of a mixture");
    if (!out->t || !out->reached) return BO_MEMORY;
    for (size_t i = 0; i < x->count; i++) {
        out->reached[i] = 0;
        for (size_t j = 0; j < dim; j++) {
            double length = map->length_scales ? (double)map->length_scales[j] : 1;
            double t = sqrt(map->gamma) * (double)x->rows[i * x->stride + j] / length;
            out->t[i * dim + j] = t;
            out->reached[i] += t * t;
        }
    }
    out->log_whole = log_mean(x->count, out->reached);
    double all = out->log_whole + log((double)x->count), sum = 0;
    for (size_t i = 0; i < x->count; i++) out->reached[i] = sum += exp(out->reached[i] - all);
    return BO_OK;
}

/* Frequencies from both mixtures by turns, rows in systematic order. */
static void mixture_draw(const bo_features_desc *map, const mixture *sides, size_t rows, float *w)
{
    size_t dim = map->dim, at[2] = {0};
    bo_rng rng = bo_rng_make(map->seed, bo_rng_stream("calibration.floor", 0));
    for (size_t i = 0; i < FREQUENCIES; i++) {
        const mixture *m = &sides[i % 2];
        double tooth = ((double)(i / 2) + 0.5) / (FREQUENCIES / 2);
        while (at[i % 2] + 1 < rows && m->reached[at[i % 2]] < tooth) at[i % 2]++;
        for (size_t j = 0; j < dim; j++)
            w[i * dim + j] = (float)(sqrt(map->gamma) * (2 * m->t[at[i % 2] * dim + j] + bo_rng_normal(&rng)));
    }
}

/* log (E c)² of positive features: with A = E f(q, w)², B = E f(k, w)² and w from the mean of both mixtures it is the
 * square of the mean of √(AB) / ½(A / E A + B / E B), which never exceeds √(E A E B). */
static bo_status least_of_mixtures(bo_context *context, const bo_features *many, const bo_feature_sample *q,
                                   const bo_feature_sample *k, const mixture *sides, double *numbers, double *out)
{
    double *a = numbers, *b = numbers + FREQUENCIES;
    BO_TRY(bo_features_log_energies(context, many, q, a));
    BO_TRY(bo_features_log_energies(context, many, k, b));
    for (size_t i = 0; i < FREQUENCIES; i++) {
        const double parts[] = {a[i] - sides[0].log_whole, b[i] - sides[1].log_whole};
        a[i] = 0.5 * (a[i] + b[i]) - (bo_log_sum(2, parts) - log(2));
    }
    *out = 2 * log_mean(FREQUENCIES, a);
    return BO_OK;
}

static bo_status least_of_positive(bo_context *context, bo_features *many, const bo_feature_sample *q,
                                   const bo_feature_sample *k, double *out)
{
    const bo_features_desc *map = bo_features_describe(many);
    mixture sides[2] = {{0}};
    float *w = bo_alloc_raw(context, FREQUENCIES * map->dim, sizeof *w, "frequencies");
    double *numbers = bo_alloc_raw(context, 2 * FREQUENCIES, sizeof *numbers, "second moments of frequencies");
    bo_status status = w && numbers ? mixture_make(context, map, q, &sides[0]) : BO_MEMORY;
    if (status == BO_OK) status = mixture_make(context, map, k, &sides[1]);
    if (status == BO_OK) {
        mixture_draw(map, sides, q->count, w);
        status = bo_features_set_frequencies(context, many, w);
    }
    if (status == BO_OK) status = least_of_mixtures(context, many, q, k, sides, numbers, out);
    for (size_t i = 0; i < 2; i++) {
        bo_free(sides[i].t);
        bo_free(sides[i].reached);
    }
    bo_free(w);
    bo_free(numbers);
    return status;
}

/* ---- all three -------------------------------------------------------------------------------------------------- */

/* log E c² over the frequencies of a map, and where asked log (E c)². */
static bo_status average(bo_context *context, const bo_features *map, const bo_feature_sample *q,
                         const bo_feature_sample *k, double *second, double *least)
{
    size_t count = bo_features_frequencies(map);
    double *c = bo_alloc_raw(context, count, sizeof *c, "second moments of frequencies");
    bo_status status = c ? bo_features_log_scores(context, map, q, k, c) : BO_MEMORY;
    if (status == BO_OK && least) *least = 2 * log_mean(count, c);
    for (size_t i = 0; status == BO_OK && i < count; i++) c[i] *= 2;
    if (status == BO_OK) *second = log_mean(count, c);
    bo_free(c);
    return status;
}

/* What a frequency that was chosen among candidates of a law adds up to, relative to E k²: the second moment of the
 * choice, and the variance of the candidates as far as they are not many. */
static double log_chosen(const bo_features *map, double log_choice, double log_law)
{
    double share = (double)bo_features_frequencies(map) / (double)bo_features_describe(map)->candidates;
    return log(exp(fmax(0, log_choice)) + share * expm1(fmax(0, log_law)));
}

static bo_status judge_positive(bo_context *context, const bo_features *map, bo_features *many,
                                const bo_feature_sample *q, const bo_feature_sample *k, double square,
                                bo_calibration_report *out)
{
    double choice;
    BO_TRY(least_of_positive(context, many, q, k, &out->log_floor));
    BO_TRY(bo_features_log_second(context, map, false, q, k, &out->log_isotropic));
    BO_TRY(bo_features_log_second(context, map, true, q, k, &out->log_drawn));
    if (!bo_features_resampled(map)) return BO_OK;
    BO_TRY(average(context, map, q, k, &choice, NULL));
    out->log_drawn = square + log_chosen(map, choice - square, out->log_drawn - square);
    return BO_OK;
}

/* Many frequencies of the kernel's spectrum tell the first and the last. */
static bo_status judge_other(bo_context *context, const bo_features *map, const bo_features *many,
                             const bo_feature_sample *q, const bo_feature_sample *k, double square,
                             bo_calibration_report *out)
{
    double choice;
    BO_TRY(average(context, many, q, k, &out->log_isotropic, &out->log_floor));
    BO_TRY(average(context, map, q, k, &choice, NULL));
    out->log_drawn = square + log_chosen(map, choice - square, out->log_isotropic - square);
    return BO_OK;
}

/* Every frequency has the same energy, so that there is nothing to choose: the variance of one, over pairs. */
static double log_flat_variance(const bo_features *map, const bo_feature_sample *q, const bo_feature_sample *k)
{
    enum { SHIFTS = 16 };
    double m = (double)bo_features_frequencies(map), sum = 0;
    for (size_t shift = 0; shift < SHIFTS; shift++)
        for (size_t i = 0; i < q->count; i++) {
            size_t j = (i + 1 + shift * k->count / SHIFTS) % k->count;
            sum += m * bo_features_variance(map, q->rows + i * q->stride, k->rows + j * k->stride);
        }
    return log(sum / (double)(SHIFTS * q->count));
}

bo_status bo_calibration_judge(bo_context *context, const bo_calibration *calibration, size_t law,
                               const bo_features *map, bo_calibration_report *out)
{
    bo_feature_sample q = bo_seen_sample(calibration, &calibration->seen[2 * law]);
    bo_feature_sample k = bo_seen_sample(calibration, &calibration->seen[2 * law + 1]);
    bo_frequency_origin origin = {.seed = bo_features_describe(map)->seed, .frequencies = FREQUENCIES};
    double square;
    BO_TRY(bo_features_log_square(context, map, &q, &k, &square));
    if (bo_features_flat(map)) {
        out->log_isotropic = log1p(exp(log_flat_variance(map, &q, &k) - square));
        out->log_drawn = out->log_floor = out->log_isotropic;
        return BO_OK;
    }
    bo_features *many;
    bool positive = bo_features_describe(map)->function == BO_FUNCTION_POSITIVE;
    BO_TRY(bo_features_like(context, map, &origin, &many));
    bo_status status = positive ? judge_positive(context, map, many, &q, &k, square, out)
                                : judge_other(context, map, many, &q, &k, square, out);
    bo_features_destroy(many);
    out->log_isotropic -= square;
    out->log_drawn -= square;
    out->log_floor -= square;
    return status;
}
