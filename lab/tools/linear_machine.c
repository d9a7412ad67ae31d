/* Kernel machines with the linear kernel. */
#include "linear_machine.h"
#include <bochner/machines.h>
#include <math.h>

bo_status lab_machine_predict(bo_context *context, const lab_least_squares *problem, const lab_linear_machine *machine,
                              size_t rows, const float *x, double *out)
{
    bo_machine *fitted;
    const bo_machine_desc desc = {.task = BO_TASK_REGRESSION,
                                  .solver = BO_SOLVER_PRIMAL,
                                  .scaling = BO_SCALING_NONE,
                                  .features = {.kernel = BO_KERNEL_LINEAR, .gamma = 1, .features = problem->dim},
                                  .lambda = machine->lambda,
                                  .no_intercept = true,
                                  .noise = machine->noise,
                                  .dropout = machine->dropout,
                                  .precision = BO_GRAM_PRECISION_FLOAT64};
    const bo_samples samples = {
        .rows = problem->rows, .dim = problem->dim, .targets = 1, .x = problem->x_single, .y = problem->y};
    BO_TRY(bo_machine_fit(context, &desc, &samples, &fitted));
    const bo_status status =
        bo_machine_predict(context, fitted, &(bo_inputs){.rows = rows, .x = x}, &(bo_prediction){.mean = out});
    bo_machine_destroy(fitted);
    return status;
}

bo_status lab_machine_gap(bo_context *context, const lab_least_squares *problem, const lab_linear_machine *machine,
                          size_t rows, const float *x, const double *w, double *out)
{
    double square = 0, worst = 0, *predicted = bo_alloc(context, rows, sizeof *predicted, "predictions");
    if (!predicted) return BO_MEMORY;
    const bo_status status = lab_machine_predict(context, problem, machine, rows, x, predicted);
    for (size_t r = 0; r < rows && status == BO_OK; r++) {
        double expected = 0;
        for (size_t j = 0; j < problem->dim; j++) expected += (double)x[r * problem->dim + j] * w[j];
        square += expected * expected / (double)rows;
        worst = fmax(worst, fabs(predicted[r] - expected));
    }
    bo_free(predicted);
    *out = worst / sqrt(square);
    return status;
}
