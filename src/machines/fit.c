/* bo_machine_fit: checks, the choice of a solver, and the way to it. */
#include "fitting.h"

#include <assert.h>
#include <math.h>

static bo_status check_number(bo_context *context, const char *name, double value, double below)
{
    if (value >= 0 && value < below && isfinite(value)) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: expected a finite number from 0 to below %g, found %g", name, below,
                   value);
}

static bo_status check_enums(bo_context *context, const bo_machine_desc *desc)
{
    if (!bo_solver_name(desc->solver))
        return bo_fail(context, BO_INVALID, "solver: no such one: %d", (int)desc->solver);
    if (!bo_loss_name(desc->loss)) return bo_fail(context, BO_INVALID, "loss: no such one: %d", (int)desc->loss);
    if (!bo_scaling_name(desc->scaling))
        return bo_fail(context, BO_INVALID, "scaling: no such one: %d", (int)desc->scaling);
    if (!bo_precision_name(desc->precision))
        return bo_fail(context, BO_INVALID, "precision: no such one: %d", (int)desc->precision);
    if (desc->task > BO_TASK_CLASSIFICATION)
        return bo_fail(context, BO_INVALID, "task: no such one: %d", (int)desc->task);
    return BO_OK;
}

bo_status bo_machine_check(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples)
{
    BO_TRY(check_enums(context, desc));
    BO_TRY(check_number(context, "lambda", desc->lambda, INFINITY));
    BO_TRY(check_number(context, "gamma", desc->features.gamma, INFINITY));
    BO_TRY(check_number(context, "noise", desc->noise, INFINITY));
    BO_TRY(check_number(context, "dropout", desc->dropout, 1));
    if (desc->task == BO_TASK_REGRESSION && samples->classes)
        return bo_fail(context, BO_INVALID, "regression was asked for, but the target has classes");
    if (desc->task == BO_TASK_CLASSIFICATION && !samples->classes)
        return bo_fail(context, BO_INVALID, "classification was asked for, but the target has no classes");
    if (desc->loss == BO_LOSS_LOGISTIC && !samples->classes)
        return bo_fail(context, BO_INVALID, "the logistic loss is for classification; the target is a number");
    if (desc->loss == BO_LOSS_LOGISTIC && (desc->noise > 0 || desc->dropout > 0))
        return bo_fail(context, BO_UNSUPPORTED,
                       "noise and dropout have their closed form for the squared loss; with the "
                       "logistic loss use lambda");
    if (desc->loss == BO_LOSS_LOGISTIC && desc->solver != BO_SOLVER_AUTO && desc->solver != BO_SOLVER_PRIMAL)
        return bo_fail(context, BO_UNSUPPORTED, "the logistic loss is fitted with the primal solver, not with %s",
                       bo_solver_name(desc->solver));
    if (samples->rows < 2)
        return bo_fail(context, BO_INVALID, "fitting needs at least 2 rows, found %zu", samples->rows);
    BO_TRY(bo_samples_check(context, samples));
    double weight = 0;
    for (size_t i = 0; samples->weights && i < samples->rows; i++) weight += (double)samples->weights[i];
    if (samples->weights && weight == 0)
        return bo_fail(context, BO_INVALID, "every row has weight 0: nothing to learn from");
    return BO_OK;
}

bo_status bo_problem_features(bo_context *context, const bo_fit_problem *problem, size_t first, size_t rows,
                              float *scratch, float *z, size_t ldz)
{
    const bo_samples *samples = problem->samples;
    return bo_row_map_apply(context, &problem->front, rows, samples->x + first * samples->dim, samples->dim, scratch, z,
                            ldz);
}

static bo_status fit_primal(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_machine **out)
{
    BO_TRY(bo_fitting_open_moments(context, fitting));
    fitting->report_progress = true;
    BO_TRY(bo_fitting_add(context, fitting, samples));
    return bo_fitting_finish(context, fitting, out);
}

static bo_status fit_otherwise(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_solver solver,
                               bo_machine **out)
{
    bo_fit_problem problem = bo_fitting_problem(fitting, samples);
    double begin = bo_seconds();
    fitting->report.rows = samples->rows;
    fitting->report.precision = solver == BO_SOLVER_DUAL ? BO_PRECISION_FLOAT64 : BO_PRECISION_FLOAT32;
    fitting->quantum = problem.front.quantum = 0;
    BO_TRY(bo_fitting_give(context, fitting, out));
    bo_status status = solver == BO_SOLVER_DUAL ? bo_solve_dual(context, &problem, *out)
                       : solver == BO_SOLVER_CG ? bo_solve_cg(context, &problem, *out)
                                                : bo_solve_sgd(context, &problem, *out);
    if (status == BO_OK) {
        (*out)->report.fit_seconds = fitting->seconds + bo_seconds() - begin;
        return BO_OK;
    }
    bo_machine_destroy(*out);
    *out = NULL;
    return status;
}

/* Ridge first: its factor preconditions, its coefficients start. */
static bo_status fit_logistic(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_machine **out)
{
    BO_TRY(fit_primal(context, fitting, samples, out));
    bo_fit_problem problem = bo_fitting_problem(fitting, samples);
    double begin = bo_seconds();
    bo_status status = bo_solve_logistic(context, &problem, &fitting->moments, *out);
    if (status == BO_OK) {
        (*out)->report.fit_seconds += bo_seconds() - begin;
        return BO_OK;
    }
    bo_machine_destroy(*out);
    *out = NULL;
    return status;
}

bo_status bo_machine_fit(bo_context *context, const bo_machine_desc *asked, const bo_samples *samples, bo_machine **out)
{
    *out = NULL;
    BO_TRY(bo_machine_check(context, asked, samples));
    bo_machine_desc resolved = *asked, *desc = &resolved;
    resolved.task = samples->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    resolved.stream_rows = 0; /* for streams only */
    bo_fit_estimate plan;
    BO_TRY(bo_machine_estimate(context, desc, samples->rows, samples->dim,
                               samples->classes ? samples->classes : samples->targets, &plan));
    resolved.loss = plan.loss;
    bo_solver solver = plan.solver;
    bo_fitting *fitting;
    BO_TRY(bo_fitting_prepare(context, desc, samples, samples->rows, &fitting));
    assert(fitting->report.features == plan.features);
    fitting->report.solver = solver;
    fitting->report.why_solver = plan.why_solver;
    bo_log(context, BO_LOG_INFO, "solver %s: %s", bo_solver_name(solver), plan.why_solver);
    bo_status status;
    if (desc->loss == BO_LOSS_LOGISTIC)
        status = fit_logistic(context, fitting, samples, out);
    else if (solver == BO_SOLVER_PRIMAL)
        status = fit_primal(context, fitting, samples, out);
    else
        status = fit_otherwise(context, fitting, samples, solver, out);
    bo_fitting_destroy(fitting);
    return status;
}
