/* Estimates memory and time of a fit and resolves its defaults: loss, solver, number of features. */
#include "internal.h"
#include "../features/resolve.h"

#include <math.h>

size_t bo_memory_limit(const bo_machine_desc *desc)
{
    return desc->memory ? desc->memory : bo_usual_memory();
}

/* In double, so that huge sizes do not overflow. */
typedef struct fit_size {
    double rows, dim, features, outputs;
} fit_size;

/* ---- choices ----------------------------------------------------------------------------------------------- */

/* Bytes. The Gram matrix is kept twice: the sums and the factor. */
static double memory_of(bo_solver solver, const fit_size *s)
{
    double rows = s->rows, features = s->features, size = features + s->outputs + 1;
    double block = BO_MACHINE_BLOCK * (size + s->dim) * 4, exact = rows < 2000 ? rows : 2000;
    double small = fmin(features / 2, BO_SEARCH_FEATURES);
    double search = fmax(40 * exact * exact, rows > 2000 ? 16 * small * small : 0) + 4 * rows * (s->dim + 4),
           kept = 20 * 1024 * features, solving;
    switch (solver) {
    case BO_SOLVER_DUAL:
        solving = 16 * rows * features + 24 * rows * rows;
        break;
    case BO_SOLVER_CG:
        solving = 64 * features * s->outputs + 12 * 1024 * features + 4 * rows * (s->dim + 4);
        break;
    case BO_SOLVER_SGD:
        solving = 32 * features * s->outputs + 4 * rows * (s->dim + 4);
        break;
    default:
        solving = 16 * size * size;
        break;
    }
    return 1e7 + block + kept + fmax(search, solving);
}

static const char *choose_solver(const bo_machine_desc *desc, bo_loss loss, const fit_size *s, bo_solver *out)
{
    double limit = (double)bo_memory_limit(desc);
    if (desc->solver != BO_SOLVER_AUTO) {
        *out = desc->solver;
        return "requested by the user";
    }
    if (loss == BO_LOSS_LOGISTIC) {
        *out = BO_SOLVER_PRIMAL;
        return "the logistic loss is preconditioned with the Gram matrix of the features";
    }
    if (s->features > s->rows && memory_of(BO_SOLVER_DUAL, s) <= limit) {
        *out = BO_SOLVER_DUAL;
        return "there are fewer rows than features, so the kernel matrix of the rows is smaller";
    }
    if (memory_of(BO_SOLVER_PRIMAL, s) <= limit) {
        *out = BO_SOLVER_PRIMAL;
        return "the Gram matrix of the features fits into memory";
    }
    *out = BO_SOLVER_CG;
    return "the Gram matrix of the features does not fit into memory";
}

static bo_loss choose_loss(const bo_machine_desc *desc, const fit_size *s)
{
    bo_solver solver;
    if (desc->loss != BO_LOSS_AUTO) return desc->loss;
    choose_solver(desc, BO_LOSS_RIDGE, s, &solver);
    bool logistic =
        desc->task == BO_TASK_CLASSIFICATION && solver == BO_SOLVER_PRIMAL && desc->noise == 0 && desc->dropout == 0;
    return logistic ? BO_LOSS_LOGISTIC : BO_LOSS_RIDGE;
}

/* ---- the estimate ------------------------------------------------------------------------------------------ */

/* Rough float32 rate of a recent core; `bochner bench` measures it. */
static const double operations_per_second = 40e9;
/* Typical passes over the rows of CG and SGD, and the factor of time for the search of γ or λ. */
static const double passes = 50, with_search = 3;

/* The projection, the Gram matrix (DUAL: the kernel matrix; CG and SGD: passes instead) and its factorization. */
static double operations_of(const bo_machine_desc *desc, bo_solver solver, const fit_size *s)
{
    double rows = desc->stream_rows ? (double)desc->stream_rows : s->rows;
    double side = solver == BO_SOLVER_DUAL ? rows : s->features;
    double solving = rows * s->features * side + side * side * side / 3;
    if (solver == BO_SOLVER_CG || solver == BO_SOLVER_SGD) solving = passes * 2 * rows * s->features;
    double searched = desc->lambda > 0 && desc->features.gamma > 0 ? 1 : with_search;
    return searched * (rows * s->dim * s->features + solving);
}

/* The features of all rows, if they fit, and 22 vectors of L-BFGS. */
static double logistic_memory(const bo_machine_desc *desc, const fit_size *s)
{
    double all = 4 * s->rows * s->features, limit = 0.5 * (double)bo_memory_limit(desc);
    return (all <= limit ? all : 0) + 176 * s->features * s->outputs;
}

bo_status bo_machine_estimate(bo_context *context, const bo_machine_desc *desc, size_t rows, size_t dim, size_t outputs,
                              bo_fit_cost *out)
{
    *out = (bo_fit_cost){0};
    BO_TRY(bo_check_reserved(context, "bo_machine_desc", desc->reserved));
    bo_features_desc map = bo_fitting_map(desc, dim), resolved;
    map.sampling = BO_SAMPLING_DRAWN; /* data-dependent maps have the same size but need the data */
    map.pair_norm = 1;
    BO_TRY(bo_features_resolve(context, &map, &resolved));
    fit_size size = {(double)rows, (double)dim, (double)resolved.features, (double)outputs};
    bo_fit_cost found = {.features = resolved.features,
                         .loss = BO_LOSS_RIDGE,
                         .solver = BO_SOLVER_PRIMAL,
                         .why_solver = BO_WHY_STREAM,
                         .searches_gamma = !(desc->features.gamma > 0),
                         .searches_lambda = !(desc->lambda > 0)};
    if (!desc->stream_rows) {
        found.loss = choose_loss(desc, &size);
        found.why_solver = choose_solver(desc, found.loss, &size, &found.solver);
    }
    found.operations = operations_of(desc, found.solver, &size);
    found.seconds = found.operations / (operations_per_second * bo_context_threads(context));
    double total = memory_of(found.solver, &size) + 8 * size.dim * size.features;
    if (found.loss == BO_LOSS_LOGISTIC) total += logistic_memory(desc, &size);
    if (total >= (double)SIZE_MAX)
        return bo_fail(context, BO_MEMORY, "out of memory: %zu features of %zu rows; use fewer features or --stream",
                       resolved.features, rows);
    found.bytes = (size_t)total;
    *out = found;
    return BO_OK;
}
