/* Principal component analysis in feature space: sums over rows, eigenvectors of the covariance, coordinates of new rows. */
#include "embedding.h"
#include "../base/trace.h"
#include "../features/files.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

/* Sums over rows of φ, φφᵀ, s, s² and φsᵀ, where s are the scaled inputs. For LINEAR, φ is s times √γ, and the last three
 * are not needed. */
struct bo_embedding_fitting {
    bo_embedding_desc desc; /* pointers cleared, defaults filled in */
    bo_scaler scaler;
    bo_features *phi;
    bool linear, precise;
    size_t rows, features, dim;
    double *gram;    /* (features + 1)², upper triangle: the last column has the sums */
    double *cross;   /* features x dim */
    double *sums;    /* dim: Σ s */
    double *squares; /* dim: Σ s² */
    double seconds;
};

static const double penalty_share = 1e-8; /* of the total variance: the ridge penalty of pre-images */

/* ---- checks and creation ----------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_embedding_desc *desc, const bo_embedding_rows *sample)
{
    BO_TRY(bo_check_reserved(context, "bo_embedding_desc", desc->reserved));
    BO_TRY(bo_check_reserved(context, "bo_embedding_rows", sample->reserved));
    if (!bo_scaling_name(desc->scaling))
        return bo_fail(context, BO_INVALID, "scaling: expected a value of bo_scaling, found %d", (int)desc->scaling);
    if (!bo_precision_name(desc->precision))
        return bo_fail(context, BO_INVALID, "precision: expected a value of bo_precision, found %d",
                       (int)desc->precision);
    if (desc->precision == BO_PRECISION_INT8)
        return bo_fail(context, BO_UNSUPPORTED, "precision: expected float32 or float64, found int8");
    if (!(desc->features.gamma >= 0 && isfinite(desc->features.gamma)))
        return bo_fail(context, BO_INVALID, "gamma: expected a finite number that is at least 0, found %g",
                       desc->features.gamma);
    if (sample->dim == 0) return bo_fail(context, BO_INVALID, "expected input columns, found none");
    if (sample->rows < 2) return bo_fail(context, BO_INVALID, "expected at least 2 rows, found %zu", sample->rows);
    if (!sample->x) return bo_fail(context, BO_INVALID, "x is NULL, but there are %zu rows", sample->rows);
    const bo_inputs inputs = {.rows = sample->rows, .x = sample->x, .ldx = sample->dim};
    return bo_inputs_check_finite(context, &inputs, 0, sample->rows, sample->dim);
}

/* The map with its defaults and γ, created from the scaled sample. */
static bo_status make_features(bo_context *context, bo_embedding_fitting *fitting, const bo_embedding_rows *sample)
{
    enum { FEATURES = 2048 };
    const bo_embedding_desc *desc = &fitting->desc;
    const bo_inputs inputs = {.rows = sample->rows, .x = sample->x, .ldx = sample->dim};
    float *scaled = bo_alloc_raw(context, sample->rows * sample->dim, sizeof *scaled, "a sample of the rows");
    if (!scaled) return BO_MEMORY;
    bo_scaler_apply(context, &fitting->scaler, &inputs, scaled);
    bo_machine_desc as_fitted = {.features = desc->features, .seed = desc->seed};
    if (as_fitted.features.features == 0 && bo_features_needs_length(&as_fitted.features))
        as_fitted.features.features = FEATURES;
    bo_features_desc map = bo_fitting_map(&as_fitted, sample->dim);
    map.sample = scaled;
    map.sample_rows = sample->rows;
    map.sample_stride = sample->dim;
    bo_status status = BO_OK;
    if (map.gamma == 0 && map.kernel == BO_KERNEL_LINEAR) map.gamma = 1;
    if (map.gamma == 0) {
        const bo_samples rows = {.rows = sample->rows, .dim = sample->dim, .x = scaled};
        status = bo_typical_gamma(context, &map, &rows, desc->seed, &map.gamma);
    }
    if (status == BO_OK) status = bo_features_create(context, &map, &fitting->phi);
    bo_free(scaled);
    return status;
}

/* Refuses sums that do not fit into memory, before they are allocated. */
static bo_status check_size(bo_context *context, const bo_embedding_fitting *fitting)
{
    double r = (double)fitting->features, dim = (double)fitting->dim, k = (double)fitting->desc.components;
    if (fitting->desc.components > fitting->features)
        return bo_fail(context, BO_INVALID, "components: expected at most %zu, the number of features, found %zu",
                       fitting->features, fitting->desc.components);
    double sums = 8 * (r + 1) * (r + 1) + (fitting->linear ? 0 : 12 * r * dim);
    double bytes = sums + 24 * r * r + 8 * k * (4 * r + dim) + 4 * BO_MACHINE_BLOCK * (r + 1 + dim);
    bo_memory_bound limit = fitting->desc.memory
                                ? (bo_memory_bound){fitting->desc.memory, "set by --memory, in C by .memory"}
                                : bo_usual_memory();
    return bo_check_memory(context, "the covariance of the features", bytes, limit, "use fewer features");
}

static bo_status allocate(bo_context *context, bo_embedding_fitting *fitting)
{
    size_t size = fitting->features + 1, dim = fitting->linear ? 0 : fitting->dim;
    fitting->gram = bo_alloc(context, size * size, sizeof(double), "the covariance of the features");
    fitting->cross = bo_alloc(context, fitting->features * dim, sizeof(double), "the covariance of the features");
    fitting->sums = bo_alloc(context, dim, sizeof(double), "the sums of the inputs");
    fitting->squares = bo_alloc(context, dim, sizeof(double), "the sums of the inputs");
    return fitting->gram && fitting->cross && fitting->sums && fitting->squares ? BO_OK : BO_MEMORY;
}

static bo_status prepare(bo_context *context, bo_embedding_fitting *fitting, const bo_embedding_rows *sample)
{
    const bo_samples samples = {
        .rows = sample->rows, .dim = sample->dim, .x = sample->x, .common_unit = sample->common_unit};
    BO_TRY(bo_scaler_fit(context, fitting->desc.scaling, &samples, &fitting->scaler));
    fitting->scaler.limit = 0; /* the components describe all rows, also those far outside */
    BO_TRY(make_features(context, fitting, sample));
    const bo_features_desc *map = bo_features_describe(fitting->phi);
    enum { PRECISE_FEATURES = 512 };
    fitting->features = map->features;
    fitting->linear = map->kernel == BO_KERNEL_LINEAR;
    fitting->precise = fitting->desc.precision == BO_PRECISION_FLOAT64 ||
                       (fitting->desc.precision == BO_PRECISION_AUTO && map->features <= PRECISE_FEATURES);
    BO_TRY(check_size(context, fitting));
    return allocate(context, fitting);
}

bo_status bo_embedding_fitting_create(bo_context *context, const bo_embedding_desc *desc,
                                      const bo_embedding_rows *sample, bo_embedding_fitting **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, sample, out);
    enum { COMPONENTS = 2 };
    double begin = bo_seconds();
    BO_TRY(check(context, desc, sample));
    bo_embedding_fitting *fitting = bo_alloc(context, 1, sizeof *fitting, "the fit");
    if (!fitting) return BO_MEMORY;
    fitting->desc = *desc;
    fitting->dim = sample->dim;
    if (fitting->desc.components == 0) fitting->desc.components = COMPONENTS;
    bo_status status = prepare(context, fitting, sample);
    fitting->desc.features.length_scales = NULL;
    fitting->desc.features.sample = NULL;
    fitting->seconds = bo_seconds() - begin;
    if (status != BO_OK)
        bo_embedding_fitting_destroy(fitting);
    else
        *out = fitting;
    return status;
}

void bo_embedding_fitting_destroy(bo_embedding_fitting *fitting)
{
    if (!fitting) return;
    bo_scaler_free(&fitting->scaler);
    bo_features_destroy(fitting->phi);
    bo_free(fitting->gram);
    bo_free(fitting->cross);
    bo_free(fitting->sums);
    bo_free(fitting->squares);
    bo_free(fitting);
}

/* ---- sums over rows ---------------------------------------------------------------------------------------------- */

typedef struct block {
    size_t stride;
    float *scaled; /* rows x dim */
    float *z;      /* rows x stride: φ, 1 */
    float *cross;  /* features x dim */
} block;

static void block_free(block *b)
{
    bo_free(b->scaled);
    bo_free(b->z);
    bo_free(b->cross);
}

static bo_status block_create(bo_context *context, const bo_embedding_fitting *fitting, size_t rows, block *b)
{
    *b = (block){.stride = bo_padded(fitting->features + 1)};
    b->scaled = bo_alloc_raw(context, rows * fitting->dim, sizeof(float), "a block of inputs");
    b->z = bo_alloc_raw(context, rows * b->stride, sizeof(float), "a block of features");
    b->cross =
        bo_alloc_raw(context, fitting->linear ? 0 : fitting->features * fitting->dim, sizeof(float), "a block of sums");
    return b->scaled && b->z && b->cross ? BO_OK : BO_MEMORY;
}

static bo_status add_inputs(bo_context *context, bo_embedding_fitting *fitting, size_t rows, block *b)
{
    size_t features = fitting->features, dim = fitting->dim;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < dim; j++) {
            double s = (double)b->scaled[i * dim + j];
            fitting->sums[j] += s;
            fitting->squares[j] += s * s;
        }
    BO_TRY(bo_gemm(context, true, false, features, dim, rows, 1, b->z, b->stride, b->scaled, dim, 0, b->cross, dim));
    for (size_t k = 0; k < features * dim; k++) fitting->cross[k] += (double)b->cross[k];
    return BO_OK;
}

static bo_status add_block(bo_context *context, bo_embedding_fitting *fitting, const bo_inputs *inputs, block *b)
{
    size_t features = fitting->features, size = features + 1;
    bo_scaler_apply(context, &fitting->scaler, inputs, b->scaled);
    BO_TRY(bo_features_apply(context, fitting->phi, inputs->rows, b->scaled, fitting->dim, b->z, b->stride));
    for (size_t i = 0; i < inputs->rows; i++) b->z[i * b->stride + features] = 1;
    BO_TRY(bo_gram(context, size, inputs->rows, b->z, b->stride, fitting->gram, size, fitting->precise));
    return fitting->linear ? BO_OK : add_inputs(context, fitting, inputs->rows, b);
}

bo_status bo_embedding_fitting_add(bo_context *context, bo_embedding_fitting *fitting, const bo_embedding_rows *rows)
{
    BO_REQUIRE(context, fitting, rows);
    BO_REQUIRE_IF(context, rows->rows > 0, rows->x);
    BO_SPAN(context, "machine", "sum features");
    BO_TRY(bo_check_reserved(context, "bo_embedding_rows", rows->reserved));
    if (rows->dim != fitting->dim)
        return bo_fail(context, BO_INVALID, "expected %zu columns, as in the sample, found %zu", fitting->dim,
                       rows->dim);
    double begin = bo_seconds();
    const bo_inputs all = {.rows = rows->rows, .x = rows->x, .ldx = rows->dim};
    BO_TRY(bo_inputs_check_finite(context, &all, 0, all.rows, rows->dim));
    block b;
    size_t each = bo_min(rows->rows, BO_MACHINE_BLOCK);
    bo_status status = block_create(context, fitting, each, &b);
    for (size_t first = 0; status == BO_OK && first < rows->rows; first += each) {
        const bo_inputs inputs = bo_inputs_slice(&all, first, bo_min(each, rows->rows - first));
        status = add_block(context, fitting, &inputs, &b);
        if (status == BO_OK) fitting->rows += inputs.rows;
        if (status == BO_OK)
            status = bo_progress(context, "fitting", (double)(first + inputs.rows), (double)rows->rows);
    }
    block_free(&b);
    fitting->seconds += bo_seconds() - begin;
    return status;
}

/* ---- the components ---------------------------------------------------------------------------------------------- */

typedef struct covariance {
    const bo_embedding_fitting *fitting;
    const double *center;
    double *out;
} covariance;

enum { COVARIANCE_ROWS = BO_SIZE(32, 4) };

/* Rows of the upper triangle of (Σ φφᵀ - n μμᵀ)/(n - 1). */
static void covariance_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const covariance *job = arg;
    size_t n = job->fitting->features, end = bo_min(n, (index + 1) * COVARIANCE_ROWS);
    double rows = (double)job->fitting->rows;
    for (size_t i = index * COVARIANCE_ROWS; i < end; i++) {
        const double *g = job->fitting->gram + i * (n + 1);
        for (size_t j = i; j < n; j++)
            job->out[i * n + j] = (g[j] - rows * job->center[i] * job->center[j]) / (rows - 1);
    }
}

/* The component of largest absolute value is positive; the first one of equal values decides. */
static void fix_signs(size_t components, size_t features, double *vectors)
{
    for (size_t k = 0; k < components; k++) {
        double *v = vectors + k * features;
        size_t largest = 0;
        for (size_t j = 1; j < features; j++)
            if (fabs(v[j]) > fabs(v[largest])) largest = j;
        const double sign = v[largest] < 0 ? -1 : 1;
        for (size_t j = 0; j < features; j++) v[j] *= sign;
    }
}

/* decoder = cov(c, s) / (λ_k + penalty), and the variance of the scaled inputs that is left. */
static bo_status fit_decoder(bo_context *context, const bo_embedding_fitting *fitting, bo_embedding *out)
{
    size_t features = fitting->features, dim = fitting->dim, components = out->report.components;
    double n = (double)fitting->rows, penalty = penalty_share * out->report.variance, total = 0, left = 0;
    double *cross = bo_alloc_raw(context, features * dim, sizeof *cross, "the covariance of the features");
    if (!cross) return BO_MEMORY;
    for (size_t j = 0; j < dim; j++) {
        out->mean[j] = fitting->sums[j] / n;
        total += (fitting->squares[j] - n * out->mean[j] * out->mean[j]) / (n - 1);
    }
    for (size_t i = 0; i < features; i++)
        for (size_t j = 0; j < dim; j++)
            cross[i * dim + j] = (fitting->cross[i * dim + j] - n * out->center[i] * out->mean[j]) / (n - 1);
    bo_status status = bo_gemm64(context, false, false, components, dim, features, 1, out->vectors, features, cross,
                                 dim, 0, out->decoder, dim);
    bo_free(cross);
    left = total;
    for (size_t k = 0; status == BO_OK && k < components; k++)
        for (size_t j = 0; j < dim; j++) {
            double shared = out->decoder[k * dim + j], b = shared / (out->variance[k] + penalty);
            left += b * b * out->variance[k] - 2 * b * shared;
            out->decoder[k * dim + j] = b;
        }
    out->report.input_error = total > 0 ? fmax(left / total, 0) : 0;
    return status;
}

/* φ = √γ s: the projection on the components. */
static void linear_decoder(const bo_embedding_fitting *fitting, bo_embedding *out)
{
    double root = sqrt(out->report.gamma);
    for (size_t j = 0; j < fitting->dim; j++) out->mean[j] = out->center[j] / root;
    for (size_t k = 0; k < out->report.components * fitting->dim; k++) out->decoder[k] = out->vectors[k] / root;
    out->report.input_error = out->report.feature_error;
}

static bo_status solve(bo_context *context, const bo_embedding_fitting *fitting, bo_embedding *out)
{
    size_t n = fitting->features, components = out->report.components;
    double *matrix = bo_alloc_raw(context, n * n, sizeof *matrix, "the covariance of the features");
    if (!matrix) return BO_MEMORY;
    for (size_t j = 0; j < n; j++) out->center[j] = fitting->gram[j * (n + 1) + n] / (double)fitting->rows;
    covariance job = {fitting, out->center, matrix};
    bo_parallel(context, bo_ceil_div(n, COVARIANCE_ROWS), covariance_rows, &job);
    double total = 0, explained = 0;
    for (size_t j = 0; j < n; j++) total += matrix[j * n + j];
    bo_status status = bo_eigen_top(context, n, components, matrix, out->variance, out->vectors);
    bo_free(matrix);
    BO_TRY(status);
    if (!(total > 0))
        return bo_fail(context, BO_NUMERIC, "expected features that vary, found %zu equal rows", fitting->rows);
    fix_signs(components, n, out->vectors);
    for (size_t k = 0; k < components; k++) explained += out->variance[k] = fmax(out->variance[k], 0);
    out->report.variance = total;
    out->report.feature_error = fmax(1 - explained / total, 0);
    if (!fitting->linear) return fit_decoder(context, fitting, out);
    linear_decoder(fitting, out);
    return BO_OK;
}

static bo_status create(bo_context *context, const bo_embedding_fitting *fitting, bo_embedding *out)
{
    const bo_features_desc *map = bo_features_describe(fitting->phi);
    size_t components = fitting->desc.components, features = fitting->features, dim = fitting->dim;
    out->report = (bo_embedding_report){.rows = fitting->rows,
                                        .dim = dim,
                                        .components = components,
                                        .features = features,
                                        .kernel = map->kernel,
                                        .function = map->function,
                                        .draw = map->draw,
                                        .scaling = fitting->scaler.kind,
                                        .precision = fitting->precise ? BO_PRECISION_FLOAT64 : BO_PRECISION_FLOAT32,
                                        .gamma = map->gamma};
    out->phi = bo_features_share(fitting->phi);
    BO_TRY(bo_scaler_copy(context, &fitting->scaler, &out->scaler));
    out->vectors = bo_alloc_raw(context, components * features, sizeof(double), "the components");
    out->center = bo_alloc_raw(context, features, sizeof(double), "the components");
    out->variance = bo_alloc_raw(context, components, sizeof(double), "the components");
    out->decoder = bo_alloc_raw(context, components * dim, sizeof(double), "the pre-images");
    out->mean = bo_alloc_raw(context, dim, sizeof(double), "the pre-images");
    return out->vectors && out->center && out->variance && out->decoder && out->mean ? BO_OK : BO_MEMORY;
}

bo_status bo_embedding_fitting_finish(bo_context *context, const bo_embedding_fitting *fitting, bo_embedding **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, fitting, out);
    BO_SPAN(context, "machine", "components");
    double begin = bo_seconds();
    if (fitting->rows < 2) return bo_fail(context, BO_INVALID, "expected at least 2 rows, found %zu", fitting->rows);
    bo_embedding *embedding = bo_alloc(context, 1, sizeof *embedding, "the embedding");
    if (!embedding) return BO_MEMORY;
    bo_status status = create(context, fitting, embedding);
    if (status == BO_OK) status = solve(context, fitting, embedding);
    embedding->report.seconds = fitting->seconds + bo_seconds() - begin;
    if (status != BO_OK)
        bo_embedding_destroy(embedding);
    else
        *out = embedding;
    return status;
}

bo_status bo_embedding_fit(bo_context *context, const bo_embedding_desc *desc, const bo_embedding_rows *rows,
                           bo_embedding **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, rows, out);
    bo_embedding_fitting *fitting;
    BO_TRY(bo_embedding_fitting_create(context, desc, rows, &fitting));
    bo_status status = bo_embedding_fitting_add(context, fitting, rows);
    if (status == BO_OK) status = bo_embedding_fitting_finish(context, fitting, out);
    bo_embedding_fitting_destroy(fitting);
    return status;
}

void bo_embedding_destroy(bo_embedding *embedding)
{
    if (!embedding) return;
    bo_scaler_free(&embedding->scaler);
    bo_features_destroy(embedding->phi);
    bo_free(embedding->vectors);
    bo_free(embedding->center);
    bo_free(embedding->variance);
    bo_free(embedding->decoder);
    bo_free(embedding->mean);
    bo_free(embedding);
}

const bo_embedding_report *bo_embedding_describe(const bo_embedding *embedding)
{
    return embedding ? &embedding->report : NULL;
}

const double *bo_embedding_variances(const bo_embedding *embedding)
{
    return embedding ? embedding->variance : NULL;
}

const double *bo_embedding_vectors(const bo_embedding *embedding)
{
    return embedding ? embedding->vectors : NULL;
}

/* ---- coordinates and pre-images ---------------------------------------------------------------------------------- */

typedef struct widening {
    size_t features;
    const float *z;
    const double *center;
    double *out;
} widening;

static void widen_row(void *arg, size_t index, int worker)
{
    (void)worker;
    const widening *job = arg;
    for (size_t j = 0; j < job->features; j++)
        job->out[index * job->features + j] = (double)job->z[index * job->features + j] - job->center[j];
}

/* Rows of one block: φ - μ in double, its products with the components, and what they leave of its square. */
static bo_status apply_block(bo_context *context, const bo_embedding *embedding, const bo_inputs *inputs, float *z,
                             double *wide, double *coordinates, double *error)
{
    size_t features = embedding->report.features, components = embedding->report.components;
    const bo_row_map row_map = {&embedding->scaler, embedding->phi, 0};
    BO_TRY(bo_row_map_project(context, &row_map, inputs, z, features));
    widening job = {features, z, embedding->center, wide};
    bo_parallel(context, inputs->rows, widen_row, &job);
    BO_TRY(bo_gemm64(context, false, true, inputs->rows, components, features, 1, wide, features, embedding->vectors,
                     features, 0, coordinates, components));
    for (size_t i = 0; error && i < inputs->rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < features; j++) sum += wide[i * features + j] * wide[i * features + j];
        for (size_t k = 0; k < components; k++)
            sum -= coordinates[i * components + k] * coordinates[i * components + k];
        error[i] = fmax(sum, 0);
    }
    return BO_OK;
}

bo_status bo_embedding_apply(bo_context *context, const bo_embedding *embedding, size_t rows, const float *x,
                             size_t ldx, double *coordinates, double *error)
{
    BO_REQUIRE(context, embedding);
    BO_REQUIRE_IF(context, rows > 0, x, coordinates);
    BO_SPAN(context, "machine", "embed");
    size_t features = embedding->report.features, dim = embedding->report.dim;
    size_t components = embedding->report.components;
    if (rows > 1 && ldx < dim)
        return bo_fail(context, BO_INVALID, "ldx: expected at least %zu, the number of columns, found %zu", dim, ldx);
    const bo_inputs all = {.rows = rows, .x = x, .ldx = ldx};
    BO_TRY(bo_inputs_check_finite(context, &all, 0, rows, dim));
    enum { ROWS = BO_SIZE(512, 4) };
    size_t each = bo_min(rows, ROWS);
    float *z = bo_alloc_raw(context, each * features, sizeof *z, "a block of features");
    double *wide = bo_alloc_raw(context, each * features, sizeof *wide, "a block of features");
    bo_status status = z && wide ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < rows; first += each) {
        const bo_inputs inputs = bo_inputs_slice(&all, first, bo_min(each, rows - first));
        status = apply_block(context, embedding, &inputs, z, wide, coordinates + first * components,
                             error ? error + first : NULL);
        if (status == BO_OK) status = bo_progress(context, "embedding", (double)(first + inputs.rows), (double)rows);
    }
    bo_free(z);
    bo_free(wide);
    return status;
}

bo_status bo_embedding_invert(bo_context *context, const bo_embedding *embedding, size_t rows,
                              const double *coordinates, double *x)
{
    BO_REQUIRE(context, embedding);
    BO_REQUIRE_IF(context, rows > 0, coordinates, x);
    const bo_scaler *scaler = &embedding->scaler;
    size_t dim = embedding->report.dim, components = embedding->report.components;
    for (size_t i = 0; i < rows; i++) memcpy(x + i * dim, embedding->mean, dim * sizeof *x);
    BO_TRY(bo_gemm64(context, false, false, rows, dim, components, 1, coordinates, components, embedding->decoder, dim,
                     1, x, dim));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < dim; j++) {
            double factor = (double)scaler->factor[j], *at = &x[i * dim + j];
            *at = (factor != 0 ? *at / factor : 0) + (double)scaler->mean[j];
        }
    return BO_OK;
}
