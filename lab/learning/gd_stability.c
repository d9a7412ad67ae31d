/* gd-stability: the largest learning rate at which gradient descent converges. */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "threshold",
     .statement =
         "Gradient descent on |y - Xw|² converges exactly for learning rates below 1/σ_max², regardless of the other "
         "singular values.",
     .number = "largest |measured threshold · σ_max² - 1| over the problems",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 2e-3,
     .passage =
         LAB_NOTES "lines 21 and 34: \"We need |1 - 2ησ²| < 1, ∴ η < 1/σ²\", \"η < min{1/σ_1², 1/σ_s²} = 1/σ_1²\""},
    {.name = "no-oscillation",
     .statement = "Below half the threshold, the error along the largest singular direction never changes sign.",
     .number = "largest fraction of steps with a sign change, at 0.05, 0.15, 0.3 and 0.45 of the threshold",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "oscillation",
     .statement = "Between half the threshold and the threshold, the error changes sign in every step and still "
                  "shrinks.",
     .number = "smallest fraction of steps with a sign change, at 0.55, 0.7, 0.85 and 0.95 of the threshold",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 1},
    {.name = "steps",
     .statement = "One mode needs ln ε / ln |1 - 2ησ²| steps to reduce its error to the fraction ε.",
     .number = "largest |steps counted - steps predicted| over the rates, ε = 1e-3",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1,
     .passage = LAB_NOTES "line 25: \"t > ln ε / ln(1 - 2ησ²)\"; we add the absolute value"},
    {.name = "network-differs",
     .statement =
         "Control: for a network, the curvature at initialization does not give the threshold, because the curvature "
         "changes.",
     .number = "|largest rate that ends below the first loss / (2 / largest Hessian eigenvalue at initialization) - 1|",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "edge",
     .statement =
         "Full-batch gradient descent with a learning rate η near the initial threshold moves a network to the edge "
         "of stability, where the largest Hessian eigenvalue is 2/η.",
     .number = "η/2 times the largest Hessian eigenvalue after training, with η at 0.8 of the initial threshold",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.2,
     .source = "Cohen et al. 2021, arXiv 2103.00065"},
    {.name = "edge-slow",
     .statement = "With a learning rate at a quarter of the initial threshold, training also moves to the edge of "
                  "stability.",
     .number = "η/2 times the largest Hessian eigenvalue after training, with η at 0.25 of the initial threshold",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.2,
     .source = "Cohen et al. 2021, arXiv 2103.00065"},
};

static const bo_lab_table tables[] = {
    {.name = "threshold",
     .title = "Largest learning rate that converges",
     .rows = "problem",
     .values = "learning rate · σ_max²",
     .plot = BO_LAB_BARS,
     .theory = "1/σ_max²"},
    {.name = "contraction",
     .title = "Contraction factor of the error along the largest singular direction",
     .rows = "learning rate / threshold",
     .values = "factor per step",
     .theory = "1 - 2ησ²"},
    {.name = "sharpness",
     .title = "Largest Hessian eigenvalue of a network during training, times η/2",
     .rows = "step",
     .values = "η λ_max / 2 (1: edge of stability)"},
};

/* ---- least squares ----------------------------------------------------------------------------------------------- */

enum { MODES = 16 };

static bo_status restart(lab_descent *descent, size_t dim)
{
    static const float zeros[4 * MODES];
    return dim <= LAB_COUNT_OF(zeros)
               ? lab_tape_write(&descent->tape, "w", zeros)
               : bo_fail(descent->tape.context, BO_INVALID, "a problem of %zu weights is too large", dim);
}

static bo_status gradient_size(lab_descent *descent, size_t dim, double *out)
{
    float g[4 * MODES];
    BO_TRY(lab_tape_gradient(&descent->tape, "w", g));
    *out = 0;
    for (size_t i = 0; i < dim; i++) *out += (double)g[i] * (double)g[i];
    *out = sqrt(*out);
    return BO_OK;
}

/* Starts from zero. Returns whether the gradient has nearly vanished, or is smaller after all steps than after half of
 * them. */
static bo_status converges(lab_descent *descent, size_t dim, double rate, size_t steps, bool *out)
{
    double size = 0, first = 0, middle = 0;
    BO_TRY(restart(descent, dim));
    *out = false;
    for (size_t t = 0; t < steps; t++) {
        BO_TRY(lab_descent_step(descent, rate, NULL));
        BO_TRY(gradient_size(descent, dim, &size));
        if (t == 0) first = size;
        if (t == steps / 2) middle = size;
        if (size > 1e6 * first) return BO_OK;
    }
    *out = size < 1e-4 * first || size < middle;
    return BO_OK;
}

/* Bisects 16 times between 0.2 and 5 times the predicted threshold. */
static bo_status threshold(lab_descent *descent, const lab_least_squares *p, size_t steps, double *out)
{
    const double predicted = 1 / (p->scales[0] * p->scales[0]);
    double low = log(0.2 * predicted), high = log(5 * predicted);
    for (size_t i = 0; i < 16; i++) {
        const double middle = 0.5 * (low + high);
        bool good;
        BO_TRY(converges(descent, p->dim, exp(middle), steps, &good));
        *(good ? &low : &high) = middle;
    }
    *out = exp(0.5 * (low + high));
    return BO_OK;
}

typedef struct problem {
    const char *name;
    size_t rows, dim;
    double condition; /* σ_max² / σ_min²; 0: entries are N(0, 1) */
    double noise;
} problem;

static const problem problems[] = {
    {"one mode", 8, 1, 1, 0},
    {"2 modes, κ 10", 8, 2, 10, 0},
    {"16 modes, κ 10", 32, 16, 10, 0},
    {"16 modes, κ 100", 32, 16, 100, 0},
    {"16 modes, κ 1000", 32, 16, 1000, 0},
    {"with noise", 32, 16, 100, 1},
    {"Gaussian 32 x 16", 32, 16, 0, 0},
    {"wide, 16 x 32", 16, 32, 100, 0},
};

static bo_status open_problem(lab_run *run, const problem *kind, bo_rng *rng, lab_least_squares *out)
{
    double scales[MODES];
    const size_t modes = kind->rows < kind->dim ? kind->rows : kind->dim;
    if (kind->condition > 0) lab_geometric(3, 3 / sqrt(kind->condition), modes, scales);
    const lab_least_squares_desc desc = {
        .rows = kind->rows, .dim = kind->dim, .scales = kind->condition > 0 ? scales : NULL, .noise = kind->noise};
    return lab_least_squares_open(lab_context(run), &desc, rng, out);
}

static bo_status measure_threshold(lab_run *run, const problem *kind, bo_rng *rng, double *worst)
{
    lab_least_squares p;
    lab_descent descent = {0};
    double rate = NAN;
    BO_TRY(open_problem(run, kind, rng, &p));
    bo_status status = lab_perturbed_open(lab_context(run), &p, NULL, 1, &lab_plain_descent, 1, &descent);
    if (status == BO_OK) status = threshold(&descent, &p, lab_size(run, 2000, 600), &rate);
    if (status == BO_OK) {
        const double scaled = rate * p.scales[0] * p.scales[0];
        lab_cell(run, "threshold", kind->name, "measured", scaled);
        lab_cell(run, "threshold", kind->name, "1/σ_max²", 1);
        *worst = fmax(*worst, fabs(scaled - 1));
    }
    lab_descent_close(&descent);
    lab_least_squares_close(&p);
    return status;
}

/* ---- one mode, step by step -------------------------------------------------------------------------------------- */

/* Records the error along the first direction after each of `steps` steps from zero. */
static bo_status follow(lab_descent *descent, const lab_least_squares *p, double rate, size_t steps, double *error)
{
    float w[4 * MODES];
    BO_TRY(restart(descent, p->dim));
    for (size_t t = 0; t <= steps; t++) {
        BO_TRY(lab_tape_read(&descent->tape, "w", w));
        error[t] = 0;
        for (size_t j = 0; j < p->dim; j++) error[t] += p->directions[j] * ((double)w[j] - p->truth[j]);
        BO_TRY(lab_descent_step(descent, rate, NULL));
    }
    return BO_OK;
}

/* Counts only steps before the error is 1e-4 of the first, because rounding dominates later. */
static double share_of_flips(const double *error, size_t steps)
{
    size_t flips = 0, checked = 0;
    for (size_t t = 0; t < steps && fabs(error[t + 1]) > 1e-4 * fabs(error[0]); t++, checked++)
        flips += error[t] * error[t + 1] < 0;
    return (double)flips / (double)checked;
}

static double steps_until(const double *error, size_t steps, double part)
{
    for (size_t t = 0; t <= steps; t++)
        if (fabs(error[t]) <= part * fabs(error[0])) return (double)t;
    return INFINITY;
}

enum { FOLLOWED = 400 };

typedef struct followed {
    double steps;                /* largest |counted - predicted| */
    double max_below, min_above; /* largest fraction of sign changes below half the threshold, smallest above it */
} followed;

static bo_status measure_mode(lab_run *run, lab_descent *descent, const lab_least_squares *p, followed *out)
{
    static const double parts[] = {0.05, 0.15, 0.3, 0.45, 0.55, 0.7, 0.85, 0.95, 1.05};
    const double limit = 1 / (p->scales[0] * p->scales[0]);
    double error[FOLLOWED + 1];
    for (size_t i = 0; i < LAB_COUNT_OF(parts); i++) {
        const double factor = 1 - 2 * parts[i];
        BO_TRY(follow(descent, p, parts[i] * limit, FOLLOWED, error));
        lab_point(run, "contraction", "measured", parts[i], error[2] / error[1]);
        lab_point(run, "contraction", "1 - 2ησ²", parts[i], factor);
        if (parts[i] > 1) break;
        const double predicted = ceil(log(1e-3) / log(fabs(factor))), flips = share_of_flips(error, FOLLOWED);
        out->steps = fmax(out->steps, fabs(steps_until(error, FOLLOWED, 1e-3) - predicted));
        if (parts[i] < 0.5)
            out->max_below = fmax(out->max_below, flips);
        else
            out->min_above = fmin(out->min_above, flips);
    }
    return BO_OK;
}

static bo_status measure_modes(lab_run *run, bo_rng *rng)
{
    lab_least_squares p;
    lab_descent descent = {0};
    followed found = {.min_above = 1};
    BO_TRY(open_problem(run, &(problem){"", 32, 16, 100, 0}, rng, &p));
    bo_status status = lab_perturbed_open(lab_context(run), &p, NULL, 1, &lab_plain_descent, 1, &descent);
    if (status == BO_OK) status = measure_mode(run, &descent, &p, &found);
    if (status == BO_OK) {
        lab_claim(run, "no-oscillation", found.max_below);
        lab_claim(run, "oscillation", found.min_above);
        lab_claim(run, "steps", found.steps);
    }
    lab_descent_close(&descent);
    lab_least_squares_close(&p);
    return status;
}

/* ---- a network --------------------------------------------------------------------------------------------------- */

#define EDGE_PART 0.8
#define SLOW_PART 0.25
enum { IN = 8, HIDDEN = 32, EXAMPLES = 64, NUMBERS = HIDDEN * IN + HIDDEN };

/* 8 inputs, 32 tanh units, one output; the targets are a rough function. */
typedef struct network {
    lab_descent descent;
    float x[EXAMPLES * IN], y[EXAMPLES], start[NUMBERS];
} network;

static bo_status open_network(lab_run *run, network *n)
{
    bo_rng rng = lab_rng(run, "lab.gd-stability.network");
    BO_TRY(lab_descent_open(lab_context(run), &n->descent));
    const bo_value x = bo_graph_input(n->descent.tape.graph, "x", BO_ELEMENT_FLOAT32, EXAMPLES, IN);
    const bo_value y = bo_graph_input(n->descent.tape.graph, "y", BO_ELEMENT_FLOAT32, EXAMPLES, 1);
    const bo_value first = lab_graph_linear(n->descent.tape.graph, "first", x, HIDDEN,
                                            (bo_weight_init){BO_WEIGHT_INIT_KIND_NORMAL, 0, 1 / sqrt(IN)});
    const bo_value hidden = lab_graph_unary(n->descent.tape.graph, BO_UNARY_TANH, first);
    const bo_value out = lab_graph_linear(n->descent.tape.graph, "second", hidden, 1,
                                          (bo_weight_init){BO_WEIGHT_INIT_KIND_NORMAL, 0, 1 / sqrt(HIDDEN)});
    BO_TRY(lab_descent_ready(&n->descent, lab_graph_squares(n->descent.tape.graph, out, y), 1, &lab_plain_descent,
                             lab_seed(run)));
    for (size_t i = 0; i < EXAMPLES; i++) {
        double sum = 0;
        for (size_t j = 0; j < IN; j++) {
            n->x[i * IN + j] = (float)bo_rng_normal(&rng);
            sum += (double)n->x[i * IN + j] * (j % 2 ? 1 : -1);
        }
        n->y[i] = (float)(1.5 * sin(sum) + 0.5 * (double)n->x[i * IN] * (double)n->x[i * IN + 1]);
    }
    BO_TRY(bo_graph_write(lab_context(run), n->descent.tape.graph, x, n->x));
    return bo_graph_write(lab_context(run), n->descent.tape.graph, y, n->y);
}

/* Copies all entries of the two weights into one vector. */
static bo_status get(const network *n, float *w)
{
    BO_TRY(lab_tape_read(&n->descent.tape, "first", w));
    return lab_tape_read(&n->descent.tape, "second", w + HIDDEN * IN);
}

static bo_status set(const network *n, const float *w)
{
    BO_TRY(lab_tape_write(&n->descent.tape, "first", w));
    return lab_tape_write(&n->descent.tape, "second", w + HIDDEN * IN);
}

/* Computes the gradient at w + step · v. */
static bo_status gradient_at(network *n, const float *w, double step, const double *v, float *g)
{
    float moved[NUMBERS];
    for (size_t i = 0; i < NUMBERS; i++) moved[i] = w[i] + (float)(step * v[i]);
    BO_TRY(set(n, moved));
    BO_TRY(lab_descent_gradients(&n->descent, NULL));
    BO_TRY(lab_tape_gradient(&n->descent.tape, "first", g));
    return lab_tape_gradient(&n->descent.tape, "second", g + HIDDEN * IN);
}

/* Largest eigenvalue of the Hessian by power iteration; products with it are central differences of gradients. */
static bo_status sharpness(network *n, size_t rounds, double *out)
{
    const double step = 1e-2;
    float w[NUMBERS], above[NUMBERS], below[NUMBERS];
    double v[NUMBERS];
    bo_rng rng = bo_rng_make(1, 1);
    BO_TRY(get(n, w));
    for (size_t i = 0; i < NUMBERS; i++) v[i] = bo_rng_normal(&rng);
    for (size_t round = 0; round < rounds; round++) {
        const double size = lab_norm(v, NUMBERS);
        for (size_t i = 0; i < NUMBERS; i++) v[i] /= size;
        BO_TRY(gradient_at(n, w, step, v, above));
        BO_TRY(gradient_at(n, w, -step, v, below));
        *out = 0;
        for (size_t i = 0; i < NUMBERS; i++) {
            const double product = ((double)above[i] - (double)below[i]) / (2 * step);
            *out += product * v[i];
            v[i] = product;
        }
    }
    return set(n, w);
}

/* Trains from initialization. *left: last loss / first loss, INFINITY if training diverged. */
static bo_status train(network *n, double rate, size_t steps, double *left)
{
    double first = 0, loss = 0;
    BO_TRY(set(n, n->start));
    for (size_t t = 0; t < steps; t++) {
        BO_TRY(lab_descent_step(&n->descent, rate, &loss));
        if (t == 0) first = loss;
        if (!(loss < 1e4 * first)) break;
    }
    *left = loss < 1e4 * first ? loss / first : INFINITY;
    return BO_OK;
}

/* Finds the largest rate that still learns, between half the rate from the initial curvature and 16 times that rate. */
static bo_status measure_border(lab_run *run, network *n, double predicted)
{
    double low = log(0.5 * predicted), high = log(16 * predicted);
    for (size_t i = 0; i < 9; i++) {
        const double middle = 0.5 * (low + high);
        double left;
        BO_TRY(train(n, exp(middle), 200, &left));
        *(left < 1 ? &low : &high) = middle;
    }
    lab_claim(run, "network-differs", fabs(exp(0.5 * (low + high)) / predicted - 1));
    return lab_progress(run, 0.6);
}

/* Records the largest Hessian eigenvalue while training at a fraction of the rate that the initial curvature allows. */
static bo_status measure_edge(lab_run *run, network *n, double first, double part, const char *column)
{
    enum { PIECES = 10 };
    const double rate = part * 2 / first;
    const size_t piece = lab_size(run, 1000, 300);
    double last[2] = {0}, current = first;
    BO_TRY(set(n, n->start));
    for (size_t i = 0; i <= PIECES; i++) {
        for (size_t t = 0; i > 0 && t < piece; t++) BO_TRY(lab_descent_step(&n->descent, rate, NULL));
        if (i > 0) BO_TRY(sharpness(n, 100, &current));
        last[i % 2] = current * rate / 2;
        lab_point(run, "sharpness", column, (double)(i * piece), current * rate / 2);
    }
    if (part == EDGE_PART) lab_claim(run, "edge", lab_mean(last, 2));
    if (part == SLOW_PART) lab_claim(run, "edge-slow", lab_mean(last, 2));
    return lab_progress(run, 0.7 + 0.3 * part);
}

static bo_status measure_edges(lab_run *run, network *n, double first)
{
    BO_TRY(measure_edge(run, n, first, SLOW_PART, "rate 0.25 of the initial threshold"));
    BO_TRY(measure_edge(run, n, first, 0.5, "rate 0.5 of it"));
    return measure_edge(run, n, first, EDGE_PART, "rate 0.8 of it");
}

static bo_status measure_network(lab_run *run)
{
    network *n = bo_alloc(lab_context(run), 1, sizeof *n, "a network");
    double first = 0;
    if (!n) return BO_MEMORY;
    bo_status status = open_network(run, n);
    if (status == BO_OK) status = get(n, n->start);
    if (status == BO_OK) status = sharpness(n, 100, &first);
    if (status == BO_OK) status = measure_border(run, n, 2 / first);
    if (status == BO_OK) status = measure_edges(run, n, first);
    lab_descent_close(&n->descent);
    bo_free(n);
    return status;
}

static bo_status measure(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.gd-stability");
    double worst = 0;
    for (size_t i = 0; i < LAB_COUNT_OF(problems); i++) {
        BO_TRY(measure_threshold(run, &problems[i], &rng, &worst));
        BO_TRY(lab_progress(run, 0.4 * (double)(i + 1) / (double)LAB_COUNT_OF(problems)));
    }
    lab_claim(run, "threshold", worst);
    BO_TRY(measure_modes(run, &rng));
    return measure_network(run);
}

const lab_experiment lab_gd_stability = {
    {.name = "gd-stability",
     .group = LAB_LEARNING,
     .title = "Stability of gradient descent: the threshold 1/σ_max², and the edge of stability",
     .claim =
         "On |y - Xw|², gradient descent converges if and only if its learning rate is below 1/σ_max² (2/σ_max² for "
         "half that loss). Above half the threshold, the steepest mode oscillates. Networks trained with full batches "
         "move to the edge of stability.",
     .source = "course notes, why the learning rate cannot be too large",
     .method =
         "Eight least squares problems have prescribed singular values: one; two; 16 with σ_max²/σ_min² of 10, 100 "
         "and 1000 in geometric order; with noise on y; Gaussian entries; fewer rows than weights. Gradient descent "
         "starts at w = 0. The largest rate that converges within 2000 steps (the gradient is below 1e-4 of the "
         "first, or smaller at the end than half-way) is found by bisection of its logarithm between 0.2 and 5 times "
         "the predicted one. The error along the largest singular direction is followed step by step. The control is "
         "a network (8 inputs, 32 tanh units, 1 output, 64 examples, mean squared error), whose largest Hessian "
         "eigenvalue is found by power iteration on differences of gradients. It is trained for 10,000 steps at 0.25, "
         "0.5 and 0.8 of the rate that its initial curvature allows. The edge of stability was first claimed for "
         "0.25; 0.8 was added after a first look, which showed that the fit is complete before the edge is reached. "
         "Both are claims with the same bounds.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
