/* Compact storage types (fewer bits than float32), in plain C. */
#include <math.h>
#include <string.h>
#include "ref.h"

void bo_ref_round_bf16(size_t n, const float *x, uint16_t *y)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40u;
        y[i] = (uint16_t)(x[i] != x[i] ? quiet : rounded);
    }
}

static float bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void bo_ref_widen_bf16(size_t n, const uint16_t *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = bf16(x[i]);
}

void bo_ref_widen_s8(size_t n, float scale, const int8_t *q, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = scale * (float)q[i];
}

void bo_ref_dots_bf16(size_t lines, size_t rows, size_t n, const uint16_t *w, size_t ldw, const float *x, size_t ldx,
                      float *out, size_t ldo)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < lines; j++) {
            float sum = 0;
            for (size_t i = 0; i < n; i++) sum += bf16(w[j * ldw + i]) * x[r * ldx + i];
            out[r * ldo + j] = sum;
        }
    }
}

void bo_ref_quantize_s16(size_t n, float scale, const float *x, int16_t *q)
{
    for (size_t i = 0; i < n; i++) {
        float scaled = x[i] * scale;
        if (scaled != scaled) scaled = 0.0f;
        q[i] = (int16_t)rintf(scaled < -32767.0f ? -32767.0f : scaled > 32767.0f ? 32767.0f : scaled);
    }
}

void bo_ref_dots_s8(size_t lines, size_t rows, size_t n, const int8_t *w, size_t ldw, const int16_t *x, size_t ldx,
                    const float *scale, float *out, size_t ldo)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < lines; j++) {
            const int8_t *line = w + j * ldw;
            const float *scales = bo_s8_scales(line, n);
            float total = 0;
            for (size_t i = 0; i < n; scales++) {
                int32_t sum = 0;
                size_t end = n - i < BO_S8_GROUP ? n : i + BO_S8_GROUP;
                for (; i < end; i++) sum += line[i] * x[r * ldx + i];
                total += *scales * (float)sum;
            }
            out[r * ldo + j] = scale[r] * total;
        }
    }
}

/* ---- 4-bit codes ------------------------------------------------------------------------------------------------- */

/* The value of element i of a group whose quads of bytes are `stride` bytes apart. */
static int8_t value_of(const uint8_t *group, size_t stride, size_t i)
{
    static const int8_t values[] = {BO_S4_VALUES};
    uint8_t pair = group[i % BO_S4_BYTES / 4 * stride + i % 4];
    return values[i < BO_S4_BYTES ? pair & 15 : pair >> 4];
}

void bo_ref_widen_s4(size_t n, const uint8_t *line, size_t first, size_t count, float *y)
{
    for (size_t g = first; g < first + count; g++)
        for (size_t i = 0; i < BO_S4_GROUP; i++, y++)
            *y = bf16(bo_s4_scales(line, n)[g]) *
                 (float)value_of(line + bo_s4_first(g), bo_s4_stride(bo_s4_groups(n), g), i);
}

void bo_ref_dots_s4(size_t lines, size_t rows, size_t n, const uint8_t *w, size_t ldw, const bo_byte_rows *x,
                    float *out, size_t ldo)
{
    for (size_t r = 0; r < rows; r++) {
        const int8_t *bytes = x->bytes + r * x->length;
        const float *factors = x->scales + r * (x->length / BO_S4_GROUP);
        for (size_t j = 0; j < lines; j++) {
            const uint8_t *line = w + j * ldw;
            float total = 0;
            for (size_t g = 0; g < bo_s4_groups(n); g++) {
                int32_t sum = 0;
                for (size_t i = 0; i < BO_S4_GROUP; i++)
                    sum += value_of(line + bo_s4_first(g), bo_s4_stride(bo_s4_groups(n), g), i) *
                           bytes[bo_s4_place(g * BO_S4_GROUP + i)];
                total += bf16(bo_s4_scales(line, n)[g]) * factors[g] * (float)sum;
            }
            out[r * ldo + j] = total;
        }
    }
}
