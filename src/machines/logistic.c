/* Multinomial logistic loss on the features:
 *
 *     F(B, b) = Σ_i w_i (log Σ_c exp s_ic - s_i,y(i)) + λ/2 |B|²,   s_i = Bᵀ(φ_i - center) + b.
 *
 * L-BFGS, preconditioned with the ridge system: the Hessian of a class is bounded by ¼ ZᵀZ + λ (up to the coupling of
 * classes), and (¼ A + λ)⁻¹ = 4 (A + 4λ)⁻¹ is a solve with the factor of ridge. It starts at the calibrated ridge
 * solution. */
#include "../base/base.h"
#include "../math/linalg.h"
#include "../math/metrics.h"
#include "estimate.h"
#include "machine.h"
#include "passes.h"
#include "ridge.h"
#include "samples.h"
#include "solvers.h"

#include <math.h>
#include <string.h>

enum { HISTORY = 8, MAX_STEPS = 100 };
/* The descent ends when the predicted decrease of a step is below this fraction of the loss. `exact` is for small
 * problems, `standard` for large ones, where predictions no longer change, and `coarse` for the choice of λ. */
static const double exact = 1e-6, standard = 3e-4, coarse = 1e-3;

typedef struct logistic {
    bo_context *context;
    const bo_fit_problem *problem;
    bo_machine *machine;
    size_t features, classes, size; /* size = features * classes + classes: B, then b */
    double lambda, weight;
    const double *factor; /* features²: of A + 4λ */
    bo_row_pass pass;
    float *coefficients; /* features x classes */
    float *partial;
    double *theta, *gradient, *trial, *trial_gradient, *direction;
    double *steps, *changes; /* HISTORY x size each */
    double rho[HISTORY];
    int stored;
    bo_metrics *metrics; /* NULL, or evaluate adds every row */
} logistic;

static void logistic_free(logistic *l)
{
    void *blocks[] = {l->coefficients,   l->partial,   l->theta, l->gradient, l->trial,
                      l->trial_gradient, l->direction, l->steps, l->changes};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_pass_free(&l->pass);
}

static bo_status logistic_create(bo_context *context, const bo_fit_problem *problem, bo_machine *machine, logistic *l)
{
    size_t features = machine->report.features, classes = machine->report.classes, size = features * classes + classes;
    *l = (logistic){.context = context,
                    .problem = problem,
                    .machine = machine,
                    .features = features,
                    .classes = classes,
                    .size = size};
    double **vectors[] = {&l->theta, &l->gradient, &l->trial, &l->trial_gradient, &l->direction};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (!(*vectors[i] = bo_alloc(context, size, sizeof(double), "the logistic fit"))) return BO_MEMORY;
    l->steps = bo_alloc_raw(context, HISTORY * size, sizeof(double), "the logistic fit");
    l->changes = bo_alloc_raw(context, HISTORY * size, sizeof(double), "the logistic fit");
    l->coefficients = bo_alloc_raw(context, features * classes, sizeof(float), "the logistic fit");
    l->partial = bo_alloc_raw(context, features * classes, sizeof(float), "the logistic fit");
    if (!l->steps || !l->changes || !l->coefficients || !l->partial) return BO_MEMORY;
    double limit = 0.5 * (double)bo_fit_memory(problem->desc).bytes;
    BO_TRY(bo_pass_create(context, problem, machine->center, limit, &l->pass));
    l->pass.unweighted = true;
    return BO_OK;
}

/* Adds the loss of one row to *value; its scores become w (p - y). */
static bo_status add_row(logistic *l, size_t row, const double *b, float *s, double *value)
{
    const bo_samples *samples = l->problem->samples;
    double top = -INFINITY, sum = 0;
    double root = (double)bo_targets_root_weight(l->problem->targets, samples, row), w = root * root;
    size_t label = (size_t)samples->y[row], best = 0;
    for (size_t c = 0; c < l->classes; c++) {
        if (!((double)s[c] + b[c] > top)) continue;
        top = (double)s[c] + b[c];
        best = c;
    }
    double logit = (double)s[label] + b[label] - top;
    for (size_t c = 0; c < l->classes; c++) sum += exp((double)s[c] + b[c] - top);
    for (size_t c = 0; c < l->classes; c++) s[c] = (float)(w * (exp((double)s[c] + b[c] - top) / sum - (c == label)));
    *value += w * (log(sum) - logit);
    return l->metrics ? bo_metrics_add_class(l->context, l->metrics, label, best, log(sum) - logit) : BO_OK;
}

/* F and its gradient at theta: one pass. */
static bo_status evaluate(logistic *l, const double *theta, double *gradient, double *value)
{
    size_t features = l->features, classes = l->classes, count = features * classes;
    const bo_samples *samples = l->problem->samples;
    *value = 0;
    for (size_t k = 0; k < count; k++) {
        l->coefficients[k] = (float)theta[k];
        gradient[k] = l->lambda * theta[k];
        *value += 0.5 * l->lambda * theta[k] * theta[k];
    }
    memset(gradient + count, 0, classes * sizeof *gradient);
    for (size_t first = 0; first < samples->rows; first += l->pass.block) {
        size_t rows = samples->rows - first < l->pass.block ? samples->rows - first : l->pass.block;
        const float *z;
        float *s = l->pass.scores;
        BO_TRY(bo_pass_features(l->context, &l->pass, first, rows, &z));
        BO_TRY(bo_gemm(l->context, false, false, rows, classes, features, 1, z, features, l->coefficients, classes, 0,
                       s, classes));
        for (size_t i = 0; i < rows; i++) {
            BO_TRY(add_row(l, first + i, theta + count, s + i * classes, value));
            for (size_t c = 0; l->problem->intercept && c < classes; c++)
                gradient[count + c] += (double)s[i * classes + c];
        }
        BO_TRY(bo_gemm(l->context, true, false, features, classes, rows, 1, z, features, s, classes, 0, l->partial,
                       classes));
        for (size_t k = 0; k < count; k++) gradient[k] += (double)l->partial[k];
    }
    return BO_OK;
}

static bo_status precondition(const logistic *l, double *v)
{
    size_t features = l->features, classes = l->classes, count = features * classes;
    BO_TRY(bo_solve_lower(l->context, features, classes, l->factor, features, v, classes));
    BO_TRY(bo_solve_lower_t(l->context, features, classes, l->factor, features, v, classes));
    for (size_t k = 0; k < count; k++) v[k] *= 4;
    for (size_t c = 0; c < classes; c++) v[count + c] *= 4 / l->weight;
    return BO_OK;
}

static double inner(const logistic *l, const double *a, const double *b)
{
    double sum = 0;
    for (size_t k = 0; k < l->size; k++) sum += a[k] * b[k];
    return sum;
}

static void add_scaled(const logistic *l, double factor, const double *from, double *to)
{
    for (size_t k = 0; k < l->size; k++) to[k] += factor * from[k];
}

/* direction = -H gradient by the two-loop recursion (Nocedal 1980); H₀ is the preconditioner. */
static bo_status choose_direction(logistic *l)
{
    double alpha[HISTORY];
    int used = l->stored < HISTORY ? l->stored : HISTORY;
    memcpy(l->direction, l->gradient, l->size * sizeof *l->direction);
    for (int i = 0; i < used; i++) {
        int at = (l->stored - 1 - i) % HISTORY;
        alpha[at] = l->rho[at] * inner(l, l->steps + (size_t)at * l->size, l->direction);
        add_scaled(l, -alpha[at], l->changes + (size_t)at * l->size, l->direction);
    }
    BO_TRY(precondition(l, l->direction));
    for (int i = used; i-- > 0;) {
        int at = (l->stored - 1 - i) % HISTORY;
        double beta = l->rho[at] * inner(l, l->changes + (size_t)at * l->size, l->direction);
        add_scaled(l, alpha[at] - beta, l->steps + (size_t)at * l->size, l->direction);
    }
    for (size_t k = 0; k < l->size; k++) l->direction[k] = -l->direction[k];
    return BO_OK;
}

static void remember(logistic *l)
{
    size_t at = (size_t)(l->stored % HISTORY);
    double *step = l->steps + at * l->size, *change = l->changes + at * l->size;
    for (size_t k = 0; k < l->size; k++) {
        step[k] = l->trial[k] - l->theta[k];
        change[k] = l->trial_gradient[k] - l->gradient[k];
    }
    double curvature = inner(l, step, change);
    if (curvature <= 0) return; /* rounding at the end of convergence */
    l->rho[at] = 1 / curvature;
    l->stored++;
}

/* Minimizes F from theta; *value is F at the result. */
static bo_status minimize(logistic *l, double precision, bool report, double *value)
{
    l->stored = 0;
    BO_TRY(evaluate(l, l->theta, l->gradient, value));
    for (int step = 0; step < MAX_STEPS; step++) {
        if (report) BO_TRY(bo_progress(l->context, "minimizing the logistic loss", step, 0));
        BO_TRY(choose_direction(l));
        double slope = inner(l, l->direction, l->gradient), rate = 1, next = INFINITY;
        if (!(-slope > precision * *value)) break;
        for (int half = 0; half < 20; half++, rate *= 0.5) {
            memcpy(l->trial, l->theta, l->size * sizeof *l->trial);
            add_scaled(l, rate, l->direction, l->trial);
            BO_TRY(evaluate(l, l->trial, l->trial_gradient, &next));
            if (next <= *value + 1e-4 * rate * slope) break;
        }
        if (!(next < *value)) break;
        remember(l);
        double *swap = l->theta;
        l->theta = l->trial, l->trial = swap;
        swap = l->gradient;
        l->gradient = l->trial_gradient, l->trial_gradient = swap;
        *value = next;
        l->machine->report.iterations++;
    }
    return BO_OK;
}

/* Sets λ and its factor. */
static bo_status set_lambda(logistic *l, bo_moments *moments, double lambda, bo_machine_ridge *ridge)
{
    bo_ridge_free(ridge);
    bo_penalty penalty = {.lambda = 4 * lambda};
    BO_TRY(bo_ridge_solve(l->context, moments, &penalty, l->problem->intercept, 0, ridge));
    l->lambda = lambda;
    l->factor = ridge->factor;
    l->weight = ridge->weight;
    return BO_OK;
}

static void start_from_ridge(logistic *l)
{
    size_t count = l->features * l->classes;
    for (size_t k = 0; k < count; k++) l->theta[k] = l->machine->sharpness * l->machine->beta[k];
    for (size_t c = 0; l->problem->intercept && c < l->classes; c++)
        l->theta[count + c] = l->machine->sharpness * l->machine->intercept[c] + l->machine->offset[c];
}

/* The loss on validation rows; if it is below `best`, their metrics are stored in the report. */
static bo_status held_out_loss(logistic *l, const bo_samples *held_out, double best, double *loss)
{
    bo_fit_problem problem = *l->problem;
    problem.samples = held_out;
    logistic other = *l;
    other.problem = &problem;
    other.lambda = 0;
    BO_TRY(bo_metrics_create(l->context, &(bo_metrics_desc){.classes = l->classes}, &other.metrics));
    bo_status status = bo_pass_create(l->context, &problem, l->machine->center, 0, &other.pass);
    other.pass.unweighted = true;
    if (status == BO_OK) status = evaluate(&other, l->theta, l->trial_gradient, loss);
    if (status == BO_OK && *loss < best) bo_report_validation(&l->machine->report, other.metrics);
    bo_pass_free(&other.pass);
    bo_metrics_destroy(other.metrics);
    return status;
}

/* Chooses λ by the loss on validation rows: decreases λ from the λ of ridge in factors of 4. Each fit starts from the
 * previous solution. Uses a quarter of the rows, of which a quarter are for validation. */
static bo_status choose_lambda(bo_context *context, const bo_fit_problem *problem, bo_moments *moments,
                               bo_machine *machine, double *lambda)
{
    enum { CANDIDATES = 5, MIN_ROWS = 4000 };
    const bo_samples *all = problem->samples;
    size_t sample_rows = all->rows / 4 > MIN_ROWS ? all->rows / 4 : MIN_ROWS;
    bo_samples some = {0};
    BO_TRY(bo_samples_subset(context, all, sample_rows, problem->desc->seed + 1, &some));
    size_t held_out_rows = some.rows / 4;
    bo_sparse views[2];
    const bo_samples rest = bo_samples_slice(&some, 0, some.rows - held_out_rows, &views[0]);
    const bo_samples held_out = bo_samples_slice(&some, rest.rows, held_out_rows, &views[1]);
    bo_fit_problem reduced = *problem;
    reduced.samples = &rest;
    logistic l;
    bo_machine_ridge ridge = {0};
    bo_status status = logistic_create(context, &reduced, machine, &l);
    double best = INFINITY, candidate = 4 * machine->report.lambda, value, loss = 0;
    *lambda = candidate;
    if (status == BO_OK) start_from_ridge(&l);
    for (int i = 0; status == BO_OK && i < CANDIDATES && held_out_rows > 0; i++, candidate /= 4) {
        status = set_lambda(&l, moments, candidate, &ridge);
        if (status == BO_OK) l.weight *= (double)rest.rows / (double)all->rows;
        if (status == BO_OK) status = minimize(&l, coarse, false, &value);
        if (status == BO_OK) status = held_out_loss(&l, &held_out, best, &loss);
        if (status == BO_OK) status = bo_progress(context, "choosing lambda", i + 1, CANDIDATES);
        if (status != BO_OK || !(loss < best)) break;
        best = loss;
        *lambda = candidate;
    }
    bo_ridge_free(&ridge);
    logistic_free(&l);
    bo_samples_free(&some);
    machine->report.iterations = 0;
    return status;
}

static bo_status store_solution(logistic *l)
{
    size_t count = l->features * l->classes;
    l->machine->version++;
    memcpy(l->machine->beta, l->theta, count * sizeof(double));
    memcpy(l->machine->intercept, l->theta + count, l->classes * sizeof(double));
    memset(l->machine->offset, 0, l->classes * sizeof(double));
    l->machine->sharpness = 1;
    l->machine->report.lambda = l->lambda;
    for (size_t k = 0; k < l->size; k++)
        if (!isfinite(l->theta[k]))
            return bo_fail(l->context, BO_NUMERIC, "the logistic fit diverged at lambda %g; use a larger lambda",
                           l->lambda);
    return BO_OK;
}

bo_status bo_solve_logistic(bo_context *context, const bo_fit_problem *problem, bo_moments *moments,
                            bo_machine *machine)
{
    double lambda = problem->desc->lambda, value;
    machine->report.validation_rows = 0; /* so far the numbers of the ridge solution */
    machine->report.validation_accuracy = machine->report.validation_log_loss = NAN;
    if (lambda == 0) {
        double begin = bo_seconds();
        BO_TRY(choose_lambda(context, problem, moments, machine, &lambda));
        machine->report.search_seconds += bo_seconds() - begin;
        machine->report.fit_seconds -= bo_seconds() - begin; /* the caller counts all of this as fitting */
    }
    logistic l;
    bo_machine_ridge ridge = {0};
    bo_status status = logistic_create(context, problem, machine, &l);
    if (status == BO_OK) status = set_lambda(&l, moments, lambda, &ridge);
    if (status == BO_OK) {
        start_from_ridge(&l);
        bool small = (double)problem->samples->rows * (double)l.features < 2e7;
        status = minimize(&l, small ? exact : standard, true, &value);
    }
    if (status == BO_OK) status = store_solution(&l);
    bo_ridge_free(&ridge);
    logistic_free(&l);
    return status;
}
