/* noise-is-ridge: noise on the inputs in training is a ridge penalty, and bounds the step. */
#include "../experiment.h"
#include <bochner/features.h>
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "ridge",
     .statement = "Averaged over steps, training with noise N(0, σ²) on the inputs reaches the ridge solution with λ "
                  "= nσ².",
     .number = "largest distance from this solution divided by its distance from least squares without noise",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .passage = LAB_NOTES "lines 100-102: \"E[‖X̃w - y‖²] = ‖Xw - y‖² + mσ²‖w‖²\""},
    {.name = "factor-n",
     .statement = "The nearest ridge solution has λ = nσ², not σ².",
     .number = "nearest λ divided by nσ², σ = 0.5",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1},
    {.name = "machine",
     .statement = "A kernel machine with a noise setting uses this λ.",
     .number = "largest difference of its predictions from the ridge solution, relative to their root mean square",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4},
    {.name = "fourier",
     .statement = "Noise on x before Fourier features shrinks the feature with frequency ω by exp(-σ²|ω|²/2).",
     .number = "slope of ln(mean feature / feature) in -σ²|ω|²/2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.97,
     .upper = 1.03},
    {.name = "step-notes",
     .statement =
         "For the update w - η (w x̃ - y) x̃ with x̃ = x + noise, the mean of w is stable only for η below 1/(x² + σ²).",
     .number = "largest stable η times (x² + σ²)",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.05,
     .passage =
         LAB_NOTES "lines 106-114: \"W_(t+1) = W_t(1 - η(x² + 2xN_t + N_t²)) + ηy(x + N_t)\", \"∴ η should satisfy: "
                   "|1 - η(x² + σ²)| < 1, 0 < η < 1/(x² + σ²)\". The second inequality is sufficient; read as "
                   "the threshold, it is half of the one that the first gives"},
    {.name = "step",
     .statement = "The mean is stable up to η = 2/(x² + σ²), where |1 - η(x² + σ²)| = 1.",
     .number = "largest stable η times (x² + σ²)/2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.97,
     .upper = 1.03,
     .passage = LAB_NOTES "line 114: \"η should satisfy: |1 - η(x² + σ²)| < 1\""},
    {.name = "minibatch",
     .statement =
         "With batches of b examples, the mean error shrinks for every η below 2b/(β + (b - 1)λ₁), where β is the "
         "largest |z|² and λ₁ the largest eigenvalue of the mean of z zᵀ.",
     .number = "largest mean |error|² after 20 steps divided by that before, at 0.95 of this η, over the batch sizes",
     .rule = BO_LAB_AT_MOST,
     .bound = 1,
     .source = "derived: E[(I - ηH_b)²] <= I where η(β/b + (1 - 1/b)λ₁) <= 2"},
};

static const bo_lab_table tables[] = {
    {.name = "shrinkage",
     .title = "Training with noise, compared with ridge regression",
     .rows = "σ",
     .values = "|w| / |w without noise|",
     .log_x = true,
     .theory = "ridge, λ = nσ²"},
    {.name = "steps",
     .title = "One weight, x = 1, σ = 0.3: remaining error after 5 steps",
     .rows = "η · (x² + σ²)",
     .values = "error after / error before",
     .log_y = true,
     .theory = "|1 - η(x² + σ²)|⁵"},
    {.name = "batches",
     .title = "Largest step at which the mean error shrinks, by batch size",
     .rows = "b, batch size",
     .values = "η",
     .log_x = true,
     .log_y = true,
     .theory = "exact"},
};

/* ---- noise and ridge --------------------------------------------------------------------------------------------- */

enum { ROWS = 64, DIM = 8 };

/* Computes the mean of w over training with noise on the inputs. */
static bo_status train_with_noise(bo_context *context, const lab_least_squares *p, double sigma, size_t steps,
                                  uint64_t seed, double *mean)
{
    const bo_noise_attributes noise = {.kind = BO_NOISE_NORMAL, .amount = sigma};
    const lab_perturbation perturbation = {lab_perturb_noise, &noise,
                                           p->scales[0] * p->scales[0] + (double)p->rows * sigma * sigma};
    return lab_perturbed_mean(context, p, &perturbation, steps, seed, mean);
}

/* Finds the λ whose ridge solution is nearest to w, among 161 values between 1/100 and 100 times `around`. */
static bo_status nearest_ridge(bo_context *context, const lab_least_squares *p, const double *w, double around,
                               double *out)
{
    double min_distance = INFINITY, candidates[161], ridge[DIM];
    lab_geometric(around / 100, around * 100, 161, candidates);
    for (size_t i = 0; i < 161; i++) {
        BO_TRY(lab_ridge(context, p, candidates[i], NULL, ridge));
        const double distance = lab_distance(w, ridge, p->dim);
        if (distance >= min_distance) continue;
        min_distance = distance;
        *out = candidates[i];
    }
    return BO_OK;
}

static bo_status measure_ridge(lab_run *run, const lab_least_squares *p)
{
    static const double sigmas[] = {0.125, 0.25, 0.5, 1, 2};
    double plain[DIM], ridge[DIM], trained[DIM], worst = 0;
    BO_TRY(lab_ridge(lab_context(run), p, 0, NULL, plain));
    for (size_t i = 0; i < LAB_COUNT_OF(sigmas); i++) {
        const double lambda = (double)p->rows * sigmas[i] * sigmas[i];
        BO_TRY(lab_ridge(lab_context(run), p, lambda, NULL, ridge));
        BO_TRY(train_with_noise(lab_context(run), p, sigmas[i], lab_size(run, 40000, 8000), lab_seed(run), trained));
        lab_point(run, "shrinkage", "trained", sigmas[i], lab_norm(trained, p->dim) / lab_norm(plain, p->dim));
        lab_point(run, "shrinkage", "ridge, λ = nσ²", sigmas[i], lab_norm(ridge, p->dim) / lab_norm(plain, p->dim));
        worst = fmax(worst, lab_distance(trained, ridge, p->dim) / lab_distance(ridge, plain, p->dim));
        if (sigmas[i] == 0.5) {
            double nearest = NAN;
            BO_TRY(nearest_ridge(lab_context(run), p, trained, lambda, &nearest));
            lab_claim(run, "factor-n", nearest / lambda);
        }
        BO_TRY(lab_progress(run, 0.1 * (double)(i + 1)));
    }
    lab_claim(run, "ridge", worst);
    return BO_OK;
}

/* Compares a linear kernel machine with noise on its features with the closed form. */
static bo_status measure_machine(lab_run *run, const lab_least_squares *p)
{
    const lab_linear_machine machine = {.lambda = 1e-3, .noise = 0.5};
    double ridge[DIM], gap;
    BO_TRY(lab_ridge(lab_context(run), p, machine.lambda + ROWS * machine.noise * machine.noise, NULL, ridge));
    BO_TRY(lab_machine_gap(lab_context(run), p, &machine, p->rows, p->x_single, ridge, &gap));
    lab_claim(run, "machine", gap);
    return BO_OK;
}

static bo_status measure_least_squares(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.noise-is-ridge");
    lab_least_squares p;
    double scales[DIM];
    lab_geometric(12, 4, DIM, scales);
    const lab_least_squares_desc desc = {.rows = ROWS, .dim = DIM, .scales = scales, .noise = 0.5};
    BO_TRY(lab_least_squares_open(lab_context(run), &desc, &rng, &p));
    bo_status status = measure_ridge(run, &p);
    if (status == BO_OK) status = measure_machine(run, &p);
    lab_least_squares_close(&p);
    return status;
}

/* ---- Fourier features -------------------------------------------------------------------------------------------- */

enum { INPUTS = 4, FEATURES = 16, FREQUENCIES = FEATURES / 2, DRAWS = 1000, POINTS = 24 };

/* Sums φ(x + noise) φ(x) and φ(x)² over points, sine and cosine of a frequency together. */
static bo_status shrunk(bo_context *context, const bo_features *phi, bo_rng *rng, double sigma, size_t repeats,
                        double *ratio)
{
    float x[INPUTS], noisy[DRAWS * INPUTS], clean[FEATURES], z[DRAWS * FEATURES];
    double product[FREQUENCIES] = {0}, square[FREQUENCIES] = {0};
    for (size_t point = 0; point < repeats; point++) {
        for (size_t j = 0; j < INPUTS; j++) x[j] = (float)bo_rng_normal(rng);
        for (size_t i = 0; i < DRAWS * INPUTS; i++) noisy[i] = x[i % INPUTS] + (float)(sigma * bo_rng_normal(rng));
        BO_TRY(bo_features_apply(context, phi, &(bo_inputs){.rows = 1, .x = x}, clean, FEATURES));
        BO_TRY(bo_features_apply(context, phi, &(bo_inputs){.rows = DRAWS, .x = noisy}, z, FEATURES));
        for (size_t k = 0; k < FEATURES; k++) {
            double mean = 0;
            for (size_t i = 0; i < DRAWS; i++) mean += (double)z[i * FEATURES + k] / DRAWS;
            product[k % FREQUENCIES] += mean * (double)clean[k];
            square[k % FREQUENCIES] += (double)clean[k] * (double)clean[k];
        }
    }
    for (size_t k = 0; k < FREQUENCIES; k++) ratio[k] = product[k] / square[k];
    return BO_OK;
}

static bo_status measure_fourier(lab_run *run)
{
    const double sigma = 0.4;
    float w[FREQUENCIES * INPUTS];
    double ratio[FREQUENCIES], expected[FREQUENCIES];
    bo_features *phi;
    bo_rng rng = lab_rng(run, "lab.noise-is-ridge.fourier");
    const bo_features_desc desc = {.kernel = BO_KERNEL_RBF,
                                   .function = BO_FUNCTION_SINCOS,
                                   .draw = BO_DRAW_IID,
                                   .dim = INPUTS,
                                   .features = FEATURES,
                                   .gamma = 0.5,
                                   .seed = lab_seed(run)};
    BO_TRY(bo_features_create(lab_context(run), &desc, &phi));
    bo_status status = bo_features_get_frequencies(lab_context(run), phi, w);
    if (status == BO_OK) status = shrunk(lab_context(run), phi, &rng, sigma, lab_size(run, 200, POINTS), ratio);
    bo_features_destroy(phi);
    BO_TRY(status);
    for (size_t k = 0; k < FREQUENCIES; k++) {
        expected[k] = 0;
        for (size_t j = 0; j < INPUTS; j++) {
            const double component = (double)w[k * INPUTS + j];
            expected[k] -= 0.5 * sigma * sigma * component * component;
        }
        ratio[k] = log(ratio[k]);
    }
    lab_claim(run, "fourier", lab_slope(expected, ratio, FREQUENCIES));
    return BO_OK;
}

/* ---- one weight -------------------------------------------------------------------------------------------------- */

enum { RUNS = 65536, STEPS = 5 };

typedef struct scalar {
    lab_descent descent;
    uint64_t seed;
    float w[RUNS];
} scalar;

/* Every run has the input x = 1 with independent noise, and the target 1. */
static bo_status open_scalar(lab_run *run, double sigma, scalar *s)
{
    char name[] = "w";
    s->seed = lab_seed(run) << 32;
    BO_TRY(lab_descent_open(lab_context(run), &s->descent));
    bo_graph *graph = s->descent.tape.graph;
    const bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, RUNS, 1);
    const bo_value y = bo_graph_input(graph, "y", BO_ELEMENT_FLOAT32, RUNS, 1);
    const bo_value w = bo_graph_weight(graph, &(bo_weight_desc){.name = name, .rank = 2, .shape = (size_t[]){RUNS, 1}});
    const bo_noise_attributes noise = {.kind = BO_NOISE_NORMAL, .amount = sigma};
    const bo_value noisy = lab_graph_one(graph, BO_OPERATION_NOISE, &noise, 1, &x);
    const bo_value product = lab_graph_one(graph, BO_OPERATION_PRODUCT, NULL, 2, (bo_value[]){noisy, w});
    BO_TRY(lab_descent_ready(&s->descent, lab_graph_squares(s->descent.tape.graph, product, y), 0.5 * RUNS,
                             &lab_plain_descent, 1));
    for (size_t i = 0; i < RUNS; i++) s->w[i] = 1;
    BO_TRY(bo_graph_write(lab_context(run), graph, x, s->w));
    return bo_graph_write(lab_context(run), graph, y, s->w);
}

/* |mean error| and mean squared error after STEPS steps, relative to those at the start, which is 20 away from the
 * fixed point of the mean. All rates use the same noise. */
static bo_status stationary_moments(scalar *s, double rate, double fixed, double *mean, double *square)
{
    const double start = 20;
    for (size_t i = 0; i < RUNS; i++) s->w[i] = (float)(fixed + start);
    s->descent.pass.seed = s->seed;
    BO_TRY(lab_tape_write(&s->descent.tape, "w", s->w));
    for (size_t t = 0; t < STEPS; t++) BO_TRY(lab_descent_step(&s->descent, rate, NULL));
    BO_TRY(lab_tape_read(&s->descent.tape, "w", s->w));
    double sum = 0, squares = 0;
    for (size_t i = 0; i < RUNS; i++) {
        const double error = ((double)s->w[i] - fixed) / start;
        sum += error / RUNS;
        squares += error * error / RUNS;
    }
    *mean = fabs(sum);
    *square = squares;
    return BO_OK;
}

/* Finds the rate, times x² + σ², at which the remaining error equals 1. */
static bo_status bisect(scalar *s, double power, double fixed, bool square, double *out)
{
    double low = 1, high = 3;
    for (size_t i = 0; i < 12; i++) {
        const double middle = 0.5 * (low + high);
        double left, squares;
        BO_TRY(stationary_moments(s, middle / power, fixed, &left, &squares));
        *((square ? squares : left) < 1 ? &low : &high) = middle;
    }
    *out = 0.5 * (low + high);
    return BO_OK;
}

static bo_status measure_scalar(lab_run *run, scalar *s, double sigma)
{
    const double power = 1 + sigma * sigma, fixed = 1 / power, fourth = 1 + 6 * sigma * sigma + 3 * pow(sigma, 4);
    double mean_limit, square_limit;
    BO_TRY(bisect(s, power, fixed, false, &mean_limit));
    BO_TRY(bisect(s, power, fixed, true, &square_limit));
    lab_claim(run, "step-notes", mean_limit);
    lab_claim(run, "step", mean_limit / 2);
    lab_note(
        run,
        "The mean square is stable only up to η (x² + σ²) = %.3f (predicted: 2 (x² + σ²)²/(x⁴ + 6x²σ² + 3σ⁴) = %.3f), "
        "a smaller step than for the mean.",
        square_limit, 2 * power * power / fourth);
    for (size_t i = 1; i <= 9; i++) {
        const double scaled = 0.25 * (double)i;
        double left, squares;
        BO_TRY(stationary_moments(s, scaled / power, fixed, &left, &squares));
        lab_point(run, "steps", "|mean|", scaled, left);
        lab_point(run, "steps", "root mean square", scaled, sqrt(squares));
        if (fabs(1 - scaled) > 1e-9) lab_point(run, "steps", "|1 - η(x² + σ²)|⁵", scaled, pow(fabs(1 - scaled), STEPS));
    }
    return lab_progress(run, 0.7);
}

static bo_status measure_one_weight(lab_run *run)
{
    const double sigma = 0.3;
    scalar *s = bo_alloc(lab_context(run), 1, sizeof *s, "runs of one weight");
    if (!s) return BO_MEMORY;
    bo_status status = open_scalar(run, sigma, s);
    if (status == BO_OK) status = measure_scalar(run, s, sigma);
    lab_descent_close(&s->descent);
    bo_free(s);
    return status;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* Returns the step at which E|e|² neither grows nor shrinks in the long run. */
static double exact_limit(const lab_least_squares *p, size_t batch, double bound)
{
    double low = 0.5 * bound, high = 8 * bound;
    for (size_t i = 0; i < 12; i++) {
        const double middle = sqrt(low * high);
        *(lab_moments_growth(p, batch, middle, 60) < 1 ? &low : &high) = middle;
    }
    return sqrt(low * high);
}

static bo_status measure_batch(lab_run *run, const lab_least_squares *p, size_t batch, double *worst)
{
    const double b = (double)batch, top = p->scales[0] * p->scales[0] / (double)p->rows;
    const double beta = lab_dot(p->x, p->x, p->dim); /* all rows have the same norm */
    const double bound = 2 * b / (beta + (b - 1) * top);
    lab_stochastic s;
    double before = lab_dot(p->truth, p->truth, p->dim), after = 0;
    BO_TRY(lab_stochastic_open(lab_context(run), p, 256, batch, lab_rng(run, "lab.noise-is-ridge.batches"), &s));
    bo_status status = lab_stochastic_begin(&s, NULL);
    for (size_t t = 0; t < 20 && status == BO_OK; t++) status = lab_stochastic_step(&s, 0.95 * bound);
    if (status == BO_OK) status = lab_stochastic_error(&s, p->truth, &after);
    lab_stochastic_close(&s);
    BO_TRY(status);
    *worst = fmax(*worst, after / before);
    lab_point(run, "batches", "2b/(β + (b - 1)λ₁)", b, bound);
    lab_point(run, "batches", "exact", b, exact_limit(p, batch, bound));
    return lab_progress(run, 0.9);
}

/* 16 Fourier features of 64 points, with targets that some w fits exactly. */
static bo_status measure_batches(lab_run *run)
{
    float x[ROWS * INPUTS], z[ROWS * FEATURES];
    bo_rng rng = lab_rng(run, "lab.noise-is-ridge.points");
    bo_features *phi;
    lab_least_squares p;
    double worst = 0;
    const bo_features_desc desc = {
        .kernel = BO_KERNEL_RBF, .dim = INPUTS, .features = FEATURES, .gamma = 0.2, .seed = lab_seed(run)};
    lab_fill_normal(&rng, 1, ROWS * INPUTS, x);
    BO_TRY(bo_features_create(lab_context(run), &desc, &phi));
    bo_status status = bo_features_apply(lab_context(run), phi, &(bo_inputs){.rows = ROWS, .x = x}, z, FEATURES);
    bo_features_destroy(phi);
    BO_TRY(status);
    BO_TRY(lab_least_squares_open(lab_context(run), &(lab_least_squares_desc){.rows = ROWS, .dim = FEATURES, .x = z},
                                  &rng, &p));
    for (size_t batch = 1; batch <= 64 && status == BO_OK; batch *= 2) status = measure_batch(run, &p, batch, &worst);
    lab_least_squares_close(&p);
    lab_claim(run, "minibatch", worst);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_least_squares(run));
    BO_TRY(measure_fourier(run));
    BO_TRY(measure_one_weight(run));
    return measure_batches(run);
}

const lab_experiment lab_noise_is_ridge = {
    {.name = "noise-is-ridge",
     .group = LAB_LEARNING,
     .title = "Noise on the inputs is a ridge penalty and bounds the step",
     .claim = "In expectation, noise of variance σ² on the inputs of least squares with n examples adds the penalty "
              "nσ²|w|². The mean of w is stable for steps below 2/(x² + σ²).",
     .source = "course notes, relationship between noise and regularization",
     .method =
         "64 examples have 8 inputs (singular values 12 to 4, noise of standard deviation 0.5 on y). Gradient descent "
         "sees the inputs with fresh noise in each of 40000 steps, σ = 0.125 to 2. The mean over the second half of "
         "training is compared with closed-form ridge regression and with a linear kernel machine with noise 0.5. "
         "Fourier features: 16 features of 200 points in 4 dimensions, σ = 0.4, 1000 draws each. Step: one weight, x "
         "= 1, σ = 0.3, 65536 runs of 5 steps; the largest stable step is found by bisection. Batches: 16 Fourier "
         "features of 64 points (all of norm 1), targets that can be fitted, 256 runs; the exact limit comes from the "
         "recursion of E[e eᵀ].",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
