/* Attention with features on the device: the memory of a call, and the maps that its kernels read. */
#include <stdio.h>
#include "../../features/enums.h"
#include "linear.h"
#include "../../features/parts.h"

/* The map of a key head. All maps have the same parts. */
static const bo_features *map_of(const bo_attention *attention, size_t key_head)
{
    return attention->features[key_head];
}

static bo_map_parts map_parts(const bo_attention *attention)
{
    return bo_features_parts(map_of(attention, 0));
}

/* ---- what is supported ------------------------------------------------------------------------------------------- */

enum {
    MAX_SHARED_BYTES = 200 << 10, /* bytes of a tile of the general kernels */
    MAX_TILE_ROWS = 32            /* … and its rows */
};

/* An upper bound of the shared memory of the general kernels for a tile. */
static size_t tile_bytes(const bo_attention *attention, size_t rows)
{
    const bo_attention_desc *d = &attention->desc;
    const size_t floats = 4 * (attention->count + 1) + 3 * d->features.dim + 3 * (d->value_dim + 1) + 2 * rows + 16;
    return rows * floats * sizeof(float) + 1024;
}

/* Rows per segment of the general kernels: one tile. 0: one row does not fit. */
static size_t tile_of(const bo_attention *attention, size_t shared_bytes)
{
    size_t rows = MAX_TILE_ROWS;
    const size_t max_bytes = bo_min((size_t)MAX_SHARED_BYTES, shared_bytes);
    while (rows && tile_bytes(attention, rows) > max_bytes) rows /= 2;
    return rows;
}

static const char *refuses(const bo_attention *attention, const bo_gpu_properties *gpu)
{
    static _Thread_local char text[64]; /* until the next call */
    const bo_map_form form = map_parts(attention).form;
    if (form == BO_MAP_NONE || form == BO_MAP_COS) {
        snprintf(text, sizeof text, "with the function %s", bo_function_name(attention->desc.features.function));
        return text;
    }
    if (!tile_of(attention, gpu->shared_bytes)) return "with this many features";
    return NULL;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Places of the arrays of one key head, in floats. */
typedef struct map_places {
    size_t w, transposed, offset, weight, square, common, stride;
} map_places;

static map_places places_of(const bo_map_parts *parts)
{
    const size_t matrix = parts->frequencies * parts->dim;
    map_places at = {.transposed = matrix};
    at.offset = at.transposed + matrix;
    at.weight = at.offset + parts->frequencies;
    at.square = at.weight + parts->frequencies;
    at.common = at.square + parts->dim;
    at.stride = bo_padded(at.common + 1);
    return at;
}

static bo_status write_head(bo_context *context, const bo_features *map, const bo_map_parts *parts, float *to)
{
    const map_places at = places_of(parts);
    BO_TRY(
        bo_features_numbers(context, map, to + at.w, to + at.offset, to + at.weight, to + at.square, to + at.common));
    for (size_t i = 0; i < parts->frequencies; i++)
        for (size_t j = 0; j < parts->dim; j++)
            to[at.transposed + j * parts->frequencies + i] = to[at.w + i * parts->dim + j];
    return BO_OK;
}

static bo_status prepare(bo_context *context, const bo_attention *attention)
{
    const bo_map_parts parts = map_parts(attention);
    const size_t stride = places_of(&parts).stride, heads = attention->desc.key_heads;
    bo_device *device = bo_device_of(context);
    if (bo_device_copy_find(attention->copies, device, attention->fingerprint)) return BO_OK;
    float *all = bo_alloc_raw(context, heads * stride, sizeof *all, "feature maps for the device");
    if (!all) return BO_MEMORY;
    bo_status status = BO_OK;
    for (size_t h = 0; status == BO_OK && h < heads; h++)
        status = write_head(context, map_of(attention, h), &parts, all + h * stride);
    if (status == BO_OK)
        status = bo_device_copy_write(context, attention->copies, device, attention->fingerprint, all,
                                      heads * stride * sizeof *all);
    bo_free(all);
    return status;
}

static bo_status describe_map(bo_context *context, const bo_attention *attention, bo_gpu_map *out)
{
    const bo_map_parts parts = map_parts(attention);
    const map_places at = places_of(&parts);
    BO_TRY(prepare(context, attention));
    const float *first = bo_device_copy_find(attention->copies, bo_device_of(context), attention->fingerprint);
    *out = (bo_gpu_map){.form = parts.form,
                        .dim = (int)parts.dim,
                        .frequencies = (int)parts.frequencies,
                        .features = (int)parts.features,
                        .scaled = parts.scaled,
                        .norm = parts.norm,
                        .factor = parts.factor,
                        .constant = parts.constant,
                        .w = first + at.w,
                        .transposed = first + at.transposed,
                        .offset = first + at.offset,
                        .weight = first + at.weight,
                        .square = first + at.square,
                        .common = first + at.common,
                        .stride = at.stride};
    return BO_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t segments_of(const bo_gpu_rows *rows, int segment)
{
    return rows->rows / (size_t)segment + (size_t)rows->sequences;
}

/* An array of bfloat16 numbers. */
static void *carve_halves(bo_carver *carver, size_t count)
{
    return bo_carve(carver, count, bo_gpu_bytes(BO_ELEMENT_BFLOAT16));
}

/* Memory of the kernels with features in memory: what backward reads, and features. */
static void carve_stored(const bo_attention *attention, bo_gpu_linear_attention *a, bo_carver *kept, bo_carver *scratch)
{
    const bo_gpu_attention *c = &a->call;
    const size_t heads = (size_t)c->key_heads, keys = bo_gpu_has(c, BO_GPU_ARRAY_K) ? c->keys.rows : 0;
    const size_t segments = keys ? segments_of(&c->keys, a->segment) : 0, sequences = (size_t)c->keys.sequences;
    const size_t wide = heads * attention->count * (attention->desc.value_dim + 8);
    a->stored_dim = (int)((attention->count + 15) / 16 * 16);
    a->shifts = bo_carve_floats(kept, keys * heads);
    a->gate_sums = bo_carve_floats(kept, keys * heads);
    a->kept = bo_carve_floats(kept, segments * heads);
    a->before = carve_halves(kept, segments * wide);
    a->all = carve_halves(kept, c->causal ? 0 : sequences * wide);
    a->fq = carve_halves(scratch, c->queries.rows * (size_t)c->heads * (size_t)a->stored_dim);
    a->fk = carve_halves(scratch, keys * heads * (size_t)a->stored_dim);
    a->query_scales = bo_carve_floats(scratch, c->queries.rows * (size_t)c->heads);
    a->key_scales = bo_carve_floats(scratch, keys * heads);
}

/* Memory that forward writes: saved for backward, or scratch. */
static void carve_forward(const bo_attention *attention, bo_gpu_linear_attention *a, bo_carver *carver,
                          bo_carver *scratch)
{
    const bo_gpu_attention *c = &a->call;
    const size_t heads = (size_t)c->key_heads, sequences = (size_t)c->keys.sequences;
    const size_t segments = bo_gpu_has(c, BO_GPU_ARRAY_K) ? segments_of(&c->keys, a->segment) : 0;
    a->sums_floats = attention->sums_bytes / sizeof(float);
    a->sums = bo_carve_floats(a->stored ? scratch : carver, segments * heads * a->sums_floats);
    a->begins = bo_carve_floats(carver, segments * heads);
    a->ends = bo_carve_floats(carver, segments * heads);
    a->totals = bo_carve_floats(carver, sequences * heads * a->sums_floats);
    a->total_scales = bo_carve_floats(carver, sequences * heads);
    a->scales = bo_carve_floats(carver, c->keys.rows * heads);
    a->chunk_scales = bo_carve_floats(carver, a->fast && !a->stored ? segments * heads * (size_t)(a->segment / 64) : 0);
    a->norms = bo_carve_floats(carver, c->queries.rows * (size_t)c->heads);
    if (a->stored) carve_stored(attention, a, carver, scratch);
}

static size_t partial_floats(const bo_attention *attention, const bo_gpu_attention *c)
{
    const size_t dim = attention->desc.dim, width = attention->desc.features.dim;
    const size_t sizes[] = {dim, width * dim, width * dim, width, width};
    static const unsigned arrays[] = {BO_ATTENTION_GIVEN_SIGMA, BO_ATTENTION_GIVEN_M, BO_ATTENTION_GIVEN_M_K,
                                      BO_ATTENTION_GIVEN_BIAS, BO_ATTENTION_GIVEN_BIAS_K};
    size_t floats = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) floats += bo_gpu_requested(c, arrays[i]) ? sizes[i] : 0;
    return floats;
}

/* Blocks of the kernel with the gradients of parameters: enough for all processors, few partial sums. */
enum { PARTIAL_BLOCKS = 64, MAP_ROWS = 128 /* of a block of device/cuda/features_rows.cu */ };

static void carve_backward(const bo_attention *attention, bo_gpu_linear_attention *a, bo_carver *carver)
{
    const bo_gpu_attention *c = &a->call;
    const size_t heads = (size_t)c->key_heads, sums = heads * a->sums_floats;
    a->gradients = bo_carve_floats(carver, segments_of(&c->queries, a->segment) * sums);
    a->after = c->causal ? a->gradients : bo_carve_floats(carver, segments_of(&c->keys, a->segment) * sums);
    a->partial_floats = partial_floats(attention, c);
    a->blocks = PARTIAL_BLOCKS;
    if (a->stored)
        a->blocks = (int)(segments_of(&c->queries, MAP_ROWS) * (size_t)(c->heads / c->key_heads) +
                          segments_of(&c->keys, MAP_ROWS));
    else if (a->fast)
        a->blocks = (int)(segments_of(&c->queries, a->segment) * (size_t)(c->heads / c->key_heads) +
                          segments_of(&c->keys, a->segment));
    a->partials = bo_carve_floats(carver, (size_t)a->blocks * heads * a->partial_floats);
    if (a->stored) {
        const size_t queries = c->queries.rows * (size_t)c->heads, width = (size_t)a->stored_dim;
        a->later = carve_halves(carver, segments_of(&c->keys, a->segment) * heads * attention->count *
                                            (attention->desc.value_dim + 8));
        a->dn = carve_halves(carver, queries * (attention->desc.value_dim + 8));
        a->dfq = carve_halves(carver, queries * width);
        a->dfk = carve_halves(carver, c->keys.rows * heads * width);
    }
    if (!bo_gpu_requested(c, BO_ATTENTION_GIVEN_LOG_GATE | BO_ATTENTION_GIVEN_LOG_DECAY)) return;
    a->flow = bo_carve(carver, c->queries.rows * (size_t)c->heads, sizeof *a->flow);
    a->key_flow = bo_carve(carver, c->keys.rows * heads, sizeof *a->key_flow);
    if (!a->stored) return;
    const size_t tiles = ((size_t)a->stored_dim + 63) / 64;
    a->flow_parts = bo_carve_floats(carver, tiles * c->queries.rows * (size_t)c->heads);
    a->key_flow_parts = bo_carve_floats(carver, tiles * c->keys.rows * heads);
}

/* Sizes with kernels for bfloat16: device/features_sets.cuh. */
static bool has_kernels(const bo_map_parts *parts, size_t value_dim)
{
    const bool twice = parts->features == 2 * parts->frequencies;
    if (parts->dim != 64 || value_dim != 64) return false;
    return parts->frequencies == 64 || (parts->frequencies == 128 && !twice);
}

/* True if the call has about one token per sequence and continues from states: a separate kernel computes it. */
static bool is_step(const bo_gpu_attention *call)
{
    return call->continues && call->causal && call->queries.rows <= 2 * (size_t)call->queries.sequences;
}

/* Kernels for bfloat16, in addition to the general ones. */
typedef enum kernel_set {
    KERNELS_GENERAL,
    KERNELS_FAST,  /* features on chip, for few sizes */
    KERNELS_STORED /* features in memory */
} kernel_set;

enum { STORED_SEGMENT = 256, MAX_STORED_FREQUENCIES = 512, MAX_STORED_DIM = 256 };

/* An upper bound of the shared memory of the kernels with features in memory (device/cuda/features_rows.cu,
 * features_stored*.cu). */
static size_t stored_bytes(const bo_map_parts *parts, size_t value_dim, bool sigma)
{
    const size_t columns = parts->dim <= 64 ? 64 : parts->dim <= 128 ? 128 : 256, values = (value_dim + 15) / 16 * 16;
    size_t padded = 128;
    while (padded < parts->frequencies) padded *= 2;
    const size_t map = (padded + 2 * MAP_ROWS) * (parts->dim + 24) * 2,
                 map_back = (parts->frequencies + 32 + MAP_ROWS) * (columns + 8) * 2 + (sigma ? columns * 256 : 0),
                 rows = parts->features > 640 ? 64 : 128,
                 outputs = (rows * (parts->features + 24) + (size_t)3 * 64 * (values > 96 ? 152 : 120)) * 2,
                 gradients = (128 + (size_t)3 * (values > 64 ? 64 : 128)) * (values + 24) * 2;
    return bo_max(bo_max(map, map_back), bo_max(outputs, gradients)) + ((size_t)8 << 10);
}

static bool has_stored_kernels(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bo_map_parts parts = map_parts(attention);
    const bo_row_transform_type transform = bo_row_transform_type_of(bo_attention_describe(attention));
    const bool unit = transform == BO_ROW_TRANSFORM_UNIT, before = !unit && transform != BO_ROW_TRANSFORM_NONE;
    const size_t value_dim = attention->desc.value_dim;
    if ((!before && attention->desc.dim != parts.dim) || (unit && parts.norm != 0)) return false;
    if (attention->desc.dim % 8 || parts.dim % 8 || value_dim % 8 || parts.frequencies % 8) return false;
    if (parts.dim > MAX_STORED_DIM || value_dim > MAX_STORED_DIM) return false;
    if (parts.frequencies > MAX_STORED_FREQUENCIES) return false;
    return stored_bytes(&parts, value_dim, unit) <= call->shared_bytes;
}

static kernel_set kernels_of(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bo_map_parts parts = map_parts(attention);
    if (call->type != BO_ELEMENT_BFLOAT16 || !bo_gpu_has(call, BO_GPU_ARRAY_Q) || is_step(call)) return KERNELS_GENERAL;
    if (!call->causal && attention->desc.gate != BO_GATE_NONE) return KERNELS_GENERAL;
    if (!bo_gpu_attention_is_aligned(call)) return KERNELS_GENERAL;
    const bool stored = has_stored_kernels(attention, call);
    if (attention->desc.dim == parts.dim && parts.form != BO_MAP_HEDGEHOG &&
        has_kernels(&parts, attention->desc.value_dim))
        return KERNELS_FAST;
    return stored ? KERNELS_STORED : KERNELS_GENERAL;
}

/* Rows per segment of the fast kernels: a multiple of the chunk, so that all segments run concurrently, two per
 * processor. Sequences are divided separately; they are assumed to be of equal length. */
static size_t fast_segment(const bo_gpu_attention *call)
{
    enum { CHUNK = 64, DEFAULT_PROCESSORS = 132 };
    const int found = call->processors;
    const size_t processors = found > 0 ? (size_t)found : DEFAULT_PROCESSORS;
    const size_t sequences = bo_max((size_t)call->queries.sequences, 1), blocks = sequences * (size_t)call->heads,
                 tokens = (call->queries.rows + sequences - 1) / sequences;
    const size_t segments = bo_max(2 * processors / blocks, 1), each = (tokens + segments - 1) / segments;
    return each ? (each + CHUNK - 1) / CHUNK * CHUNK : CHUNK;
}

/* True if rows are multiplied by a matrix before the bfloat16 kernels read them. */
static bool transforms_first(const bo_attention *attention, bool fast)
{
    const bo_row_transform_type type = bo_row_transform_type_of(bo_attention_describe(attention));
    return fast && (type == BO_ROW_TRANSFORM_MATRIX || type == BO_ROW_TRANSFORM_AFFINE);
}

/* Sets everything except the map and addresses. */
static bo_gpu_linear_attention begin(const bo_attention *attention, const bo_gpu_attention *call, kernel_set kernels)
{
    const bool fast = kernels != KERNELS_GENERAL, stored = kernels == KERNELS_STORED;
    const size_t segment = stored ? STORED_SEGMENT : fast ? fast_segment(call) : tile_of(attention, call->shared_bytes);
    const bo_attention_desc *d = &attention->desc;
    bo_gpu_linear_attention out = {.call = *call,
                                   .transform = bo_row_transform_type_of(d),
                                   .gated = d->gate != BO_GATE_NONE,
                                   .convex = d->gate == BO_GATE_CONVEX,
                                   .divides = d->normalizer == BO_NORMALIZER_SUM,
                                   .clamp = (float)d->clamp,
                                   .fast = fast,
                                   .stored = stored,
                                   .steps = is_step(call),
                                   .segment = (int)segment};
    if (!transforms_first(attention, fast)) return out;
    out.transform = BO_ROW_TRANSFORM_NONE;
    out.call.dm = out.call.dm_k = out.call.dbias = out.call.dbias_k = NULL;
    out.call.requested &= ~(unsigned)(BO_ATTENTION_GIVEN_M | BO_ATTENTION_GIVEN_M_K | BO_ATTENTION_GIVEN_BIAS |
                                      BO_ATTENTION_GIVEN_BIAS_K);
    return out;
}

/* ---- transformed rows -------------------------------------------------------------------------------------------- */

/* Blocks per head: enough for all processors, few partial sums. */
static int parts_of(size_t rows)
{
    enum { PART = 512, MAX_PARTS = 64 };
    return (int)bo_min((rows + PART - 1) / PART, MAX_PARTS);
}

/* Chunks cross the boundaries of sequences unless addresses depend on the sequence. */
static size_t tokens_of(const bo_gpu_rows *rows, bo_gpu_strides x, bo_gpu_strides dx)
{
    return x.sequence || dx.sequence ? (size_t)rows->tokens : rows->rows;
}

static bo_gpu_row_transform queries_of(const bo_gpu_attention *c)
{
    return (bo_gpu_row_transform){.rows = c->queries.rows,
                                  .tokens = tokens_of(&c->queries, c->strides.q, c->strides.dq),
                                  .heads = c->heads,
                                  .x = c->q,
                                  .x_strides = c->strides.q,
                                  .dx_strides = c->strides.dq,
                                  .m = c->m,
                                  .bias = c->bias,
                                  .dx = c->dq,
                                  .dm = c->dm,
                                  .dbias = c->dbias};
}

/* Keys without parameters of their own use the parameters of the queries and add to their gradients. */
static bo_gpu_row_transform keys_of(const bo_gpu_attention *c)
{
    return (bo_gpu_row_transform){.rows = c->keys.rows,
                                  .tokens = tokens_of(&c->keys, c->strides.k, c->strides.dk),
                                  .heads = c->key_heads,
                                  .x = c->k,
                                  .x_strides = c->strides.k,
                                  .dx_strides = c->strides.dk,
                                  .m = c->m_k ? c->m_k : c->m,
                                  .bias = c->bias_k ? c->bias_k : c->bias,
                                  .dx = c->dk,
                                  .dm = c->m_k ? c->dm_k : c->dm,
                                  .dbias = c->bias_k ? c->dbias_k : c->dbias,
                                  .add_m = !c->m_k,
                                  .add_bias = !c->bias_k};
}

/* Describes the transform if it precedes the kernels: its results replace q and k of the call. */
static void carve_sides(bo_gpu_linear_part *part, const bo_attention *attention, const bo_gpu_attention *c,
                        bool backward, bo_carver *carver)
{
    const size_t dim = (size_t)c->dim, width = map_parts(attention).dim;
    bo_gpu_attention *inner = &part->attention.call;
    part->sides[0] = queries_of(c), part->sides[1] = keys_of(c), part->count = bo_gpu_has(c, BO_GPU_ARRAY_K) ? 2 : 1;
    for (int i = 0; i < part->count; i++) {
        bo_gpu_row_transform *side = &part->sides[i];
        const size_t numbers = side->rows * (size_t)side->heads * width;
        side->dim = (int)dim, side->width = (int)width;
        side->key_heads = c->key_heads, side->parts = parts_of(side->rows);
        side->t = bo_carve(carver, numbers, bo_gpu_bytes(BO_ELEMENT_BFLOAT16));
        if (!backward) continue;
        side->dt = bo_carve(carver, numbers, bo_gpu_bytes(BO_ELEMENT_BFLOAT16));
        side->partials = bo_carve_floats(carver, (size_t)(side->parts * side->key_heads) * width * (dim + 1));
    }
    inner->q = part->sides[0].t, inner->dq = part->sides[0].dt;
    inner->strides.q = inner->strides.dq = bo_gpu_tokens_first(c->heads, (int)width);
    if (part->count < 2) return;
    inner->k = part->sides[1].t, inner->dk = part->sides[1].dt;
    inner->strides.k = inner->strides.dk = bo_gpu_tokens_first(c->key_heads, (int)width);
}

/* ---- both directions --------------------------------------------------------------------------------------------- */

bo_gpu_linear_part bo_gpu_linear_make(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                                      bo_carver *kept, bo_carver *scratch)
{
    bo_gpu_linear_part out = {.attention = begin(attention, call, kernels_of(attention, call))};
    carve_forward(attention, &out.attention, kept, scratch);
    if (backward) carve_backward(attention, &out.attention, scratch);
    if (transforms_first(attention, out.attention.fast)) carve_sides(&out, attention, call, backward, scratch);
    return out;
}

/* Checks the arrays that the kernels read and write; with a transform, the arrays before it. */
static bo_status check_arrays(bo_context *context, const bo_gpu_linear_part *part)
{
    bo_gpu_attention call = part->attention.call;
    const bo_gpu_row_transform *sides = part->sides;
    if (!part->attention.fast) return BO_OK;
    if (part->count > 0) {
        call.q = sides[0].x, call.strides.q = sides[0].x_strides;
        call.dq = sides[0].dx, call.strides.dq = sides[0].dx_strides;
    }
    if (part->count > 1) {
        call.k = sides[1].x, call.strides.k = sides[1].x_strides;
        call.dk = sides[1].dx, call.strides.dk = sides[1].dx_strides;
    }
    return bo_gpu_require_aligned(context, &call);
}

/* Uploads the map, and transforms the rows. */
static bo_status enter(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part)
{
    BO_TRY(check_arrays(context, part));
    BO_TRY(describe_map(context, attention, &part->attention.map));
    for (int i = 0; i < part->count; i++) BO_TRY(BO_LAUNCH(context, row_transform, &part->sides[i]));
    return BO_OK;
}

bo_status bo_gpu_linear_forward(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part)
{
    BO_TRY(enter(context, attention, part));
    return BO_LAUNCH(context, linear_attention, &part->attention);
}

bo_status bo_gpu_linear_backward(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part)
{
    BO_TRY(enter(context, attention, part));
    BO_TRY(BO_LAUNCH(context, linear_attention_back, &part->attention));
    for (int i = 0; i < part->count; i++) BO_TRY(BO_LAUNCH(context, row_transform_back, &part->sides[i]));
    return BO_OK;
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

bo_gpu_attention bo_gpu_with_states(const bo_gpu_attention *call)
{
    bo_gpu_attention out = *call;
    out.continues = true;
    return out;
}

/* If no backward follows, the saved part precedes the scratch memory. */
static bo_gpu_linear_part carve(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                                bo_carver *kept, bo_carver *scratch)
{
    return bo_gpu_linear_make(attention, call, backward, call->keeps ? kept : scratch, scratch);
}

static size_t saved_bytes(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bo_gpu_attention with_states = bo_gpu_with_states(call);
    bo_carver kept = {0}, kept_with_states = {0}, scratch = {0};
    carve(attention, call, false, &kept, &scratch);
    carve(attention, &with_states, false, &kept_with_states, &scratch);
    return bo_max(kept.bytes, kept_with_states.bytes);
}

static size_t scratch_bytes(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    const bo_gpu_attention with_states = bo_gpu_with_states(call);
    bo_carver kept = {0}, scratch = {0}, scratch_with_states = {0};
    carve(attention, call, backward, &kept, &scratch);
    carve(attention, &with_states, backward, &kept, &scratch_with_states);
    return bo_max(scratch.bytes, scratch_with_states.bytes);
}

static bo_status forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver kept = {.at = call->saved}, scratch = {.at = call->scratch};
    bo_gpu_linear_part part = carve(attention, call, false, &kept, &scratch);
    return bo_gpu_linear_forward(context, attention, &part);
}

static bo_status backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver kept = {.at = call->saved}, scratch = {.at = call->scratch};
    bo_gpu_linear_part part = carve(attention, call, true, &kept, &scratch);
    return bo_gpu_linear_backward(context, attention, &part);
}

const bo_gpu_engine bo_gpu_engine_linear = {
    .refuses = refuses,
    .reads_first = true,
    .saved = saved_bytes,
    .scratch = scratch_bytes,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};
