/* gd-best-rate: the learning rate with the best worst case, and whether it is best for a given start. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "two-modes",
     .statement = "With two singular values, the learning rate 1/(σ_max² + σ_min²) has the smallest worst-case "
                  "contraction factor.",
     .number = "largest |best rate found · (σ_max² + σ_min²) - 1| over the problems with two singular values",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.02,
     .passage = LAB_NOTES "lines 36-38: \"If we want fastest convergence speed? |1 - 2ησ_1²| = |1 - 2ησ_s²|, η' = "
                          "1/(σ_1² + σ_s²)\""},
    {.name = "more-modes",
     .statement = "With any number of singular values, the learning rate 1/(σ_max² + σ_min²) has the smallest "
                  "worst-case contraction factor (the course notes leave this open).",
     .number = "largest |best rate found · (σ_max² + σ_min²) - 1| over the problems with 16 and 64 singular values",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.02,
     .source = LAB_NOTES "lines 40-42: \"η' = 1/(σ_1² + σ_s²)? Not exactly, hard to tell\""},
    {.name = "contraction",
     .statement = "At this rate, one step leaves the fraction (κ - 1)/(κ + 1) of the worst error, where κ = "
                  "σ_max²/σ_min².",
     .number = "largest |contraction factor / ((κ - 1)/(κ + 1)) - 1| over the problems",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 2e-3},
    {.name = "given-start",
     .statement = "For most random starts, another rate is at least 10% closer to the solution after 20 steps.",
     .number = "fraction of starts",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5},
    {.name = "long-run",
     .statement =
         "In the long run, no other rate saves more than a constant factor: the gain of the best rate does not grow "
         "with the number of steps.",
     .number = "exponent of the median gain as a power of the number of steps, over the last three numbers",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1},
};

static const bo_lab_table tables[] = {
    {.name = "contraction",
     .title = "Worst-case contraction factor of one step, κ = 10",
     .rows = "learning rate · σ_max²",
     .values = "error after / error before, worst direction",
     .theory = "largest |1 - 2ησ²|"},
    {.name = "problems",
     .title = "The rate with the smallest worst-case contraction factor, found by search",
     .rows = "problem",
     .values = "rate · (σ_max² + σ_min²); contraction factor",
     .plot = BO_LAB_NO_PLOT},
    {.name = "starts",
     .title = "Best constant rate for random starts, 16 singular values, κ = 100",
     .rows = "steps",
     .values = "fraction of starts; ratio",
     .log_x = true},
};

enum { MODES = 64, STARTS = 200 };

/* ---- gradient descent on errors ---------------------------------------------------------------------------------- */

/* The rows of the weight are the errors w - w* of several starts: gradient descent on |Xw|², independently for each. */
typedef struct errors {
    lab_least_squares problem;
    lab_descent descent;
    size_t starts;
    float *rows; /* starts x dim */
} errors;

static void close_errors(errors *e)
{
    lab_descent_close(&e->descent);
    lab_least_squares_close(&e->problem);
    bo_free(e->rows);
}

static bo_status record_errors(bo_context *context, errors *e)
{
    const lab_least_squares *p = &e->problem;
    e->rows = bo_alloc(context, (p->rows + p->dim) * e->starts, sizeof(float), "errors of starts");
    if (!e->rows) return BO_MEMORY;
    BO_TRY(lab_descent_open(context, &e->descent));
    bo_graph *graph = e->descent.tape.graph;
    const bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, p->rows, p->dim);
    const bo_value zero = bo_graph_input(graph, "zero", BO_ELEMENT_FLOAT32, p->rows, e->starts);
    const bo_value product =
        lab_graph_linear(e->descent.tape.graph, "w", x, e->starts, (bo_weight_init){BO_WEIGHT_INIT_KIND_NORMAL, 0, 1});
    const bo_value loss = lab_graph_squares(e->descent.tape.graph, product, zero);
    BO_TRY(lab_descent_ready(&e->descent, loss, (double)(p->rows * e->starts), &lab_plain_descent, 1));
    BO_TRY(bo_graph_write(context, graph, x, p->x_single));
    return bo_graph_write(context, graph, zero, e->rows + e->starts * p->dim);
}

static bo_status open_errors(lab_run *run, size_t modes, double condition, size_t starts, errors *out)
{
    double scales[MODES];
    bo_rng rng = lab_rng(run, "lab.gd-best-rate");
    *out = (errors){.starts = starts};
    lab_geometric(2, 2 / sqrt(condition), modes, scales);
    const lab_least_squares_desc desc = {.rows = 2 * modes, .dim = modes, .scales = scales};
    bo_status status = lab_least_squares_open(lab_context(run), &desc, &rng, &out->problem);
    if (status == BO_OK) status = record_errors(lab_context(run), out);
    if (status != BO_OK) close_errors(out);
    return status;
}

static void draw_starts(lab_run *run, errors *e)
{
    bo_rng rng = lab_rng(run, "lab.gd-best-rate.starts");
    lab_fill_normal(&rng, 1, e->starts * e->problem.dim, e->rows);
}

static double size_of(const float *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)numbers[i] * (double)numbers[i];
    return sqrt(sum);
}

/* ---- worst case -------------------------------------------------------------------------------------------------- */

/* Returns the contraction factor of one step in the worst direction. Steps from random starts turn errors into this
 * direction, like a power iteration. Errors are rescaled to size 1 every 50 steps. */
static bo_status worst_contraction(lab_run *run, errors *e, double rate, double *out)
{
    enum { BLOCK = 50 };
    const size_t count = e->starts * e->problem.dim;
    draw_starts(run, e);
    for (size_t block = 0; block < lab_size(run, 60, 24); block++) {
        const double size = size_of(e->rows, count);
        for (size_t i = 0; i < count; i++) e->rows[i] = (float)((double)e->rows[i] / size);
        BO_TRY(lab_tape_write(&e->descent.tape, "w", e->rows));
        for (size_t t = 0; t < BLOCK; t++) BO_TRY(lab_descent_step(&e->descent, rate, NULL));
        BO_TRY(lab_tape_read(&e->descent.tape, "w", e->rows));
        *out = pow(size_of(e->rows, count), 1.0 / BLOCK);
    }
    return BO_OK;
}

/* Golden section search: the contraction factor first falls and then rises with the rate. */
static bo_status best_rate(lab_run *run, errors *e, double *rate, double *contraction)
{
    const double golden = 0.5 * (sqrt(5) - 1), largest = 1 / (e->problem.scales[0] * e->problem.scales[0]);
    double low = 0.3 * largest, high = 1.1 * largest, left = high - golden * (high - low), right = low + high - left;
    double at_left, at_right;
    BO_TRY(worst_contraction(run, e, left, &at_left));
    BO_TRY(worst_contraction(run, e, right, &at_right));
    for (size_t i = 0; i < 14; i++) {
        if (at_left < at_right) {
            high = right, right = left, at_right = at_left;
            left = high - golden * (high - low);
            BO_TRY(worst_contraction(run, e, left, &at_left));
        } else {
            low = left, left = right, at_left = at_right;
            right = low + golden * (high - low);
            BO_TRY(worst_contraction(run, e, right, &at_right));
        }
    }
    *rate = at_left < at_right ? left : right;
    *contraction = fmin(at_left, at_right);
    return BO_OK;
}

typedef struct problem {
    const char *name;
    size_t modes;
    double condition;
} problem;

static const problem problems[] = {
    {"2 modes, κ 4", 2, 4},     {"2 modes, κ 10", 2, 10},     {"2 modes, κ 100", 2, 100},
    {"16 modes, κ 10", 16, 10}, {"16 modes, κ 100", 16, 100}, {"64 modes, κ 30", 64, 30},
};

static bo_status measure_best(lab_run *run, const problem *kind, double *rate_off, double *contraction_off)
{
    errors e;
    double rate = 0, contraction = 0;
    BO_TRY(open_errors(run, kind->modes, kind->condition, 4, &e));
    const double first = e.problem.scales[0], last = e.problem.scales[kind->modes - 1];
    const bo_status status = best_rate(run, &e, &rate, &contraction);
    close_errors(&e);
    BO_TRY(status);
    const double scaled = rate * (first * first + last * last);
    const double predicted = (kind->condition - 1) / (kind->condition + 1);
    lab_cell(run, "problems", kind->name, "best rate", scaled);
    lab_cell(run, "problems", kind->name, "contraction", contraction);
    lab_cell(run, "problems", kind->name, "(κ - 1)/(κ + 1)", predicted);
    *rate_off = fmax(*rate_off, fabs(scaled - 1));
    *contraction_off = fmax(*contraction_off, fabs(contraction / predicted - 1));
    return BO_OK;
}

static bo_status measure_problems(lab_run *run)
{
    double few = 0, many = 0, contraction = 0;
    for (size_t i = 0; i < LAB_COUNT_OF(problems); i++) {
        BO_TRY(measure_best(run, &problems[i], problems[i].modes == 2 ? &few : &many, &contraction));
        BO_TRY(lab_progress(run, 0.1 * (double)(i + 1)));
    }
    lab_claim(run, "two-modes", few);
    lab_claim(run, "more-modes", many);
    lab_claim(run, "contraction", contraction);
    return BO_OK;
}

/* Records the contraction factor as a function of the rate. */
static bo_status measure_curve(lab_run *run, size_t modes, const char *column)
{
    errors e;
    bo_status status = BO_OK;
    BO_TRY(open_errors(run, modes, 10, 4, &e));
    for (size_t i = 6; i <= 21 && status == BO_OK; i++) {
        const double part = 0.05 * (double)i;
        double contraction = 0;
        status = worst_contraction(run, &e, part / 4, &contraction);
        lab_point(run, "contraction", column, part, contraction);
        if (modes == 2)
            lab_point(run, "contraction", "largest |1 - 2ησ²|", part, fmax(fabs(1 - 2 * part), fabs(1 - 0.2 * part)));
    }
    close_errors(&e);
    return status;
}

/* ---- given starts ------------------------------------------------------------------------------------------------ */

enum { COUNTS = 7, RATES = 40, BELOW = 34 };
static const size_t counts[COUNTS] = {5, 20, 80, 320, 640, 1280, 2560};

/* For each number of steps and start: the smallest error over the rates, its rate, and the error at the worst-case
 * rate. */
typedef struct comparison {
    double best[COUNTS][STARTS], rate[COUNTS][STARTS], default_error[COUNTS][STARTS];
} comparison;

static bo_status run_rate(lab_run *run, errors *e, double rate, bool is_default, size_t max_count, comparison *c)
{
    const size_t dim = e->problem.dim;
    size_t next = 0;
    draw_starts(run, e);
    BO_TRY(lab_tape_write(&e->descent.tape, "w", e->rows));
    for (size_t t = 1; t <= counts[max_count - 1]; t++) {
        BO_TRY(lab_descent_step(&e->descent, rate, NULL));
        if (t != counts[next]) continue;
        BO_TRY(lab_tape_read(&e->descent.tape, "w", e->rows));
        for (size_t s = 0; s < e->starts; s++) {
            const double error = size_of(e->rows + s * dim, dim);
            if (is_default) c->default_error[next][s] = error;
            if (error >= c->best[next][s]) continue;
            c->best[next][s] = error;
            c->rate[next][s] = rate;
        }
        next++;
    }
    return BO_OK;
}

/* Rates from half the worst-case rate up to it and on to the threshold, more closely spaced near it, where long runs
 * differ. */
static double rate_at(size_t i, double default_rate, double limit)
{
    if (i < BELOW) return default_rate * (1 - 0.5 * pow(2e-4, (double)i / (BELOW - 1)));
    return default_rate + (limit - default_rate) * pow(0.5, (double)(i - BELOW));
}

static bo_status run_comparison(lab_run *run, errors *e, double default_rate, size_t max_count, comparison *c)
{
    const double limit = 1 / (e->problem.scales[0] * e->problem.scales[0]);
    for (size_t i = 0; i < COUNTS; i++)
        for (size_t s = 0; s < STARTS; s++) c->best[i][s] = INFINITY;
    BO_TRY(run_rate(run, e, default_rate, true, max_count, c));
    for (size_t i = 0; i < RATES; i++) {
        BO_TRY(run_rate(run, e, rate_at(i, default_rate, limit), false, max_count, c));
        BO_TRY(lab_progress(run, 0.7 + 0.3 * (double)i / RATES));
    }
    return BO_OK;
}

static double share_better(const comparison *c, size_t count, size_t starts)
{
    size_t better = 0;
    for (size_t s = 0; s < starts; s++) better += c->best[count][s] < 0.9 * c->default_error[count][s];
    return (double)better / (double)starts;
}

static void report_comparison(lab_run *run, const comparison *c, double default_rate, size_t max_count, size_t starts)
{
    double x[COUNTS], gains[COUNTS], ratio[STARTS];
    for (size_t i = 0; i < max_count; i++) {
        x[i] = (double)counts[i];
        lab_point(run, "starts", "fraction with a rate at least 10% closer", x[i], share_better(c, i, starts));
        for (size_t s = 0; s < starts; s++) ratio[s] = c->rate[i][s] / default_rate;
        lab_point(run, "starts", "median best rate / worst-case rate", x[i], lab_median(ratio, starts));
        for (size_t s = 0; s < starts; s++) ratio[s] = c->default_error[i][s] / c->best[i][s];
        gains[i] = lab_median(ratio, starts);
        lab_point(run, "starts", "median gain: error / smallest error", x[i], gains[i]);
    }
    lab_claim(run, "given-start", share_better(c, 1, starts));
    lab_claim(run, "long-run", lab_exponent(x + max_count - 3, gains + max_count - 3, 3));
}

static bo_status measure_starts(lab_run *run)
{
    errors e;
    const size_t starts = lab_size(run, STARTS, 60), max_count = lab_size(run, COUNTS, COUNTS - 2);
    comparison *c = bo_alloc(lab_context(run), 1, sizeof *c, "a comparison of rates");
    bo_status status = c ? open_errors(run, 16, 100, starts, &e) : BO_MEMORY;
    if (status == BO_OK) {
        const double first = e.problem.scales[0], last = e.problem.scales[15];
        const double default_rate = 1 / (first * first + last * last);
        status = run_comparison(run, &e, default_rate, max_count, c);
        if (status == BO_OK) report_comparison(run, c, default_rate, max_count, starts);
        close_errors(&e);
    }
    bo_free(c);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_problems(run));
    BO_TRY(measure_curve(run, 2, "2 modes"));
    BO_TRY(measure_curve(run, 16, "16 modes"));
    return measure_starts(run);
}

const lab_experiment lab_gd_best_rate = {
    {.name = "gd-best-rate",
     .group = LAB_LEARNING,
     .title = "The learning rate with the best worst case",
     .claim = "On |y - Xw|², the learning rate 1/(σ_max² + σ_min²) minimizes the worst-case contraction factor of a "
              "step, which is then (κ - 1)/(κ + 1), regardless of the singular values between the extremes.",
     .source = "course notes, why the learning rate cannot be too large",
     .method =
         "Least squares problems have 2, 16 and 64 singular values in geometric order. The error w - w* follows "
         "gradient descent on |Xw|² from random starts. Errors are rescaled every 50 steps and turn to the direction "
         "of slowest contraction; the contraction factor of the last of 60 blocks is the worst one. Golden section "
         "search finds the rate that minimizes it. Then 200 random starts (16 singular values, κ = 100) are followed "
         "at the worst-case rate and at 40 other rates between half of it and the threshold. The gain of a start is "
         "its error at the worst-case rate divided by the smallest error at any rate.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
