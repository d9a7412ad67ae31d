/* Gradients of a machine by its scaled inputs, and the mean of their outer products.
 *
 *     f(x) = β·(φ(s) - c) + b with s = s(x):   ∇f = (∂φ/∂s)ᵀ β
 *
 * is the backward pass of the feature map with β as the gradient of the features of every row: two matrix products per block
 * of rows and output. An exact kernel has Σ_i β_i ∇k(s, s_i), in closed form. */
#include "../base/trace.h"
#include "internal.h"
#include "../features/sections.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

enum { BLOCK_ROWS = BO_SIZE(1024, 4), BLOCK_NUMBERS = BO_SIZE(1 << 22, 1 << 12) };

/* Receives gradients of one output for the rows [first, first + rows): scale * g, g rows x kept columns. */
typedef bo_status (*visit_fn)(bo_context *context, void *user, size_t output, size_t first, size_t rows, const float *g,
                              double scale);

/* One pass over the rows. */
typedef struct pass {
    const bo_machine *machine;
    const bo_inputs *inputs;
    size_t block;  /* rows */
    float *scaled; /* block x kept */
    float *g;      /* block x kept */
    float *dz;     /* features: block x features, each row β of one output */
    double *exact; /* exact kernels: block x outputs x kept */
    visit_fn visit;
    void *user;
} pass;

static void pass_free(pass *p)
{
    bo_free(p->scaled);
    bo_free(p->g);
    bo_free(p->dz);
    bo_free(p->exact);
}

static bo_status pass_create(bo_context *context, pass *p)
{
    enum { SMALL = 1 << 24 };
    const bo_machine *machine = p->machine;
    const bool exact = bo_is_sections(machine->phi);
    const size_t kept = machine->scaler.kept, outputs = machine->report.outputs;
    const size_t wide = exact ? 2 * outputs * kept : machine->report.features;
    const size_t most = bo_min(BLOCK_ROWS, BLOCK_NUMBERS / (wide + 2 * kept) + 1);
    p->block = bo_min(p->inputs->rows, most);
    const double bytes = 4 * (double)p->block * ((double)wide + 2 * (double)kept);
    if (bytes >= SMALL)
        BO_TRY(bo_check_memory(context, "gradients", bytes, bo_process_memory(), "use a machine with fewer features"));
    p->scaled = bo_alloc_raw(context, p->block * kept, sizeof(float), "a block of inputs");
    p->g = bo_alloc_raw(context, p->block * kept, sizeof(float), "gradients");
    p->dz = bo_alloc_raw(context, exact ? 0 : p->block * wide, sizeof(float), "gradients");
    p->exact = bo_alloc_raw(context, exact ? p->block * outputs * kept : 0, sizeof(double), "gradients");
    return p->scaled && p->g && p->dz && p->exact ? BO_OK : BO_MEMORY;
}

/* The scaled rows of the block that starts at row `first`; returns their number. */
static size_t scale_block(bo_context *context, pass *p, size_t first)
{
    const size_t rows = bo_min(p->block, p->inputs->rows - first);
    const bo_inputs block = bo_inputs_slice(p->inputs, first, rows);
    bo_scaler_apply(context, &p->machine->scaler, &block, p->scaled);
    return rows;
}

static double largest(const double *x, size_t count, size_t stride)
{
    double top = 0;
    for (size_t i = 0; i < count; i++) top = fmax(top, fabs(x[i * stride]));
    return top;
}

/* β in units of its largest coefficient, which is in the range of float. */
static bo_status by_features(bo_context *context, pass *p)
{
    const bo_machine *machine = p->machine;
    const size_t features = machine->report.features, outputs = machine->report.outputs, kept = machine->scaler.kept;
    const size_t total = p->inputs->rows * outputs;
    for (size_t t = 0; t < outputs; t++) {
        const double top = largest(machine->beta + t, features, outputs);
        for (size_t j = 0; j < features; j++) p->dz[j] = top > 0 ? (float)(machine->beta[j * outputs + t] / top) : 0;
        for (size_t i = 1; i < p->block; i++) memcpy(p->dz + i * features, p->dz, features * sizeof(float));
        for (size_t first = 0; first < p->inputs->rows; first += p->block) {
            const size_t rows = scale_block(context, p, first);
            BO_TRY(bo_features_backward(context, machine->phi, rows, p->scaled, kept, p->dz, features, p->g, kept, NULL,
                                        NULL));
            BO_TRY(p->visit(context, p->user, t, first, rows, p->g, top));
            BO_TRY(bo_progress(context, "gradients", (double)(t * p->inputs->rows + first + rows), (double)total));
        }
    }
    return BO_OK;
}

static bo_status by_exact_kernel(bo_context *context, pass *p)
{
    const bo_machine *machine = p->machine;
    const size_t outputs = machine->report.outputs, kept = machine->scaler.kept;
    for (size_t first = 0; first < p->inputs->rows; first += p->block) {
        const size_t rows = scale_block(context, p, first);
        BO_TRY(bo_sections_gradients(context, machine->phi, rows, p->scaled, kept, outputs, machine->beta, p->exact));
        const double top = largest(p->exact, rows * outputs * kept, 1);
        for (size_t t = 0; t < outputs; t++) {
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < kept; j++)
                    p->g[i * kept + j] = top > 0 ? (float)(p->exact[(i * outputs + t) * kept + j] / top) : 0;
            BO_TRY(p->visit(context, p->user, t, first, rows, p->g, top));
        }
        BO_TRY(bo_progress(context, "gradients", (double)(first + rows), (double)p->inputs->rows));
    }
    return BO_OK;
}

static bo_status visit_gradients(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                 size_t ldx, visit_fn visit, void *user)
{
    BO_SPAN(context, "machine", "gradients");
    if (ldx < machine->report.dim)
        return bo_fail(context, BO_INVALID, "expected rows with %zu columns, as in the fit, found %zu",
                       machine->report.dim, ldx);
    if (rows == 0) return BO_OK;
    const bo_inputs inputs = {.rows = rows, .x = x, .ldx = ldx};
    BO_TRY(bo_inputs_check_finite(context, &inputs, 0, rows, machine->report.dim));
    pass p = {.machine = machine, .inputs = &inputs, .visit = visit, .user = user};
    bo_status status = pass_create(context, &p);
    if (status == BO_OK) status = (bo_is_sections(machine->phi) ? by_exact_kernel : by_features)(context, &p);
    pass_free(&p);
    return status;
}

/* The column of scaled rows in which input column j is; SIZE_MAX if it was constant in the fit. */
static size_t place_of(const bo_scaler *scaler, size_t j)
{
    if (scaler->factor[j] == 0) return SIZE_MAX;
    return scaler->place ? scaler->place[j] : j;
}

/* ---- gradients of each row ----------------------------------------------------------------------------------- */

typedef struct writing {
    const bo_machine *machine;
    float *out;
} writing;

static bo_status write_block(bo_context *context, void *user, size_t output, size_t first, size_t rows, const float *g,
                             double scale)
{
    const writing *job = user;
    const bo_scaler *scaler = &job->machine->scaler;
    const size_t dim = scaler->dim, outputs = job->machine->report.outputs;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < dim; j++) {
            const size_t place = place_of(scaler, j);
            const double value = place == SIZE_MAX ? 0 : scale * (double)g[i * scaler->kept + place];
            float *out = &job->out[((first + i) * outputs + output) * dim + j];
            *out = (float)value;
            if (!isfinite(*out))
                return bo_fail(context, BO_NUMERIC,
                               "the gradient of output %zu in row %zu by column %zu is %g, beyond the range of "
                               "float32; divide the target by a constant",
                               output, first + i, j, value);
        }
    return BO_OK;
}

bo_status bo_machine_gradients(bo_context *context, const bo_machine *machine, size_t rows, const float *x, size_t ldx,
                               float *gradients)
{
    BO_REQUIRE(context, machine);
    BO_REQUIRE_IF(context, rows > 0, x, gradients);
    writing job = {machine, gradients};
    return visit_gradients(context, machine, rows, x, ldx, write_block, &job);
}

/* ---- the mean of their outer products -------------------------------------------------------------------------- */

typedef struct summing {
    size_t kept;
    double *sum; /* kept x kept, upper triangle, or `kept` squares */
    double *own; /* the same for one block, before its scale */
    bool full;
} summing;

static bo_status add_block(bo_context *context, void *user, size_t output, size_t first, size_t rows, const float *g,
                           double scale)
{
    const summing *job = user;
    const size_t kept = job->kept, count = job->full ? kept * kept : kept;
    (void)output, (void)first;
    memset(job->own, 0, count * sizeof *job->own);
    if (job->full) {
        BO_TRY(bo_gram(context, kept, rows, g, kept, job->own, kept, false));
    } else {
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < kept; j++) job->own[j] += (double)g[i * kept + j] * (double)g[i * kept + j];
    }
    for (size_t k = 0; k < count; k++) job->sum[k] += scale * (scale * job->own[k]);
    return BO_OK;
}

/* Writes the mean of the sums over the rows to the places of the input columns. */
static bo_status write_mean(bo_context *context, const bo_machine *machine, size_t rows, const summing *job,
                            double *diagonal, double *matrix)
{
    const bo_scaler *scaler = &machine->scaler;
    const size_t dim = scaler->dim, kept = scaler->kept;
    for (size_t i = 0; i < dim; i++) {
        const size_t a = place_of(scaler, i);
        for (size_t j = matrix ? 0 : i; j < (matrix ? dim : i + 1); j++) {
            const size_t b = place_of(scaler, j);
            const size_t at = !job->full ? a : a < b ? a * kept + b : b * kept + a;
            const double value = a == SIZE_MAX || b == SIZE_MAX ? 0 : job->sum[at] / (double)rows;
            if (!isfinite(value))
                return bo_fail(context, BO_NUMERIC, "the squared gradients overflow; divide the target by a constant");
            if (matrix) matrix[i * dim + j] = value;
            if (diagonal && i == j) diagonal[j] = value;
        }
    }
    return BO_OK;
}

bo_status bo_machine_gradient_products(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                       size_t ldx, double *diagonal, double *matrix)
{
    enum { SMALL = 1 << 24 };
    BO_REQUIRE(context, machine);
    BO_REQUIRE_IF(context, rows > 0, x);
    if (rows == 0) return bo_fail(context, BO_INVALID, "the mean of gradients: expected at least one row, found none");
    const size_t kept = machine->scaler.kept, count = matrix ? kept * kept : kept;
    if (16 * (double)count >= SMALL)
        BO_TRY(bo_check_memory(context, "the mean outer product of gradients", 16 * (double)count, bo_process_memory(),
                               "request the diagonal only"));
    summing job = {.kept = kept, .full = matrix != NULL};
    job.sum = bo_alloc(context, count, sizeof(double), "products of gradients");
    job.own = bo_alloc_raw(context, count, sizeof(double), "products of gradients");
    bo_status status = job.sum && job.own ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = visit_gradients(context, machine, rows, x, ldx, add_block, &job);
    if (status == BO_OK) status = write_mean(context, machine, rows, &job, diagonal, matrix);
    bo_free(job.sum);
    bo_free(job.own);
    return status;
}
