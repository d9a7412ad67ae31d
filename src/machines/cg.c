/* Preconditioned conjugate gradients for the ridge system, for an R x R matrix that does not fit into memory: O(R) memory,
 * one pass over the rows per iteration. With D the diagonal of the penalty and the unknown γ = D^½ β, the system is
 *
 *     (D^-½ ZcᵀZc D^-½ + I) γ = D^-½ Zcᵀ y.
 *
 * The preconditioner is the same system for a sample of m rows, P = (n/m) SᵀS + I, inverted by the Woodbury identity:
 * P⁻¹ v = v - Sᵀ ((m/n) I + SSᵀ)⁻¹ S v. It removes the large eigenvalues, which slow CG down. */
#include "passes.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

enum { SAMPLE_ROWS = 1024, MOST_ITERATIONS = 200, HELD_ROWS = 2048 };
static const double tolerance = 1e-5; /* of the residual; the products are float32 */

typedef struct cg {
    bo_context *context;
    const bo_fit_problem *problem;
    size_t n, features, outputs;
    double *center, *root, *mean; /* root_j = D_j^-½ */
    double weight;
    bo_row_pass pass;
    float *direction; /* features x outputs, float copy for the products */
    float *partial;
    double *sample;  /* m x features: S */
    double *factor;  /* m x m */
    double *against; /* m x outputs */
    size_t m;
    int step;
    double *x, *r, *p, *q, *z; /* features x outputs */
} cg;

static void cg_free(cg *c)
{
    void *blocks[] = {c->center,  c->root, c->mean, c->direction, c->partial, c->sample, c->factor,
                      c->against, c->x,    c->r,    c->p,         c->q,       c->z};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_pass_free(&c->pass);
}

static bo_status cg_create(bo_context *context, const bo_fit_problem *problem, cg *c)
{
    size_t features = bo_features_describe(problem->row_map.phi)->features, t = problem->targets->outputs;
    *c = (cg){.context = context, .problem = problem, .n = problem->samples->rows, .features = features, .outputs = t};
    c->m = c->n < SAMPLE_ROWS ? c->n : SAMPLE_ROWS;
    double **vectors[] = {&c->x, &c->r, &c->p, &c->q, &c->z};
    for (size_t i = 0; i < 5; i++)
        if (!(*vectors[i] = bo_alloc(context, features * t, sizeof(double), "a vector of CG"))) return BO_MEMORY;
    c->center = bo_alloc(context, features, sizeof(double), "the coefficients");
    c->root = bo_alloc(context, features, sizeof(double), "the penalty");
    c->mean = bo_alloc(context, t, sizeof(double), "the coefficients");
    c->direction = bo_alloc(context, features * t, sizeof(float), "a vector of CG");
    c->partial = bo_alloc(context, features * t, sizeof(float), "a vector of CG");
    c->sample = bo_alloc(context, c->m * features, sizeof(double), "the preconditioner");
    c->factor = bo_alloc(context, c->m * c->m, sizeof(double), "the preconditioner");
    c->against = bo_alloc(context, c->m * t, sizeof(double), "the preconditioner");
    if (!c->center || !c->root || !c->mean || !c->direction || !c->partial || !c->sample || !c->factor || !c->against)
        return BO_MEMORY;
    double largest;
    BO_TRY(bo_pass_means(context, problem, c->center, c->root, c->mean, &c->weight, &largest));
    bo_penalty_fill(&problem->penalty, c->weight, features, c->root, c->root);
    for (size_t j = 0; j < features; j++) c->root[j] = 1 / sqrt(c->root[j]);
    return bo_pass_create(context, problem, c->center, 0, &c->pass);
}

/* Computes S and the factor of (m/n) I + SSᵀ from rows spread evenly over the data. */
static bo_status precondition_setup(cg *c)
{
    size_t features = c->features, stride = c->n / c->m;
    for (size_t i = 0; i < c->m; i++) {
        const float *z;
        BO_TRY(bo_pass_features(c->context, &c->pass, i * stride, 1, &z));
        for (size_t j = 0; j < features; j++) c->sample[i * features + j] = (double)z[j] * c->root[j];
    }
    BO_TRY(bo_gemm64(c->context, false, true, c->m, c->m, features, 1, c->sample, features, c->sample, features, 0,
                     c->factor, c->m));
    for (size_t i = 0; i < c->m; i++) c->factor[i * c->m + i] += (double)c->m / (double)c->n;
    return bo_cholesky(c->context, c->m, c->factor, c->m, NULL);
}

static bo_status precondition(cg *c, const double *v, double *out)
{
    size_t features = c->features, t = c->outputs;
    memcpy(out, v, features * t * sizeof *out);
    BO_TRY(bo_gemm64(c->context, false, false, c->m, t, features, 1, c->sample, features, v, t, 0, c->against, t));
    BO_TRY(bo_solve_lower(c->context, c->m, t, c->factor, c->m, c->against, t));
    BO_TRY(bo_solve_lower_t(c->context, c->m, t, c->factor, c->m, c->against, t));
    return bo_gemm64(c->context, true, false, features, t, c->m, -1, c->sample, features, c->against, t, 1, out, t);
}

/* Adds D^-½ Zcᵀ s to out, with s the scores of a block. */
static bo_status add_transposed(cg *c, size_t rows, const float *z, double *out)
{
    size_t features = c->features, t = c->outputs;
    BO_TRY(bo_gemm(c->context, true, false, features, t, rows, 1, z, features, c->pass.scores, t, 0, c->partial, t));
    for (size_t j = 0; j < features; j++)
        for (size_t k = 0; k < t; k++) out[j * t + k] += c->root[j] * (double)c->partial[j * t + k];
    return BO_OK;
}

/* out = (D^-½ ZcᵀZc D^-½ + I) v, or with v NULL the right-hand side D^-½ Zcᵀ √w (y - mean). */
static bo_status multiply(cg *c, const double *v, double *out)
{
    size_t features = c->features, t = c->outputs;
    for (size_t k = 0; k < features * t; k++) {
        out[k] = v ? v[k] : 0;
        c->direction[k] = v ? (float)(v[k] * c->root[k / t]) : 0;
    }
    const bo_samples *samples = c->problem->samples;
    for (size_t first = 0; first < c->n; first += c->pass.block) {
        size_t rows = c->n - first < c->pass.block ? c->n - first : c->pass.block;
        const float *z;
        BO_TRY(bo_progress(c->context, "solving by conjugate gradients", c->step, 0)); /* a pass may be long */
        BO_TRY(bo_pass_features(c->context, &c->pass, first, rows, &z));
        if (v)
            BO_TRY(bo_gemm(c->context, false, false, rows, t, features, 1, z, features, c->direction, t, 0,
                           c->pass.scores, t));
        for (size_t i = 0; !v && i < rows; i++) {
            double root = (double)bo_targets_root_weight(c->problem->targets, samples, first + i);
            for (size_t k = 0; k < t; k++) {
                double y =
                    (double)bo_targets_value(c->problem->targets, samples->y + (first + i) * samples->targets, k);
                c->pass.scores[i * t + k] = (float)(root * (y - c->mean[k]));
            }
        }
        BO_TRY(add_transposed(c, rows, z, out));
    }
    return BO_OK;
}

static double inner(const cg *c, const double *a, const double *b, size_t k)
{
    double sum = 0;
    for (size_t j = 0; j < c->features; j++) sum += a[j * c->outputs + k] * b[j * c->outputs + k];
    return sum;
}

/* Iterates all outputs at once, with separate step lengths. */
static bo_status iterate(cg *c, bo_machine *machine, double *space)
{
    size_t t = c->outputs, count = c->features * t;
    double *rho = space, *start = space + t;
    BO_TRY(multiply(c, NULL, c->r));
    BO_TRY(precondition(c, c->r, c->z));
    memcpy(c->p, c->z, count * sizeof *c->p);
    for (size_t k = 0; k < t; k++) rho[k] = inner(c, c->r, c->z, k), start[k] = inner(c, c->r, c->r, k);
    double worst = 1;
    int step = 0;
    for (; step < MOST_ITERATIONS && worst > tolerance; step++) {
        c->step = step;
        BO_TRY(multiply(c, c->p, c->q));
        worst = 0;
        for (size_t k = 0; k < t; k++) {
            double along = inner(c, c->p, c->q, k), alpha = along > 0 ? rho[k] / along : 0;
            for (size_t j = k; j < count; j += t) {
                c->x[j] += alpha * c->p[j];
                c->r[j] -= alpha * c->q[j];
            }
            if (start[k] > 0) worst = fmax(worst, sqrt(inner(c, c->r, c->r, k) / start[k]));
        }
        BO_TRY(precondition(c, c->r, c->z));
        for (size_t k = 0; k < t; k++) {
            double next = inner(c, c->r, c->z, k), beta = rho[k] > 0 ? next / rho[k] : 0;
            rho[k] = next;
            for (size_t j = k; j < count; j += t) c->p[j] = c->z[j] + beta * c->p[j];
        }
    }
    machine->report.iterations = step;
    machine->report.residual = worst;
    if (worst > 1e-2)
        return bo_fail(c->context, BO_NUMERIC,
                       "conjugate gradients did not converge: the relative residual is %.2g after %d iterations; use a "
                       "lambda larger than %g",
                       worst, step, machine->report.lambda);
    if (worst > tolerance)
        bo_log(c->context, BO_LOG_WARNING,
               "conjugate gradients stopped early: the relative residual is %.2g after %d iterations", worst, step);
    return BO_OK;
}

static bo_status solve(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    cg c;
    bo_status status = cg_create(context, problem, &c);
    double *space = bo_alloc(context, 2 * problem->targets->outputs, sizeof *space, "a vector of CG");
    if (!space) status = BO_MEMORY;
    if (status == BO_OK) status = precondition_setup(&c);
    if (status == BO_OK) status = iterate(&c, machine, space);
    if (status == BO_OK) {
        for (size_t k = 0; k < c.features * c.outputs; k++) c.x[k] *= c.root[k / c.outputs];
        status = bo_machine_take_solution(context, machine, problem->targets, c.x, c.mean, c.center);
    }
    bo_free(space);
    cg_free(&c);
    return status;
}

bo_status bo_solve_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    return bo_solve_held_out(context, problem, HELD_ROWS, solve, machine);
}
