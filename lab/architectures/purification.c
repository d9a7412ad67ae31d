/* purification: a linear map trained to reproduce its input under a penalty shrinks each principal direction. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "ridge",
     .statement =
         "The W that minimizes |X - WX|² + λ|W|² keeps the fraction σ²/(σ² + λ) of each principal direction, and "
         "training with weight decay finds it.",
     .number = "largest |uᵢᵀWuᵢ - σᵢ²/(σᵢ² + λ)| over directions and λ",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.01,
     .passage = LAB_NOTES "lines 613-631: \"L(W; X, λ) = ‖X - WX‖² + λ‖W‖²\", \"Ŵ = U diag(σ_i²/(σ_i² + λ)) Uᵀ\""},
    {.name = "nothing-else",
     .statement = "This W does not mix principal directions.",
     .number = "largest |uᵢᵀWuⱼ|, i ≠ j",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.01},
    {.name = "noise",
     .statement = "Training to remove noise of variance s² from n inputs gives the same W, with λ = n s².",
     .number = "largest |uᵢᵀWuᵢ - σᵢ²/(σᵢ² + n s²)|, with W averaged over the second half of training",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.03},
    {.name = "purifies",
     .statement = "The map denoises: its outputs for new noisy inputs are closer to the clean inputs.",
     .number = "|W(x + noise) - x|² / |noise|² at λ = n s²",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.7},
    {.name = "best-lambda",
     .statement = "λ = n s² denoises best.",
     .number = "best λ divided by n s²",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.6,
     .upper = 1.6},
    {.name = "identity",
     .statement = "Control: without noise or penalty, W is the identity and removes no noise.",
     .number = "|W(x + noise) - x|² / |noise|² at λ = 0",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.98,
     .upper = 1.02},
};

static const bo_lab_table tables[] = {
    {.name = "shrinkage",
     .title = "Fraction kept of a principal direction, λ = n s² = 25",
     .rows = "σ²",
     .values = "uᵀWu",
     .log_x = true,
     .theory = "σ²/(σ² + λ)"},
    {.name = "error",
     .title = "Remaining noise by λ",
     .rows = "λ / n s²",
     .values = "|W(x + noise) - x|² / |noise|²",
     .log_x = true},
};

enum { DIM = 12, COUNT = 100, TEST = 400, SQUARE = DIM * DIM };
static const double noise = 0.5; /* s; n s² = 25 */

/* Examples are rows here: X of a problem is Xᵀ in the course notes; its directions are the same. */
typedef struct setting {
    lab_least_squares data;
    lab_descent descent;
} setting;

static void close_setting(setting *s)
{
    lab_descent_close(&s->descent);
    lab_least_squares_close(&s->data);
}

/* Minimizes |X - X̃Wᵀ|², where X̃ has noise of standard deviation `amount`, with weight decay such that λ|W|² is
 * added. */
static bo_status open_setting(lab_run *run, double lambda, double amount, setting *s)
{
    bo_rng rng = lab_rng(run, "lab.purification");
    double scales[DIM];
    bo_optimizer_desc descent = lab_plain_descent;
    lab_geometric(20, 0.8, DIM, scales);
    *s = (setting){0};
    BO_TRY(lab_least_squares_open(
        lab_context(run), &(lab_least_squares_desc){.rows = COUNT, .dim = DIM, .scales = scales}, &rng, &s->data));
    bo_status status = lab_descent_open(lab_context(run), &s->descent);
    if (status != BO_OK) return status;
    bo_graph *graph = s->descent.tape.graph;
    const bo_noise_attributes added = {.kind = BO_NOISE_NORMAL, .amount = amount};
    const bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, COUNT, DIM);
    const bo_value noisy_input = amount > 0 ? lab_graph_one(graph, BO_OPERATION_NOISE, &added, 1, &x) : x;
    const bo_value out = lab_graph_linear(s->descent.tape.graph, "w", noisy_input, DIM,
                                          (bo_weight_init){BO_WEIGHT_INIT_KIND_ZERO, 0, 0});
    descent.decay = 2 * lambda; /* the gradient of λ|W|² */
    BO_TRY(lab_descent_ready(&s->descent, lab_graph_squares(s->descent.tape.graph, out, x), COUNT * DIM, &descent,
                             lab_seed(run)));
    return bo_graph_write(lab_context(run), graph, x, s->data.x_single);
}

/* Returns W after a number of steps, or its mean over the second half of them. */
static bo_status train(lab_run *run, setting *s, double rate, size_t steps, bool mean, double *w)
{
    float current[SQUARE];
    memset(w, 0, SQUARE * sizeof *w);
    for (size_t t = 0; t < steps; t++) {
        BO_TRY(lab_descent_step(&s->descent, rate, NULL));
        if (t % 1024 == 0) BO_TRY(lab_progress(run, 0.5));
        const bool counts = mean ? t >= steps / 2 : t + 1 == steps;
        if (!counts) continue;
        BO_TRY(lab_tape_read(&s->descent.tape, "w", current));
        for (size_t i = 0; i < SQUARE; i++) w[i] += (double)current[i] / (mean ? (double)(steps - steps / 2) : 1);
    }
    return BO_OK;
}

/* Computes uᵢᵀWuⱼ for all i, j. */
static bo_status in_directions(bo_context *context, const lab_least_squares *data, const double *w, double *out)
{
    double half[SQUARE];
    BO_TRY(lab_multiply(context, false, false, DIM, DIM, DIM, 1, data->directions, DIM, w, DIM, 0, half, DIM));
    return lab_multiply(context, false, true, DIM, DIM, DIM, 1, half, DIM, data->directions, DIM, 0, out, DIM);
}

/* ---- shrinkage --------------------------------------------------------------------------------------------------- */

typedef struct found {
    double kept[DIM], predicted[DIM], off, mixed; /* off: largest difference; mixed: largest off-diagonal entry */
} found;

static bo_status compare(bo_context *context, const setting *s, const double *w, double lambda, found *out)
{
    double in[SQUARE];
    *out = (found){0};
    BO_TRY(in_directions(context, &s->data, w, in));
    for (size_t i = 0; i < DIM; i++) {
        const double square = s->data.scales[i] * s->data.scales[i];
        out->kept[i] = in[i * DIM + i];
        out->predicted[i] = square / (square + lambda);
        out->off = fmax(out->off, fabs(out->kept[i] - out->predicted[i]));
        for (size_t j = 0; j < DIM; j++)
            if (j != i) out->mixed = fmax(out->mixed, fabs(in[i * DIM + j]));
    }
    return BO_OK;
}

static bo_status measure_penalty(lab_run *run, double lambda, double *off, double *mixed)
{
    setting s;
    double w[SQUARE];
    found f;
    bo_status status = open_setting(run, lambda, 0, &s);
    const double rate = 0.5 / (400 + lambda); /* σ_max² = 400 */
    if (status == BO_OK) status = train(run, &s, rate, 20000, false, w);
    if (status == BO_OK) status = compare(lab_context(run), &s, w, lambda, &f);
    if (status == BO_OK) {
        *off = fmax(*off, f.off);
        *mixed = fmax(*mixed, f.mixed);
        for (size_t i = 0; i < DIM && lambda == COUNT * noise * noise; i++) {
            const double x = pow(s.data.scales[i], 2);
            lab_point(run, "shrinkage", "trained with weight decay", x, f.kept[i]);
            lab_point(run, "shrinkage", "σ²/(σ² + λ)", x, f.predicted[i]);
        }
    }
    close_setting(&s);
    return status;
}

static bo_status measure_noise(lab_run *run)
{
    setting s;
    double w[SQUARE];
    found f = {0};
    const double lambda = COUNT * noise * noise;
    bo_status status = open_setting(run, 0, noise, &s);
    if (status == BO_OK) status = train(run, &s, 0.1 / (400 + lambda), lab_size(run, 40000, 10000), true, w);
    if (status == BO_OK) status = compare(lab_context(run), &s, w, lambda, &f);
    for (size_t i = 0; i < DIM && status == BO_OK; i++)
        lab_point(run, "shrinkage", "trained with noise", pow(s.data.scales[i], 2), f.kept[i]);
    close_setting(&s);
    lab_claim(run, "noise", f.off);
    return status;
}

/* ---- denoising --------------------------------------------------------------------------------------------------- */

/* Draws new inputs with the covariance of the data: Σ_i σᵢ/√n gᵢ uᵢ, g Gaussian. */
static void draw_test(bo_rng *rng, const lab_least_squares *data, double *x)
{
    memset(x, 0, TEST * DIM * sizeof *x);
    for (size_t r = 0; r < TEST; r++)
        for (size_t i = 0; i < DIM; i++) {
            const double g = data->scales[i] / sqrt(COUNT) * bo_rng_normal(rng);
            for (size_t j = 0; j < DIM; j++) x[r * DIM + j] += g * data->directions[i * DIM + j];
        }
}

/* Computes |W(x + e) - x|² / |e|² over the test inputs, with W from the ridge regression of the library. */
static bo_status noise_left(bo_context *context, const setting *s, double lambda, const double *x, const double *e,
                            double *out)
{
    float w[SQUARE];
    double left = 0, all = 0;
    const lab_readout readout = {
        .rows = COUNT, .features = DIM, .outputs = DIM, .z = s->data.x_single, .y = s->data.x_single, .lambda = lambda};
    BO_TRY(lab_ridge_readout(context, &readout, w));
    for (size_t r = 0; r < TEST; r++)
        for (size_t i = 0; i < DIM; i++) {
            double sum = -x[r * DIM + i];
            for (size_t j = 0; j < DIM; j++) sum += (double)w[i * DIM + j] * (x[r * DIM + j] + e[r * DIM + j]);
            left += sum * sum;
            all += e[r * DIM + i] * e[r * DIM + i];
        }
    *out = left / all;
    return BO_OK;
}

static bo_status measure_error(lab_run *run, const setting *s, double *x, double *e)
{
    enum { LAMBDAS = 33 };
    double ratios[LAMBDAS], left, min_error = INFINITY, best = NAN;
    bo_rng rng = lab_rng(run, "lab.purification.test");
    lab_geometric(1.0 / 32, 32, LAMBDAS, ratios);
    draw_test(&rng, &s->data, x);
    for (size_t i = 0; i < TEST * DIM; i++) e[i] = noise * bo_rng_normal(&rng);
    for (size_t i = 0; i < LAMBDAS; i++) {
        BO_TRY(noise_left(lab_context(run), s, ratios[i] * COUNT * noise * noise, x, e, &left));
        if (i % 4 == 0) lab_point(run, "error", "left", ratios[i], left);
        if (i == LAMBDAS / 2) lab_claim(run, "purifies", left);
        if (left >= min_error) continue;
        min_error = left;
        best = ratios[i];
    }
    lab_claim(run, "best-lambda", best);
    BO_TRY(noise_left(lab_context(run), s, 0, x, e, &left));
    lab_claim(run, "identity", left);
    return BO_OK;
}

static bo_status measure_purity(lab_run *run)
{
    setting s;
    double *x = bo_alloc(lab_context(run), 2 * TEST * DIM, sizeof *x, "inputs to purify");
    if (!x) return BO_MEMORY;
    bo_status status = open_setting(run, 0, 0, &s);
    if (status == BO_OK) status = measure_error(run, &s, x, x + TEST * DIM);
    close_setting(&s);
    bo_free(x);
    return status;
}

static bo_status measure(lab_run *run)
{
    static const double lambdas[] = {2, COUNT * 0.25, 200};
    double off = 0, mixed = 0;
    for (size_t i = 0; i < LAB_COUNT_OF(lambdas); i++) BO_TRY(measure_penalty(run, lambdas[i], &off, &mixed));
    lab_claim(run, "ridge", off);
    lab_claim(run, "nothing-else", mixed);
    BO_TRY(measure_noise(run));
    return measure_purity(run);
}

const lab_experiment lab_purification = {{.name = "purification",
                                          .group = LAB_ARCHITECTURES,
                                          .title = "Linear denoising keeps σ²/(σ² + λ) of each principal direction",
                                          .claim = "The W that minimizes |X - WX|² + λ|W|² is U diag(σᵢ²/(σᵢ² + λ)) "
                                                   "Uᵀ: directions of large variance pass, and directions of small "
                                                   "variance are treated as noise.",
                                          .source = "course notes, self-supervised linear purification",
                                          .method = "100 examples have 12 coordinates, with singular values from 20 "
                                                    "to 0.8 in random directions. Gradient descent trains W from zero "
                                                    "with weight decay 2λ for λ = 2, 25 and 200, in 20000 steps; then "
                                                    "without decay but with fresh noise of standard deviation s = 0.5 "
                                                    "on the inputs (n s² = 25), in 40000 steps, of which the second "
                                                    "half is averaged. Denoising: 400 new inputs of the same "
                                                    "covariance with noise of standard deviation 0.5; W comes from "
                                                    "the ridge regression of the library with 33 values of λ between "
                                                    "1/32 and 32 times n s².",
                                          LAB_CLAIMS(claims),
                                          LAB_TABLES(tables)},
                                         measure};
