/* Positive targets on a logarithmic scale: the choice of the scale, and the conversion back to the units of the
 * targets.
 *
 * If log y = f(x) + e, the mean of y is exp(f(x)) E exp(e). The second factor is estimated by the mean of exp(e_i) over
 * left-out rows (Duan's smearing estimate, JASA 78, 1983). Ends of intervals are quantiles and need no factor. */
#include "../base/base.h"
#include "../math/linalg.h"
#include "enums.h"
#include "leave_one_out.h"
#include "left_out.h"
#include "machine.h"
#include "prediction.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"

#include <math.h>
#include <string.h>

/* ---- the choice -------------------------------------------------------------------------------------------------- */

enum { SAMPLE_ROWS = 600, MIN_ROWS = 40 };
/* Logarithms are tried if targets are at least this skewed, and used if they reduce the error by at least 1%. */
static const double min_skewness = 0.5, error_ratio = 0.99;

/* BO_INVALID if a target is not positive. */
static bo_status check_positive(bo_context *context, const bo_samples *samples)
{
    for (size_t k = 0; k < samples->rows * samples->targets; k++)
        if (!(samples->y[k] > 0))
            return bo_fail(context, BO_INVALID,
                           "row %zu: expected a positive target for the target scale log, found %g; use linear",
                           k / samples->targets, samples->y[k]);
    return BO_OK;
}

/* All targets are positive, and one is skewed to the right: E (y - mean)³ / E ((y - mean)²)^1.5 is large. */
static bool is_candidate(const bo_samples *samples)
{
    const size_t rows = samples->rows, count = samples->targets;
    bool skewed = false;
    if (rows < MIN_ROWS) return false;
    for (size_t t = 0; t < count; t++) {
        double mean = 0, largest = 0, second = 0, third = 0;
        for (size_t i = 0; i < rows; i++) {
            if (!(samples->y[i * count + t] > 0)) return false;
            largest = fmax(largest, samples->y[i * count + t]);
        }
        for (size_t i = 0; i < rows; i++) mean += samples->y[i * count + t] / largest / (double)rows;
        for (size_t i = 0; i < rows; i++) {
            const double d = samples->y[i * count + t] / largest - mean;
            second += d * d / (double)rows;
            third += d * d * d / (double)rows;
        }
        skewed = skewed || third > min_skewness * pow(second, 1.5);
    }
    return skewed;
}

/* Two kernel ridge regressions on one sample, of the targets and of their logarithms. */
typedef struct trial {
    bo_samples scaled;
    bo_targets targets[2];
    bo_loo loo[2];
    double *inverse, *diagonal; /* rows x rows, rows */
} trial;

static void trial_free(trial *t)
{
    bo_samples_free(&t->scaled);
    for (int k = 0; k < 2; k++) {
        bo_targets_free(&t->targets[k]);
        bo_loo_free(&t->loo[k]);
    }
    bo_free(t->inverse);
    bo_free(t->diagonal);
}

/* A sample with scaled inputs. */
static bo_status scaled_sample(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                               bo_samples *out)
{
    bo_scaler scaler = {0};
    BO_TRY(bo_scaler_fit(context, desc->scaling, samples, &scaler));
    bo_status status = bo_samples_scaled(context, &scaler, samples, SAMPLE_ROWS, desc->seed, out);
    bo_scaler_free(&scaler);
    return status;
}

/* Weighted sums over the rows of one output: exp(e) of the logarithms' errors, for the smearing. */
static double mean_factor(const trial *t, size_t output, double lambda)
{
    const bo_loo *loo = &t->loo[1];
    double sum = 0, weight = 0;
    for (size_t i = 0; i < loo->rows; i++) {
        const double w = loo->root[i] * loo->root[i];
        const double left = lambda * t->diagonal[i] - (loo->intercept ? w / loo->weight : 0);
        if (!(w > 0) || !(left > 1e-9)) continue;
        sum +=
            w * exp(t->targets[1].deviation[output] * loo->solution[i * loo->outputs + output] / left / loo->root[i]);
        weight += w;
    }
    return weight > 0 ? sum / weight : 1;
}

/* Squared leave-one-out error of targets (k = 0) or of predictions from logarithms (k = 1), in units of the targets'
 * variance, from λMy in loo->solution and the diagonal of M. */
static double squared_error(const trial *t, int k, double lambda)
{
    const bo_loo *loo = &t->loo[k];
    const size_t outputs = loo->outputs;
    double total = 0;
    for (size_t o = 0; o < outputs; o++) {
        const double factor = k ? mean_factor(t, o, lambda) : 1;
        for (size_t i = 0; i < loo->rows; i++) {
            const double w = loo->root[i] * loo->root[i], y = t->scaled.y[i * outputs + o];
            const double left = lambda * t->diagonal[i] - (loo->intercept ? w / loo->weight : 0);
            if (!(w > 0)) continue;
            if (!(left > 1e-9)) return INFINITY;
            double error = loo->solution[i * outputs + o] / left / loo->root[i];
            if (k) error = (y - factor * exp(log(y) - t->targets[1].deviation[o] * error)) / t->targets[0].deviation[o];
            total += w * error * error;
        }
    }
    return total;
}

/* Errors of both scales for one λ: M = (K + λ)⁻¹ is the same, since the kernel is. */
static bo_status try_lambda(bo_context *context, trial *t, double lambda, double error[2])
{
    const size_t n = t->loo[0].rows, outputs = t->loo[0].outputs;
    double *factor = t->loo[0].work;
    memcpy(factor, t->loo[0].kernel, n * n * sizeof *factor);
    for (size_t i = 0; i < n; i++) factor[i * n + i] += lambda;
    bo_status status = bo_cholesky(context, n, factor, n, NULL);
    if (status == BO_NUMERIC) return BO_OK; /* λ is too small for this kernel */
    BO_TRY(status);
    BO_TRY(bo_inverse_factor(context, n, factor, n, t->inverse));
    memset(t->diagonal, 0, n * sizeof *t->diagonal);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) t->diagonal[j] += t->inverse[i * n + j] * t->inverse[i * n + j];
    for (int k = 0; k < 2; k++) {
        bo_loo *loo = &t->loo[k];
        memcpy(loo->solution, loo->targets, n * outputs * sizeof *loo->solution);
        BO_TRY(bo_solve_lower(context, n, outputs, factor, n, loo->solution, outputs));
        BO_TRY(bo_solve_lower_t(context, n, outputs, factor, n, loo->solution, outputs));
        for (size_t i = 0; i < n * outputs; i++) loo->solution[i] *= lambda;
        error[k] = fmin(error[k], squared_error(t, k, lambda));
    }
    return BO_OK;
}

static bo_status try_both(bo_context *context, const bo_machine_desc *desc, trial *t, double error[2])
{
    static const double widths[] = {0.1, 0.4}, penalties[] = {1e-4, 1e-2, 1};
    const size_t n = t->scaled.rows;
    for (int k = 0; k < 2; k++) {
        bo_machine_desc scale = *desc;
        scale.target_scale = k ? BO_TARGET_SCALE_LOG : BO_TARGET_SCALE_LINEAR;
        BO_TRY(bo_targets_fit(context, &scale, &t->scaled, &t->targets[k]));
        BO_TRY(bo_loo_create(context, &t->scaled, &t->targets[k], !desc->no_intercept, &t->loo[k]));
    }
    t->inverse = bo_alloc_raw(context, n * n, sizeof(double), "the inverse factor");
    t->diagonal = bo_alloc_raw(context, n, sizeof(double), "the inverse's diagonal");
    if (!t->inverse || !t->diagonal) return BO_MEMORY;
    const bo_features_desc map = {.kernel = BO_KERNEL_RBF, .dim = t->scaled.dim, .sparse = t->scaled.sparse != NULL};
    double typical;
    BO_TRY(bo_typical_gamma(context, &map, &t->scaled, desc->seed, &typical));
    for (size_t g = 0; g < sizeof widths / sizeof *widths; g++) {
        BO_TRY(bo_loo_kernel(context, &t->loo[0], &map, widths[g] * typical, true, &t->scaled));
        for (size_t l = 0; l < sizeof penalties / sizeof *penalties; l++) {
            BO_TRY(bo_progress(context, "choosing the scale of the target", (double)(3 * g + l), 6));
            BO_TRY(try_lambda(context, t, penalties[l], error));
        }
    }
    return BO_OK;
}

bo_status bo_target_scale_choose(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                                 bo_target_scale *out)
{
    const bo_target_scale requested = desc->target_scale; /* *out may be this member */
    *out = requested == BO_TARGET_SCALE_LOG ? BO_TARGET_SCALE_LOG : BO_TARGET_SCALE_LINEAR;
    if (samples->classes) return BO_OK;
    if (requested == BO_TARGET_SCALE_LOG) return check_positive(context, samples);
    /* without an intercept logarithms have no natural zero */
    if (requested == BO_TARGET_SCALE_LINEAR || desc->no_intercept || !is_candidate(samples)) return BO_OK;
    trial t = {0};
    double error[2] = {INFINITY, INFINITY};
    bo_status status = scaled_sample(context, desc, samples, &t.scaled);
    if (status == BO_OK) status = try_both(context, desc, &t, error);
    trial_free(&t);
    if (status != BO_OK) return status;
    if (error[1] < error_ratio * error_ratio * error[0]) *out = BO_TARGET_SCALE_LOG;
    bo_log(context, BO_LOG_INFO, "target scale %s: the logarithms of the targets change the error by %+.1f%%",
           bo_target_scale_name(*out), 100 * (sqrt(error[1] / error[0]) - 1));
    return BO_OK;
}

/* ---- conversion back ------------------------------------------------------------------------------------------------
 */

void bo_target_scale_fit(const bo_targets *targets, const bo_left_out *left_out, bo_machine *machine)
{
    if (!targets->logarithms) return;
    const size_t outputs = left_out->outputs;
    for (size_t t = 0; t < outputs; t++) {
        double sum = 0, rows = 0;
        for (size_t i = 0; i < left_out->rows; i++) {
            const size_t at = i * outputs + t;
            if (!(left_out->weight[i] > 0)) continue;
            const double error = targets->deviation[t] * (left_out->truth[at] - left_out->prediction[at]);
            /* an outlier that the other rows do not predict must not decide the scale */
            sum += left_out->weight[i] * exp(fmin(error, targets->range[2 * t + 1] - targets->range[2 * t]));
            rows += left_out->weight[i];
        }
        machine->smearing[t] = rows > 0 ? sum / rows : 1;
    }
}

/* exp of a prediction of output t, or of the end of its interval, within the bounds. */
static double restore(const bo_machine *machine, size_t t, double value)
{
    return exp(fmin(fmax(value, machine->reach[2 * t]), machine->reach[2 * t + 1]));
}

void bo_target_scale_restore(const bo_machine *machine, size_t rows, double *mean)
{
    const size_t outputs = machine->report.outputs;
    if (machine->report.target_scale != BO_TARGET_SCALE_LOG) return;
    for (size_t k = 0; k < rows * outputs; k++)
        mean[k] = restore(machine, k % outputs, mean[k]) * machine->smearing[k % outputs];
}

void bo_target_scale_restore_ends(const bo_machine *machine, size_t rows, double *ends)
{
    const size_t outputs = machine->report.outputs;
    if (machine->report.target_scale != BO_TARGET_SCALE_LOG) return;
    for (size_t k = 0; k < rows * outputs; k++) ends[k] = restore(machine, k % outputs, ends[k]);
}
