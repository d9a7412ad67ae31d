/* Checks of descriptors and samples before a fit. */
#include "../base/base.h"
#include "../device/device.h"
#include "../features/enums.h"
#include "enums.h"
#include "estimate.h"
#include "samples.h"

#include <math.h>

static bo_status check_number(bo_context *context, const char *name, double value, double below)
{
    if (value >= 0 && value < below && isfinite(value)) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: expected a finite number that is at least 0 and below %g, found %g", name,
                   below, value);
}

static bo_status check_enums(bo_context *context, const bo_machine_desc *desc)
{
    if (!bo_solver_name(desc->solver))
        return bo_fail(context, BO_INVALID, "solver: expected a value of bo_solver, found %d", (int)desc->solver);
    if (!bo_loss_name(desc->loss))
        return bo_fail(context, BO_INVALID, "loss: expected a value of bo_loss, found %d", (int)desc->loss);
    if (!bo_scaling_name(desc->scaling))
        return bo_fail(context, BO_INVALID, "scaling: expected a value of bo_scaling, found %d", (int)desc->scaling);
    if (!bo_metric_choice_name(desc->metric))
        return bo_fail(context, BO_INVALID, "metric: expected a value of bo_metric_choice, found %d",
                       (int)desc->metric);
    if (!bo_gram_precision_name(desc->precision))
        return bo_fail(context, BO_INVALID, "precision: expected a value of bo_gram_precision, found %d",
                       (int)desc->precision);
    if (!bo_target_scale_name(desc->target_scale))
        return bo_fail(context, BO_INVALID, "target_scale: expected a value of bo_target_scale, found %d",
                       (int)desc->target_scale);
    if (desc->task > BO_TASK_CLASSIFICATION)
        return bo_fail(context, BO_INVALID, "task: expected a value of bo_task, found %d", (int)desc->task);
    return BO_OK;
}

/* The exact kernel of the rows has no features that could be changed or streamed. */
static bo_status check_exact(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples)
{
    if (samples->sparse)
        return bo_fail(context, BO_UNSUPPORTED, "function sections needs dense rows, found sparse rows");
    if (desc->solver != BO_SOLVER_AUTO && desc->solver != BO_SOLVER_DUAL && desc->solver != BO_SOLVER_CG)
        return bo_fail(context, BO_UNSUPPORTED, "function sections: expected the solver dual or cg, found %s",
                       bo_solver_name(desc->solver));
    if (desc->loss == BO_LOSS_LOGISTIC)
        return bo_fail(context, BO_UNSUPPORTED, "function sections: expected the ridge loss, found %s",
                       bo_loss_name(desc->loss));
    if (desc->noise > 0 || desc->dropout > 0)
        return bo_fail(context, BO_UNSUPPORTED,
                       "noise and dropout change features; function sections has none: use lambda");
    return BO_OK;
}

void bo_fit_for_device(bo_context *context, bo_machine_desc *desc)
{
    if (!bo_context_is_on_gpu(context)) return;
    if (desc->solver == BO_SOLVER_AUTO) desc->solver = BO_SOLVER_PRIMAL;
    if (desc->loss == BO_LOSS_AUTO) desc->loss = BO_LOSS_RIDGE;
}

/* Devices solve ridge systems of features. */
static bo_status check_device(bo_context *context, const bo_machine_desc *desc)
{
    const char *device = bo_device_name(bo_device_of(context));
    if (!bo_context_is_on_gpu(context)) return BO_OK;
    if (desc->features.function == BO_FUNCTION_SECTIONS)
        return bo_fail(context, BO_UNSUPPORTED,
                       "function sections (the exact kernel of all rows) is not supported on the device %s; use random "
                       "features, or the CPU",
                       device);
    if (desc->solver != BO_SOLVER_AUTO && desc->solver != BO_SOLVER_PRIMAL)
        return bo_fail(context, BO_UNSUPPORTED,
                       "solver %s is not supported on the device %s; use the primal solver, or the CPU",
                       bo_solver_name(desc->solver), device);
    if (desc->loss == BO_LOSS_LOGISTIC)
        return bo_fail(context, BO_UNSUPPORTED,
                       "loss logistic is not supported on the device %s; use the ridge loss, or the CPU", device);
    return BO_OK;
}

bo_status bo_fit_check(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples)
{
    BO_TRY(bo_check_reserved(context, "bo_machine_desc", desc->reserved));
    BO_TRY(check_enums(context, desc));
    BO_TRY(check_device(context, desc));
    BO_TRY(check_number(context, "lambda", desc->lambda, INFINITY));
    BO_TRY(check_number(context, "gamma", desc->features.gamma, INFINITY));
    BO_TRY(check_number(context, "noise", desc->noise, INFINITY));
    BO_TRY(check_number(context, "dropout", desc->dropout, 1));
    BO_TRY(check_number(context, "budget", desc->budget, INFINITY));
    if (desc->task == BO_TASK_REGRESSION && samples->classes)
        return bo_fail(context, BO_INVALID, "task regression: expected a target with numbers, found classes");
    if (desc->task == BO_TASK_CLASSIFICATION && !samples->classes)
        return bo_fail(context, BO_INVALID, "task classification: expected a target with classes, found numbers");
    if (desc->loss == BO_LOSS_LOGISTIC && !samples->classes)
        return bo_fail(context, BO_INVALID, "loss logistic: expected a target with classes, found numbers");
    if (desc->target_scale == BO_TARGET_SCALE_LOG && samples->classes)
        return bo_fail(context, BO_INVALID, "target_scale log: expected a target with numbers, found classes");
    if (desc->loss == BO_LOSS_LOGISTIC && (desc->noise > 0 || desc->dropout > 0))
        return bo_fail(context, BO_UNSUPPORTED,
                       "noise and dropout are supported for the ridge loss only; use lambda with the logistic loss");
    if (desc->loss == BO_LOSS_LOGISTIC && desc->solver != BO_SOLVER_AUTO && desc->solver != BO_SOLVER_PRIMAL)
        return bo_fail(context, BO_UNSUPPORTED, "loss logistic: expected the primal solver, found %s",
                       bo_solver_name(desc->solver));
    if (desc->features.depth == -1 && desc->lambda > 0 && desc->features.gamma > 0)
        return bo_fail(context, BO_INVALID,
                       "depth -1 is searched together with gamma or lambda, but both are set; set a depth");
    const bool metric = desc->metric == BO_METRIC_DIAGONAL || desc->metric == BO_METRIC_LEARN;
    if (metric && samples->sparse)
        return bo_fail(context, BO_UNSUPPORTED, "metric %s: expected dense rows, found sparse rows",
                       bo_metric_choice_name(desc->metric));
    if (metric && !desc->choose_kernel && desc->features.kernel > BO_KERNEL_RATIONAL_QUADRATIC)
        return bo_fail(context, BO_UNSUPPORTED,
                       "metric %s: expected a kernel of distances (rbf, laplacian, matern32, …), found %s",
                       bo_metric_choice_name(desc->metric), bo_kernel_name(desc->features.kernel));
    if (desc->features.function == BO_FUNCTION_SECTIONS) BO_TRY(check_exact(context, desc, samples));
    if (samples->rows < 2) return bo_fail(context, BO_INVALID, "expected at least 2 rows, found %zu", samples->rows);
    BO_TRY(bo_samples_check(context, samples));
    if (samples->sparse && desc->features.kernel > BO_KERNEL_RATIONAL_QUADRATIC)
        return bo_fail(context, BO_UNSUPPORTED, "sparse rows need a shift-invariant kernel, found %s; use dense rows",
                       bo_kernel_name(desc->features.kernel));
    if (samples->sparse && desc->features.function == BO_FUNCTION_LANDMARKS)
        return bo_fail(context, BO_UNSUPPORTED, "function landmarks needs dense rows, found sparse rows");
    if (samples->sparse && desc->features.sampling == BO_SAMPLING_LEVERAGE)
        return bo_fail(context, BO_UNSUPPORTED, "sampling leverage needs dense rows, found sparse rows");
    double weight = 0;
    for (size_t i = 0; samples->weights && i < samples->rows; i++) weight += (double)samples->weights[i];
    if (samples->weights && weight == 0)
        return bo_fail(context, BO_INVALID, "expected a row of positive weight, found only weights of 0");
    return BO_OK;
}
