/* Conjugate gradients for machines with an exact kernel, for more rows than dual.c can factorize. With D = diag √w, the
 * unit vector s = √w / |√w| and Π = I - s sᵀ, centering by weighted means is a projection, and the system of dual.c is
 *
 *     (Π D K D Π + λ I) α = D (y - mean),   β = D α,
 *
 * up to its factor λ of α. The right side is orthogonal to s, and so is α. (Without an intercept, Π = I.) The products
 * are float32, sums of vectors double.
 *
 * With P ≈ D K D + λ I (pivots.c), the preconditioner on the vectors orthogonal to s is
 *
 *     r → P⁻¹ r - P⁻¹ s (sᵀ P⁻¹ r) / (sᵀ P⁻¹ s),
 *
 * which is the inverse of Π P Π there. In float32 it is not exactly linear and symmetric, so the next direction is made
 * conjugate to the last one explicitly: p ← z - p (zᵀq)/(pᵀq) with q the product of the system with p (flexible CG).
 *
 * The error on rows that were not used is measured with a second system, without a random part of the rows. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../base/sizes.h"
#include "../features/sections.h"
#include "estimate.h"
#include "left_out.h"
#include "machine.h"
#include "pivots.h"
#include "samples.h"
#include "solvers.h"
#include "strips.h"

#include <math.h>
#include <string.h>

enum { MAX_ITERATIONS = 300, MAX_HELD_OUT = 2048, MIN_HELD_OUT = 20, GROUP = 32 };
/* The residual r changes the predictions of the training rows by about r, and their errors y - f are λ α: CG stops when
 * |r| <= `tolerance` |λ α|, so that the predictions are accurate to this fraction of the errors. On the table protein
 * (8,000 rows, LAPLACIAN and MATERN12), 1e-2 changes the test error by at most 6e-5 of it. `rounding_tolerance`,
 * relative to the targets, is for targets without noise. The second system may be solved less accurately: its error has
 * a sampling error. */
static const double tolerance = 3e-3, rough = 3e-2, rounding_tolerance = 1e-5;

typedef struct kernel_system {
    bo_context *context;
    const bo_fit_problem *problem;
    size_t n, outputs;
    double lambda, weight;
    double *root;         /* n: √w */
    double *mean;         /* outputs: of the targets */
    double *unit, *image; /* n: s and P⁻¹ s */
    double overlap;       /* sᵀ P⁻¹ s */
    bo_strips strips;
    bo_pivots pivots;
    /* outputs x n: right side, solution, residual, direction; the products of the active outputs */
    double *b, *x, *r, *p, *q, *z;
    float *v;
    size_t active[GROUP], count; /* outputs of the current group that have not converged */
    double along[GROUP];         /* pᵀq of the last step */
    double tolerance;
    int iterations;
    double residual; /* relative, the largest of all outputs */
    double unsolved; /* the same for the outputs that have not converged */
} kernel_system;

static void system_free(kernel_system *s)
{
    void *blocks[] = {s->root, s->mean, s->unit, s->image, s->b, s->x, s->r, s->p, s->q, s->z, s->v};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_strips_free(&s->strips);
    bo_pivots_free(&s->pivots);
}

static bo_status system_create(bo_context *context, const bo_fit_problem *problem, kernel_system *s)
{
    const size_t n = problem->samples->rows, outputs = problem->targets->outputs, group = bo_min(outputs, GROUP);
    *s = (kernel_system){.context = context, .problem = problem, .n = n, .outputs = outputs};
    s->lambda = problem->penalty.lambda;
    s->tolerance = tolerance;
    double **full_vectors[] = {&s->b, &s->x, &s->r, &s->p}, **group_vectors[] = {&s->q, &s->z},
           **row_vectors[] = {&s->root, &s->unit, &s->image};
    for (size_t i = 0; i < 4; i++)
        if (!(*full_vectors[i] = bo_alloc(context, outputs * n, sizeof(double), "a vector of CG"))) return BO_MEMORY;
    for (size_t i = 0; i < 2; i++)
        if (!(*group_vectors[i] = bo_alloc(context, group * n, sizeof(double), "a vector of CG"))) return BO_MEMORY;
    for (size_t i = 0; i < 3; i++)
        if (!(*row_vectors[i] = bo_alloc(context, n, sizeof(double), "a vector of CG"))) return BO_MEMORY;
    s->mean = bo_alloc(context, outputs, sizeof(double), "the means of the targets");
    s->v = bo_alloc(context, group * n, sizeof(float), "a vector of CG");
    if (!s->mean || !s->v) return BO_MEMORY;
    for (size_t i = 0; i < n; i++) s->root[i] = (double)bo_targets_root_weight(problem->targets, problem->samples, i);
    return BO_OK;
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static double inner(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* a += factor b */
static void add(size_t n, double factor, const double *b, double *a)
{
    for (size_t i = 0; i < n; i++) a[i] += factor * b[i];
}

static void project(const kernel_system *s, double *v)
{
    if (s->problem->intercept) add(s->n, -inner(s->n, s->unit, v), s->unit, v);
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

/* Means, right side and preconditioner for the current weights. */
static bo_status set_up(kernel_system *s)
{
    const bo_samples *samples = s->problem->samples;
    s->weight = inner(s->n, s->root, s->root);
    for (size_t i = 0; i < s->n; i++) s->unit[i] = s->root[i] / sqrt(s->weight);
    for (size_t t = 0; t < s->outputs; t++) {
        double mean = 0, *b = s->b + t * s->n;
        for (size_t i = 0; i < s->n; i++) {
            b[i] = (double)bo_targets_value(s->problem->targets, samples->y + i * samples->targets, t);
            mean += s->root[i] * s->root[i] / s->weight * b[i];
        }
        s->mean[t] = s->problem->intercept ? mean : 0;
        for (size_t i = 0; i < s->n; i++) b[i] = s->root[i] * (b[i] - s->mean[t]);
    }
    if (!s->problem->intercept) return BO_OK;
    BO_TRY(bo_pivots_solve(&s->pivots, 1, s->unit, s->image));
    s->overlap = inner(s->n, s->unit, s->image);
    return BO_OK;
}

/* q = (Π D K D Π + λ I) of the active rows of `from`, which are orthogonal to s. */
static bo_status multiply(kernel_system *s, const double *from, int step)
{
    for (size_t k = 0; k < s->count; k++)
        for (size_t i = 0; i < s->n; i++) s->v[k * s->n + i] = (float)(s->root[i] * from[s->active[k] * s->n + i]);
    BO_TRY(bo_strips_multiply(&s->strips, s->count, s->v, s->q, step));
    for (size_t k = 0; k < s->count; k++) {
        double *q = s->q + k * s->n;
        for (size_t i = 0; i < s->n; i++) q[i] *= s->root[i];
        project(s, q);
        add(s->n, s->lambda, from + s->active[k] * s->n, q);
    }
    return BO_OK;
}

/* z = preconditioned residuals of the active outputs. Keeps q. */
static bo_status precondition(kernel_system *s)
{
    for (size_t k = 0; k < s->count; k++) memcpy(s->z + k * s->n, s->r + s->active[k] * s->n, s->n * sizeof *s->z);
    BO_TRY(bo_pivots_solve(&s->pivots, s->count, s->z, s->z));
    for (size_t k = 0; s->problem->intercept && k < s->count; k++) {
        double *z = s->z + k * s->n;
        add(s->n, -inner(s->n, s->unit, z) / s->overlap, s->image, z);
    }
    return BO_OK;
}

static bool converged(const kernel_system *s, size_t output, double *relative)
{
    const double *r = s->r + output * s->n, *x = s->x + output * s->n, *b = s->b + output * s->n;
    double left = sqrt(inner(s->n, r, r)), right = sqrt(inner(s->n, b, b));
    *relative = right > 0 ? left / right : 0;
    return left <= fmax(s->tolerance * s->lambda * sqrt(inner(s->n, x, x)), rounding_tolerance * right);
}

/* Removes converged outputs with their products, and returns the largest relative residual of the remaining outputs. */
static double retire(kernel_system *s)
{
    size_t kept = 0;
    double worst = 0;
    for (size_t k = 0; k < s->count; k++) {
        double relative;
        bool done = converged(s, s->active[k], &relative);
        if (done) s->residual = fmax(s->residual, relative);
        if (done) continue;
        worst = fmax(worst, relative);
        if (kept < k) memcpy(s->q + kept * s->n, s->q + k * s->n, s->n * sizeof *s->q);
        s->along[kept] = s->along[k];
        s->active[kept++] = s->active[k];
    }
    s->count = kept;
    return worst;
}

/* Solves for outputs [first, first + count). */
static bo_status iterate(kernel_system *s, size_t first, size_t count)
{
    s->count = count;
    for (size_t k = 0; k < count; k++) s->active[k] = first + k;
    int step = 0;
    for (double worst = retire(s); s->count > 0; worst = retire(s)) {
        if (step == MAX_ITERATIONS) {
            s->residual = fmax(s->residual, worst);
            s->unsolved = fmax(s->unsolved, worst);
            break;
        }
        BO_TRY(precondition(s));
        for (size_t k = 0; k < s->count; k++) {
            double *p = s->p + s->active[k] * s->n, *z = s->z + k * s->n;
            add(s->n, s->along[k] > 0 && step ? -inner(s->n, z, s->q + k * s->n) / s->along[k] : 0, p, z);
            memcpy(p, z, s->n * sizeof *p);
        }
        BO_TRY(multiply(s, s->p, step++));
        for (size_t k = 0; k < s->count; k++) {
            const double *p = s->p + s->active[k] * s->n, *q = s->q + k * s->n;
            double *r = s->r + s->active[k] * s->n;
            s->along[k] = inner(s->n, p, q);
            double length = s->along[k] > 0 ? inner(s->n, r, p) / s->along[k] : 0;
            add(s->n, length, p, s->x + s->active[k] * s->n);
            add(s->n, -length, q, r);
        }
    }
    s->iterations = step > s->iterations ? step : s->iterations;
    return BO_OK;
}

/* Starts from 0: the solution with all rows is not a better initial value for the second system, because it was fitted
 * to the left-out rows. */
static bo_status solve(kernel_system *s)
{
    s->iterations = 0;
    s->residual = s->unsolved = 0;
    memset(s->x, 0, s->outputs * s->n * sizeof *s->x);
    memset(s->p, 0, s->outputs * s->n * sizeof *s->p);
    memcpy(s->r, s->b, s->outputs * s->n * sizeof *s->r);
    for (size_t first = 0; first < s->outputs; first += GROUP)
        BO_TRY(iterate(s, first, bo_min(GROUP, s->outputs - first)));
    if (s->unsolved > 1e-2)
        return bo_fail(s->context, BO_NUMERIC,
                       "conjugate gradients did not converge: the relative residual is %.2g after %d iterations; use a "
                       "lambda larger than %g",
                       s->unsolved, s->iterations, s->lambda);
    if (s->unsolved > 0)
        bo_log(s->context, BO_LOG_WARNING,
               "conjugate gradients stopped early: the relative residual is %.2g after %d iterations", s->unsolved,
               s->iterations);
    return BO_OK;
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

/* β of the sections and the means of the kernel, as in dual.c. */
static bo_status store_solution(kernel_system *s, bo_machine *machine)
{
    const size_t n = s->n, outputs = s->outputs;
    double *beta = bo_alloc_raw(s->context, n * outputs, sizeof *beta, "the coefficients");
    double *center = bo_alloc(s->context, n, sizeof *center, "the coefficients");
    bo_status status = beta && center ? BO_OK : BO_MEMORY;
    for (size_t t = 0; status == BO_OK && t < outputs; t++) {
        project(s, s->x + t * n);
        for (size_t i = 0; i < n; i++) beta[i * outputs + t] = s->root[i] * s->x[t * n + i];
    }
    for (size_t i = 0; i < n; i++) s->v[i] = (float)(s->root[i] * s->root[i] / s->weight);
    if (status == BO_OK && s->problem->intercept)
        status = bo_strips_multiply(&s->strips, 1, s->v, center, s->iterations);
    if (status == BO_OK)
        status = bo_machine_set_solution(s->context, machine, s->problem->targets, beta, s->mean, center);
    bo_free(beta);
    bo_free(center);
    return status;
}

/* Predictions of the rows that the system does not contain: f = K β + mean - (weighted mean of K β). */
static bo_status predict(kernel_system *s, size_t first, size_t count, size_t held_out, const size_t *index,
                         bo_left_out *out)
{
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < s->n; i++) s->v[k * s->n + i] = (float)(s->root[i] * s->x[(first + k) * s->n + i]);
    BO_TRY(bo_strips_multiply(&s->strips, count, s->v, s->q, s->iterations));
    for (size_t k = 0; k < count; k++) {
        const double *f = s->q + k * s->n;
        double shift = s->mean[first + k];
        for (size_t i = 0; s->problem->intercept && i < s->n; i++) shift -= s->root[i] * s->root[i] / s->weight * f[i];
        for (size_t h = 0; h < held_out; h++) out->prediction[h * s->outputs + first + k] = f[index[h]] + shift;
    }
    return BO_OK;
}

static bo_status predict_held_out(kernel_system *s, size_t held_out, const size_t *index, bo_left_out *out)
{
    const bo_samples *samples = s->problem->samples;
    const bo_targets *targets = s->problem->targets;
    BO_TRY(bo_left_out_create(s->context, held_out, s->outputs, targets->classes > 0, out));
    bo_status status = BO_OK;
    for (size_t first = 0; status == BO_OK && first < s->outputs; first += GROUP)
        status = predict(s, first, bo_min(GROUP, s->outputs - first), held_out, index, out);
    for (size_t h = 0; h < held_out; h++) {
        const double *y = samples->y + index[h] * samples->targets;
        double root = (double)bo_targets_root_weight(targets, samples, index[h]);
        out->weight[h] = root * root;
        for (size_t t = 0; t < s->outputs; t++)
            out->truth[h * s->outputs + t] = (double)bo_targets_value(targets, y, t);
        if (out->label) out->label[h] = (int)*y;
    }
    if (status != BO_OK) bo_left_out_free(out);
    return status;
}

/* Solves again without `held_out` rows. */
static bo_status solve_without_rows(kernel_system *s, size_t held_out, const size_t *index)
{
    s->tolerance = rough;
    for (size_t h = 0; h < held_out; h++) s->root[index[h]] = 0;
    BO_TRY(bo_pivots_drop(&s->pivots, held_out, index));
    BO_TRY(set_up(s));
    return solve(s);
}

/* The columns for the deviations of errors. */
static bo_status held_out_columns(const kernel_system *s, size_t held_out, const size_t *index, bo_left_out *left_out)
{
    bo_samples rows;
    BO_TRY(bo_samples_gather(s->context, s->problem->samples, index, held_out, &rows));
    bo_status status = bo_left_out_columns(s->context, &s->problem->row_map, &rows, left_out);
    bo_samples_free(&rows);
    return status;
}

static bo_status validate(kernel_system *s, bo_machine *machine)
{
    const size_t held_out = bo_min(MAX_HELD_OUT, s->n / 8);
    if (held_out < MIN_HELD_OUT) return BO_OK; /* too few rows to measure an error */
    size_t *order = bo_alloc_raw(s->context, s->n, sizeof *order, "the order of rows");
    if (!order) return BO_MEMORY;
    bo_rng rng = bo_rng_make(s->problem->desc->seed, bo_rng_stream("machines.held_out", 0));
    bo_rng_permutation(&rng, s->n, order);
    double rest = s->weight;
    for (size_t h = 0; h < held_out; h++) rest -= s->root[order[h]] * s->root[order[h]];
    bo_left_out left_out = {0};
    bo_status status = BO_OK;
    if (rest > 1e-6 * s->weight) {
        status = solve_without_rows(s, held_out, order);
        if (status == BO_OK) status = predict_held_out(s, held_out, order, &left_out);
        if (status == BO_OK) status = held_out_columns(s, held_out, order, &left_out);
        if (status == BO_OK) status = bo_machine_calibrate(s->context, machine, s->problem->targets, &left_out);
    }
    bo_left_out_free(&left_out);
    bo_free(order);
    return status;
}

double bo_exact_cg_bytes(double rows, double outputs)
{
    const double max_rank = (double)bo_pivots_max_rank((size_t)rows), group = fmin(outputs, GROUP);
    return rows * (4 * max_rank + 48 * outputs + 40 * group + 640) + rows * group * max_rank / 128 +
           24 * max_rank * max_rank + (64 * group + 1024) * max_rank + 4 * BO_STRIP_ROWS * rows;
}

double bo_exact_cg_matrix(double rows, double dim, double outputs, double limit)
{
    const double data = rows * (24 * dim + 48 * outputs + 100) + 2e7; /* copies of the rows, the map and the machine */
    return fmax(0, fmin(bo_strips_bytes(rows), limit - data - bo_exact_cg_bytes(rows, outputs)));
}

static bo_status prepare(kernel_system *s)
{
    const bo_features *phi = s->problem->row_map.phi;
    const size_t group = bo_min(s->outputs, GROUP);
    const double memory = bo_exact_cg_matrix((double)s->n, (double)s->problem->samples->dim, (double)s->outputs,
                                             (double)bo_fit_memory(s->problem->desc).bytes);
    BO_TRY(bo_strips_create(s->context, phi, group, memory, &s->strips));
    BO_TRY(bo_pivots_create(s->context, phi, s->root, s->lambda, group, s->problem->desc->seed, &s->pivots));
    return set_up(s);
}

bo_status bo_solve_exact_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    kernel_system s;
    double begun = bo_seconds(), prepared = begun, solved = begun;
    bo_status status = system_create(context, problem, &s);
    if (status == BO_OK) status = prepare(&s);
    prepared = bo_seconds();
    if (status == BO_OK) status = solve(&s);
    if (status == BO_OK) status = store_solution(&s, machine);
    solved = bo_seconds();
    machine->report.iterations = s.iterations;
    machine->report.residual = s.residual;
    if (status == BO_OK) status = validate(&s, machine);
    if (status == BO_OK)
        bo_log(
            context, BO_LOG_INFO,
            "kernel matrix and preconditioner of rank %zu: %.1f s; %d iterations: %.1f s; validation, %d iterations: "
            "%.1f s",
            s.pivots.rank, prepared - begun, machine->report.iterations, solved - prepared, s.iterations,
            bo_seconds() - solved);
    system_free(&s);
    return status;
}
