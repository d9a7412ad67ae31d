/* Predictions of machines with an exact kernel. With k_i = k(x, x_i), their means over the training rows c_i, and β
 * from dual.c,
 *
 *     f(x) = Σ_i β_i (k_i - c_i) + intercept,
 *     q(x) = kc(x, x)/λ - |L⁻¹ √w kc(X, x)/λ|²,   L Lᵀ = √w Kc √w / λ + I,
 *
 * where kc(x, y) = k(x, y) - m(x) - m(y) + mean of m is centered by the weighted means m(x) of k(x, x_i) over i (m = 0
 * without an intercept), and q replaces φᵀ(ZᵀZ + D)⁻¹φ in the predictive variance. */
#include "../base/base.h"
#include "../base/sizes.h"
#include "../features/kernel_block.h"
#include "../features/sections.h"
#include "../io/sparse.h"
#include "../math/linalg.h"
#include "intervals.h"
#include "machine.h"
#include "prediction.h"
#include "samples.h"
#include "scaler.h"

#include <math.h>
#include <string.h>

typedef struct exact {
    const bo_machine *machine;
    size_t block; /* rows */
    float *x;     /* block x dim: scaled inputs */
    float *dense; /* block x dim: sparse inputs in dense form, or NULL */
    double *k;    /* block x train rows */
    float *fast;  /* the same in float32, for machines fitted in float32, or NULL */
    double *factor, *columns;
    double *traits; /* block x columns of the deviations */
    double *share;  /* train rows: w / Σw, or 0 without an intercept */
    double total;   /* the mean of m over the training rows */
} exact;

static void exact_free(exact *e)
{
    void *blocks[] = {e->x, e->dense, e->k, e->fast, e->factor, e->columns, e->traits, e->share};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static void unpack_factor(const bo_machine *machine, double *factor)
{
    size_t n = machine->train_rows;
    for (size_t i = 0, at = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) factor[i * n + j] = machine->train_factor[at++];
}

static bo_status exact_create(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                              bool deviations, exact *e)
{
    enum { MAX_BLOCK = BO_SIZE(512, 4), MIN_BLOCK = BO_SIZE(64, 2), CACHED = 1 << 21, SMALL = 1 << 24 };
    size_t n = machine->report.features, dim = machine->scaler.dim;
    const bool fast = machine->report.solver == BO_SOLVER_CG;
    size_t max_block = fast ? bo_max(MIN_BLOCK, bo_min(MAX_BLOCK, CACHED / n)) : MAX_BLOCK;
    *e = (exact){.machine = machine, .block = inputs->rows && inputs->rows < max_block ? inputs->rows : max_block};
    double bytes = (double)e->block * (8 * (double)dim + (fast ? 12 : 8) * (double)n);
    const bool factor = deviations && machine->uncertainty == BO_UNCERTAINTY_EXACT;
    if (factor) bytes += 8 * (double)n * ((double)n + (double)e->block);
    if (bytes >= SMALL)
        BO_TRY(bo_check_memory(context, "prediction with an exact kernel", bytes, bo_process_memory(),
                               factor ? "predict without standard deviations" : "use random features"));
    e->x = bo_alloc_raw(context, e->block * machine->scaler.kept, sizeof(float), "a block of inputs");
    e->dense = bo_alloc_raw(context, inputs->x ? 0 : e->block * dim, sizeof(float), "a block of inputs");
    e->k = bo_alloc_raw(context, e->block * n, sizeof(double), "a block of kernel values");
    if (fast) e->fast = bo_alloc_raw(context, e->block * n, sizeof(float), "a block of kernel values");
    if (!e->x || !e->dense || !e->k || (fast && !e->fast)) return BO_MEMORY;
    if (!deviations) return BO_OK;
    e->traits =
        bo_alloc_raw(context, e->block * machine->intervals.columns, sizeof(double), "a block of kernel values");
    if (!e->traits) return BO_MEMORY;
    if (!factor) return BO_OK;
    e->factor = bo_alloc(context, n * n, sizeof(double), "the factor of the kernel matrix");
    e->columns = bo_alloc_raw(context, n * e->block, sizeof(double), "a block of kernel values");
    e->share = bo_alloc_raw(context, n, sizeof(double), "the weights of the rows");
    if (!e->factor || !e->columns || !e->share) return BO_MEMORY;
    unpack_factor(machine, e->factor);
    for (size_t i = 0; i < n; i++) {
        double root = (double)machine->train_root_weight[i];
        e->share[i] = root * root * machine->inverse_weight;
        e->total += e->share[i] * machine->center[i];
    }
    return BO_OK;
}

/* Scaled rows of the inputs, which may be sparse. */
static bo_status scale(bo_context *context, exact *e, const bo_input_view *inputs)
{
    size_t dim = e->machine->scaler.dim;
    bo_input_view rows = *inputs;
    for (size_t i = 0; !inputs->x && i < inputs->rows; i++) bo_sparse_expand(&inputs->sparse, i, e->dense + i * dim);
    if (!inputs->x) rows = (bo_input_view){.rows = inputs->rows, .x = e->dense, .ldx = dim};
    return bo_scaler_apply(context, &e->machine->scaler, &rows, e->x);
}

/* q of the rows of the block, from its kernel values. */
static bo_status quadratic_form(bo_context *context, exact *e, size_t rows, double *q)
{
    const bo_machine *machine = e->machine;
    size_t n = machine->report.features, dim = machine->scaler.kept;
    double lambda = machine->report.lambda;
    for (size_t i = 0; i < rows; i++) {
        double mean = 0;
        for (size_t j = 0; j < n; j++) mean += e->share[j] * e->k[i * n + j];
        for (size_t j = 0; j < n; j++)
            e->columns[j * rows + i] = (e->k[i * n + j] - mean - machine->center[j] + e->total) *
                                       (double)machine->train_root_weight[j] / lambda;
        q[i] = (bo_sections_diagonal(machine->phi, e->x + i * dim) - 2 * mean + e->total) / lambda;
    }
    BO_TRY(bo_solve_lower(context, n, rows, e->factor, n, e->columns, rows));
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < rows; i++) q[i] -= e->columns[j * rows + i] * e->columns[j * rows + i];
    for (size_t i = 0; i < rows; i++) q[i] = fmax(q[i], 0);
    return BO_OK;
}

/* Widens one row of kernel values. */
static void widen_task(void *arg, size_t row, int worker)
{
    const exact *e = arg;
    size_t n = e->machine->report.features;
    (void)worker;
    for (size_t j = row * n; j < (row + 1) * n; j++) e->k[j] = (double)e->fast[j];
}

/* The kernel values of scaled rows. Machines fitted by CG have coefficients for kernel values in float32. */
static bo_status kernel_values(bo_context *context, exact *e, size_t rows)
{
    const bo_features *phi = e->machine->phi;
    const size_t n = e->machine->report.features, dim = e->machine->scaler.kept;
    if (!e->fast) return bo_sections_matrix(context, phi, rows, e->x, dim, e->k, n);
    const bo_features_desc *map = bo_features_describe(phi);
    BO_TRY(bo_kernel_block(context, map, rows, e->x, dim, n, bo_sections_rows(phi), map->dim, e->fast, n));
    bo_parallel(context, rows, widen_task, e);
    return BO_OK;
}

static bo_status predict_block(bo_context *context, exact *e, const bo_input_view *inputs, double *mean, double *std)
{
    const bo_machine *machine = e->machine;
    size_t n = machine->report.features, outputs = machine->report.outputs, rows = inputs->rows;
    BO_TRY(scale(context, e, inputs));
    BO_TRY(kernel_values(context, e, rows));
    if (std && e->factor)
        BO_TRY(quadratic_form(context, e, rows, std));
    else if (std)
        memset(std, 0, rows * sizeof *std);
    for (size_t i = rows; std && i-- > 0;) /* q of row i is at std[i], before the deviations of its outputs */
        for (size_t t = outputs; t-- > 0;)
            std[i * outputs + t] =
                machine->noise[t] * sqrt(1 / machine->mean_weight + machine->inverse_weight + std[i]);
    const size_t columns = machine->intervals.columns;
    for (size_t i = 0; std && i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            e->traits[i * columns + k] = e->k[i * n + bo_deviation_column(n, columns, k)];
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < n; j++) e->k[i * n + j] -= machine->center[j];
        memcpy(mean + i * outputs, machine->intercept, outputs * sizeof *mean);
    }
    BO_TRY(bo_gemm64(context, false, false, rows, outputs, n, 1, e->k, n, machine->beta, outputs, 1, mean, outputs));
    BO_TRY(bo_committee_mean(context, machine, inputs, mean));
    if (std) bo_intervals_deviate(machine, rows, e->traits, mean, std);
    return BO_OK;
}

bo_status bo_exact_predict(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, double *mean,
                           double *std)
{
    const size_t outputs = machine->report.outputs, rows = inputs->rows;
    exact e;
    bo_status status = exact_create(context, machine, inputs, std != NULL, &e);
    for (size_t first = 0; status == BO_OK && first < rows; first += e.block) {
        const size_t count = rows - first < e.block ? rows - first : e.block;
        const bo_input_view block = bo_input_view_slice(inputs, first, count);
        status = predict_block(context, &e, &block, mean + first * outputs, std ? std + first * outputs : NULL);
        if (status == BO_OK) status = bo_progress(context, "predicting", (double)(first + count), (double)rows);
    }
    exact_free(&e);
    return status;
}
