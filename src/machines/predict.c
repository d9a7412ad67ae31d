/* Predictions of machines with random features, block by block, on the CPU or a GPU (gpu/predict.c). */
#include "../base/base.h"
#include "../base/trace.h"
#include "../device/cpu/kernels.h"
#include "../io/sparse.h"
#include "../math/linalg.h"
#include "enums.h"
#include "gpu/predict.h"
#include "intervals.h"
#include "machine.h"
#include "prediction.h"
#include "row_map.h"
#include "samples.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- scores ------------------------------------------------------------------------------------------------------ */

enum {
    SCORE_ROWS = 64, /* rows per task of a machine with one output */
    SCORE_FEW = 4,   /* rows for which packing β costs more than the products */
};

/* f(x) of rows of features z. wide: rows x features, for the centered features. */
typedef struct score_job {
    const bo_kernels *kernels;
    const bo_machine *machine;
    size_t rows, ldz;
    const float *z;
    double *wide, *mean;
} score_job;

/* Centers the features of a row and starts its outputs with the intercept. */
static const double *begin_scores(const score_job *job, size_t row)
{
    const bo_machine *machine = job->machine;
    size_t features = machine->report.features, outputs = machine->report.outputs;
    double *wide = job->wide + row * features;
    for (size_t j = 0; j < features; j++) wide[j] = (double)job->z[row * job->ldz + j] - machine->center[j];
    memcpy(job->mean + row * outputs, machine->intercept, outputs * sizeof *job->mean);
    return wide;
}

/* One output: row by row, so that the bits of a row do not depend on the other rows. */
static void score_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const score_job *job = arg;
    const size_t features = job->machine->report.features, first = index * SCORE_ROWS;
    for (size_t i = first; i < bo_min(first + SCORE_ROWS, job->rows); i++)
        job->kernels->dots64(1, features, begin_scores(job, i), features, job->machine->beta, job->mean + i);
}

static bo_status scores_in(bo_context *context, const score_job *job)
{
    const bo_machine *machine = job->machine;
    size_t features = machine->report.features, outputs = machine->report.outputs;
    if (outputs == 1) {
        bo_parallel(context, bo_ceil_div(job->rows, SCORE_ROWS), score_task, (void *)(uintptr_t)job);
        return BO_OK;
    }
    for (size_t i = 0; i < job->rows; i++) {
        const double *wide = begin_scores(job, i);
        if (job->rows > SCORE_FEW) continue;
        job->kernels->combine64(features, outputs, machine->beta, outputs, wide, job->mean + i * outputs);
    }
    if (job->rows <= SCORE_FEW) return BO_OK;
    return bo_gemm64(context, false, false, job->rows, outputs, features, 1, job->wide, features, machine->beta,
                     outputs, 1, job->mean, outputs);
}

bo_status bo_machine_scores(bo_context *context, const bo_machine *machine, size_t rows, const float *z, size_t ldz,
                            double *mean)
{
    double *wide = bo_alloc_raw(context, rows * machine->report.features, sizeof *wide, "a block of features");
    if (!wide) return BO_MEMORY;
    bo_status status = scores_in(context, &(score_job){.kernels = bo_context_kernels(context),
                                                       .machine = machine,
                                                       .rows = rows,
                                                       .ldz = ldz,
                                                       .z = z,
                                                       .wide = wide,
                                                       .mean = mean});
    bo_free(wide);
    return status;
}

/* ---- predictions, block by block --------------------------------------------------------------------------------- */

enum { PREDICT_ROWS = BO_SIZE(512, 4), PREDICT_NUMBERS = BO_SIZE(1 << 24, 1 << 16) };

/* Buffers for one block, and for standard deviations; allocated once per call. A GPU needs only `traits` and `q`. */
typedef struct workspace {
    size_t rows;           /* of a block */
    bo_gpu_prediction gpu; /* machine NULL: the CPU predicts */
    float *z;
    double *columns; /* features x rows, for the triangular solve */
    double *factor;  /* unpacked: features² (PRIMAL) or train_rows² (DUAL) */
    double *train;   /* DUAL: train_rows x features: Zc D⁻¹ */
    double *against; /* DUAL: train_rows x rows */
    double *traits;  /* rows x columns of the deviations */
    double *q;       /* rows */
} workspace;

static void workspace_free(workspace *space)
{
    bo_free(space->z);
    bo_free(space->columns);
    bo_free(space->factor);
    bo_free(space->train);
    bo_free(space->against);
    bo_free(space->traits);
    bo_free(space->q);
    if (space->gpu.machine) bo_gpu_prediction_close(&space->gpu);
}

bo_status bo_machine_train_features(bo_context *context, const bo_machine *machine, size_t block, double *out)
{
    const size_t features = machine->report.features, dim = machine->scaler.kept, n = machine->train_rows;
    float *z = bo_alloc_raw(context, block * features, sizeof *z, "a block of features");
    bo_status status = z ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < n; first += block) {
        const size_t rows = bo_min(block, n - first);
        status = bo_features_apply(context, machine->phi,
                                   &(bo_inputs){.rows = rows, .x = machine->train_x + first * dim, .stride = dim}, z,
                                   features);
        for (size_t k = 0; status == BO_OK && k < rows * features; k++)
            out[first * features + k] = ((double)z[k] - machine->center[k % features]) *
                                        (double)machine->train_root_weight[first + k / features] /
                                        machine->penalty[k % features];
    }
    bo_free(z);
    return status;
}

/* Rows of a block: at most PREDICT_ROWS, fewer if they are long, so that a block has at most PREDICT_NUMBERS inputs and
 * features. */
static size_t block_rows(const bo_machine *machine, const bo_input_view *inputs)
{
    size_t rows = inputs->rows, dim = inputs->x ? machine->report.dim : 0;
    size_t max_rows = PREDICT_NUMBERS / (dim + machine->report.features) + 1;
    if (max_rows > PREDICT_ROWS) max_rows = PREDICT_ROWS;
    return rows && rows < max_rows ? rows : max_rows;
}

/* Bytes of the scaled inputs of a block, in dense form unless sparse rows are projected directly. */
static double input_bytes(const bo_machine *machine, const bo_input_view *inputs, size_t rows)
{
    const double dense = 4 * (double)rows * (double)machine->scaler.kept;
    if (inputs->x) return dense;
    return machine->scaler.place ? 0 : 2 * bo_expanded_bytes(rows, machine->scaler.dim);
}

/* Refuses standard deviations whose matrices do not fit into memory, before any work. */
static bo_status check_memory(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, size_t rows,
                              bool deviations)
{
    enum { SMALL = 1 << 24 };
    double features = (double)machine->report.features, n = (double)machine->train_rows;
    double bytes = input_bytes(machine, inputs, rows) + 12 * (double)rows * features;
    if (deviations && machine->uncertainty == BO_UNCERTAINTY_PRIMAL) bytes += 8 * features * (features + (double)rows);
    if (deviations && machine->uncertainty == BO_UNCERTAINTY_DUAL)
        bytes += 8 * (n * (n + features + (double)rows) + features * (double)rows);
    if (bytes < SMALL) return BO_OK;
    return bo_check_memory(context, deviations ? "prediction with standard deviations" : "prediction", bytes,
                           bo_process_memory(),
                           deviations ? "predict without standard deviations" : "use a machine with fewer features");
}

static bo_status allocate_traits(bo_context *context, const bo_machine *machine, workspace *space)
{
    space->traits =
        bo_alloc_raw(context, space->rows * machine->intervals.columns, sizeof(double), "a block of features");
    space->q = bo_alloc(context, space->rows, sizeof(double), "a block of features");
    return space->traits && space->q ? BO_OK : BO_MEMORY;
}

static bo_status prepare_gpu(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                             bool deviations, workspace *space)
{
    BO_TRY(bo_gpu_prediction_open(context, machine, inputs->rows, deviations, &space->gpu));
    space->rows = space->gpu.rows;
    return deviations ? allocate_traits(context, machine, space) : BO_OK;
}

static bo_status prepare(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, bool deviations,
                         workspace *space)
{
    const size_t rows = block_rows(machine, inputs);
    size_t features = machine->report.features, n = machine->train_rows;
    *space = (workspace){.rows = rows};
    if (bo_gpu_predicts(context, machine, inputs)) return prepare_gpu(context, machine, inputs, deviations, space);
    BO_TRY(check_memory(context, machine, inputs, rows, deviations));
    space->z = bo_alloc_raw(context, rows * features, sizeof(float), "a block of features");
    if (!space->z) return BO_MEMORY;
    if (!deviations) return BO_OK;
    BO_TRY(allocate_traits(context, machine, space));
    if (machine->uncertainty == BO_UNCERTAINTY_NONE) return BO_OK;
    bool primal = machine->uncertainty == BO_UNCERTAINTY_PRIMAL;
    size_t size = primal ? features : n;
    assert(primal ? machine->factor && !machine->train_factor : machine->train_factor && !machine->factor);
    assert(primal || (machine->train_x && machine->train_root_weight && machine->penalty));
    space->columns = bo_alloc_raw(context, features * rows, sizeof(double), "a block of features");
    space->factor = bo_alloc(context, size * size, sizeof(double), "the factor of the Gram matrix");
    if (!space->columns || !space->factor) return BO_MEMORY;
    for (size_t i = 0, k = 0; i < size; i++)
        for (size_t j = 0; j <= i; j++, k++)
            space->factor[i * size + j] = machine->factor ? (double)machine->factor[k] : machine->train_factor[k];
    if (machine->uncertainty == BO_UNCERTAINTY_PRIMAL) return BO_OK;
    space->train = bo_alloc_raw(context, n * features, sizeof(double), "the training rows' features");
    space->against = bo_alloc_raw(context, n * rows, sizeof(double), "a block of kernel values");
    if (!space->train || !space->against) return BO_MEMORY;
    return bo_machine_train_features(context, machine, rows, space->train);
}

/* q_i = (φ_i - c)ᵀ (ZᵀZ + D)⁻¹ (φ_i - c) for the rows of space->z.
 * PRIMAL: |L⁻¹ (φ - c)|².
 * DUAL: by the Woodbury identity: |φ - c|²_{D⁻¹} - |M⁻¹ Zc D⁻¹ (φ - c)|², M Mᵀ = Zc D⁻¹ Zcᵀ + I. */
static bo_status quadratic_form(bo_context *context, const bo_machine *machine, workspace *space, size_t rows,
                                double *q)
{
    size_t features = machine->report.features, n = machine->train_rows;
    for (size_t j = 0; j < features; j++)
        for (size_t i = 0; i < rows; i++)
            space->columns[j * rows + i] = (double)space->z[i * features + j] - machine->center[j];
    memset(q, 0, rows * sizeof *q);
    if (machine->uncertainty == BO_UNCERTAINTY_PRIMAL) {
        BO_TRY(bo_solve_lower(context, features, rows, space->factor, features, space->columns, rows));
        for (size_t k = 0; k < features * rows; k++) q[k % rows] += space->columns[k] * space->columns[k];
        return BO_OK;
    }
    BO_TRY(bo_gemm64(context, false, false, n, rows, features, 1, space->train, features, space->columns, rows, 0,
                     space->against, rows));
    BO_TRY(bo_solve_lower(context, n, rows, space->factor, n, space->against, rows));
    for (size_t j = 0; j < features; j++)
        for (size_t i = 0; i < rows; i++)
            q[i] += space->columns[j * rows + i] * space->columns[j * rows + i] / machine->penalty[j];
    for (size_t k = 0; k < n * rows; k++) q[k % rows] -= space->against[k] * space->against[k];
    for (size_t i = 0; i < rows; i++) q[i] = fmax(q[i], 0);
    return BO_OK;
}

/* The features of a block, its predictions, and with `std` what the deviations need: traits and q. */
static bo_status predict_on_cpu(bo_context *context, const bo_machine *machine, workspace *space,
                                const bo_input_view *inputs, double *mean, bool deviations)
{
    const size_t features = machine->report.features, columns = machine->intervals.columns, rows = inputs->rows;
    const bo_row_map row_map = bo_machine_row_map(machine);
    BO_TRY(bo_row_map_apply(context, &row_map, inputs, space->z, features));
    BO_TRY(bo_machine_scores(context, machine, rows, space->z, features, mean));
    if (!deviations) return BO_OK;
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            space->traits[i * columns + k] = (double)space->z[i * features + bo_deviation_column(features, columns, k)];
    return machine->uncertainty == BO_UNCERTAINTY_NONE ? BO_OK
                                                       : quadratic_form(context, machine, space, rows, space->q);
}

static bo_status predict_block(bo_context *context, const bo_machine *machine, workspace *space,
                               const bo_input_view *inputs, double *mean, double *std)
{
    const size_t outputs = machine->report.outputs, rows = inputs->rows;
    BO_TRY(space->gpu.machine ? bo_gpu_predict(context, &space->gpu, inputs, mean, space->traits, space->q)
                              : predict_on_cpu(context, machine, space, inputs, mean, std != NULL));
    if (!std) return BO_OK;
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < outputs; t++)
            std[i * outputs + t] =
                machine->noise[t] * sqrt(1 / machine->mean_weight + machine->inverse_weight + space->q[i]);
    bo_intervals_deviate(machine, rows, space->traits, mean, std);
    return BO_OK;
}

bo_status bo_machine_predict_plain(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                   double *mean, double *std)
{
    BO_SPAN(context, "machine", "predict");
    if (std && machine->uncertainty == BO_UNCERTAINTY_NONE && machine->intervals.rows == 0)
        return bo_fail(context, BO_UNSUPPORTED,
                       machine->report.classes
                           ? "standard deviations are for regression; a classifier predicts probabilities"
                           : "this machine has no standard deviations, because it was fitted with the solver %s, which "
                             "had too few rows to hold some out; use primal or dual",
                       bo_solver_name(machine->report.solver));
    const size_t outputs = machine->report.outputs, rows = inputs->rows;
    BO_TRY(bo_input_view_check_finite(context, inputs, 0, rows, machine->report.dim));
    if (bo_is_sections(machine->phi)) return bo_exact_predict(context, machine, inputs, mean, std);
    workspace space;
    bo_status status = prepare(context, machine, inputs, std != NULL, &space);
    for (size_t first = 0; status == BO_OK && first < rows; first += space.rows) {
        const size_t count = rows - first < space.rows ? rows - first : space.rows;
        const bo_input_view block = bo_input_view_slice(inputs, first, count);
        status =
            predict_block(context, machine, &space, &block, mean + first * outputs, std ? std + first * outputs : NULL);
        if (status == BO_OK) status = bo_progress(context, "predicting", (double)(first + count), (double)rows);
    }
    workspace_free(&space);
    return status;
}
