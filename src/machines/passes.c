/* Passes over rows that compute the features again each time. */
#include "../base/base.h"
#include "../base/rng.h"
#include "left_out.h"
#include "machine.h"
#include "passes.h"
#include "prediction.h"
#include "row_map.h"
#include "samples.h"
#include "solvers.h"

#include <math.h>
#include <string.h>

bo_status bo_problem_features(bo_context *context, const bo_fit_problem *problem, size_t first, size_t rows, float *z,
                              size_t ldz)
{
    const bo_input_view inputs = bo_samples_inputs(problem->samples, first, rows);
    return bo_row_map_apply(context, &problem->row_map, &inputs, z, ldz);
}

bo_status bo_pass_create(bo_context *context, const bo_fit_problem *problem, const double *center, double memory,
                         bo_row_pass *out)
{
    size_t features = bo_features_describe(problem->row_map.phi)->features, outputs = problem->targets->outputs;
    size_t rows = problem->samples->rows, block = rows < BO_MACHINE_BLOCK ? rows : BO_MACHINE_BLOCK;
    *out =
        (bo_row_pass){.problem = problem, .features = features, .outputs = outputs, .block = block, .center = center};
    bool keep = 4.0 * (double)rows * (double)features <= memory;
    out->z = bo_alloc_raw(context, block * features, sizeof(float), "a block of features");
    out->scores = bo_alloc_raw(context, block * outputs, sizeof(float), "a block of scores");
    if (keep) out->kept = bo_alloc_raw(context, rows * features, sizeof(float), "the features of all rows");
    if (out->z && out->scores) return BO_OK; /* features that are not kept are computed again */
    bo_pass_free(out);
    return BO_MEMORY;
}

void bo_pass_free(bo_row_pass *pass)
{
    bo_free(pass->z);
    bo_free(pass->scores);
    bo_free(pass->kept);
    *pass = (bo_row_pass){0};
}

bo_status bo_pass_features(bo_context *context, bo_row_pass *pass, size_t first, size_t rows, const float **z)
{
    size_t features = pass->features;
    float *to = pass->kept ? pass->kept + first * features : pass->z;
    *z = to;
    if (pass->kept && pass->filled) return BO_OK;
    BO_TRY(bo_problem_features(context, pass->problem, first, rows, to, features));
    for (size_t i = 0; i < rows; i++) {
        float root = 1;
        if (!pass->unweighted) root = bo_targets_root_weight(pass->problem->targets, pass->problem->samples, first + i);
        for (size_t j = 0; j < features; j++)
            to[i * features + j] = root * (to[i * features + j] - (float)pass->center[j]);
    }
    if (pass->kept && first + rows == pass->problem->samples->rows) pass->filled = true;
    return BO_OK;
}

static void add_block(const bo_fit_problem *problem, size_t first, size_t rows, const float *z, size_t features,
                      double *center, double *squares, double *mean, double *weight, double *largest_norm)
{
    const bo_samples *samples = problem->samples;
    for (size_t i = 0; i < rows; i++) {
        double root = (double)bo_targets_root_weight(problem->targets, samples, first + i), w = root * root, norm = 0;
        *weight += w;
        for (size_t j = 0; j < features; j++) {
            double value = (double)z[i * features + j];
            center[j] += w * value;
            squares[j] += w * value * value;
            norm += value * value;
        }
        *largest_norm = fmax(*largest_norm, w * norm);
        for (size_t t = 0; t < problem->targets->outputs; t++)
            mean[t] += w * (double)bo_targets_value(problem->targets, samples->y + (first + i) * samples->targets, t);
    }
}

bo_status bo_pass_means(bo_context *context, const bo_fit_problem *problem, double *center, double *squares,
                        double *mean, double *weight, double *largest_norm)
{
    size_t features = bo_features_describe(problem->row_map.phi)->features, outputs = problem->targets->outputs;
    bo_row_pass pass;
    BO_TRY(bo_pass_create(context, problem, NULL, 0, &pass));
    memset(center, 0, features * sizeof *center);
    memset(squares, 0, features * sizeof *squares);
    memset(mean, 0, outputs * sizeof *mean);
    *weight = *largest_norm = 0;
    bo_status status = BO_OK;
    for (size_t first = 0; status == BO_OK && first < problem->samples->rows; first += pass.block) {
        size_t left = problem->samples->rows - first, rows = left < pass.block ? left : pass.block;
        status = bo_progress(context, "averaging features", (double)first, (double)problem->samples->rows);
        if (status == BO_OK) status = bo_problem_features(context, problem, first, rows, pass.z, features);
        if (status == BO_OK)
            add_block(problem, first, rows, pass.z, features, center, squares, mean, weight, largest_norm);
    }
    bo_pass_free(&pass);
    for (size_t j = 0; j < features; j++) center[j] *= problem->intercept ? 1 / *weight : 0;
    for (size_t t = 0; t < outputs; t++) mean[t] *= problem->intercept ? 1 / *weight : 0;
    return status;
}

bo_status bo_pass_held_out(bo_context *context, const bo_machine *machine, const bo_targets *targets,
                           const bo_samples *held_out, bo_left_out *out)
{
    size_t outputs = targets->outputs;
    BO_TRY(bo_left_out_create(context, held_out->rows, outputs, targets->classes > 0, out));
    const bo_input_view inputs = bo_samples_inputs(held_out, 0, held_out->rows);
    bo_status status = bo_machine_predict_plain(context, machine, &inputs, out->prediction, NULL);
    for (size_t i = 0; status == BO_OK && i < held_out->rows; i++) {
        double root = (double)bo_targets_root_weight(targets, held_out, i);
        out->weight[i] = root * root;
        for (size_t t = 0; t < outputs; t++) {
            double *p = &out->prediction[i * outputs + t];
            if (!targets->classes) *p = (*p - targets->mean[t]) / targets->deviation[t];
            out->truth[i * outputs + t] = (double)bo_targets_value(targets, held_out->y + i * held_out->targets, t);
        }
        if (out->label) out->label[i] = (int)held_out->y[i];
    }
    const bo_row_map row_map = bo_machine_row_map(machine);
    if (status == BO_OK) status = bo_left_out_columns(context, &row_map, held_out, out);
    if (status != BO_OK) bo_left_out_free(out);
    return status;
}

bo_status bo_solve_held_out(bo_context *context, const bo_fit_problem *problem, size_t max_rows, bo_solver_fn solve,
                            bo_machine *machine)
{
    const bo_samples *all = problem->samples;
    size_t held_out_rows = all->rows / 10 < max_rows ? all->rows / 10 : max_rows;
    if (held_out_rows < 20) return solve(context, problem, machine); /* too few rows for validation: fit to all rows */
    size_t *order = bo_alloc_raw(context, all->rows, sizeof *order, "the order of rows");
    if (!order) return BO_MEMORY;
    bo_rng rng = bo_rng_make(problem->desc->seed, bo_rng_stream("machines.held_out", 0));
    bo_rng_permutation(&rng, all->rows, order);
    bo_samples held_out = {0}, rest = {0};
    bo_left_out left_out = {0};
    bo_status status = bo_samples_gather(context, all, order, held_out_rows, &held_out);
    if (status == BO_OK)
        status = bo_samples_gather(context, all, order + held_out_rows, all->rows - held_out_rows, &rest);
    bo_free(order);
    bo_fit_problem reduced = *problem;
    reduced.samples = &rest;
    if (status == BO_OK) status = solve(context, &reduced, machine);
    if (status == BO_OK) status = bo_pass_held_out(context, machine, problem->targets, &held_out, &left_out);
    if (status == BO_OK) status = bo_machine_calibrate(context, machine, problem->targets, &left_out);
    bo_left_out_free(&left_out);
    bo_samples_free(&held_out);
    bo_samples_free(&rest);
    return status;
}
