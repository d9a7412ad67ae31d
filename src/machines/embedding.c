/* Principal component analysis in feature space: sums over rows, eigenvectors of the covariance, coordinates of new
 * rows. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../features/enums.h"
#include "../features/facts.h"
#include "../features/files.h"
#include "../math/linalg.h"
#include "embedding.h"
#include "enums.h"
#include "estimate.h"
#include "fitting.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"

#include <math.h>
#include <string.h>

/* Sums over rows of z = φ - typical and of zzᵀ, and rows for the ridge regression of pre-images. For LINEAR, φ is √γ
 * times the scaled inputs, and the latter are not needed. */
struct bo_embedding_sums {
    bo_embedding_desc desc; /* pointers cleared, defaults filled in */
    bo_scaler scaler;
    bo_features *phi;
    float *typical; /* features: bo_typical_features of the kept rows; 0 if the products are in float64 */
    bool linear, precise;
    size_t rows, features, dim;
    double *gram; /* (features + 1)², upper triangle: the last column has the sums */
    size_t kept_rows;
    float *kept; /* kept_rows x dim: scaled rows of the sample, evenly spaced */
    double seconds;
};

enum { KEPT_ROWS = BO_SIZE(4096, 512) };
static const double penalty_share = 1e-8; /* of the total variance: the ridge penalty of pre-images */

/* ---- checks and creation ----------------------------------------------------------------------------------------- */

/* Embeddings have neither sparse rows nor weights. */
static bo_status check_kind(bo_context *context, const bo_samples *rows)
{
    BO_TRY(bo_check_reserved(context, "bo_samples", rows->reserved));
    if (rows->sparse) return bo_fail(context, BO_UNSUPPORTED, "embeddings are fitted to dense rows, found sparse ones");
    if (rows->weights) return bo_fail(context, BO_UNSUPPORTED, "embeddings are fitted to rows without weights");
    return BO_OK;
}

static bo_status check(bo_context *context, const bo_embedding_desc *desc, const bo_samples *sample)
{
    BO_TRY(bo_check_reserved(context, "bo_embedding_desc", desc->reserved));
    BO_TRY(check_kind(context, sample));
    if (!bo_scaling_name(desc->scaling))
        return bo_fail(context, BO_INVALID, "scaling: expected a value of bo_scaling, found %d", (int)desc->scaling);
    if (desc->scaling == BO_SCALING_QUANTILE)
        return bo_fail(context, BO_UNSUPPORTED, "scaling quantile is for kernel machines; embeddings need another one");
    if (!bo_gram_precision_name(desc->precision))
        return bo_fail(context, BO_INVALID, "precision: expected a value of bo_gram_precision, found %d",
                       (int)desc->precision);
    if (desc->precision == BO_GRAM_PRECISION_INT8)
        return bo_fail(context, BO_UNSUPPORTED, "precision: expected float32 or float64, found int8");
    if (!(desc->features.gamma >= 0 && isfinite(desc->features.gamma)))
        return bo_fail(context, BO_INVALID, "gamma: expected a finite number that is at least 0, found %g",
                       desc->features.gamma);
    if (sample->dim == 0) return bo_fail(context, BO_INVALID, "expected input columns, found none");
    if (sample->rows < 2) return bo_fail(context, BO_INVALID, "expected at least 2 rows, found %zu", sample->rows);
    if (!sample->x) return bo_fail(context, BO_INVALID, "x is NULL, but there are %zu rows", sample->rows);
    const bo_input_view inputs = {.rows = sample->rows, .x = sample->x, .ldx = sample->dim};
    return bo_input_view_check_finite(context, &inputs, 0, sample->rows, sample->dim);
}

/* Scales evenly spaced rows of the sample. */
static bo_status keep_rows(bo_context *context, bo_embedding_sums *fitting, const bo_samples *sample)
{
    const bool landmarks = fitting->desc.features.function == BO_FUNCTION_LANDMARKS;
    const size_t dim = sample->dim,
                 rows = bo_min(sample->rows, bo_max(KEPT_ROWS, landmarks ? fitting->desc.features.features : 0));
    fitting->kept_rows = rows;
    fitting->kept = bo_alloc_raw(context, rows * dim, sizeof *fitting->kept, "a sample of the rows");
    if (!fitting->kept) return BO_MEMORY;
    for (size_t i = 0; i < rows; i++) {
        const size_t from = (size_t)((double)i * (double)sample->rows / (double)rows);
        const bo_input_view one = {.rows = 1, .x = sample->x + from * dim, .ldx = dim};
        BO_TRY(bo_scaler_apply(context, &fitting->scaler, &one, fitting->kept + i * dim));
    }
    return BO_OK;
}

/* Refuses a number of features whose sums do not fit into memory. */
static bo_status check_size(bo_context *context, const bo_embedding_sums *fitting, size_t features)
{
    double r = (double)features, dim = (double)fitting->dim, k = (double)fitting->desc.components;
    if (fitting->desc.components > features)
        return bo_fail(context, BO_INVALID, "components: expected at most %zu, the number of features, found %zu",
                       features, fitting->desc.components);
    double bytes = 8 * (r + 1) * (r + 1) + 24 * r * r + 8 * k * (4 * r + dim) + 4 * BO_MACHINE_BLOCK * (r + 1 + dim) +
                   8 * KEPT_ROWS * (dim + k);
    bo_memory_bound limit = fitting->desc.memory
                                ? (bo_memory_bound){fitting->desc.memory, "set by --memory, in C by .memory"}
                                : bo_default_memory();
    return bo_check_memory(context, "the covariance of the features", bytes, limit, "use fewer features");
}

/* The map with its defaults and γ, created from the kept rows. */
static bo_status make_features(bo_context *context, bo_embedding_sums *fitting)
{
    enum { FEATURES = 2048 };
    const bo_embedding_desc *desc = &fitting->desc;
    bo_machine_desc as_fitted = {.features = desc->features, .seed = desc->seed};
    if (as_fitted.features.features == 0 && bo_features_needs_length(&as_fitted.features))
        as_fitted.features.features = FEATURES;
    bo_features_desc map = bo_fitting_map(&as_fitted, fitting->dim);
    if (map.features) BO_TRY(check_size(context, fitting, map.features)); /* before the map is drawn */
    map.sample = fitting->kept;
    map.sample_rows = fitting->kept_rows;
    map.sample_stride = fitting->dim;
    if (map.gamma == 0 && map.kernel == BO_KERNEL_LINEAR) map.gamma = 1;
    if (map.gamma == 0) {
        const bo_samples rows = {.rows = fitting->kept_rows, .dim = fitting->dim, .x = fitting->kept};
        BO_TRY(bo_typical_gamma(context, &map, &rows, desc->seed, &map.gamma));
    }
    return bo_features_create(context, &map, &fitting->phi);
}

static bo_status prepare(bo_context *context, bo_embedding_sums *fitting, const bo_samples *sample)
{
    const bo_samples samples = {.rows = sample->rows,
                                .dim = sample->dim,
                                .x = sample->x,
                                .common_unit = sample->common_unit,
                                .schema = sample->schema};
    BO_TRY(bo_scaler_fit(context, fitting->desc.scaling, &samples, &fitting->scaler));
    bo_scaler_report(context, &fitting->scaler, 0, sample->schema);
    fitting->scaler.limit = 0; /* the components describe all rows, also those far outside */
    BO_TRY(keep_rows(context, fitting, sample));
    BO_TRY(make_features(context, fitting));
    const bo_features_desc *map = bo_features_describe(fitting->phi);
    enum { PRECISE_FEATURES = 512 };
    fitting->features = map->features;
    fitting->linear = map->kernel == BO_KERNEL_LINEAR;
    fitting->precise = fitting->desc.precision == BO_GRAM_PRECISION_FLOAT64 ||
                       (fitting->desc.precision == BO_GRAM_PRECISION_AUTO && map->features <= PRECISE_FEATURES);
    BO_TRY(check_size(context, fitting, fitting->features));
    const size_t size = fitting->features + 1;
    fitting->gram = bo_alloc(context, size * size, sizeof(double), "the covariance of the features");
    fitting->typical = bo_alloc(context, fitting->features, sizeof(float), "the mean of the features");
    if (!fitting->gram || !fitting->typical) return BO_MEMORY;
    if (fitting->precise) return BO_OK;
    return bo_typical_features(context, fitting->phi, fitting->kept_rows, fitting->kept, fitting->dim,
                               fitting->typical);
}

static bo_status sums_create(bo_context *context, const bo_embedding_desc *desc, const bo_samples *sample,
                             bo_embedding_sums **out)
{
    enum { COMPONENTS = 2 };
    double begin = bo_seconds();
    BO_TRY(check(context, desc, sample));
    bo_embedding_sums *fitting = bo_alloc(context, 1, sizeof *fitting, "the fit");
    if (!fitting) return BO_MEMORY;
    fitting->desc = *desc;
    fitting->dim = sample->dim;
    if (fitting->desc.components == 0) fitting->desc.components = COMPONENTS;
    bo_status status = prepare(context, fitting, sample);
    fitting->desc.features.length_scales = NULL;
    fitting->desc.features.sample = NULL;
    fitting->seconds = bo_seconds() - begin;
    if (status != BO_OK)
        bo_embedding_sums_destroy(fitting);
    else
        *out = fitting;
    return status;
}

bo_status bo_embedding_fitting_create(bo_context *context, const bo_embedding_desc *desc, const bo_samples *sample,
                                      bo_fitting **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, sample, out);
    bo_fitting *fitting = bo_alloc(context, 1, sizeof *fitting, "the fit");
    if (!fitting) return BO_MEMORY;
    bo_status status = sums_create(context, desc, sample, &fitting->embedding);
    if (status != BO_OK)
        bo_free(fitting);
    else
        *out = fitting;
    return status;
}

void bo_embedding_sums_destroy(bo_embedding_sums *fitting)
{
    if (!fitting) return;
    bo_scaler_free(&fitting->scaler);
    bo_features_destroy(fitting->phi);
    bo_free(fitting->gram);
    bo_free(fitting->typical);
    bo_free(fitting->kept);
    bo_free(fitting);
}

/* ---- sums over rows ---------------------------------------------------------------------------------------------- */

typedef struct block {
    size_t stride;
    float *scaled; /* rows x dim */
    float *z;      /* rows x stride: φ - typical, 1 */
} block;

static void block_free(block *b)
{
    bo_free(b->scaled);
    bo_free(b->z);
}

static bo_status block_create(bo_context *context, const bo_embedding_sums *fitting, size_t rows, block *b)
{
    *b = (block){.stride = bo_padded(fitting->features + 1)};
    b->scaled = bo_alloc_raw(context, rows * fitting->dim, sizeof(float), "a block of inputs");
    b->z = bo_alloc_raw(context, rows * b->stride, sizeof(float), "a block of features");
    return b->scaled && b->z ? BO_OK : BO_MEMORY;
}

static bo_status add_block(bo_context *context, bo_embedding_sums *fitting, const bo_input_view *inputs, block *b)
{
    size_t features = fitting->features, size = features + 1;
    BO_TRY(bo_scaler_apply(context, &fitting->scaler, inputs, b->scaled));
    BO_TRY(bo_features_apply(context, fitting->phi,
                             &(bo_inputs){.rows = inputs->rows, .x = b->scaled, .stride = fitting->dim}, b->z,
                             b->stride));
    for (size_t i = 0; i < inputs->rows; i++) {
        float *z = b->z + i * b->stride;
        for (size_t j = 0; j < features; j++) z[j] -= fitting->typical[j];
        z[features] = 1;
    }
    return bo_gram(context, size, inputs->rows, b->z, b->stride, fitting->gram, size, fitting->precise);
}

bo_status bo_embedding_sums_add(bo_context *context, bo_embedding_sums *fitting, const bo_samples *rows)
{
    BO_SPAN(context, "machine", "sum features");
    BO_TRY(check_kind(context, rows));
    if (rows->rows > 0 && !rows->x)
        return bo_fail(context, BO_INVALID, "x is NULL, but there are %zu rows", rows->rows);
    if (rows->dim != fitting->dim)
        return bo_fail(context, BO_INVALID, "expected %zu columns, as in the sample, found %zu", fitting->dim,
                       rows->dim);
    double begin = bo_seconds();
    const bo_input_view all = {.rows = rows->rows, .x = rows->x, .ldx = rows->dim};
    BO_TRY(bo_input_view_check_finite(context, &all, 0, all.rows, rows->dim));
    block b;
    size_t each = bo_min(rows->rows, BO_MACHINE_BLOCK);
    bo_status status = block_create(context, fitting, each, &b);
    for (size_t first = 0; status == BO_OK && first < rows->rows; first += each) {
        const bo_input_view inputs = bo_input_view_slice(&all, first, bo_min(each, rows->rows - first));
        status = add_block(context, fitting, &inputs, &b);
        if (status == BO_OK) fitting->rows += inputs.rows;
        if (status == BO_OK)
            status = bo_progress(context, "fitting", (double)(first + inputs.rows), (double)rows->rows);
    }
    block_free(&b);
    fitting->seconds += bo_seconds() - begin;
    return status;
}

/* ---- coordinates ------------------------------------------------------------------------------------------------- */

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

/* Rows of one block: φ - μ in double, its products with the components, and its squared distance to their span. */
static bo_status apply_block(bo_context *context, const bo_embedding *embedding, const bo_scaler *scaler,
                             const bo_input_view *inputs, float *z, double *wide, double *coordinates, double *error)
{
    size_t features = embedding->report.features, components = embedding->report.components;
    const bo_row_map row_map = {scaler, embedding->phi, 0};
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

/* scaler: NULL if the rows are scaled already. */
static bo_status apply_rows(bo_context *context, const bo_embedding *embedding, const bo_scaler *scaler,
                            const bo_input_view *all, double *coordinates, double *error)
{
    enum { ROWS = BO_SIZE(512, 4) };
    const size_t features = embedding->report.features, components = embedding->report.components;
    const size_t each = bo_min(all->rows, ROWS);
    float *z = bo_alloc_raw(context, each * features, sizeof *z, "a block of features");
    double *wide = bo_alloc_raw(context, each * features, sizeof *wide, "a block of features");
    bo_status status = z && wide ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < all->rows; first += each) {
        const bo_input_view inputs = bo_input_view_slice(all, first, bo_min(each, all->rows - first));
        status = apply_block(context, embedding, scaler, &inputs, z, wide, coordinates + first * components,
                             error ? error + first : NULL);
        if (status == BO_OK)
            status = bo_progress(context, "embedding", (double)(first + inputs.rows), (double)all->rows);
    }
    bo_free(z);
    bo_free(wide);
    return status;
}

/* ---- the components ---------------------------------------------------------------------------------------------- */

typedef struct covariance {
    const bo_embedding_sums *fitting;
    const double *mean;
    double *out;
} covariance;

enum { COVARIANCE_ROWS = BO_SIZE(32, 4) };

/* Rows of the upper triangle of (Σ zzᵀ - n mmᵀ)/(n - 1), m = Σ z/n. */
static void covariance_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const covariance *job = arg;
    size_t n = job->fitting->features, end = bo_min(n, (index + 1) * COVARIANCE_ROWS);
    double rows = (double)job->fitting->rows;
    for (size_t i = index * COVARIANCE_ROWS; i < end; i++) {
        const double *g = job->fitting->gram + i * (n + 1);
        for (size_t j = i; j < n; j++) job->out[i * n + j] = (g[j] - rows * job->mean[i] * job->mean[j]) / (rows - 1);
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

/* Subtracts the mean of each column. */
static void center_columns(size_t rows, size_t columns, double *x, double *mean)
{
    memset(mean, 0, columns * sizeof *mean);
    for (size_t i = 0; i < rows * columns; i++) mean[i % columns] += x[i] / (double)rows;
    for (size_t i = 0; i < rows * columns; i++) x[i] -= mean[i % columns];
}

/* The ridge regression of the scaled inputs s on the coordinates c over the kept rows, both centered: (CᵀC/n + penalty
 * I) decoder = CᵀS/n; and the fraction of the variance of s that it does not explain. Workspace: c (n x K), c_mean (K),
 * s (n x d), matrix (K x K). */
static bo_status solve_decoder(bo_context *context, const bo_embedding_sums *fitting, bo_embedding *out, double *c,
                               double *c_mean, double *s, double *matrix)
{
    const size_t n = fitting->kept_rows, dim = fitting->dim, k = out->report.components;
    const double share = 1 / (double)n;
    double total = 0, left = 0;
    center_columns(n, k, c, c_mean);
    center_columns(n, dim, s, out->mean);
    BO_TRY(bo_gemm64(context, true, false, k, k, n, share, c, k, c, k, 0, matrix, k));
    BO_TRY(bo_gemm64(context, true, false, k, dim, n, share, c, k, s, dim, 0, out->decoder, dim));
    for (size_t i = 0; i < k; i++) matrix[i * k + i] += penalty_share * out->report.variance;
    BO_TRY(bo_cholesky(context, k, matrix, k, NULL));
    BO_TRY(bo_solve_lower(context, k, dim, matrix, k, out->decoder, dim));
    BO_TRY(bo_solve_lower_t(context, k, dim, matrix, k, out->decoder, dim));
    for (size_t i = 0; i < n * dim; i++) total += s[i] * s[i];
    BO_TRY(bo_gemm64(context, false, false, n, dim, k, -1, c, k, out->decoder, dim, 1, s, dim));
    for (size_t i = 0; i < n * dim; i++) left += s[i] * s[i];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < dim; j++) out->mean[j] -= c_mean[i] * out->decoder[i * dim + j];
    out->report.input_error = total > 0 ? left / total : 0;
    return BO_OK;
}

static bo_status fit_decoder(bo_context *context, const bo_embedding_sums *fitting, bo_embedding *out)
{
    const size_t n = fitting->kept_rows, dim = fitting->dim, k = out->report.components;
    const bo_input_view kept = {.rows = n, .x = fitting->kept, .ldx = dim};
    double *c = bo_alloc_raw(context, n * k, sizeof *c, "pre-images");
    double *mean = bo_alloc_raw(context, k, sizeof *mean, "pre-images");
    double *s = bo_alloc_raw(context, n * dim, sizeof *s, "pre-images");
    double *matrix = bo_alloc_raw(context, k * k, sizeof *matrix, "pre-images");
    bo_status status = c && mean && s && matrix ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = apply_rows(context, out, NULL, &kept, c, NULL);
    for (size_t i = 0; status == BO_OK && i < n * dim; i++) s[i] = (double)fitting->kept[i];
    if (status == BO_OK) status = solve_decoder(context, fitting, out, c, mean, s, matrix);
    bo_free(c);
    bo_free(mean);
    bo_free(s);
    bo_free(matrix);
    return status;
}

/* φ = √γ s: the projection on the components. */
static void linear_decoder(const bo_embedding_sums *fitting, bo_embedding *out)
{
    double root = sqrt(out->report.gamma);
    for (size_t j = 0; j < fitting->dim; j++) out->mean[j] = out->center[j] / root;
    for (size_t k = 0; k < out->report.components * fitting->dim; k++) out->decoder[k] = out->vectors[k] / root;
    out->report.input_error = out->report.feature_error;
}

/* `total` is the trace of the covariance. */
static bo_status check_variance(bo_context *context, const bo_embedding_sums *fitting, double total)
{
    if (!isfinite(total))
        return bo_fail(context, BO_NUMERIC, "the features of kernel %s are not finite; scale the columns",
                       bo_kernel_name(bo_features_describe(fitting->phi)->kernel));
    if (!(total > 0))
        return bo_fail(context, BO_NUMERIC, "expected features that vary, found %zu equal rows", fitting->rows);
    return BO_OK;
}

static bo_status solve(bo_context *context, const bo_embedding_sums *fitting, bo_embedding *out)
{
    size_t n = fitting->features, components = out->report.components;
    double *matrix = bo_alloc_raw(context, n * n, sizeof *matrix, "the covariance of the features");
    if (!matrix) return BO_MEMORY;
    for (size_t j = 0; j < n; j++) out->center[j] = fitting->gram[j * (n + 1) + n] / (double)fitting->rows;
    covariance job = {fitting, out->center, matrix};
    bo_parallel(context, bo_ceil_div(n, COVARIANCE_ROWS), covariance_rows, &job);
    for (size_t j = 0; j < n; j++) out->center[j] += (double)fitting->typical[j];
    double total = 0, explained = 0;
    for (size_t j = 0; j < n; j++) total += matrix[j * n + j];
    bo_status status = check_variance(context, fitting, total);
    if (status == BO_OK) status = bo_eigen_top(context, n, components, matrix, out->variance, out->vectors);
    bo_free(matrix);
    BO_TRY(status);
    fix_signs(components, n, out->vectors);
    for (size_t k = 0; k < components; k++) explained += out->variance[k] = fmax(out->variance[k], 0);
    out->report.variance = total;
    out->report.feature_error = fmax(1 - explained / total, 0);
    if (!fitting->linear) return fit_decoder(context, fitting, out);
    linear_decoder(fitting, out);
    return BO_OK;
}

static bo_status create(bo_context *context, const bo_embedding_sums *fitting, bo_embedding *out)
{
    const bo_features_desc *map = bo_features_describe(fitting->phi);
    size_t components = fitting->desc.components, features = fitting->features, dim = fitting->dim;
    out->report =
        (bo_embedding_report){.rows = fitting->rows,
                              .dim = dim,
                              .components = components,
                              .features = features,
                              .kernel = map->kernel,
                              .function = map->function,
                              .draw = map->draw,
                              .scaling = fitting->scaler.kind,
                              .precision = fitting->precise ? BO_GRAM_PRECISION_FLOAT64 : BO_GRAM_PRECISION_FLOAT32,
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

static bo_status sums_finish(bo_context *context, const bo_embedding_sums *fitting, bo_embedding **out)
{
    BO_SPAN(context, "machine", "components");
    double begin = bo_seconds();
    if (fitting->rows < 2) return bo_fail(context, BO_INVALID, "expected at least 2 rows, found %zu", fitting->rows);
    bo_embedding *embedding = bo_alloc(context, 1, sizeof *embedding, "the embedding");
    if (!embedding) return BO_MEMORY;
    bo_status status = create(context, fitting, embedding);
    if (status == BO_OK) status = solve(context, fitting, embedding);
    bo_embedding_report_arrays(embedding);
    embedding->report.seconds = fitting->seconds + bo_seconds() - begin;
    if (status != BO_OK)
        bo_embedding_destroy(embedding);
    else
        *out = embedding;
    return status;
}

bo_status bo_embedding_fitting_finish(bo_context *context, const bo_fitting *fitting, bo_embedding **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, fitting, out);
    if (!fitting->embedding)
        return bo_fail(context, BO_INVALID, "expected a fitting of an embedding, found a fitting of a machine");
    return sums_finish(context, fitting->embedding, out);
}

bo_status bo_embedding_fit(bo_context *context, const bo_embedding_desc *desc, const bo_samples *samples,
                           bo_embedding **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, samples, out);
    bo_embedding_sums *fitting;
    BO_TRY(sums_create(context, desc, samples, &fitting));
    bo_status status = bo_embedding_sums_add(context, fitting, samples);
    if (status == BO_OK) status = sums_finish(context, fitting, out);
    bo_embedding_sums_destroy(fitting);
    return status;
}

void bo_embedding_report_arrays(bo_embedding *embedding)
{
    embedding->report.variances = embedding->variance;
    embedding->report.vectors = embedding->vectors;
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

/* ---- new rows and pre-images ------------------------------------------------------------------------------------- */

bo_status bo_embedding_apply(bo_context *context, const bo_embedding *embedding, const bo_inputs *inputs,
                             double *coordinates, double *error)
{
    BO_REQUIRE(context, embedding, inputs);
    BO_SPAN(context, "machine", "embed");
    bo_input_view all;
    BO_TRY(bo_input_view_make(context, inputs, embedding->report.dim, &all));
    BO_REQUIRE_IF(context, all.rows > 0, coordinates);
    BO_TRY(bo_input_view_check_finite(context, &all, 0, all.rows, embedding->report.dim));
    return apply_rows(context, embedding, &embedding->scaler, &all, coordinates, error);
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
            *at = (factor != 0 ? *at / factor : 0) + (double)scaler->mean[j] + (scaler->shift ? scaler->shift[j] : 0);
        }
    return BO_OK;
}
