/* Leave-one-out on a few training rows, from the factor of the full fit: with leverage h_i the prediction without row i is
 * y_i - r_i / (1 - h_i), h_i = w_i (1/n + |L⁻¹(φ_i - center)|²). Exact, without refitting. */
#include "internal.h"
#include "../math/linalg.h"

#include <math.h>

bo_status bo_left_out_create(bo_context *context, size_t rows, size_t outputs, bool labels, bo_left_out *out)
{
    *out = (bo_left_out){.rows = rows, .outputs = outputs};
    out->prediction = bo_alloc(context, rows * outputs, sizeof *out->prediction, "leave-one-out predictions");
    out->truth = bo_alloc(context, rows * outputs, sizeof *out->truth, "leave-one-out predictions");
    out->leverage = bo_alloc(context, rows, sizeof *out->leverage, "leverages");
    out->weight = bo_alloc(context, rows, sizeof *out->weight, "leave-one-out predictions");
    out->label = labels ? bo_alloc(context, rows, sizeof *out->label, "leave-one-out predictions") : NULL;
    if (out->prediction && out->truth && out->leverage && out->weight && (!labels || out->label)) return BO_OK;
    bo_left_out_free(out);
    return BO_MEMORY;
}

void bo_left_out_free(bo_left_out *left_out)
{
    bo_free(left_out->prediction);
    bo_free(left_out->truth);
    bo_free(left_out->leverage);
    bo_free(left_out->weight);
    bo_free(left_out->label);
    *left_out = (bo_left_out){0};
}

/* Rows as columns: v (features x rows) = φ - center, in double for the triangular solve. */
static void transpose_centered(const bo_machine_ridge *ridge, size_t rows, const float *z, double *v)
{
    for (size_t j = 0; j < ridge->features; j++)
        for (size_t i = 0; i < rows; i++) v[j * rows + i] = (double)z[i * ridge->features + j] - ridge->center[j];
}

static void predict_rows(const bo_machine_ridge *ridge, size_t rows, const double *v, double *prediction)
{
    size_t outputs = ridge->outputs;
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < outputs; t++) prediction[i * outputs + t] = ridge->intercept[t];
    for (size_t j = 0; j < ridge->features; j++)
        for (size_t i = 0; i < rows; i++)
            for (size_t t = 0; t < outputs; t++)
                prediction[i * outputs + t] += v[j * rows + i] * ridge->beta[j * outputs + t];
}

static void leave_out(const bo_machine_ridge *ridge, const bo_targets *targets, const bo_samples *samples,
                      bool intercept, const double *v, bo_left_out *out)
{
    size_t rows = samples->rows, outputs = ridge->outputs;
    for (size_t j = 0; j < ridge->features; j++)
        for (size_t i = 0; i < rows; i++) out->leverage[i] += v[j * rows + i] * v[j * rows + i];
    for (size_t i = 0; i < rows; i++) {
        double root = (double)bo_targets_root_weight(targets, samples, i);
        double h = root * root * (out->leverage[i] + (intercept ? 1 / ridge->weight : 0));
        out->leverage[i] = h = fmin(h, 1 - 1e-9);
        out->weight[i] = root * root;
        for (size_t t = 0; t < outputs; t++) {
            double y = (double)bo_targets_value(targets, samples->y + i * samples->targets, t);
            double residual = y - out->prediction[i * outputs + t];
            out->truth[i * outputs + t] = y;
            out->prediction[i * outputs + t] = y - residual / (1 - h);
        }
        if (out->label) out->label[i] = (int)samples->y[i];
    }
}

bo_status bo_ridge_left_out(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *front,
                            const bo_targets *targets, const bo_samples *samples, bool intercept, bo_left_out *out)
{
    size_t rows = samples->rows, features = ridge->features;
    BO_TRY(bo_left_out_create(context, rows, ridge->outputs, targets->classes > 0, out));
    float *scaled = bo_alloc_raw(context, rows * samples->dim, sizeof *scaled, "leave-one-out rows");
    float *z = bo_alloc_raw(context, rows * features, sizeof *z, "leave-one-out rows");
    double *v = bo_alloc_raw(context, rows * features, sizeof *v, "leave-one-out rows");
    bo_status status = scaled && z && v ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = bo_row_map_apply(context, front, rows, samples->x, samples->dim, scaled, z, features);
    if (status == BO_OK) {
        transpose_centered(ridge, rows, z, v);
        predict_rows(ridge, rows, v, out->prediction);
        status = bo_solve_lower(context, features, rows, ridge->factor, features, v, rows);
    }
    if (status == BO_OK) leave_out(ridge, targets, samples, intercept, v, out);
    bo_free(scaled);
    bo_free(z);
    bo_free(v);
    if (status != BO_OK) bo_left_out_free(out);
    return status;
}

bo_status bo_ridge_score(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *front,
                         const bo_targets *targets, const bo_samples *probe, bool intercept, double *score)
{
    *score = ridge->gcv;
    if (!isfinite(ridge->gcv)) return BO_OK;
    bo_left_out rows;
    BO_TRY(bo_ridge_left_out(context, ridge, front, targets, probe, intercept, &rows));
    double left = 1 - ridge->freedom / ridge->rows, exact = 0, averaged = 0;
    for (size_t i = 0; i < rows.rows; i++) {
        double shrink = (1 - rows.leverage[i]) / left;
        for (size_t t = 0; t < rows.outputs; t++) {
            double error = rows.truth[i * rows.outputs + t] - rows.prediction[i * rows.outputs + t];
            exact += rows.weight[i] * error * error;
            averaged += rows.weight[i] * error * error * shrink * shrink;
        }
    }
    if (averaged > 0) *score = ridge->gcv * exact / averaged;
    bo_left_out_free(&rows);
    return BO_OK;
}
