/* Fits in memory. The primal fit is a stream of one block, so that both give the same result. */
#include "../base/base.h"
#include "../base/trace.h"
#include "enums.h"
#include "estimate.h"
#include "fitting.h"
#include "left_out.h"
#include "machine.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"
#include "solvers.h"

#include <assert.h>
#include <math.h>

static bo_status fit_primal(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_machine **out)
{
    BO_TRY(bo_fitting_open(context, fitting));
    fitting->report_progress = true;
    BO_TRY(bo_fitting_add(context, fitting, samples));
    return bo_fitting_finish(context, fitting, out);
}

static bo_status fit_with_solver(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_solver solver,
                                 bo_machine **out)
{
    bo_fit_problem problem = bo_fitting_problem(fitting, samples);
    double begin = bo_seconds();
    fitting->report.rows = samples->rows;
    fitting->report.precision = solver == BO_SOLVER_DUAL ? BO_GRAM_PRECISION_FLOAT64 : BO_GRAM_PRECISION_FLOAT32;
    fitting->quantum = problem.row_map.quantum = 0;
    BO_TRY(bo_fitting_machine(context, fitting, out));
    bool sections = bo_is_sections(fitting->phi);
    bo_status status = solver == BO_SOLVER_DUAL  ? bo_solve_dual(context, &problem, *out)
                       : solver == BO_SOLVER_CG  ? (sections ? bo_solve_exact_cg : bo_solve_cg)(context, &problem, *out)
                       : solver == BO_SOLVER_SGD ? bo_solve_sgd(context, &problem, *out)
                                                 : bo_solve_adam(context, &problem, *out);
    if (status == BO_OK) {
        (*out)->report.fit_seconds = fitting->seconds + bo_seconds() - begin;
        return BO_OK;
    }
    bo_machine_destroy(*out);
    *out = NULL;
    return status;
}

/* A λ that the search chose on few rows can be too small for conjugate gradients on all of them: it is raised until
 * they converge. If the targets have no noise, the search decreases λ to the rounding errors of the kernel matrix, and
 * Cholesky may fail at the chosen λ. */
static bo_status fit_with_larger_lambda(bo_context *context, bo_fitting *fitting, const bo_samples *samples,
                                        bo_solver solver, bo_machine **out)
{
    enum { TRIES = 5 };
    const double factor = 8;
    const bool adjustable = (solver == BO_SOLVER_CG || solver == BO_SOLVER_DUAL) && fitting->desc.lambda == 0;
    bo_status status = fit_with_solver(context, fitting, samples, solver, out);
    for (int i = 0; adjustable && status == BO_NUMERIC && i < TRIES; i++) {
        bo_log(context, BO_LOG_INFO, "lambda %g is too small for %s; trying %g", fitting->report.lambda,
               solver == BO_SOLVER_CG ? "conjugate gradients" : "the rounding of the kernel matrix",
               factor * fitting->report.lambda);
        fitting->report.lambda *= factor;
        status = fit_with_solver(context, fitting, samples, solver, out);
    }
    return status;
}

/* Fits ridge first: its factor is the preconditioner, its coefficients are the start. */
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

/* One member of a committee. */
static bo_status fit_member(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                            const bo_fit_cost *plan, const bo_setting *setting, bo_left_out *left_out, bo_machine **out)
{
    bo_fitting *fitting;
    BO_TRY(bo_fitting_prepare(context, desc, samples, samples->rows, setting, &fitting));
    fitting->report.solver = plan->solver;
    fitting->report.why_solver = plan->why_solver;
    fitting->left_out = left_out;
    bo_status status = fit_with_larger_lambda(context, fitting, samples, plan->solver, out);
    bo_fitting_destroy(fitting);
    return status;
}

static bo_status fit_committee(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                               const bo_fit_cost *plan, bo_machine **out)
{
    const double begin = bo_seconds();
    bo_targets targets;
    BO_TRY(bo_targets_fit(context, desc, samples, &targets));
    bo_setting settings[BO_COMMITTEE] = {0};
    bo_left_out left_out[BO_COMMITTEE] = {0};
    bo_machine *machines[BO_COMMITTEE] = {0};
    size_t count = 0;
    bo_status status = bo_targets_in_range(context, &targets, samples);
    if (status == BO_OK) status = bo_tune(context, desc, &targets, samples, BO_COMMITTEE, settings, &count);
    const double searched = bo_seconds() - begin;
    for (size_t i = 0; status == BO_OK && i < count; i++)
        status = fit_member(context, desc, samples, plan, &settings[i], &left_out[i], &machines[i]);
    if (status == BO_OK && count > 0) bo_scaler_report(context, &machines[0]->scaler, 0, samples->schema);
    if (status == BO_OK) status = bo_committee_join(context, &targets, count, machines, left_out, out);
    for (size_t i = 0; i < BO_COMMITTEE; i++) {
        bo_setting_free(&settings[i]);
        bo_left_out_free(&left_out[i]);
        bo_machine_destroy(machines[i]);
    }
    bo_targets_free(&targets);
    if (status != BO_OK) return status;
    (*out)->report.search_seconds = searched;
    (*out)->report.fit_seconds = bo_seconds() - begin - searched;
    return BO_OK;
}

/* *rounded: a Gram matrix was formed, in less than double precision. */
static bo_status try_fit(bo_context *context, const bo_machine_desc *requested, const bo_samples *samples,
                         bool *rounded, bo_machine **out)
{
    *rounded = false;
    *out = NULL;
    BO_TRY(bo_fit_check(context, requested, samples));
    bo_machine_desc resolved = *requested, *desc = &resolved;
    bo_fit_for_device(context, &resolved);
    resolved.task = samples->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    resolved.stream_rows = 0; /* used for streams only */
    const bo_fit_shape shape = bo_samples_shape(samples);
    bo_fit_resolve_map(context, &shape, &resolved);
    bo_fit_cost plan;
    BO_TRY(bo_machine_estimate(context, desc, &shape, &plan));
    resolved.loss = plan.loss;
    BO_TRY(bo_target_scale_choose(context, desc, samples, &resolved.target_scale));
    bo_solver solver = plan.solver;
    if (desc->choose_kernel && plan.exact && solver == BO_SOLVER_DUAL && samples->rows <= BO_COMMITTEE_ROWS)
        return fit_committee(context, desc, samples, &plan, out);
    bo_fitting *fitting;
    BO_TRY(bo_fitting_prepare(context, desc, samples, samples->rows, NULL, &fitting));
    assert(fitting->report.features == plan.features);
    if (solver == BO_SOLVER_CG && desc->solver == BO_SOLVER_AUTO && bo_is_sections(fitting->phi)) {
        bo_machine_desc chosen = *desc; /* with the λ of the search, which the solver depends on */
        chosen.lambda = fitting->report.lambda;
        bo_status planned = bo_machine_estimate(context, &chosen, &shape, &plan);
        if (planned != BO_OK) {
            bo_fitting_destroy(fitting);
            return planned;
        }
        solver = plan.solver;
        if (solver == BO_SOLVER_CG && desc->lambda == 0) /* the smallest λ for float32 */
            fitting->report.lambda = fmax(fitting->report.lambda, 3e-6 * sqrt((double)samples->rows));
    }
    fitting->report.solver = solver;
    fitting->report.why_solver = plan.why_solver;
    bo_log(context, BO_LOG_INFO, "solver %s: %s", bo_solver_name(solver), plan.why_solver);
    bo_status status;
    if (desc->loss == BO_LOSS_LOGISTIC)
        status = fit_logistic(context, fitting, samples, out);
    else if (solver == BO_SOLVER_PRIMAL)
        status = fit_primal(context, fitting, samples, out);
    else
        status = fit_with_larger_lambda(context, fitting, samples, solver, out);
    *rounded = solver == BO_SOLVER_PRIMAL && fitting->report.precision != BO_GRAM_PRECISION_FLOAT64;
    bo_fitting_destroy(fitting);
    return status;
}

/* The rounding of float32 products is relative to the Gram matrix before centering. If the features are nearly constant
 * over the rows, it can exceed a small λ. The precision is chosen from the eigenvalues after centering, which do not
 * show this. The fit is then repeated in float64. */
bo_status bo_machine_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, bo_machine **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, samples, out);
    BO_SPAN(context, "machine", "fit");
    bool rounded;
    bo_status status = try_fit(context, desc, samples, &rounded, out);
    if (status != BO_NUMERIC || !rounded || desc->precision != BO_GRAM_PRECISION_AUTO) return status;
    bo_log(context, BO_LOG_INFO, "float32 is not accurate enough for this lambda; repeating the fit in float64");
    bo_machine_desc wider = *desc;
    wider.precision = BO_GRAM_PRECISION_FLOAT64;
    return try_fit(context, &wider, samples, &rounded, out);
}
