/* Preconditioned conjugate gradients for the ridge system, for an R x R matrix that does not fit into memory or for
 * many rows: one pass over the rows per iteration. With D the diagonal of the penalty and the unknown γ = D^½ β, the
 * system is
 *
 *     (D^-½ ZcᵀZc D^-½ + I) γ = D^-½ Zcᵀ y.
 *
 * The preconditioner is the same system for a sample of m rows, P = (n/m) SᵀS + I, inverted by the Woodbury identity:
 * P⁻¹ v = v - Sᵀ ((m/n) I + SSᵀ)⁻¹ S v. It removes the large eigenvalues, which slow CG down.
 *
 * With landmarks, φ(x) = W k(Z, x), the passes use the kernel values k(Z, x) directly: Zc = Kc Wᵀ, so that a pass
 * takes n R instead of n R² operations. The sample is the landmarks, and P, an R x R matrix, is factorized (FALKON:
 * Rudi, Carratino and Rosasco 2017, arXiv 1705.10958). The machine has the coefficients α = Wᵀβ of kernel values. */
#include "../base/base.h"
#include "../device/cpu/kernels.h"
#include "../features/landmarks.h"
#include "../math/linalg.h"
#include "estimate.h"
#include "machine.h"
#include "passes.h"
#include "ridge.h"
#include "samples.h"
#include "solvers.h"

#include <math.h>
#include <string.h>

enum { SAMPLE_ROWS = 1024, MAX_ITERATIONS = 200, MAX_HELD_OUT = 4096 };
static const double tolerance = 1e-5; /* of the residual; the products are float32 */
/* Fraction of the memory of a fit for caching the kernel values of all rows with the landmarks. Without a cache, they
 * are computed in every pass. */
static const double kept_share = 0.25;

typedef struct cg {
    bo_context *context;
    const bo_fit_problem *problem;
    size_t n, features, outputs;
    const bo_features *landmarks; /* the map with W; NULL: the features of the problem are used unchanged */
    double *center, *root, *mean; /* root_j = D_j^-½ */
    double weight;
    bo_row_pass pass;
    const bo_kernels *kernels;
    double *direction, *partial; /* outputs x features: coefficients, and sums over the rows */
    double *scores;              /* outputs x rows of a block */
    double *sample;              /* m x features: S */
    double *changed;             /* with landmarks, features x outputs: a vector before or after W */
    double *factor;              /* m x m: the factor of (m/n) I + SSᵀ, or with landmarks of P */
    double *against;             /* m x outputs */
    size_t m;
    int step;
    double *x, *r, *p, *q, *z; /* features x outputs */
    double *sums;              /* features x outputs */
} cg;

static void cg_free(cg *c)
{
    void *blocks[] = {c->center, c->root,    c->mean, c->direction, c->partial, c->sample, c->factor, c->changed,
                      c->scores, c->against, c->x,    c->r,         c->p,       c->q,      c->z,      c->sums};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_pass_free(&c->pass);
}

static bo_status cg_create(bo_context *context, const bo_fit_problem *problem, const bo_features *landmarks, cg *c)
{
    size_t features = bo_features_describe(problem->row_map.phi)->features, t = problem->targets->outputs;
    *c = (cg){.context = context, .problem = problem, .n = problem->samples->rows, .features = features, .outputs = t};
    c->landmarks = landmarks;
    c->kernels = bo_context_kernels(context);
    c->m = landmarks ? features : c->n < SAMPLE_ROWS ? c->n : SAMPLE_ROWS;
    double **vectors[] = {&c->x, &c->r, &c->p, &c->q, &c->z, &c->sums, &c->direction, &c->partial};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (!(*vectors[i] = bo_alloc(context, features * t, sizeof(double), "a vector of CG"))) return BO_MEMORY;
    c->center = bo_alloc(context, features, sizeof(double), "the coefficients");
    c->root = bo_alloc(context, features, sizeof(double), "the penalty");
    c->mean = bo_alloc(context, t, sizeof(double), "the coefficients");
    c->sample = bo_alloc(context, landmarks ? 0 : c->m * features, sizeof(double), "the preconditioner");
    c->changed = bo_alloc(context, landmarks ? features * t : 0, sizeof(double), "a vector of CG");
    c->factor = bo_alloc(context, c->m * c->m, sizeof(double), "the preconditioner");
    c->against = bo_alloc(context, c->m * t, sizeof(double), "the preconditioner");
    if (!c->center || !c->root || !c->mean || !c->sample || !c->factor || !c->against || !c->changed) return BO_MEMORY;
    c->scores = bo_alloc(context, bo_min(c->n, BO_MACHINE_BLOCK) * t, sizeof(double), "a block of scores");
    if (!c->scores) return BO_MEMORY;
    double largest;
    BO_TRY(bo_pass_means(context, problem, c->center, c->root, c->mean, &c->weight, &largest));
    bo_penalty_fill(&problem->penalty, c->weight, features, c->root, c->root);
    for (size_t j = 0; j < features; j++) c->root[j] = 1 / sqrt(c->root[j]);
    const double memory = landmarks ? kept_share * (double)bo_fit_memory(problem->desc).bytes : 0;
    return bo_pass_create(context, problem, c->center, memory, &c->pass);
}

/* ---- the change of variables ------------------------------------------------------------------------------------- */

/* Coefficients of the features of a pass: out = D^-½ v, with landmarks Wᵀ D^-½ v. */
static bo_status to_features(cg *c, const double *v, double *out)
{
    const size_t t = c->outputs, count = c->features * t;
    double *to = c->landmarks ? c->changed : out;
    for (size_t k = 0; k < count; k++) to[k] = v[k] * c->root[k / t];
    return c->landmarks ? bo_landmarks_multiply(c->context, c->landmarks, true, t, to, out) : BO_OK;
}

/* The transpose: v += D^-½ in, with landmarks D^-½ W in. */
static bo_status add_from_features(cg *c, const double *in, double *v)
{
    const size_t t = c->outputs, count = c->features * t;
    if (c->landmarks) BO_TRY(bo_landmarks_multiply(c->context, c->landmarks, false, t, in, c->changed));
    const double *from = c->landmarks ? c->changed : in;
    for (size_t k = 0; k < count; k++) v[k] += c->root[k / t] * from[k];
    return BO_OK;
}

/* ---- the preconditioner ------------------------------------------------------------------------------------------ */

/* Factorizes P = (n/m) SᵀS + I with S the centered features of the landmarks. */
static bo_status landmarks_setup(cg *c)
{
    const size_t features = c->features, rows = bo_landmarks_count(c->landmarks);
    const bo_features_desc *map = bo_features_describe(c->landmarks);
    float *s = bo_alloc_raw(c->context, rows * features, sizeof *s, "the preconditioner");
    if (!s) return BO_MEMORY;
    bo_status status = bo_progress(c->context, "factorizing the preconditioner", 0, 1);
    if (status == BO_OK)
        status = bo_features_apply(c->context, c->landmarks,
                                   &(bo_inputs){.rows = rows, .x = bo_landmarks_rows(c->landmarks), .stride = map->dim},
                                   s, features);
    double scale = sqrt(c->weight / (double)rows), trace = 0;
    if (status == BO_OK) status = bo_landmarks_multiply(c->context, c->landmarks, false, 1, c->center, c->against);
    for (size_t k = 0; status == BO_OK && k < rows * features; k++) {
        const size_t j = k % features;
        s[k] = (float)(scale * c->root[j] * ((double)s[k] - c->against[j]));
        trace += (double)s[k] * (double)s[k];
    }
    /* the rounding of float32 products must be smaller than the identity */
    const bool precise = 3e-8 * trace > 1;
    if (status == BO_OK) status = bo_gram(c->context, features, rows, s, features, c->factor, features, precise);
    for (size_t j = 0; j < features; j++) c->factor[j * features + j] += 1 + (precise ? 1e-13 : 1e-7) * trace;
    bo_free(s);
    return status == BO_OK ? bo_cholesky(c->context, features, c->factor, features, NULL) : status;
}

/* Computes S and the factor of (m/n) I + SSᵀ from rows spread evenly over the data. */
static bo_status precondition_setup(cg *c)
{
    if (c->landmarks) return landmarks_setup(c);
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
    if (c->landmarks) {
        BO_TRY(bo_solve_lower(c->context, features, t, c->factor, features, out, t));
        return bo_solve_lower_t(c->context, features, t, c->factor, features, out, t);
    }
    BO_TRY(bo_gemm64(c->context, false, false, c->m, t, features, 1, c->sample, features, v, t, 0, c->against, t));
    BO_TRY(bo_solve_lower(c->context, c->m, t, c->factor, c->m, c->against, t));
    BO_TRY(bo_solve_lower_t(c->context, c->m, t, c->factor, c->m, c->against, t));
    return bo_gemm64(c->context, true, false, features, t, c->m, -1, c->sample, features, c->against, t, 1, out, t);
}

/* ---- the iteration ----------------------------------------------------------------------------------------------- */

/* The products with a block of Zc, which is float32, are computed in double: W amplifies the rounding of coefficients
 * and sums. Tiles of the block are converted in the cache. */
enum { TILE_ROWS = BO_SIZE(16, 3), TILE_COLUMNS = BO_SIZE(512, 5) };

typedef struct block_product {
    const cg *c;
    size_t rows;
    const float *z;
} block_product;

static void convert(const block_product *job, size_t row, size_t rows, size_t column, size_t columns, double *tile)
{
    for (size_t i = 0; i < rows; i++) {
        const float *from = job->z + (row + i) * job->c->features + column;
        for (size_t j = 0; j < columns; j++) tile[i * columns + j] = (double)from[j];
    }
}

/* The scores Zc v of TILE_ROWS rows. */
static void scores_task(void *arg, size_t index, int worker)
{
    const block_product *job = arg;
    const cg *c = job->c;
    const size_t row = index * TILE_ROWS, rows = bo_min(TILE_ROWS, job->rows - row);
    double tile[TILE_ROWS * TILE_COLUMNS];
    (void)worker;
    for (size_t k = 0; k < c->outputs; k++) memset(c->scores + k * job->rows + row, 0, rows * sizeof *c->scores);
    for (size_t j = 0; j < c->features; j += TILE_COLUMNS) {
        const size_t columns = bo_min(TILE_COLUMNS, c->features - j);
        convert(job, row, rows, j, columns, tile);
        for (size_t k = 0; k < c->outputs; k++)
            c->kernels->dots64(rows, columns, tile, columns, c->direction + k * c->features + j,
                               c->scores + k * job->rows + row);
    }
}

/* Adds TILE_COLUMNS columns of Zcᵀ s to c->partial. */
static void sums_task(void *arg, size_t index, int worker)
{
    const block_product *job = arg;
    const cg *c = job->c;
    const size_t j = index * TILE_COLUMNS, columns = bo_min(TILE_COLUMNS, c->features - j);
    double tile[TILE_ROWS * TILE_COLUMNS];
    (void)worker;
    for (size_t row = 0; row < job->rows; row += TILE_ROWS) {
        const size_t rows = bo_min(TILE_ROWS, job->rows - row);
        convert(job, row, rows, j, columns, tile);
        for (size_t k = 0; k < c->outputs; k++)
            c->kernels->combine64(rows, columns, tile, columns, c->scores + k * job->rows + row,
                                  c->partial + k * c->features + j);
    }
}

/* The scores of a block for the right-hand side: √w (y - mean). */
static void target_scores(cg *c, size_t first, size_t rows)
{
    const bo_samples *samples = c->problem->samples;
    const bo_targets *targets = c->problem->targets;
    for (size_t i = 0; i < rows; i++) {
        const double root = (double)bo_targets_root_weight(targets, samples, first + i);
        for (size_t k = 0; k < c->outputs; k++) {
            const double y = (double)bo_targets_value(targets, samples->y + (first + i) * samples->targets, k);
            c->scores[k * rows + i] = root * (y - c->mean[k]);
        }
    }
}

/* b = aᵀ; a: rows x columns */
static void transpose(size_t rows, size_t columns, const double *a, double *b)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) b[j * rows + i] = a[i * columns + j];
}

/* out = (D^-½ ZcᵀZc D^-½ + I) v, or with v NULL the right-hand side D^-½ Zcᵀ √w (y - mean). */
static bo_status multiply(cg *c, const double *v, double *out)
{
    const size_t features = c->features, t = c->outputs;
    if (v) BO_TRY(to_features(c, v, c->sums));
    if (v) transpose(features, t, c->sums, c->direction);
    memset(c->partial, 0, features * t * sizeof *c->partial);
    for (size_t first = 0; first < c->n; first += c->pass.block) {
        block_product job = {.c = c, .rows = bo_min(c->n - first, c->pass.block)};
        BO_TRY(bo_progress(c->context, "solving by conjugate gradients", c->step, 0)); /* a pass may be long */
        BO_TRY(bo_pass_features(c->context, &c->pass, first, job.rows, &job.z));
        if (v)
            bo_parallel(c->context, bo_ceil_div(job.rows, TILE_ROWS), scores_task, &job);
        else
            target_scores(c, first, job.rows);
        bo_parallel(c->context, bo_ceil_div(features, TILE_COLUMNS), sums_task, &job);
    }
    transpose(t, features, c->partial, c->sums);
    for (size_t k = 0; k < features * t; k++) out[k] = v ? v[k] : 0;
    return add_from_features(c, c->sums, out);
}

static double inner(const cg *c, const double *a, const double *b, size_t k)
{
    double sum = 0;
    for (size_t j = 0; j < c->features; j++) sum += a[j * c->outputs + k] * b[j * c->outputs + k];
    return sum;
}

/* Iterates all outputs together, with separate step lengths. */
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
    for (; step < MAX_ITERATIONS && worst > tolerance; step++) {
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

/* Solves the problem with the features of its map, or with landmarks, whose kernel values are the features of its
 * map. */
static bo_status solve_with(bo_context *context, const bo_fit_problem *problem, const bo_features *landmarks,
                            bo_machine *machine)
{
    cg c;
    bo_status status = cg_create(context, problem, landmarks, &c);
    double *space = bo_alloc(context, 2 * problem->targets->outputs, sizeof *space, "a vector of CG");
    if (!space) status = BO_MEMORY;
    if (status == BO_OK) status = precondition_setup(&c);
    if (status == BO_OK) status = iterate(&c, machine, space);
    if (status == BO_OK) status = to_features(&c, c.x, c.sums);
    if (status == BO_OK) status = bo_machine_set_solution(context, machine, problem->targets, c.sums, c.mean, c.center);
    bo_free(space);
    cg_free(&c);
    return status;
}

/* Dropout depends on the features and not on kernel values. */
static bo_status solve(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    const bo_features *phi = problem->row_map.phi;
    if (bo_features_describe(phi)->function != BO_FUNCTION_LANDMARKS || problem->penalty.dropout > 0)
        return solve_with(context, problem, NULL, machine);
    bo_fit_problem values = *problem;
    bo_features *bare;
    BO_TRY(bo_landmarks_bare(context, phi, &bare));
    values.row_map.phi = bare;
    bo_status status = solve_with(context, &values, phi, machine);
    if (status != BO_OK) {
        bo_features_destroy(bare);
        return status;
    }
    bo_features_destroy(machine->phi);
    machine->phi = bare;
    return BO_OK;
}

bo_status bo_solve_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    return bo_solve_held_out(context, problem, MAX_HELD_OUT, solve, machine);
}
