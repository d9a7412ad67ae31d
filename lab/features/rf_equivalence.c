/* rf-equivalence: with optimal sampling, all random feature representations of a kernel have the same error. */
#include "representations.h"
#include <math.h>
#include <stdio.h>

static const bo_lab_claim claims[] = {
    {.name = "floor",
     .statement = "With optimal sampling, R independent features have the mean squared error ((E K(x,x))² - E "
                  "K(x,y)²) / R.",
     .number = "measured error divided by predicted error, mean over representations and R",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.97,
     .upper = 1.03},
    {.name = "equal",
     .statement = "With optimal sampling, all five representations have the same error.",
     .number = "largest minus smallest error of the five representations, divided by the predicted error, with "
               "optimal sampling",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .passage =
         LAB_PAPERS "line 30: \"Under this policy all random features representations have the same approximation "
                    "error\""},
    {.name = "as-drawn",
     .statement = "Control: with the standard sampling of each representation, the errors differ.",
     .number = "largest divided by smallest error of the five representations, with standard sampling",
     .rule = BO_LAB_AT_LEAST,
     .bound = 2},
    {.name = "candidates",
     .statement = "Resampling from 8 candidates per feature, as the library does, removes most of the excess error of "
                  "standard sampling; about an eighth is predicted to remain.",
     .number = "(error - predicted optimum) / (error of standard sampling by formula - predicted optimum), for "
               "positive features",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.2,
     .source = "sampling importance resampling; arXiv 2406.18802 for the scores"},
    {.name = "orthogonal",
     .statement = "The optimum holds only for independent features: orthogonal sines and cosines have a smaller error.",
     .number = "error of orthogonal sines and cosines divided by the predicted optimum of independent features",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.8,
     .source = "Yu et al., Orthogonal Random Features, arXiv 1610.09072"},
    {.name = "neighbors",
     .statement = "Inner products of positive features find more of the nearest neighbors with optimal sampling than "
                  "with standard sampling.",
     .number = "fraction of the 10 nearest neighbors found with optimal sampling minus the fraction with standard "
               "sampling, mean over R",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "neighbors-equal",
     .statement = "With optimal sampling, the representation does not matter for nearest neighbor search either.",
     .number = "fraction of the 10 nearest neighbors found, largest minus smallest of the five representations, mean "
               "over R",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05},
};

static const bo_lab_table tables[] = {
    {.name = "error",
     .title = "Error of the estimate of exp(x·y) by number of features",
     .rows = "R, number of features",
     .values = "mean squared error",
     .log_x = true,
     .log_y = true,
     .theory = "predicted optimum"},
    {.name = "representations",
     .title = "Error relative to the predicted optimum",
     .rows = "representation",
     .values = "mean squared error / predicted optimum",
     .plot = BO_LAB_BARS,
     .log_y = true,
     .theory = "standard sampling, formula"},
    {.name = "couplings",
     .title = "Error of coupled features, relative to the predicted optimum of independent ones",
     .rows = "coupling",
     .values = "mean squared error / predicted optimum",
     .plot = BO_LAB_BARS},
    {.name = "neighbors",
     .title = "Nearest neighbors found by inner products of features",
     .rows = "R, number of features",
     .values = "fraction of the 10 nearest neighbors found",
     .log_x = true},
};

enum { DIM = 8, LENGTHS = 5, MIDDLE = 2, REPRESENTATIONS = LAB_REPRESENTATIONS };

/* Rows and their kernel matrix, with buffers for features and estimates. */
typedef struct bench {
    lab_run *run;
    bo_context *context;
    lab_rows rows;
    double *kernel;  /* rows x rows */
    float *estimate; /* rows x rows */
    float *z;        /* rows x maximum number of features */
    double optimum;  /* (E K(x,x))² - E K², for R = 1 */
    size_t draws;
} bench;

static bo_status open_bench(lab_run *run, const char *purpose, size_t rows, double min, double max_norm,
                            size_t features, bench *b)
{
    bo_context *context = lab_context(run);
    bo_rng rng = lab_rng(run, purpose);
    *b = (bench){.run = run, .context = context};
    BO_TRY(lab_rows_create(context, &rng, rows, DIM, min, max_norm, &b->rows));
    b->kernel = bo_alloc_raw(context, rows * rows, sizeof *b->kernel, "a kernel matrix");
    b->estimate = bo_alloc_raw(context, rows * rows, sizeof *b->estimate, "an estimated kernel");
    b->z = bo_alloc_raw(context, rows * features, sizeof *b->z, "features");
    if (!b->kernel || !b->estimate || !b->z) return BO_MEMORY;
    const bo_features_desc kernel = {.kernel = BO_KERNEL_SOFTMAX, .dim = DIM};
    BO_TRY(bo_kernel_matrix(context, &kernel, rows, b->rows.x, DIM, rows, b->rows.x, DIM, b->kernel, rows));
    const double diagonal = lab_rows_diagonal(&b->rows);
    double squares = 0;
    for (size_t i = 0; i < rows * rows; i++) squares += b->kernel[i] * b->kernel[i];
    b->optimum = diagonal * diagonal - squares / (double)(rows * rows);
    return BO_OK;
}

static void close_bench(bench *b)
{
    lab_rows_free(&b->rows);
    bo_free(b->kernel);
    bo_free(b->estimate);
    bo_free(b->z);
}

static size_t length_at(size_t i)
{
    return (size_t)32 << i;
}

static uint64_t draw_seed(const bench *b, size_t features, size_t draw)
{
    return lab_seed(b->run) << 32 | features << 16 | draw;
}

/* Returns the mean over draws of the mean squared error over all pairs of rows. */
static bo_status error_of(bench *b, lab_representation representation, bool optimal, size_t features, double *error)
{
    *error = 0;
    for (size_t d = 0; d < b->draws; d++) {
        BO_TRY(lab_draw_features(b->context, representation, optimal, &b->rows, features, draw_seed(b, features, d),
                                 b->z));
        BO_TRY(lab_products(b->context, b->rows.count, features, b->z, b->estimate));
        *error += lab_squared_error(b->rows.count * b->rows.count, b->estimate, b->kernel) / (double)b->draws;
    }
    return BO_OK;
}

static bo_status error_of_map(bench *b, bo_features_desc map, double *error)
{
    map.kernel = BO_KERNEL_SOFTMAX;
    map.dim = DIM;
    if (map.sampling != BO_SAMPLING_DRAWN) {
        map.sample = b->rows.x;
        map.sample_rows = b->rows.count;
        map.sample_stride = DIM;
    }
    *error = 0;
    for (size_t d = 0; d < b->draws; d++) {
        map.seed = draw_seed(b, map.features, d);
        BO_TRY(lab_estimate_kernel(b->context, &map, b->rows.count, b->rows.x, b->estimate));
        *error += lab_squared_error(b->rows.count * b->rows.count, b->estimate, b->kernel) / (double)b->draws;
    }
    return lab_progress(b->run, 0.6);
}

/* ---- error by number of features --------------------------------------------------------------------------------- */

static double spread(const double *values, size_t count, double *min)
{
    double low = values[0], high = values[0];
    for (size_t i = 1; i < count; i++) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    if (min) *min = low;
    return high - low;
}

static bo_status measure_errors(bench *b)
{
    double ratio[LENGTHS][REPRESENTATIONS], drawn[REPRESENTATIONS], mean = 0, apart = 0, min;
    for (size_t i = 0; i < LENGTHS; i++) {
        const size_t features = length_at(i);
        const double optimum = b->optimum / (double)features;
        lab_point(b->run, "error", "predicted optimum", (double)features, optimum);
        for (int r = 0; r < REPRESENTATIONS; r++) {
            char column[64];
            double optimal, as_drawn;
            snprintf(column, sizeof column, "%s, optimal", lab_representation_names[r]);
            BO_TRY(error_of(b, (lab_representation)r, true, features, &optimal));
            lab_point(b->run, "error", column, (double)features, optimal);
            ratio[i][r] = optimal / optimum;
            mean += ratio[i][r] / (LENGTHS * REPRESENTATIONS);
            if (i == MIDDLE || r == LAB_POSITIVE) {
                BO_TRY(error_of(b, (lab_representation)r, false, features, &as_drawn));
                if (i == MIDDLE) drawn[r] = as_drawn / optimum;
                if (r == LAB_POSITIVE) lab_point(b->run, "error", "positive, standard", (double)features, as_drawn);
            }
            BO_TRY(lab_progress(b->run, 0.5 * (double)(i * REPRESENTATIONS + (size_t)r) / (LENGTHS * REPRESENTATIONS)));
        }
        apart += spread(ratio[i], REPRESENTATIONS, NULL) / LENGTHS;
    }
    for (int r = 0; r < REPRESENTATIONS; r++) {
        lab_cell(b->run, "representations", lab_representation_names[r], "standard sampling", drawn[r]);
        lab_cell(b->run, "representations", lab_representation_names[r], "optimal", ratio[MIDDLE][r]);
    }
    lab_claim(b->run, "floor", mean);
    lab_claim(b->run, "equal", apart);
    const double range = spread(drawn, REPRESENTATIONS, &min);
    lab_claim(b->run, "as-drawn", (min + range) / min);
    return BO_OK;
}

/* ---- formulas, candidates and couplings -------------------------------------------------------------------------- */

/* Closed forms of E[f(x)² f(y)²] - K². k2 = K² and s = K(x,x) K(y,y), so that e^(-|x-y|²) = k2/s and e^|x+y|² = s
 * k2. */
static double cosine_variance(double k2, double s)
{
    const double close = k2 / s;
    return s * (1 + close * close / 2 - close);
}
/* x and y share the choice of sine or cosine: 2 E[cos² cos² + sin² sin²] = 1 + (e^(-2|x-y|²) + e^(-2|x+y|²)) / 2. */
static double coin_variance(double k2, double s)
{
    const double close = k2 / s, far = 1 / (s * k2);
    return s * (1 + (close * close + far * far) / 2 - close);
}
static double positive_variance(double k2, double s)
{
    return k2 * (s * k2 - 1);
}
/* Σ_n 2ⁿ⁺¹ qⁿ / n!² - K², q = E (r·x)² (r·y)² */
static double product_variance(const float *x, const float *y, double k2)
{
    double xx = 0, yy = 0, xy = 0, quartic = 0, term = 2, sum = 0;
    for (size_t j = 0; j < DIM; j++) {
        const double a = (double)x[j], b = (double)y[j];
        xx += a * a;
        yy += b * b;
        xy += a * b;
        quartic += a * a * b * b;
    }
    const double q = xx * yy + 2 * xy * xy - 2 * quartic;
    for (double n = 1; term > 1e-12 * sum; n++) {
        sum += term;
        term *= 2 * q / (n * n);
    }
    return sum - k2;
}

/* Adds the variances of standard sampling for R = 1, mean over all pairs. oprf: a bounded feature. */
static void add_variances(const bench *b, const bo_features *oprf, double mean[REPRESENTATIONS])
{
    const size_t n = b->rows.count;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            const float *x = b->rows.x + i * DIM, *y = b->rows.x + j * DIM;
            const double k2 = b->kernel[i * n + j] * b->kernel[i * n + j];
            const double s = b->rows.diagonal[i] * b->rows.diagonal[j], pairs = (double)(n * n);
            mean[LAB_COSINE] += cosine_variance(k2, s) / pairs;
            mean[LAB_SINE_COSINE] += coin_variance(k2, s) / pairs;
            mean[LAB_POSITIVE] += positive_variance(k2, s) / pairs;
            mean[LAB_BOUNDED] += bo_features_variance(oprf, x, y) / pairs;
            mean[LAB_PRODUCT] += product_variance(x, y, k2) / pairs;
        }
}

/* Predicts the error of standard sampling relative to the optimum. */
static bo_status predict_drawn(bench *b, double predicted[REPRESENTATIONS])
{
    const bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX,
                                   .function = BO_FUNCTION_OPRF,
                                   .dim = DIM,
                                   .features = 1,
                                   .sample = b->rows.x,
                                   .sample_rows = b->rows.count,
                                   .sample_stride = DIM};
    bo_features *oprf;
    BO_TRY(bo_features_create(b->context, &desc, &oprf));
    add_variances(b, oprf, predicted);
    bo_features_destroy(oprf);
    for (int r = 0; r < REPRESENTATIONS; r++) {
        predicted[r] /= b->optimum;
        lab_cell(b->run, "representations", lab_representation_names[r], "standard sampling, formula", predicted[r]);
    }
    return BO_OK;
}

static bo_status measure_candidates(bench *b, const double predicted[REPRESENTATIONS])
{
    static const bo_function functions[] = {[LAB_POSITIVE] = BO_FUNCTION_POSITIVE, [LAB_BOUNDED] = BO_FUNCTION_OPRF};
    const size_t features = length_at(MIDDLE);
    for (int r = LAB_POSITIVE; r <= LAB_BOUNDED; r++) {
        const bo_features_desc map = {.function = functions[r],
                                      .draw = BO_DRAW_IID,
                                      .sampling = BO_SAMPLING_OPTIMAL,
                                      .features = features,
                                      .candidates = 8 * features};
        double error;
        BO_TRY(error_of_map(b, map, &error));
        error *= (double)features / b->optimum;
        lab_cell(b->run, "representations", lab_representation_names[r], "resampled from candidates", error);
        if (r == LAB_POSITIVE) lab_claim(b->run, "candidates", (error - 1) / (predicted[r] - 1));
    }
    return BO_OK;
}

static bo_status measure_couplings(bench *b)
{
    static const struct {
        const char *name;
        bo_function function;
        bo_draw draw;
    } couplings[] = {
        {"sine and cosine of one frequency", BO_FUNCTION_SINCOS, BO_DRAW_IID},
        {"the same, orthogonal", BO_FUNCTION_SINCOS, BO_DRAW_ORTHOGONAL},
        {"exp of w and of -w", BO_FUNCTION_HYPERBOLIC, BO_DRAW_IID},
        {"exp of w and of -w, orthogonal", BO_FUNCTION_HYPERBOLIC, BO_DRAW_ORTHOGONAL},
        {"positive, orthogonal", BO_FUNCTION_POSITIVE, BO_DRAW_ORTHOGONAL},
    };
    const size_t features = length_at(MIDDLE);
    for (size_t i = 0; i < LAB_COUNT_OF(couplings); i++) {
        const bo_features_desc map = {
            .function = couplings[i].function, .draw = couplings[i].draw, .features = features};
        double error;
        BO_TRY(error_of_map(b, map, &error));
        error *= (double)features / b->optimum;
        lab_cell(b->run, "couplings", couplings[i].name, "standard sampling", error);
        if (i == 1) lab_claim(b->run, "orthogonal", error);
    }
    return BO_OK;
}

static bo_status measure_kernel(lab_run *run)
{
    double predicted[REPRESENTATIONS] = {0};
    bench b;
    bo_status status = open_bench(run, "lab.rf-equivalence", 96, 0.6, 1.2, length_at(LENGTHS - 1), &b);
    b.draws = lab_size(run, 400, 30);
    if (status == BO_OK) status = measure_errors(&b);
    if (status == BO_OK) status = predict_drawn(&b, predicted);
    if (status == BO_OK) status = measure_candidates(&b, predicted);
    if (status == BO_OK) status = measure_couplings(&b);
    close_bench(&b);
    return status;
}

/* ---- nearest neighbors ------------------------------------------------------------------------------------------- */

enum { NEAREST = 10, RECALL_LENGTHS = 5 };

/* Finds the NEAREST other entries with the largest values in a row of n. */
static void nearest(size_t n, size_t self, const double *value, size_t out[NEAREST])
{
    size_t found = 0;
    for (size_t j = 0; j < n; j++) {
        if (j == self) continue;
        if (found == NEAREST && value[j] <= value[out[NEAREST - 1]]) continue;
        size_t at = found < NEAREST ? found++ : NEAREST - 1;
        while (at > 0 && value[out[at - 1]] < value[j]) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = j;
    }
}

/* Returns the fraction of the nearest neighbors by the kernel that are among the nearest by the estimate. */
static double share_found(const bench *b, double *row)
{
    const size_t n = b->rows.count;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        size_t truth[NEAREST], guess[NEAREST];
        nearest(n, i, b->kernel + i * n, truth);
        for (size_t j = 0; j < n; j++) row[j] = (double)b->estimate[i * n + j];
        nearest(n, i, row, guess);
        for (size_t s = 0; s < NEAREST; s++)
            for (size_t t = 0; t < NEAREST; t++) found += truth[s] == guess[t];
    }
    return (double)found / (double)(n * NEAREST);
}

static bo_status recall_of(bench *b, lab_representation representation, bool optimal, size_t features, double *recall)
{
    double *row = bo_alloc_raw(b->context, b->rows.count, sizeof *row, "a row of a kernel");
    bo_status status = row ? BO_OK : BO_MEMORY;
    *recall = 0;
    for (size_t d = 0; status == BO_OK && d < b->draws; d++) {
        status =
            lab_draw_features(b->context, representation, optimal, &b->rows, features, draw_seed(b, features, d), b->z);
        if (status == BO_OK) status = lab_products(b->context, b->rows.count, features, b->z, b->estimate);
        if (status == BO_OK) *recall += share_found(b, row) / (double)b->draws;
    }
    bo_free(row);
    return status;
}

static bo_status measure_recall(bench *b)
{
    double gain = 0, apart = 0;
    for (size_t i = 0; i < RECALL_LENGTHS; i++) {
        const size_t features = length_at(i + 1);
        double optimal[REPRESENTATIONS], drawn;
        for (int r = 0; r < REPRESENTATIONS; r++) {
            char column[64];
            snprintf(column, sizeof column, "%s, optimal", lab_representation_names[r]);
            BO_TRY(recall_of(b, (lab_representation)r, true, features, &optimal[r]));
            lab_point(b->run, "neighbors", column, (double)features, optimal[r]);
            BO_TRY(lab_progress(b->run, 0.7 + 0.3 * (double)i / RECALL_LENGTHS));
        }
        BO_TRY(recall_of(b, LAB_POSITIVE, false, features, &drawn));
        lab_point(b->run, "neighbors", "positive, standard", (double)features, drawn);
        gain += (optimal[LAB_POSITIVE] - drawn) / RECALL_LENGTHS;
        apart += spread(optimal, REPRESENTATIONS, NULL) / RECALL_LENGTHS;
    }
    lab_note(b->run, "With optimal sampling, positive and bounded positive features are the same features, because "
                     "each sampling distribution is a reweighting of the other. Equal mean squared errors may be "
                     "distributed differently: positive features have their largest errors where the kernel is large, "
                     "which is where the neighbors are.");
    lab_claim(b->run, "neighbors", gain);
    lab_claim(b->run, "neighbors-equal", apart);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    bench b;
    BO_TRY(measure_kernel(run));
    bo_status status = open_bench(run, "lab.rf-equivalence.neighbours", lab_size(run, 256, 128), 1.5, 1.5,
                                  length_at(RECALL_LENGTHS), &b);
    b.draws = lab_size(run, 10, 2);
    if (status == BO_OK) status = measure_recall(&b);
    close_bench(&b);
    return status;
}

const lab_experiment lab_rf_equivalence = {
    {.name = "rf-equivalence",
     .group = LAB_FEATURES,
     .title = "All random feature representations are equivalent under optimal sampling",
     .claim = "For every random feature representation of a kernel there is an optimal sampling distribution. Under "
              "it, all representations have the same error, which depends only on the kernel and the data. Only "
              "coupled (dependent) features can do better.",
     .source = "Sernau, Bonacina and Saurous, All Random Features Representations are Equivalent, arXiv 2406.18802",
     .method = "The kernel is exp(x·y) on 96 rows of 8 columns (anisotropic normal directions, norms uniform in [0.6, "
               "1.2]). Errors are mean squared errors over all pairs of rows, averaged over 400 draws. The five "
               "representations use independent features: cosines with a random phase, cosines or sines chosen at "
               "random, positive exponentials, bounded positive exponentials, and products of random signs. Each is "
               "sampled from its standard distribution and from the optimal density, which is sampled exactly. The "
               "optimum is computed from the kernel matrix. The resampling of the library (8 candidates per feature) "
               "and coupled features are measured at R = 128. Neighbors: for each of 256 rows of norm 1.5, the 10 "
               "nearest are searched by φ(x)·φ(y); mean over 10 draws.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
