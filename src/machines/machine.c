/* The machine as an object: made by the solvers, used by predict.c and file.c. */
#include "internal.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

bo_status bo_machine_create(bo_context *context, const bo_machine_report *report, bo_machine **out)
{
    *out = NULL;
    bo_machine *machine = bo_alloc(context, 1, sizeof *machine, "the machine");
    if (!machine) return BO_MEMORY;
    machine->report = *report;
    machine->sharpness = machine->mean_weight = 1;
    machine->beta = bo_alloc(context, report->features * report->outputs, sizeof(double), "the coefficients");
    machine->intercept = bo_alloc(context, report->outputs, sizeof(double), "the coefficients");
    machine->center = bo_alloc(context, report->features, sizeof(double), "the coefficients");
    machine->noise_variance = bo_alloc(context, report->outputs, sizeof(double), "the noise");
    machine->offset = bo_alloc(context, report->classes, sizeof(double), "the calibration");
    if (!machine->beta || !machine->intercept || !machine->center || !machine->noise_variance || !machine->offset) {
        bo_machine_destroy(machine);
        return BO_MEMORY;
    }
    *out = machine;
    return BO_OK;
}

void bo_machine_destroy(bo_machine *machine)
{
    if (!machine) return;
    bo_scaler_free(&machine->scaler);
    bo_features_destroy(machine->phi);
    bo_free(machine->beta);
    bo_free(machine->intercept);
    bo_free(machine->center);
    bo_free(machine->noise_variance);
    bo_free(machine->factor);
    bo_free(machine->train_x);
    bo_free(machine->train_root_weight);
    bo_free(machine->train_factor);
    bo_free(machine->penalty);
    bo_free(machine->offset);
    bo_free(machine);
}

bo_row_map bo_machine_front(const bo_machine *machine)
{
    return (bo_row_map){&machine->scaler, machine->phi, (float)machine->quantum};
}

const bo_machine_report *bo_machine_describe(const bo_machine *machine)
{
    return &machine->report;
}

const double *bo_machine_coefficients(const bo_machine *machine)
{
    return machine->beta;
}

bo_status bo_machine_take_solution(bo_context *context, bo_machine *machine, const bo_targets *targets,
                                   const double *beta, const double *intercept, const double *center)
{
    size_t features = machine->report.features, outputs = machine->report.outputs;
    for (size_t t = 0; t < outputs; t++) {
        double scale = targets->classes ? 1 : targets->deviation[t], shift = targets->classes ? 0 : targets->mean[t];
        for (size_t j = 0; j < features; j++) {
            double b = beta[j * outputs + t] * scale;
            if (!isfinite(b))
                return bo_fail(context, BO_NUMERIC,
                               "the solution is not finite (coefficient %zu of output %zu); a larger "
                               "lambda than %g would help",
                               j, t, machine->report.lambda);
            machine->beta[j * outputs + t] = b;
        }
        machine->intercept[t] = intercept[t] * scale + shift;
    }
    memcpy(machine->center, center, features * sizeof *center);
    return BO_OK;
}

bo_status bo_machine_scores(bo_context *context, const bo_machine *machine, size_t rows, const float *z, size_t ldz,
                            double *mean)
{
    size_t features = machine->report.features, outputs = machine->report.outputs;
    double *wide = bo_alloc_raw(context, rows * features, sizeof *wide, "a block of features");
    if (!wide) return BO_MEMORY;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < features; j++) wide[i * features + j] = (double)z[i * ldz + j] - machine->center[j];
        memcpy(mean + i * outputs, machine->intercept, outputs * sizeof *mean);
    }
    bo_status status = bo_gemm64(context, false, false, rows, outputs, features, 1, wide, features, machine->beta,
                                 outputs, 1, mean, outputs);
    bo_free(wide);
    return status;
}
