/* Cross-entropy of softmax(scale x Wᵀ + b), in chunks of rows: the logits of all rows never exist at the same time. A
 * run with gradients computes the logits once: they are replaced in place by their gradient, from which dx, dW and db
 * are computed before the next chunk. The number of targets and the gradient of the loss are read on the device.
 *
 * If W is converted (float32 to bfloat16), it is padded with zeros to a multiple of 128 classes, which matches the tile
 * size of GEMM kernels. A second product of the same shape computes the logits of a teacher: equal rows have bitwise
 * equal logits, so the divergence of a student that equals its teacher is exactly 0. */
#include "matrix.h"
#include "../shapes.h"

enum {
    CHUNK_BYTES = 512 << 20, /* of logits: dW is read and written once per chunk */
    TILE = 128,              /* rows of a chunk and padded classes are multiples of it */
    /* with the emulator, so that small tests have several chunks */
    EMULATED_BYTES = 1 << 16,
    EMULATED_TILE = 16,
};

typedef struct entropy {
    const bo_cross_entropy_attributes *attributes;
    size_t rows, width, classes;
    size_t padded, ld;    /* padded number of classes; the stride between rows of logits */
    size_t chunk;         /* rows */
    size_t teacher_place; /* 0: none */
    bo_element type;      /* of products and logits */
    bool emulated;
    float scale;
    const void *x, *teacher, *w, *bias;
    void *logits, *teacher_logits; /* of a chunk */
    float *counted, *partial;
    bo_gpu_recast recast;
    size_t bytes; /* of workspace */
} entropy;

static size_t chunk_rows(const entropy *e)
{
    const bool emulated = e->emulated;
    const size_t bytes = emulated ? EMULATED_BYTES : CHUNK_BYTES, tile = emulated ? EMULATED_TILE : TILE;
    const size_t fit = bytes / (e->ld * bo_gpu_bytes(e->type)) / tile * tile;
    return bo_min(bo_max(fit, tile), e->rows);
}

static entropy plan(bo_context *context, const bo_op_call *call)
{
    const bo_cross_entropy_attributes *attributes = call->attributes;
    entropy e = {.attributes = attributes, .rows = call->in[0].rows, .width = call->in[0].columns};
    e.emulated = bo_device_properties(bo_device_of(context))->emulated;
    const bo_tensor *w = &call->in[1];
    e.type = bo_gpu_products(call);
    e.scale = (float)(attributes->scale != 0 ? attributes->scale : 1);
    e.classes = w->rows;
    const bool direct = w->element == (e.type == BO_ELEMENT_BFLOAT16 ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32);
    e.padded = direct ? e.classes : bo_round_up(e.classes, TILE);
    e.ld = bo_round_up(e.padded, 8);
    e.chunk = chunk_rows(&e);
    if (attributes->teacher > 0) e.teacher_place = call->inputs - 1;
    bo_carver carver = {call->scratch, 0};
    e.x = bo_gpu_factor(&e.recast, &carver, &call->in[0], e.rows, e.type);
    e.w = bo_gpu_factor(&e.recast, &carver, w, e.padded, e.type);
    if (attributes->bias) {
        bo_tensor bias = call->in[3];
        bias.rows = e.classes, bias.columns = 1;
        e.bias = bo_gpu_factor(&e.recast, &carver, &bias, e.padded, e.type);
        e.partial = bo_carve_floats(&carver, bo_gpu_sum_floats(e.chunk, e.classes));
    }
    e.logits = bo_carve(&carver, e.chunk * e.ld, bo_gpu_bytes(e.type));
    if (e.teacher_place) {
        e.teacher = bo_gpu_factor(&e.recast, &carver, &call->in[e.teacher_place], e.rows, e.type);
        e.teacher_logits = bo_carve(&carver, e.chunk * e.ld, bo_gpu_bytes(e.type));
    }
    e.counted = bo_carve_floats(&carver, 1);
    e.bytes = carver.bytes;
    return e;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = plan(context, call).bytes;
    return BO_OK;
}

/* Row `first` of a matrix of this type and width. */
static void *row_of(const void *matrix, bo_element type, size_t width, size_t first)
{
    return (char *)(uintptr_t)matrix + first * width * bo_gpu_bytes(type);
}

static bo_status compute_logits(bo_context *context, const entropy *e, const void *x, size_t first, size_t rows,
                                void *logits)
{
    const bo_gpu_gemm product = {
        .m = rows,
        .n = e->padded,
        .k = e->width,
        .a = row_of(x, e->type, e->width, first),
        .lda = e->width,
        .tb = true,
        .b = e->w,
        .ldb = e->width,
        .d = logits,
        .ldd = e->ld,
        .factors = e->type,
        .result = e->type,
        .alpha = e->scale,
        .bias = e->bias,
    };
    return BO_LAUNCH(context, gemm, &product);
}

static bo_status compute_losses(bo_context *context, const bo_op_call *call, const entropy *e, size_t first,
                                size_t rows, bool gradients)
{
    const float *dlosses = gradients ? call->dout[1] : NULL;
    const bo_gpu_softmax_loss loss = {
        .type = e->type,
        .rows = rows,
        .columns = e->classes,
        .ld = e->ld,
        .logits = e->logits,
        .teacher = e->teacher_logits,
        .targets = (const int32_t *)call->in[2].data + first,
        .losses = (float *)call->out[1].data + first,
        .smoothing = e->attributes->smoothing,
        .alpha = e->attributes->teacher,
        .gradients = gradients,
        .counted = e->counted,
        .dmean = gradients ? call->dout[0] : NULL,
        .dlosses = dlosses ? dlosses + first : NULL,
    };
    return BO_LAUNCH(context, softmax_loss, &loss);
}

/* dW of all classes in two products: cuBLASLt has slower kernels if the number of classes is not a multiple of a tile,
 * so a separate product computes the classes after the last whole tile. */
static bo_status spread_weights(bo_context *context, const entropy *e, bo_gpu_gemm dw)
{
    const size_t tile = e->emulated ? EMULATED_TILE : TILE, whole = e->classes / tile * tile;
    if (whole) {
        dw.m = whole;
        BO_TRY(BO_LAUNCH(context, gemm, &dw));
    }
    if (whole == e->classes) return BO_OK;
    dw.m = e->classes - whole;
    dw.a = (const char *)dw.a + whole * bo_gpu_bytes(e->type);
    dw.d = row_of(dw.d, dw.result, e->width, whole);
    return BO_LAUNCH(context, gemm, &dw);
}

/* dx, dW and db of a chunk, from the gradients of its logits. */
static bo_status spread(bo_context *context, const bo_op_call *call, const entropy *e, size_t first, size_t rows)
{
    const bo_element dx_type = call->in[0].element;
    const bo_gpu_gemm dx = {
        .m = rows,
        .n = e->width,
        .k = e->padded,
        .a = e->logits,
        .lda = e->ld,
        .b = e->w,
        .ldb = e->width,
        .d = call->din[0] ? row_of(call->din[0], dx_type, e->width, first) : NULL,
        .ldd = e->width,
        .factors = e->type,
        .result = dx_type,
        .alpha = e->scale,
        .beta = call->add[0] ? 1 : 0,
    };
    const bo_gpu_gemm dw = {
        .n = e->width,
        .k = rows,
        .ta = true,
        .a = e->logits,
        .lda = e->ld,
        .b = row_of(e->x, e->type, e->width, first),
        .ldb = e->width,
        .d = call->din[1],
        .ldd = e->width,
        .factors = e->type,
        .result = call->in[1].element,
        .alpha = e->scale,
        .beta = call->add[1] || first > 0 ? 1 : 0,
    };
    if (dx.d) BO_TRY(BO_LAUNCH(context, gemm, &dx));
    if (dw.d) BO_TRY(spread_weights(context, e, dw));
    if (!e->attributes->bias || !call->din[3]) return BO_OK;
    const bo_gpu_sum_columns db = {
        .type = e->type,
        .out_type = call->in[3].element,
        .rows = rows,
        .columns = e->classes,
        .ld = e->ld,
        .accumulate = call->add[3] || first > 0,
        .x = e->logits,
        .out = call->din[3],
        .parts = bo_gpu_sum_parts(rows),
        .partial = e->partial,
    };
    return BO_LAUNCH(context, sum_columns, &db);
}

static bo_status run(bo_context *context, const bo_op_call *call, bool gradients)
{
    const entropy e = plan(context, call);
    const bo_gpu_count_targets count = {.rows = e.rows, .targets = call->in[2].data, .counted = e.counted};
    BO_TRY(bo_gpu_recast_all(context, &e.recast));
    BO_TRY(BO_LAUNCH(context, count_targets, &count));
    for (size_t first = 0; first < e.rows; first += e.chunk) {
        const size_t rows = bo_min(e.chunk, e.rows - first);
        BO_TRY(compute_logits(context, &e, e.x, first, rows, e.logits));
        if (e.teacher) BO_TRY(compute_logits(context, &e, e.teacher, first, rows, e.teacher_logits));
        BO_TRY(compute_losses(context, call, &e, first, rows, gradients));
        if (gradients) BO_TRY(spread(context, call, &e, first, rows));
    }
    const bo_gpu_mean_loss mean = {
        .rows = e.rows, .losses = call->out[1].data, .counted = e.counted, .mean = call->out[0].data};
    return BO_LAUNCH(context, mean_loss, &mean);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return run(context, call, false);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(bo_gpu_refuse_integers(context, call, "cross-entropy"));
    bool zero;
    BO_TRY(bo_gpu_backward_zero(context, call, &zero));
    const bo_cross_entropy_attributes *attributes = call->attributes;
    if (attributes->teacher > 0) BO_TRY(bo_gpu_no_gradient(context, call, call->inputs - 1)); /* it is a constant */
    return run(context, call, !zero);
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    const bo_cross_entropy_attributes *attributes = call->attributes;
    return (attributes->teacher > 0 ? 4.0 : 2.0) * (double)call->in[0].rows * (double)bo_gpu_count(&call->in[1]);
}

const bo_op bo_gpu_op_cross_entropy = {
    .name = "cross-entropy",
    .attributes = sizeof(bo_cross_entropy_attributes),
    .reads_inputs = 31,
    .stored_inputs = 1 << 1,
    .float_outputs = 1 << 0 | 1 << 1,
    .forward_in_backward = true,
    .shape = bo_shape_cross_entropy,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
