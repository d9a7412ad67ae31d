/* φ(x) of a feature map with frequencies that are constant, in float32: u = w x, then the functions of u. Maps that are
 * not of the forms of features/parts.h are refused. */
#include "rows.h"
#include "uploads.h"
#include "../shapes.h"
#include "../../base/carver.h"
#include "../../features/parts.h"

static const bo_features *map_of(const bo_op_call *call)
{
    return ((const bo_features_attributes *)call->attributes)->features;
}

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_features(context, call));
    if (bo_features_parts(map_of(call)).form == BO_MAP_NONE)
        return bo_fail(context, BO_UNSUPPORTED, "features: a map with the function %s is not supported on GPUs",
                       bo_function_name(bo_features_describe(map_of(call))->function));
    return BO_OK;
}

/* ---- numbers of the map ------------------------------------------------------------------------------------------ */

/* w, offsets, weights, squares and the common term, one after the other. */
typedef struct map_numbers {
    size_t w, offset, weight, square, common, floats;
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

/* Writes the numbers again if they changed, and if the map is another one at the same address. */
static bo_status prepare(bo_context *context, const bo_op_call *call)
{
    const bo_map_parts parts = bo_features_parts(map_of(call));
    const map_numbers at = numbers_of(&parts);
    float *all = bo_alloc(context, at.floats, sizeof *all, "a feature map for the device");
    if (!all) return BO_MEMORY;
    bo_status status = bo_features_numbers(context, map_of(call), all + at.w, all + at.offset, all + at.weight,
                                           all + at.square, all + at.common);
    if (status == BO_OK) status = bo_cuda_upload(context, map_of(call), 0, all, at.floats * sizeof *all);
    bo_free(all);
    return status;
}

static bo_cuda_map_features describe(const bo_op_call *call)
{
    const bo_map_parts parts = bo_features_parts(map_of(call));
    const map_numbers at = numbers_of(&parts);
    const float *all = bo_cuda_uploaded(map_of(call), 0);
    return (bo_cuda_map_features){.form = (int)parts.form,
                                  .rows = call->in[0].rows,
                                  .dim = parts.dim,
                                  .frequencies = parts.frequencies,
                                  .features = parts.features,
                                  .norm = parts.norm,
                                  .factor = parts.factor,
                                  .constant = parts.constant,
                                  .offset = all + at.offset,
                                  .weight = all + at.weight,
                                  .square = all + at.square,
                                  .common = all + at.common};
}

/* ---- scratch memory ---------------------------------------------------------------------------------------------- */

/* Forward: x and u. Backward: du, its product with w, and the sums of the rows. */
typedef struct room {
    float *x, *u, *product, *dt;
    size_t bytes;
} room;

static room room_of(const bo_op_call *call)
{
    const bo_map_parts parts = bo_features_parts(map_of(call));
    const size_t rows = call->in[0].rows;
    bo_carver carver = {.at = call->scratch};
    room r = {0};
    r.u = bo_carve_floats(&carver, rows * parts.frequencies);
    r.x = r.product = bo_carve_floats(&carver, rows * parts.dim);
    r.dt = bo_carve_floats(&carver, rows);
    r.bytes = carver.bytes;
    return r;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = room_of(call).bytes;
    return BO_OK;
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const room r = room_of(call);
    bo_cuda_map_features f = describe(call);
    BO_TRY(BO_LAUNCH(context, convert,
                     &((bo_cuda_convert){.count = bo_cuda_count(&call->in[0]),
                                         .from_type = bo_cuda_type_of(call->in[0].element),
                                         .to_type = BO_CUDA_F32,
                                         .from = call->in[0].data,
                                         .to = r.x})));
    BO_TRY(BO_LAUNCH(context, gemm,
                     &((bo_cuda_gemm){.m = f.rows,
                                      .n = f.frequencies,
                                      .k = f.dim,
                                      .tb = true,
                                      .a = r.x,
                                      .b = bo_cuda_uploaded(map_of(call), 0),
                                      .d = r.u,
                                      .lda = f.dim,
                                      .ldb = f.dim,
                                      .ldd = f.frequencies,
                                      .alpha = 1})));
    f.x = r.x, f.u = r.u, f.phi = bo_cuda_out(call, 0);
    return BO_LAUNCH(context, map_features, &f);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const room r = room_of(call);
    const bo_cuda_map_features f = describe(call);
    bool done;
    BO_TRY(bo_cuda_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    BO_TRY(BO_LAUNCH(context, map_features_back,
                     &((bo_cuda_map_features_back){.of = f,
                                                   .phi = {call->out[0].data, bo_cuda_type_of(call->out[0].element)},
                                                   .dphi = bo_cuda_dout(call, 0),
                                                   .du = r.u,
                                                   .dt = r.dt})));
    BO_TRY(BO_LAUNCH(context, gemm,
                     &((bo_cuda_gemm){.m = f.rows,
                                      .n = f.dim,
                                      .k = f.frequencies,
                                      .a = r.u,
                                      .b = bo_cuda_uploaded(map_of(call), 0),
                                      .d = r.product,
                                      .lda = f.frequencies,
                                      .ldb = f.dim,
                                      .ldd = f.dim,
                                      .alpha = 1})));
    return BO_LAUNCH(context, map_features_input,
                     &((bo_cuda_map_features_input){.rows = f.rows,
                                                    .dim = f.dim,
                                                    .norm = f.norm,
                                                    .square = f.square,
                                                    .product = r.product,
                                                    .dt = r.dt,
                                                    .x = bo_cuda_in(call, 0),
                                                    .dx = bo_cuda_din(call, 0)}));
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    const bo_map_parts parts = bo_features_parts(map_of(call));
    return 2.0 * (double)call->in[0].rows * (double)parts.frequencies * (double)parts.dim;
}

const bo_op bo_cuda_op_features = {
    .name = "features",
    .attributes = sizeof(bo_features_attributes),
    .reads_inputs = 1 << 0,
    .reads_outputs = 1 << 0,
    .shape = shape,
    .sizes = sizes,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
