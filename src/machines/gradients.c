/* Gradients of a machine by its scaled inputs, and the mean of their outer products.
 *
 *     f(x) = β·(φ(A s) - c) + b with s = s(x) and the metric A:   ∇f = Aᵀ (∂φ/∂(A s))ᵀ β
 *
 * is the backward pass of the feature map with β as the gradient of the features of every row: two matrix products per
 * block of rows and output. An exact kernel has Σ_i β_i ∇k(A s, A s_i). A committee has the weighted mean of its
 * members. If f is the logarithm of the target, the gradient is multiplied by the prediction. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../features/sections.h"
#include "../math/linalg.h"
#include "../math/metric.h"
#include "prediction.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"

#include <math.h>
#include <string.h>

enum { BLOCK_ROWS = BO_SIZE(1024, 4), BLOCK_NUMBERS = BO_SIZE(1 << 22, 1 << 12) };

/* ---- one machine, one block -------------------------------------------------------------------------------------- */

/* Adds factor Aᵀ g, in the places of the input columns; columns that were constant in the fit have 0. */
static void pull_back(const bo_scaler *scaler, const float *g, double factor, double *out)
{
    const bo_metric *metric = &scaler->metric;
    for (size_t j = 0; j < scaler->dim; j++) {
        double sum = 0;
        if (scaler->factor[j] == 0) continue;
        if (metric->a && !metric->diagonal)
            for (size_t p = 0; p < metric->rank; p++) sum += (double)metric->a[p * scaler->dim + j] * (double)g[p];
        else
            sum = (metric->a ? (double)metric->a[j] : 1) * (double)g[scaler->place ? scaler->place[j] : j];
        out[j] += factor * sum;
    }
}

/* β of output t in units of its largest coefficient, which it returns: in the range of float. */
static double unit_beta(const bo_machine *machine, size_t t, float *out, size_t stride)
{
    const size_t features = machine->report.features, outputs = machine->report.outputs;
    double top = 0;
    for (size_t j = 0; j < features; j++) top = fmax(top, fabs(machine->beta[j * outputs + t]));
    for (size_t j = 0; j < features; j++) out[j * stride] = top > 0 ? (float)(machine->beta[j * outputs + t] / top) : 0;
    return top;
}

/* Both add share times the gradients of a block of scaled rows to `total`: rows x outputs x dim. */
static bo_status add_features(bo_context *context, const bo_machine *machine, size_t rows, const float *scaled,
                              double share, double *total)
{
    const bo_scaler *scaler = &machine->scaler;
    const size_t features = machine->report.features, outputs = machine->report.outputs, kept = scaler->kept;
    float *dz = bo_alloc_raw(context, rows * features, sizeof *dz, "gradients");
    float *g = bo_alloc_raw(context, rows * kept, sizeof *g, "gradients");
    bo_status status = dz && g ? BO_OK : BO_MEMORY;
    for (size_t t = 0; status == BO_OK && t < outputs; t++) {
        const double top = unit_beta(machine, t, dz, 1);
        for (size_t i = 1; i < rows; i++) memcpy(dz + i * features, dz, features * sizeof *dz);
        status = bo_features_backward(context, machine->phi, &(bo_inputs){.rows = rows, .x = scaled, .stride = kept},
                                      dz, features, g, kept, NULL, NULL);
        for (size_t i = 0; status == BO_OK && i < rows; i++)
            pull_back(scaler, g + i * kept, share * top, total + (i * outputs + t) * scaler->dim);
    }
    bo_free(dz);
    bo_free(g);
    return status;
}

static bo_status add_exact(bo_context *context, const bo_machine *machine, size_t rows, const float *scaled,
                           double share, double *total)
{
    const bo_scaler *scaler = &machine->scaler;
    const size_t n = machine->report.features, outputs = machine->report.outputs, kept = scaler->kept;
    float *alpha = bo_alloc_raw(context, n * outputs, sizeof *alpha, "coefficients");
    float *g = bo_alloc_raw(context, rows * outputs * kept, sizeof *g, "gradients");
    double *top = bo_alloc_raw(context, outputs, sizeof *top, "coefficients");
    bo_status status = alpha && g && top ? BO_OK : BO_MEMORY;
    for (size_t t = 0; status == BO_OK && t < outputs; t++) top[t] = unit_beta(machine, t, alpha + t, outputs);
    if (status == BO_OK) status = bo_sections_gradient(context, machine->phi, rows, scaled, kept, outputs, alpha, g);
    for (size_t k = 0; status == BO_OK && k < rows * outputs; k++)
        pull_back(scaler, g + k * kept, share * top[k % outputs], total + k * scaler->dim);
    bo_free(alpha);
    bo_free(g);
    bo_free(top);
    return status;
}

static bo_status add_member(bo_context *context, const bo_machine *machine, const bo_input_view *block, double share,
                            double *total)
{
    float *scaled = bo_alloc_raw(context, block->rows * machine->scaler.kept, sizeof *scaled, "a block of inputs");
    bo_status status = scaled ? bo_scaler_apply(context, &machine->scaler, block, scaled) : BO_MEMORY;
    if (status == BO_OK)
        status = (bo_is_sections(machine->phi) ? add_exact : add_features)(context, machine, block->rows, scaled, share,
                                                                           total);
    bo_free(scaled);
    return status;
}

/* d exp(f)/df, which is the prediction, or 0 where f is beyond its bounds and is replaced by them. */
static bo_status multiply_predictions(bo_context *context, const bo_machine *machine, const bo_input_view *block,
                                      double *total)
{
    const size_t outputs = machine->report.outputs, numbers = block->rows * outputs, dim = machine->report.dim;
    double *f = bo_alloc_raw(context, 2 * numbers, sizeof *f, "predictions");
    if (!f) return BO_MEMORY;
    double *mean = f + numbers;
    bo_status status = bo_machine_predict_plain(context, machine, block, f, NULL);
    if (status == BO_OK) {
        memcpy(mean, f, numbers * sizeof *mean);
        bo_target_scale_restore(machine, block->rows, mean);
    }
    for (size_t k = 0; status == BO_OK && k < numbers; k++) {
        const double *reach = machine->reach + 2 * (k % outputs);
        const double slope = f[k] < reach[0] || f[k] > reach[1] ? 0 : mean[k];
        for (size_t j = 0; j < dim; j++) total[k * dim + j] *= slope;
    }
    bo_free(f);
    return status;
}

/* The gradients of a block of rows: total is rows x outputs x dim. */
static bo_status block_gradients(bo_context *context, const bo_machine *machine, const bo_input_view *block,
                                 double *total)
{
    memset(total, 0, block->rows * machine->report.outputs * machine->report.dim * sizeof *total);
    BO_TRY(add_member(context, machine, block, machine->other_members_count ? machine->share[0] : 1, total));
    for (size_t a = 0; a < machine->other_members_count; a++)
        BO_TRY(add_member(context, machine->other_members[a], block, machine->share[a + 1], total));
    return machine->report.target_scale == BO_TARGET_SCALE_LOG ? multiply_predictions(context, machine, block, total)
                                                               : BO_OK;
}

/* ---- all rows ---------------------------------------------------------------------------------------------------- */

/* Receives the gradients of the rows [first, first + rows): rows x outputs x dim. */
typedef bo_status (*visit_fn)(bo_context *context, void *user, size_t first, size_t rows, const double *gradients);

static bo_status visit_blocks(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                              visit_fn visit, void *user)
{
    enum { SMALL = 1 << 24 };
    const size_t outputs = machine->report.outputs, dim = machine->report.dim;
    const size_t wide = machine->report.features + 4 * outputs * dim; /* numbers of a row, at most in total */
    const size_t block = bo_min(inputs->rows, bo_min(BLOCK_ROWS, BLOCK_NUMBERS / wide + 1));
    const double bytes = 4 * (double)block * (double)wide + 4 * (double)machine->report.features * (double)outputs;
    if (bytes >= SMALL)
        BO_TRY(bo_check_memory(context, "gradients", bytes, bo_process_memory(), "use a machine with fewer features"));
    double *total = bo_alloc_raw(context, block * outputs * dim, sizeof *total, "gradients");
    bo_status status = total ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < inputs->rows; first += block) {
        const bo_input_view part = bo_input_view_slice(inputs, first, bo_min(block, inputs->rows - first));
        status = block_gradients(context, machine, &part, total);
        if (status == BO_OK) status = visit(context, user, first, part.rows, total);
        if (status == BO_OK)
            status = bo_progress(context, "gradients", (double)(first + part.rows), (double)inputs->rows);
    }
    bo_free(total);
    return status;
}

static bo_status visit_gradients(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                 visit_fn visit, void *user)
{
    BO_SPAN(context, "machine", "gradients");
    if (inputs->rows == 0) return BO_OK;
    if (!inputs->x) return bo_fail(context, BO_UNSUPPORTED, "gradients: expected dense rows, found sparse ones");
    BO_TRY(bo_input_view_check_finite(context, inputs, 0, inputs->rows, machine->report.dim));
    return visit_blocks(context, machine, inputs, visit, user);
}

typedef struct writing {
    const bo_machine *machine;
    float *out;
} writing;

static bo_status write_block(bo_context *context, void *user, size_t first, size_t rows, const double *gradients)
{
    const writing *job = user;
    const size_t dim = job->machine->report.dim, outputs = job->machine->report.outputs;
    for (size_t k = 0; k < rows * outputs * dim; k++) {
        const float value = (float)gradients[k];
        if (!isfinite(value))
            return bo_fail(context, BO_NUMERIC,
                           "the gradient of output %zu in row %zu by column %zu is %g, beyond the range of float32; "
                           "divide the target by a constant",
                           k / dim % outputs, first + k / dim / outputs, k % dim, gradients[k]);
        job->out[first * outputs * dim + k] = value;
    }
    return BO_OK;
}

bo_status bo_machine_gradients(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                               float *gradients)
{
    BO_REQUIRE(context, machine, inputs);
    bo_input_view view;
    BO_TRY(bo_input_view_make(context, inputs, machine->report.dim, &view));
    BO_REQUIRE_IF(context, view.rows > 0, gradients);
    writing job = {machine, gradients};
    return visit_gradients(context, machine, &view, write_block, &job);
}

/* ---- the mean of their outer products ---------------------------------------------------------------------------- */

typedef struct summing {
    size_t dim, outputs;
    double *diagonal, *matrix; /* sums; NULL: not requested */
} summing;

static bo_status add_block(bo_context *context, void *user, size_t first, size_t rows, const double *g)
{
    const summing *job = user;
    const size_t dim = job->dim, count = rows * job->outputs;
    (void)first;
    for (size_t i = 0; job->diagonal && i < count; i++)
        for (size_t j = 0; j < dim; j++) job->diagonal[j] += g[i * dim + j] * g[i * dim + j];
    if (!job->matrix) return BO_OK;
    return bo_gemm64(context, true, false, dim, dim, count, 1, g, dim, g, dim, 1, job->matrix, dim);
}

bo_status bo_machine_gradient_products(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                       double *diagonal, double *matrix)
{
    const size_t rows = inputs->rows;
    if (rows == 0) return bo_fail(context, BO_INVALID, "the mean of gradients: expected at least one row, found none");
    const size_t dim = machine->report.dim;
    if (diagonal) memset(diagonal, 0, dim * sizeof *diagonal);
    if (matrix) memset(matrix, 0, dim * dim * sizeof *matrix);
    summing job = {dim, machine->report.outputs, diagonal, matrix};
    BO_TRY(visit_gradients(context, machine, inputs, add_block, &job));
    bool finite = true;
    for (size_t k = 0; matrix && k < dim * dim; k++) finite = finite && isfinite(matrix[k] /= (double)rows);
    for (size_t j = 0; diagonal && j < dim; j++) finite = finite && isfinite(diagonal[j] /= (double)rows);
    if (!finite) return bo_fail(context, BO_NUMERIC, "the squared gradients overflow; divide the target by a constant");
    return BO_OK;
}
