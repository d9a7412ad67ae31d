/* Rows to features, and kernels in closed form: linear_map.h. */
#include "linear_map.h"

bo_mapper bo_mapper_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t rows,
                         bo_carver *carver)
{
    bo_mapper mapper = {.map = attention->features[key_head], .count = attention->count};
    mapper.front = bo_row_transform_make(attention, in, key_head, carver);
    mapper.t = bo_carve_floats(carver, rows * mapper.front.width);
    mapper.block = bo_carve(carver, bo_features_block_bytes(mapper.map, rows), 1);
    return mapper;
}

void bo_mapper_features(const bo_mapper *mapper, bo_role role, size_t rows, const float *x, size_t ldx, float *features,
                        float *log_scale)
{
    size_t ldt;
    const float *t = bo_row_transform_forward(&mapper->front, role, rows, x, ldx, mapper->t, &ldt);
    bo_features_block(mapper->map, rows, t, ldt, features, mapper->count, log_scale, mapper->block);
}

bool bo_closed_used(const bo_attention *attention)
{
    return bo_features_closed(attention->features[0]) && attention->count > 2 * attention->desc.features.dim;
}

bo_closed bo_closed_make(const bo_attention *attention, bo_carver *carver)
{
    const bo_features_desc *desc = &attention->desc.features;
    bo_closed closed = {
        .used = bo_closed_used(attention), .taylor = desc->kernel == BO_KERNEL_TAYLOR, .degree = desc->degree};
    if (!closed.used) return closed;
    closed.factor = bo_carve_floats(carver, desc->dim);
    for (size_t j = 0; carver->at && j < desc->dim; j++) {
        double length = desc->length_scales ? (double)desc->length_scales[j] : 1;
        closed.factor[j] = (float)(desc->gamma / (length * length));
    }
    return closed;
}

void bo_closed_apply(const bo_closed *closed, size_t n, float *s, float *slope)
{
    if (closed->taylor) {
        for (size_t i = 0; slope && i < n; i++) slope[i] = 1 + s[i];
        for (size_t i = 0; i < n; i++) s[i] = 1 + s[i] * (1 + 0.5f * s[i]);
        return;
    }
    float degree = (float)closed->degree;
    for (size_t i = 0; i < n; i++) {
        float base = 1 + s[i], power = 1;
        for (int p = 1; p < closed->degree; p++) power *= base;
        if (slope) slope[i] = degree * power;
        s[i] = base * power;
    }
}
