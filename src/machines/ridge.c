/* Ridge regression: sums over rows, and the solution of the linear system. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../device/device.h"
#include "../math/linalg.h"
#include "device_sums.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* The single pass over the data: computes the features of a block of rows, appends the targets and a one, and adds the
 * outer product of the block. */

static bo_status create_on_device(bo_context *context, const bo_row_map *row_map, bo_moments *out)
{
    const bo_device_sums_desc desc = {.features = out->features,
                                      .outputs = out->outputs,
                                      .map = row_map->phi,
                                      .precise = out->precision == BO_GRAM_PRECISION_FLOAT64,
                                      .quantum = out->precision == BO_GRAM_PRECISION_INT8 ? row_map->quantum : 0};
    return bo_device_sums_create(context, &desc, &out->device);
}

bo_status bo_moments_create(bo_context *context, const bo_row_map *row_map, size_t outputs, bo_gram_precision precision,
                            bo_moments *out)
{
    const size_t features = bo_features_describe(row_map->phi)->features, size = features + outputs + 1;
    *out = (bo_moments){.features = features, .outputs = outputs, .size = size, .precision = precision};
    if (bo_context_is_on_gpu(context)) return create_on_device(context, row_map, out);
    size_t count;
    if (__builtin_mul_overflow(size, size, &count)) count = SIZE_MAX;
    out->gram = bo_alloc(context, count, sizeof *out->gram, "the Gram matrix of the features");
    return out->gram ? BO_OK : BO_MEMORY;
}

void bo_moments_free(bo_moments *moments)
{
    bo_device_sums_destroy(moments->device);
    bo_free(moments->gram);
    *moments = (bo_moments){0};
}

bo_status bo_moments_open(bo_context *context, const bo_moments *moments, double **gram)
{
    *gram = moments->gram;
    if (!moments->device) return BO_OK;
    *gram = bo_alloc_raw(context, moments->size * moments->size, sizeof **gram, "the Gram matrix of the features");
    return *gram ? bo_device_sums_read(context, moments->device, *gram) : BO_MEMORY;
}

bo_status bo_moments_close(bo_context *context, const bo_moments *moments, double *gram, bool changed)
{
    if (!moments->device) return BO_OK;
    const bo_status status = changed ? bo_device_sums_write(context, moments->device, gram) : BO_OK;
    bo_free(gram);
    return status;
}

/* The columns of G after the features, and its diagonal: all of G that is read outside of products. */
typedef struct margins {
    const double *columns; /* row i, column features + t: columns[i stride + t], for i <= features + t */
    size_t stride;
    const double *diagonal;
    size_t step; /* between two numbers of the diagonal */
} margins;

static bo_status margins_of(bo_context *context, const bo_moments *moments, margins *out)
{
    if (moments->device) {
        *out = (margins){.stride = moments->outputs + 1, .step = 1};
        return bo_device_sums_margins(context, moments->device, &out->columns, &out->diagonal);
    }
    *out = (margins){moments->gram + moments->features, moments->size, moments->gram, moments->size + 1};
    return BO_OK;
}

/* Row `row` of the column of sums, of which the last is Σ w. */
static double sum_of(const bo_moments *moments, const margins *edge, size_t row)
{
    return edge->columns[row * edge->stride + moments->outputs];
}

/* Buffers for one block of rows. */
typedef struct block {
    size_t rows, stride;
    float *z;                                /* rows x stride: features, targets, one */
    int8_t *q;                               /* INT8: rows x features, the features as multiples of the quantum */
    float *cross;                            /* INT8: features x (outputs + 1) */
    float *scaled, *weighted_targets, *root; /* on a device: see bo_device_rows */
} block;

static void block_free(block *b)
{
    bo_free(b->z);
    bo_free(b->q);
    bo_free(b->cross);
    bo_free(b->scaled);
    bo_free(b->weighted_targets);
    bo_free(b->root);
}

static bo_status block_create(bo_context *context, const bo_moments *moments, const bo_samples *samples, block *b)
{
    bool rounded = moments->precision == BO_GRAM_PRECISION_INT8;
    *b = (block){.rows = samples->rows < BO_MACHINE_BLOCK ? samples->rows : BO_MACHINE_BLOCK,
                 .stride = bo_padded(moments->size)};
    b->z = bo_alloc_raw(context, b->rows * b->stride, sizeof *b->z, "a block of features");
    if (rounded) {
        b->q = bo_alloc_raw(context, b->rows, moments->features, "a block of rounded features");
        b->cross =
            bo_alloc_raw(context, moments->features * (moments->outputs + 1), sizeof *b->cross, "a block of sums");
    }
    return b->z && (!rounded || (b->q && b->cross)) ? BO_OK : BO_MEMORY;
}

/* Appends y and 1 to the features of one row and multiplies all by √w. */
static void complete_row(const bo_targets *targets, const bo_samples *samples, size_t row, size_t features, float *z)
{
    for (size_t t = 0; t < targets->outputs; t++)
        z[features + t] = bo_targets_value(targets, samples->y + row * samples->targets, t);
    z[features + targets->outputs] = 1;
    float root = bo_targets_root_weight(targets, samples, row);
    if (root == 1) return;
    for (size_t j = 0; j <= features + targets->outputs; j++) z[j] *= root;
}

/* Products of features as exact integers; products with the few other columns in float32, summed block by block. */
static bo_status add_rounded(bo_context *context, bo_moments *moments, float quantum, size_t rows, const block *b)
{
    size_t features = moments->features, target_columns = moments->outputs + 1, size = moments->size;
    double *g = moments->gram, unit = (double)quantum * (double)quantum;
    BO_TRY(bo_gram8(context, features, rows, b->q, features, unit, g, size));
    BO_TRY(bo_gemm(context, true, false, features, target_columns, rows, 1, b->z, b->stride, b->z + features, b->stride,
                   0, b->cross, target_columns));
    for (size_t j = 0; j < features; j++)
        for (size_t t = 0; t < target_columns; t++)
            g[j * size + features + t] += (double)b->cross[j * target_columns + t];
    return bo_gram(context, target_columns, rows, b->z + features, b->stride, g + features * size + features, size,
                   true);
}

static bo_status add_block(bo_context *context, bo_moments *moments, const bo_row_map *row_map,
                           const bo_targets *targets, const bo_samples *samples, size_t first, size_t rows, block *b)
{
    size_t features = moments->features;
    bool rounded = moments->precision == BO_GRAM_PRECISION_INT8;
    const bo_input_view inputs = bo_samples_inputs(samples, first, rows);
    BO_TRY(bo_row_map_project(context, row_map, &inputs, b->z, b->stride));
    if (rounded) bo_round_features(context, row_map->quantum, rows, features, b->z, b->stride, b->q, features);
    for (size_t i = 0; i < rows; i++) complete_row(targets, samples, first + i, features, b->z + i * b->stride);
    if (rounded) return add_rounded(context, moments, row_map->quantum, rows, b);
    return bo_gram(context, moments->size, rows, b->z, b->stride, moments->gram, moments->size,
                   moments->precision == BO_GRAM_PRECISION_FLOAT64);
}

/* True if the device computes the features of these rows from scaled inputs. */
static bool maps_on_device(const bo_moments *moments, const bo_samples *samples)
{
    return samples->x && bo_device_sums_maps(moments->device);
}

static bo_status device_block_create(bo_context *context, const bo_moments *moments, const bo_row_map *row_map,
                                     const bo_samples *samples, block *b)
{
    const size_t rows = bo_min(samples->rows, BO_DEVICE_ROWS);
    *b = (block){.rows = rows, .stride = moments->features};
    if (maps_on_device(moments, samples))
        b->scaled = bo_alloc_raw(context, rows * bo_features_describe(row_map->phi)->dim, sizeof *b->scaled,
                                 "a block of inputs");
    else
        b->z = bo_alloc_raw(context, rows * b->stride, sizeof *b->z, "a block of features");
    b->weighted_targets =
        bo_alloc_raw(context, rows * (moments->outputs + 1), sizeof *b->weighted_targets, "a block of targets");
    b->root = bo_alloc_raw(context, rows, sizeof *b->root, "a block of weights");
    return (b->scaled || b->z) && b->weighted_targets && b->root ? BO_OK : BO_MEMORY;
}

/* Scales a block of rows and passes it to the device with its targets. */
static bo_status add_device_block(bo_context *context, bo_moments *moments, const bo_row_map *row_map,
                                  const bo_targets *targets, const bo_samples *samples, size_t first, size_t rows,
                                  block *b)
{
    const size_t outputs = moments->outputs;
    const bo_input_view inputs = bo_samples_inputs(samples, first, rows);
    bo_device_rows host_rows = {.count = rows, .z = b->z, .weighted_targets = b->weighted_targets};
    if (b->z)
        BO_TRY(bo_row_map_project(context, row_map, &inputs, b->z, b->stride));
    else if (row_map->scaler)
        BO_TRY(bo_scaler_apply(context, row_map->scaler, &inputs, b->scaled));
    if (!b->z) host_rows.x = row_map->scaler ? b->scaled : inputs.x, host_rows.map = row_map->phi;
    for (size_t i = 0; i < rows; i++) {
        const float root = bo_targets_root_weight(targets, samples, first + i);
        float *row_targets = b->weighted_targets + i * (outputs + 1);
        for (size_t t = 0; t < outputs; t++)
            row_targets[t] = root * bo_targets_value(targets, samples->y + (first + i) * samples->targets, t);
        row_targets[outputs] = b->root[i] = root;
        if (root != 1) host_rows.root = b->root;
    }
    return bo_device_sums_add(context, moments->device, &host_rows);
}

bo_status bo_moments_add(bo_context *context, bo_moments *moments, const bo_row_map *row_map, const bo_targets *targets,
                         const bo_samples *samples, bool report)
{
    assert((moments->gram || moments->device) && moments->size == moments->features + moments->outputs + 1);
    const bool device = moments->device != NULL;
    block b;
    bo_status status = device ? device_block_create(context, moments, row_map, samples, &b)
                              : block_create(context, moments, samples, &b);
    for (size_t first = 0; status == BO_OK && first < samples->rows; first += b.rows) {
        size_t rows = samples->rows - first < b.rows ? samples->rows - first : b.rows;
        status = (device ? add_device_block : add_block)(context, moments, row_map, targets, samples, first, rows, &b);
        for (size_t i = first; status == BO_OK && i < first + rows; i++)
            moments->rows += bo_targets_root_weight(targets, samples, i) > 0;
        if (status == BO_OK && report)
            status = bo_progress(context, "fitting", (double)(first + rows), (double)samples->rows);
    }
    block_free(&b);
    return status;
}

/* y = ZᵀZ x from the upper triangle. */
static void multiply(const bo_moments *moments, const double *x, double *y)
{
    size_t n = moments->features, size = moments->size;
    const double *g = moments->gram;
    memset(y, 0, n * sizeof *y);
    for (size_t i = 0; i < n; i++) {
        const double *row = g + i * size;
        double sum = row[i] * x[i];
        for (size_t j = i + 1; j < n; j++) {
            sum += row[j] * x[j];
            y[j] += row[j] * x[i];
        }
        y[i] += sum;
    }
}

/* y = (ZᵀZ - ssᵀ/n) x. */
static bo_status centered_multiply(bo_context *context, const bo_moments *moments, bool intercept, const double *x,
                                   double *y)
{
    const size_t n = moments->features;
    margins edge;
    BO_TRY(margins_of(context, moments, &edge));
    if (moments->device)
        BO_TRY(bo_device_sums_multiply(context, moments->device, x, y));
    else
        multiply(moments, x, y);
    if (!intercept) return BO_OK;
    double along = 0, weight = sum_of(moments, &edge, moments->size - 1);
    for (size_t j = 0; j < n; j++) along += sum_of(moments, &edge, j) * x[j];
    for (size_t j = 0; j < n; j++) y[j] -= sum_of(moments, &edge, j) * along / weight;
    return BO_OK;
}

bo_status bo_moments_spectrum(bo_context *context, const bo_moments *moments, bool intercept, double *largest)
{
    assert((moments->gram || moments->device) && moments->size == moments->features + moments->outputs + 1);
    enum { STEPS = 12 }; /* an accuracy of a few percent is enough for choices with a margin */
    size_t n = moments->features;
    double *x = bo_alloc_raw(context, n, sizeof *x, "a power iteration");
    double *y = bo_alloc_raw(context, n, sizeof *y, "a power iteration");
    if (!x || !y) {
        bo_free(x);
        bo_free(y);
        return BO_MEMORY;
    }
    bo_rng rng = bo_rng_make(0, bo_rng_stream("machines.spectrum", 0));
    for (size_t j = 0; j < n; j++) x[j] = bo_rng_normal(&rng);
    *largest = 0;
    bo_status status = BO_OK;
    for (int step = 0; status == BO_OK && step < STEPS; step++) {
        double norm = 0;
        for (size_t j = 0; j < n; j++) norm += x[j] * x[j];
        norm = sqrt(norm);
        if (norm == 0) break;
        for (size_t j = 0; j < n; j++) x[j] /= norm;
        status = centered_multiply(context, moments, intercept, x, y);
        double quotient = 0;
        for (size_t j = 0; status == BO_OK && j < n; j++) quotient += x[j] * y[j];
        *largest = quotient;
        memcpy(x, y, n * sizeof *x);
    }
    bo_free(x);
    bo_free(y);
    return status;
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

/* The ridge system in primal form: (ZᵀZ + D) β = ZᵀY, with the intercept removed by centering,
 *
 *     A = ZᵀZ - s sᵀ/n,  b = ZᵀY - s tᵀ/n,  (A + D) β = b,  intercept = t/n        (s, t: sums; n: total weight)
 *
 * so that f(x) = β·(φ(x) - s/n) + t/n. */

void bo_penalty_fill(const bo_penalty *penalty, double weight, size_t features, const double *squares, double *out)
{
    double uniform = penalty->lambda + weight * penalty->noise * penalty->noise;
    double ratio = penalty->dropout / (1 - penalty->dropout);
    for (size_t j = 0; j < features; j++) out[j] = uniform + ratio * squares[j];
}

void bo_ridge_free(bo_machine_ridge *ridge)
{
    bo_free(ridge->factor);
    bo_free(ridge->beta);
    bo_free(ridge->intercept);
    bo_free(ridge->center);
    bo_free(ridge->rss);
    *ridge = (bo_machine_ridge){0};
}

static bo_status allocate(bo_context *context, const bo_moments *moments, bo_machine_ridge *out)
{
    size_t n = moments->features, t = moments->outputs;
    *out = (bo_machine_ridge){.features = n, .outputs = t, .moments = moments->device ? moments : NULL};
    if (!out->moments) out->factor = bo_alloc_raw(context, n * n, sizeof *out->factor, "the factor of the Gram matrix");
    out->beta = bo_alloc_raw(context, n * t, sizeof *out->beta, "the coefficients");
    out->intercept = bo_alloc(context, t, sizeof *out->intercept, "the coefficients");
    out->center = bo_alloc(context, n, sizeof *out->center, "the coefficients");
    out->rss = bo_alloc(context, t, sizeof *out->rss, "the residuals");
    const bool complete = out->beta && out->intercept && out->center && out->rss;
    return complete && (out->factor || out->moments) ? BO_OK : BO_MEMORY;
}

typedef struct assembly {
    const bo_moments *moments;
    const double *penalty;
    bo_machine_ridge *out;
} assembly;

enum { ASSEMBLY_ROWS = BO_SIZE(32, 4) };

/* Writes rows of the upper triangle of A + D to `factor`. */
static void assemble_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const assembly *job = arg;
    bo_machine_ridge *out = job->out;
    size_t n = out->features, size = job->moments->size, end = (index + 1) * ASSEMBLY_ROWS;
    for (size_t i = index * ASSEMBLY_ROWS; i < end && i < n; i++) {
        const double *g = job->moments->gram + i * size;
        double pull = out->center[i] * out->weight;
        for (size_t j = i; j < n; j++) out->factor[i * n + j] = g[j] - pull * out->center[j];
        out->factor[i * n + i] += job->penalty[i];
    }
}

/* The centers, and the right-hand side in `beta`. */
static void assemble_targets(const bo_moments *moments, const margins *edge, bool intercept, bo_machine_ridge *out)
{
    const size_t n = moments->features, outputs = moments->outputs;
    out->weight = sum_of(moments, edge, moments->size - 1);
    out->rows = (double)moments->rows;
    for (size_t j = 0; intercept && j < n; j++) out->center[j] = sum_of(moments, edge, j) / out->weight;
    for (size_t t = 0; intercept && t < outputs; t++) out->intercept[t] = sum_of(moments, edge, n + t) / out->weight;
    for (size_t i = 0; i < n; i++) {
        const double pull = out->center[i] * out->weight;
        for (size_t t = 0; t < outputs; t++)
            out->beta[i * outputs + t] = edge->columns[i * edge->stride + t] - pull * out->intercept[t];
    }
}

static bo_status factorize(bo_context *context, const bo_moments *moments, const double *penalty, bo_machine_ridge *out)
{
    const size_t n = moments->features;
    if (moments->device) {
        const bo_device_system system = {out->weight, out->center, penalty};
        return bo_device_sums_factorize(context, moments->device, &system);
    }
    assembly job = {moments, penalty, out};
    bo_parallel(context, (n + ASSEMBLY_ROWS - 1) / ASSEMBLY_ROWS, assemble_rows, &job);
    return bo_cholesky(context, n, out->factor, n, NULL);
}

/* L⁻¹ X, or L⁻ᵀ X if `transposed`. */
static bo_status substitute(bo_context *context, const bo_machine_ridge *ridge, bool transposed, size_t m, double *x)
{
    const bo_moments *moments = ridge->moments;
    if (moments) return bo_device_sums_solve(context, moments->device, transposed, m, x);
    return (transposed ? bo_solve_lower_t : bo_solve_lower)(context, ridge->features, m, ridge->factor, ridge->features,
                                                            x, m);
}

bo_status bo_ridge_solve_lower(bo_context *context, const bo_machine_ridge *ridge, size_t m, double *x)
{
    return substitute(context, ridge, false, m, x);
}

bo_status bo_ridge_pack_factor(bo_context *context, const bo_machine_ridge *ridge, float *packed)
{
    const size_t n = ridge->features;
    if (ridge->moments) return bo_device_sums_factor(context, ridge->moments->device, packed);
    for (size_t i = 0, k = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++, k++) packed[k] = (float)ridge->factor[i * n + j];
    return BO_OK;
}

/* RSS = yᵀy - bᵀβ - βᵀDβ, all centered (from (A + D)β = b). Clamped, because rounding may make it slightly negative. */
static void residuals(const bo_moments *moments, const margins *edge, const double *penalty, const double *rhs,
                      bo_machine_ridge *out)
{
    size_t n = moments->features, outputs = moments->outputs;
    for (size_t t = 0; t < outputs; t++) {
        double total = edge->diagonal[(n + t) * edge->step] - out->weight * out->intercept[t] * out->intercept[t];
        double explained = 0;
        for (size_t j = 0; j < n; j++) {
            double beta = out->beta[j * outputs + t];
            explained += beta * (rhs[j * outputs + t] + penalty[j] * beta);
        }
        out->rss[t] = fmax(total - explained, 1e-14 * total);
    }
}

/* tr(D (A + D)⁻¹) = E |L⁻¹ D^½ v|² over random signs v (Hutchinson). The signs are the same for every λ, so that the
 * error cancels in comparisons. */
static bo_status trace_of_penalty(bo_context *context, const bo_machine_ridge *ridge, const double *penalty,
                                  uint64_t seed, double *trace)
{
    enum { PROBES = 32 };
    size_t n = ridge->features;
    double *v = bo_alloc_raw(context, n * PROBES, sizeof *v, "a trace estimate");
    if (!v) return BO_MEMORY;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("machines.trace", 0));
    for (size_t j = 0; j < n; j++) {
        uint64_t bits = bo_rng_bits(&rng);
        for (size_t p = 0; p < PROBES; p++) v[j * PROBES + p] = (bits >> p & 1 ? 1 : -1) * sqrt(penalty[j]);
    }
    bo_status status = substitute(context, ridge, false, PROBES, v);
    double sum = 0;
    for (size_t k = 0; status == BO_OK && k < n * PROBES; k++) sum += v[k] * v[k];
    *trace = sum / PROBES;
    bo_free(v);
    return status;
}

static double gcv_score(const bo_machine_ridge *ridge)
{
    double left = 1 - ridge->freedom / ridge->rows, score = 0;
    if (left <= 1e-9) return INFINITY;
    for (size_t t = 0; t < ridge->outputs; t++) score += ridge->rss[t] / ridge->weight / (left * left);
    return score;
}

static bo_status solve(bo_context *context, const bo_moments *moments, const margins *edge, const double *penalty,
                       bool intercept, uint64_t seed, double *rhs, bo_machine_ridge *out)
{
    size_t n = moments->features, outputs = moments->outputs;
    assemble_targets(moments, edge, intercept, out);
    memcpy(rhs, out->beta, n * outputs * sizeof *rhs);
    bo_status status = factorize(context, moments, penalty, out);
    if (status == BO_NUMERIC) {
        char reason[256];
        strncpy(reason, bo_context_error(context), sizeof reason - 1);
        reason[sizeof reason - 1] = 0;
        return bo_fail(context, BO_NUMERIC,
                       "the ridge system is not positive definite at lambda %g (%s); use a larger lambda", penalty[0],
                       reason);
    }
    BO_TRY(status);
    BO_TRY(substitute(context, out, false, outputs, out->beta));
    BO_TRY(substitute(context, out, true, outputs, out->beta));
    double trace;
    BO_TRY(trace_of_penalty(context, out, penalty, seed, &trace));
    out->freedom = (double)n - trace + (intercept ? 1 : 0);
    residuals(moments, edge, penalty, rhs, out);
    out->gcv = gcv_score(out);
    return BO_OK;
}

bo_status bo_ridge_solve(bo_context *context, const bo_moments *moments, const bo_penalty *penalty, bool intercept,
                         uint64_t seed, bo_machine_ridge *out)
{
    assert((moments->gram || moments->device) && moments->size == moments->features + moments->outputs + 1);
    size_t n = moments->features;
    margins edge;
    BO_TRY(margins_of(context, moments, &edge));
    bo_status status = allocate(context, moments, out);
    double *diagonal = bo_alloc_raw(context, 2 * n, sizeof *diagonal, "the penalty");
    double *rhs = bo_alloc_raw(context, n * moments->outputs, sizeof *rhs, "the right-hand side");
    if (!diagonal || !rhs) status = BO_MEMORY;
    if (status == BO_OK) {
        for (size_t j = 0; j < n; j++) diagonal[n + j] = edge.diagonal[j * edge.step];
        bo_penalty_fill(penalty, sum_of(moments, &edge, moments->size - 1), n, diagonal + n, diagonal);
        status = solve(context, moments, &edge, diagonal, intercept, seed, rhs, out);
    }
    bo_free(diagonal);
    bo_free(rhs);
    if (status != BO_OK) bo_ridge_free(out);
    return status;
}
