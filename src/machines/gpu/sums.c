/* Sums of outer products of features on a GPU. A block of rows is copied to the device, mapped (features/gpu/map.h),
 * and added to the Gram matrix:
 *
 *   float32   products of runs of RUN rows, whose sums are added in float64 (device/cuda/gram.cu)
 *   float64   products in float64, added in place
 *   rounded   products of integers, whose sums are exact; products with the few other columns in float64
 *
 * Only panels of columns down to the diagonal are multiplied: (1 + panel / size) / 2 of all products. */
#include "../../base/base.h"
#include "../../features/gpu/map.h"
#include "../device_sums.h"
#include "sums.h"
#include <string.h>

enum { RUN = 1024, PANEL = 2048, EMULATED_PANEL = 64, STRIDE = 32 };

static size_t padded(size_t count)
{
    return bo_round_up(count, STRIDE);
}

size_t bo_fit_panel(const bo_device_sums *sums)
{
    return bo_device_properties(sums->device)->emulated ? EMULATED_PANEL : PANEL; /* tests have several panels, too */
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bo_status bo_fit_reserve(bo_context *context, bo_device_sums *sums, size_t count, size_t size, const char *label,
                         void *out)
{
    size_t bytes;
    void *memory = NULL;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
    if (sums->owned_count == BO_FIT_BLOCKS) return bo_fail(context, BO_UNSUPPORTED, "cuda: too many blocks of a fit");
    memory = bo_buffer_allocate(context, sums->device, bytes, label);
    if (!memory) return bo_fail(context, BO_MEMORY, "%s; use fewer features", bo_context_error(context));
    sums->owned[sums->owned_count++] = memory;
    memcpy(out, &memory, sizeof memory);
    return BO_OK;
}

void bo_device_sums_destroy(bo_device_sums *sums)
{
    if (!sums) return;
    for (size_t i = 0; i < sums->owned_count; i++) bo_buffer_release(sums->device, sums->owned[i]);
    bo_buffer_release(sums->device, sums->right);
    bo_buffer_release(sums->device, sums->solution);
    bo_device_release(sums->device);
    bo_free(sums->host_margins);
    bo_free(sums);
}

static bool is_wide(const bo_device_sums *sums)
{
    return sums->precise || sums->quantum > 0;
}

static bo_element type_of(const bo_device_sums *sums)
{
    return is_wide(sums) ? BO_ELEMENT_FLOAT64 : BO_ELEMENT_FLOAT32;
}

/* map: computed by the device; NULL: none. */
static bo_status allocate_rows(bo_context *context, bo_device_sums *s, const bo_features *map)
{
    const size_t rows = BO_DEVICE_ROWS;
    const char *label = "a block of features";
    s->ldz = s->ldg = padded(s->size);
    const size_t scratch = map ? bo_gpu_map_bytes(map, rows) : 0;
    const size_t dim = map ? bo_features_describe(map)->dim : 0;
    BO_TRY(bo_fit_reserve(context, s, rows * dim, sizeof(float), "a block of rows", &s->x));
    BO_TRY(bo_fit_reserve(context, s, bo_max(scratch, rows * s->features * sizeof(float)), 1, label, &s->u));
    BO_TRY(bo_fit_reserve(context, s, rows * s->target_columns, sizeof(float), label, &s->columns));
    BO_TRY(bo_fit_reserve(context, s, rows, sizeof(float), label, &s->root));
    BO_TRY(bo_fit_reserve(context, s, rows * s->ldz, is_wide(s) ? sizeof(double) : sizeof(float), label, &s->z));
    s->q_rows = padded(s->features);
    if (s->quantum > 0) BO_TRY(bo_fit_reserve(context, s, s->q_rows * rows, 1, label, &s->q));
    if (!s->precise) BO_TRY(bo_fit_reserve(context, s, s->ldg * bo_fit_panel(s), sizeof(float), label, &s->sums));
    BO_TRY(bo_fit_reserve(context, s, s->size * (s->target_columns + 1), sizeof(double), label, &s->margins));
    BO_TRY(bo_fit_reserve(context, s, 2 * s->features, sizeof(double), label, &s->vectors));
    return bo_fit_reserve(context, s, s->size * s->ldg, sizeof(double), "the Gram matrix of the features", &s->g);
}

bo_status bo_device_sums_create(bo_context *context, const bo_device_sums_desc *desc, bo_device_sums **out)
{
    bo_device_sums *sums = bo_alloc(context, 1, sizeof *sums, "sums on a GPU");
    *out = NULL;
    if (!sums) return BO_MEMORY;
    sums->device = bo_device_of(context);
    bo_device_retain(sums->device);
    sums->features = desc->features;
    sums->outputs = desc->outputs;
    sums->target_columns = desc->outputs + 1;
    sums->size = desc->features + sums->target_columns;
    sums->precise = desc->precise;
    sums->quantum = desc->quantum;
    sums->maps = desc->map && !bo_features_describe(desc->map)->sparse && bo_gpu_map_exists(desc->map);
    const bo_status status = allocate_rows(context, sums, sums->maps ? desc->map : NULL);
    if (status == BO_OK)
        *out = sums;
    else
        bo_device_sums_destroy(sums);
    return status;
}

bool bo_device_sums_maps(const bo_device_sums *sums)
{
    return sums->maps;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

bo_status bo_fit_multiply(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha,
                          const double *a, size_t lda, const double *b, size_t ldb, double beta, double *d, size_t ldd)
{
    return BO_LAUNCH(context, gemm,
                     &((bo_gpu_gemm){.m = m,
                                     .n = n,
                                     .k = k,
                                     .ta = ta,
                                     .tb = tb,
                                     .a = a,
                                     .b = b,
                                     .d = d,
                                     .lda = lda,
                                     .ldb = ldb,
                                     .ldd = ldd,
                                     .factors = BO_ELEMENT_FLOAT64,
                                     .result = BO_ELEMENT_FLOAT64,
                                     .alpha = (float)alpha,
                                     .beta = (float)beta}));
}

bo_status bo_fit_upper(bo_context *context, const bo_device_sums *s, size_t first, size_t n, size_t k, double alpha,
                       const double *z, size_t ldz, double *c, size_t ldc)
{
    const size_t panel = bo_fit_panel(s);
    for (size_t j = first; j < n; j += panel) {
        const size_t columns = bo_min(panel, n - j);
        BO_TRY(
            bo_fit_multiply(context, true, false, j + columns, columns, k, alpha, z, ldz, z + j, ldz, 1, c + j, ldc));
    }
    return BO_OK;
}

/* Adds the products of a panel, in `sums`, to G. */
static bo_status add_panel(bo_context *context, const bo_device_sums *s, bo_element type, double scale, size_t rows,
                           size_t first, size_t columns)
{
    return BO_LAUNCH(context, gram_add,
                     &((bo_gpu_gram_add){.type = type,
                                         .rows = rows,
                                         .columns = columns,
                                         .scale = scale,
                                         .s = s->sums,
                                         .lds = bo_fit_panel(s),
                                         .g = s->g + first,
                                         .ldg = s->ldg}));
}

static bo_status add_float32(bo_context *context, const bo_device_sums *s, size_t rows)
{
    const size_t panel = bo_fit_panel(s);
    for (size_t first = 0; first < rows; first += RUN) {
        const float *z = (const float *)s->z + first * s->ldz;
        for (size_t j = 0; j < s->size; j += panel) {
            const size_t columns = bo_min(panel, s->size - j);
            BO_TRY(BO_LAUNCH(context, gemm,
                             &((bo_gpu_gemm){.m = j + columns,
                                             .n = columns,
                                             .k = bo_min(RUN, rows - first),
                                             .ta = true,
                                             .a = z,
                                             .b = z + j,
                                             .d = s->sums,
                                             .lda = s->ldz,
                                             .ldb = s->ldz,
                                             .ldd = panel,
                                             .alpha = 1})));
            BO_TRY(add_panel(context, s, BO_ELEMENT_FLOAT32, 1, j + columns, j, columns));
        }
    }
    return BO_OK;
}

/* Sums of at most BO_DEVICE_ROWS products below 128² are exact in 32 bits. */
static bo_status add_rounded(bo_context *context, const bo_device_sums *s, size_t rows)
{
    const size_t panel = bo_fit_panel(s), depth = padded(rows);
    BO_TRY(BO_LAUNCH(context, feature_round,
                     &((bo_gpu_feature_round){.rows = rows,
                                              .features = s->features,
                                              .quantum = s->quantum,
                                              .z = s->z,
                                              .ldz = s->ldz,
                                              .q = s->q,
                                              .ldq = depth})));
    for (size_t j = 0; j < s->features; j += panel) {
        const size_t columns = bo_min(panel, s->q_rows - j);
        BO_TRY(BO_LAUNCH(context, gemm,
                         &((bo_gpu_gemm){.m = j + columns,
                                         .n = columns,
                                         .k = depth,
                                         .tb = true,
                                         .a = s->q,
                                         .b = s->q + j * depth,
                                         .d = s->sums,
                                         .lda = depth,
                                         .ldb = depth,
                                         .ldd = panel,
                                         .factors = BO_ELEMENT_INT8,
                                         .result = BO_ELEMENT_INT32,
                                         .alpha = 1})));
        BO_TRY(add_panel(context, s, BO_ELEMENT_INT32, (double)s->quantum * (double)s->quantum,
                         bo_min(j + columns, s->features), j, bo_min(columns, s->features - j)));
    }
    return bo_fit_upper(context, s, s->features, s->size, rows, 1, s->z, s->ldz, s->g, s->ldg);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Copies the columns of u to columns `first` to first + count - 1 of z, each row times its root; root NULL: all 1. */
static bo_status put_columns(bo_context *context, const bo_device_sums *s, size_t rows, size_t first, size_t count,
                             const float *u, const float *root)
{
    const size_t size = is_wide(s) ? sizeof(double) : sizeof(float);
    return BO_LAUNCH(context, map_features,
                     &((bo_gpu_map_features){.form = BO_MAP_IDENTITY,
                                             .rows = rows,
                                             .frequencies = count,
                                             .features = count,
                                             .ldphi = s->ldz,
                                             .u = u,
                                             .root = root,
                                             .phi = {(char *)s->z + first * size, type_of(s), false}}));
}

/* Writes the features of the rows, times their roots, to z. */
static bo_status put_features(bo_context *context, const bo_device_sums *s, const bo_device_rows *rows,
                              const float *root)
{
    if (rows->z) {
        BO_TRY(bo_buffer_write(context, s->device, s->u, rows->z, rows->count * s->features * sizeof(float)));
        return put_columns(context, s, rows->count, 0, s->features, s->u, root);
    }
    const size_t dim = bo_features_describe(rows->map)->dim;
    BO_TRY(bo_gpu_map_prepare(context, rows->map));
    BO_TRY(bo_buffer_write(context, s->device, s->x, rows->x, rows->count * dim * sizeof(float)));
    return bo_gpu_map_forward(context, rows->map, rows->count, (bo_gpu_source){s->x, BO_ELEMENT_FLOAT32}, dim, root,
                              (bo_gpu_target){s->z, type_of(s), false}, s->ldz, s->u);
}

static bo_status map_rows(bo_context *context, const bo_device_sums *s, const bo_device_rows *rows)
{
    const float *root = rows->root ? s->root : NULL;
    if (root) BO_TRY(bo_buffer_write(context, s->device, s->root, rows->root, rows->count * sizeof(float)));
    BO_TRY(put_features(context, s, rows, root));
    BO_TRY(bo_buffer_write(context, s->device, s->columns, rows->weighted_targets,
                           rows->count * s->target_columns * sizeof(float)));
    return put_columns(context, s, rows->count, s->features, s->target_columns, s->columns, NULL);
}

static bo_status add_products(bo_context *context, const bo_device_sums *s, size_t rows)
{
    if (s->quantum > 0) return add_rounded(context, s, rows);
    if (s->precise) return bo_fit_upper(context, s, 0, s->size, rows, 1, s->z, s->ldz, s->g, s->ldg);
    return add_float32(context, s, rows);
}

bo_status bo_device_sums_add(bo_context *context, bo_device_sums *sums, const bo_device_rows *rows)
{
    if (rows->count == 0) return BO_OK;
    sums->margins_known = sums->mirrored = false;
    bo_status status = map_rows(context, sums, rows);
    if (status == BO_OK) status = add_products(context, sums, rows->count);
    return status;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static bo_status read_margins(bo_context *context, bo_device_sums *s)
{
    const size_t count = s->size * (s->target_columns + 1);
    if (!s->host_margins) s->host_margins = bo_alloc_raw(context, count, sizeof(double), "sums over the rows");
    if (!s->host_margins) return BO_MEMORY;
    BO_TRY(BO_LAUNCH(context, gram_margins,
                     &((bo_gpu_gram_margins){.size = s->size,
                                             .first = s->features,
                                             .g = s->g,
                                             .ldg = s->ldg,
                                             .columns = s->margins,
                                             .diagonal = s->margins + s->size * s->target_columns})));
    BO_TRY(bo_buffer_read(context, s->device, s->host_margins, s->margins, count * sizeof(double)));
    s->margins_known = true;
    return BO_OK;
}

bo_status bo_device_sums_margins(bo_context *context, bo_device_sums *sums, const double **columns,
                                 const double **diagonal)
{
    const bo_status status = sums->margins_known ? BO_OK : read_margins(context, sums);
    *columns = sums->host_margins;
    *diagonal = sums->host_margins ? sums->host_margins + sums->size * sums->target_columns : NULL;
    return status;
}

/* Copies rows of G to the host or back, in blocks. */
static bo_status transfer(bo_context *context, bo_device_sums *s, bool to_host, double *gram)
{
    enum { ROWS = 256 };
    double *rows = bo_alloc(context, ROWS * s->ldg, sizeof *rows, "rows of the Gram matrix");
    bo_status status = rows ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < s->size; first += ROWS) {
        const size_t count = bo_min(ROWS, s->size - first), bytes = count * s->ldg * sizeof *rows;
        if (to_host) status = bo_buffer_read(context, s->device, rows, s->g + first * s->ldg, bytes);
        for (size_t i = 0; i < count; i++) {
            double *device = rows + i * s->ldg, *host = gram + (first + i) * s->size;
            memcpy(to_host ? host : device, to_host ? device : host, s->size * sizeof *rows);
        }
        if (!to_host) status = bo_buffer_write(context, s->device, s->g + first * s->ldg, rows, bytes);
    }
    if (!to_host && status == BO_OK) status = bo_device_wait(context, s->device);
    bo_free(rows);
    return status;
}

bo_status bo_device_sums_read(bo_context *context, bo_device_sums *sums, double *gram)
{
    const bo_status status = transfer(context, sums, true, gram);
    return status;
}

bo_status bo_device_sums_write(bo_context *context, bo_device_sums *sums, const double *gram)
{
    sums->margins_known = sums->mirrored = false;
    const bo_status status = transfer(context, sums, false, (double *)gram);
    return status;
}

static bo_status multiply_vector(bo_context *context, bo_device_sums *s, const double *x, double *y)
{
    const size_t n = s->features, bytes = n * sizeof *x;
    if (!s->mirrored)
        BO_TRY(BO_LAUNCH(context, gram_mirror, &((bo_gpu_gram_mirror){.n = n, .g = s->g, .ldg = s->ldg})));
    s->mirrored = true;
    BO_TRY(bo_buffer_write(context, s->device, s->vectors, x, bytes));
    BO_TRY(bo_fit_multiply(context, false, false, n, 1, n, 1, s->g, s->ldg, s->vectors, 1, 0, s->vectors + n, 1));
    return bo_buffer_read(context, s->device, y, s->vectors + n, bytes);
}

bo_status bo_device_sums_multiply(bo_context *context, bo_device_sums *sums, const double *x, double *y)
{
    const bo_status status = multiply_vector(context, sums, x, y);
    return status;
}
