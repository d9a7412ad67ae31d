/* Feature maps on a GPU: map.h. */
#include "../enums.h"
#include "map.h"
#include <string.h>
#include "../../base/carver.h"
#include "../internal.h"
#include "../parts.h"

bool bo_gpu_map_exists(const bo_features *features)
{
    return bo_features_parts(features).form != BO_MAP_NONE;
}

bo_status bo_gpu_map_check(bo_context *context, const bo_features *features)
{
    if (bo_gpu_map_exists(features)) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "features: a map with the function %s is not supported on GPUs",
                   bo_function_name(features->desc.function));
}

/* ---- numbers of the map ------------------------------------------------------------------------------------------ */

/* Places of w, offsets, weights, squares and the common term in one array. */
typedef struct map_numbers {
    size_t offset, weight, square, common, floats;
} map_numbers;

static map_numbers numbers_of(const bo_map_parts *parts)
{
    map_numbers at = {.offset = bo_padded(parts->frequencies * parts->dim)};
    at.weight = at.offset + bo_padded(parts->frequencies);
    at.square = at.weight + bo_padded(parts->frequencies);
    at.common = at.square + bo_padded(parts->dim);
    at.floats = at.common + 1;
    return at;
}

bo_status bo_gpu_map_prepare(bo_context *context, const bo_features *features)
{
    bo_device *device = bo_device_of(context);
    if (bo_device_copy_find(features->copies, device, features->version)) return BO_OK;
    const bo_map_parts parts = bo_features_parts(features);
    const map_numbers at = numbers_of(&parts);
    float *all = bo_alloc(context, at.floats, sizeof *all, "a feature map for the GPU");
    if (!all) return BO_MEMORY;
    bo_status status =
        bo_features_numbers(context, features, all, all + at.offset, all + at.weight, all + at.square, all + at.common);
    if (status == BO_OK)
        status =
            bo_device_copy_write(context, features->copies, device, features->version, all, at.floats * sizeof *all);
    bo_free(all);
    return status;
}

/* Sets what does not depend on a call; *w are the frequencies. */
static bo_gpu_map_features describe(bo_context *context, const bo_features *features, size_t rows, const float **w)
{
    const bo_map_parts parts = bo_features_parts(features);
    const map_numbers at = numbers_of(&parts);
    const float *all = bo_device_copy_find(features->copies, bo_device_of(context), features->version);
    *w = all;
    return (bo_gpu_map_features){.form = parts.form,
                                 .rows = rows,
                                 .dim = parts.dim,
                                 .frequencies = parts.frequencies,
                                 .features = parts.features,
                                 .ldx = parts.dim,
                                 .ldphi = parts.features,
                                 .norm = parts.norm,
                                 .factor = parts.factor,
                                 .constant = parts.constant,
                                 .offset = all + at.offset,
                                 .weight = all + at.weight,
                                 .square = all + at.square,
                                 .common = all + at.common};
}

/* ---- both directions --------------------------------------------------------------------------------------------- */

/* Forward: u, and x as floats. Backward: du, its product with w, and the sums of the rows. */
typedef struct pieces {
    float *u, *x, *product, *dt;
    size_t bytes;
} pieces;

static pieces carve(const bo_features *features, size_t rows, void *scratch)
{
    const bo_map_parts parts = bo_features_parts(features);
    bo_carver carver = {.at = scratch};
    pieces p = {0};
    p.u = bo_carve_floats(&carver, rows * parts.frequencies);
    p.x = p.product = bo_carve_floats(&carver, rows * parts.dim);
    p.dt = bo_carve_floats(&carver, rows);
    p.bytes = carver.bytes;
    return p;
}

size_t bo_gpu_map_bytes(const bo_features *features, size_t rows)
{
    return carve(features, rows, NULL).bytes;
}

/* u = w x; f->x becomes the rows in float32. */
static bo_status project(bo_context *context, bo_gpu_map_features *f, const float *w, const pieces *p, bo_gpu_source x)
{
    f->x = x.at, f->u = p->u;
    if (x.type != BO_ELEMENT_FLOAT32) {
        BO_TRY(BO_LAUNCH(context, convert,
                         &((bo_gpu_convert){.count = f->rows * f->dim,
                                            .from_type = x.type,
                                            .to_type = BO_ELEMENT_FLOAT32,
                                            .from = x.at,
                                            .to = p->x})));
        f->x = p->x;
    }
    return BO_LAUNCH(context, gemm,
                     &((bo_gpu_gemm){.m = f->rows,
                                     .n = f->frequencies,
                                     .k = f->dim,
                                     .tb = true,
                                     .a = f->x,
                                     .b = w,
                                     .d = p->u,
                                     .lda = f->ldx,
                                     .ldb = f->dim,
                                     .ldd = f->frequencies,
                                     .alpha = 1}));
}

bo_status bo_gpu_map_forward(bo_context *context, const bo_features *features, size_t rows, bo_gpu_source x, size_t ldx,
                             const float *root, bo_gpu_target phi, size_t ldphi, void *scratch)
{
    const pieces p = carve(features, rows, scratch);
    const float *w;
    bo_gpu_map_features f = describe(context, features, rows, &w);
    f.ldx = ldx, f.root = root, f.phi = phi, f.ldphi = ldphi;
    BO_TRY(project(context, &f, w, &p, x));
    return BO_LAUNCH(context, map_features, &f);
}

bo_status bo_gpu_map_backward(bo_context *context, const bo_features *features, size_t rows, bo_gpu_source x,
                              bo_gpu_source phi, bo_gpu_source dphi, bo_gpu_target dx, void *scratch)
{
    const pieces p = carve(features, rows, scratch);
    const float *w;
    bo_gpu_map_features f = describe(context, features, rows, &w);
    if (f.form == BO_MAP_COS) BO_TRY(project(context, &f, w, &p, x)); /* the cosine does not determine the sine */
    BO_TRY(BO_LAUNCH(context, map_features_back,
                     &((bo_gpu_map_features_back){.of = f, .phi = phi, .dphi = dphi, .du = p.u, .dt = p.dt})));
    BO_TRY(BO_LAUNCH(context, gemm,
                     &((bo_gpu_gemm){.m = rows,
                                     .n = f.dim,
                                     .k = f.frequencies,
                                     .a = p.u,
                                     .b = w,
                                     .d = p.product,
                                     .lda = f.frequencies,
                                     .ldb = f.dim,
                                     .ldd = f.dim,
                                     .alpha = 1})));
    return BO_LAUNCH(context, map_features_input,
                     &((bo_gpu_map_features_input){.rows = rows,
                                                   .dim = f.dim,
                                                   .norm = f.norm,
                                                   .square = f.square,
                                                   .product = p.product,
                                                   .dt = p.dt,
                                                   .x = x,
                                                   .dx = dx}));
}

/* ---- application ------------------------------------------------------------------------------------------------- */

enum { ROWS = 16384 }; /* of the host that are on the GPU at a time */

/* The memory of a block of rows on the GPU. */
typedef struct block {
    float *x, *z;
    char *scratch;
} block;

/* Copies rows between an array with gaps and one without. */
static void move_rows(size_t rows, size_t columns, const float *from, size_t from_stride, float *to, size_t to_stride)
{
    for (size_t i = 0; i < rows; i++) memcpy(to + i * to_stride, from + i * from_stride, columns * sizeof *to);
}

static bo_status apply_block(bo_context *context, const bo_features *f, const block *b, size_t rows, const float *x,
                             size_t ldx, float *z, size_t ldz, float *rows_of_host)
{
    bo_device *device = bo_device_of(context);
    const size_t dim = f->desc.dim, features = f->desc.features;
    if (ldx != dim) move_rows(rows, dim, x, ldx, rows_of_host, dim);
    BO_TRY(bo_buffer_write(context, device, b->x, ldx == dim ? x : rows_of_host, rows * dim * sizeof *x));
    BO_TRY(bo_gpu_map_forward(context, f, rows, (bo_gpu_source){b->x, BO_ELEMENT_FLOAT32}, dim, NULL,
                              (bo_gpu_target){b->z, BO_ELEMENT_FLOAT32, false}, features, b->scratch));
    if (ldz == features) return bo_buffer_read(context, device, z, b->z, rows * features * sizeof *z);
    BO_TRY(bo_buffer_read(context, device, rows_of_host, b->z, rows * features * sizeof *z));
    move_rows(rows, features, rows_of_host, features, z, ldz);
    return BO_OK;
}

static bo_status apply_host(bo_context *context, const bo_features *f, size_t rows, const float *x, size_t ldx,
                            float *z, size_t ldz)
{
    bo_device *device = bo_device_of(context);
    const size_t block_rows = bo_min(rows, ROWS), dim = f->desc.dim, features = f->desc.features;
    const bool gaps = ldx != dim || ldz != features;
    bo_carver carver = {0};
    const size_t z_at = (bo_carve_floats(&carver, block_rows * dim), carver.bytes);
    const size_t scratch_at = (bo_carve_floats(&carver, block_rows * features), carver.bytes);
    char *memory =
        bo_buffer_allocate(context, device, scratch_at + bo_gpu_map_bytes(f, block_rows), "rows and their features");
    float *rows_of_host =
        gaps ? bo_alloc_raw(context, block_rows * bo_max(dim, features), sizeof *rows_of_host, "rows") : NULL;
    bo_status status = memory && (rows_of_host || !gaps) ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < rows; first += block_rows) {
        const block b = {(float *)(void *)memory, (float *)(void *)(memory + z_at), memory + scratch_at};
        status = apply_block(context, f, &b, bo_min(block_rows, rows - first), x + first * ldx, ldx, z + first * ldz,
                             ldz, rows_of_host);
    }
    bo_free(rows_of_host);
    bo_buffer_release(device, memory);
    return status;
}

static bo_status apply_device(bo_context *context, const bo_features *f, size_t rows, const float *x, size_t ldx,
                              float *z, size_t ldz)
{
    bo_device *device = bo_device_of(context);
    void *scratch = bo_buffer_allocate(context, device, bo_gpu_map_bytes(f, rows), "projections of rows");
    if (!scratch) return BO_MEMORY;
    const bo_status status = bo_gpu_map_forward(context, f, rows, (bo_gpu_source){x, BO_ELEMENT_FLOAT32}, ldx, NULL,
                                                (bo_gpu_target){z, BO_ELEMENT_FLOAT32, false}, ldz, scratch);
    bo_buffer_release(device, scratch); /* waits for the work */
    return status;
}

bo_status bo_gpu_map_apply(bo_context *context, const bo_features *features, size_t rows, const float *x, size_t ldx,
                           float *z, size_t ldz)
{
    bool x_on_gpu, z_on_gpu;
    BO_TRY(bo_gpu_map_check(context, features));
    BO_TRY(bo_device_owns(context, x, &x_on_gpu));
    BO_TRY(bo_device_owns(context, z, &z_on_gpu));
    if (x_on_gpu != z_on_gpu)
        return bo_fail(context, BO_INVALID,
                       "applying features: x is in the memory of the %s, and z in the memory of the %s",
                       x_on_gpu ? "GPU" : "host", z_on_gpu ? "GPU" : "host");
    BO_TRY(bo_gpu_map_prepare(context, features));
    return (x_on_gpu ? apply_device : apply_host)(context, features, rows, x, ldx, z, ldz);
}
