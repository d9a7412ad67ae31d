/* Compact storage types (fewer bits than float32), in the vector operations of the including file. */

/* Loads the first n < LANES elements; the other lanes are zero. */
static inline v load_bf16_part(const uint16_t *p, size_t n)
{
    uint16_t copy[LANES] = {0};
    memcpy(copy, p, n * sizeof *p);
    return v_load_bf16(copy);
}

static inline v load_s8_part(const int8_t *p, size_t n)
{
    int8_t copy[LANES] = {0};
    memcpy(copy, p, n);
    return v_load_s8(copy);
}

void ISA(round_bf16)(size_t n, const float *x, uint16_t *y)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store_bf16(y + i, v_load(x + i));
    if (i < n) {
        uint16_t rest[LANES];
        v_store_bf16(rest, v_load_part(x + i, n - i));
        memcpy(y + i, rest, (n - i) * sizeof *y);
    }
}

void ISA(widen_bf16)(size_t n, const uint16_t *x, float *y)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_load_bf16(x + i));
    if (i < n) v_store_part(y + i, n - i, load_bf16_part(x + i, n - i));
}

void ISA(widen_s8)(size_t n, float scale, const int8_t *q, float *y)
{
    v factor = v_set(scale);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_mul(factor, v_load_s8(q + i)));
    if (i < n) v_store_part(y + i, n - i, v_mul(factor, load_s8_part(q + i, n - i)));
}

/* ---- few rows times a matrix from memory ------------------------------------------------------------------------- */

#define DOTS_LINE      bf16_line
#define DOTS_NUMBER    uint16_t
#define DOTS_LOAD      v_load_bf16
#define DOTS_LOAD_PART load_bf16_part
#include "dots_line.h"

void ISA(dots_bf16)(size_t lines, size_t rows, size_t n, const uint16_t *w, size_t ldw, const float *x, size_t ldx,
                    float *out, size_t ldo)
{
    for (size_t j = 0; j < lines; j++) {
        size_t r = 0;
        for (; r + 2 <= rows; r += 2) bf16_line(2, n, w + j * ldw, x + r * ldx, ldx, out + r * ldo + j, ldo);
        if (r < rows) bf16_line(1, n, w + j * ldw, x + r * ldx, ldx, out + r * ldo + j, ldo);
    }
}

void ISA(quantize_s16)(size_t n, float scale, const float *x, int16_t *q)
{
    v factor = v_set(scale);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store_s16(q + i, v_mul(v_load(x + i), factor));
    if (i < n) {
        int16_t rest[LANES];
        v_store_s16(rest, v_mul(v_load_part(x + i, n - i), factor));
        memcpy(q + i, rest, (n - i) * sizeof *q);
    }
}

_Static_assert(BO_S8_GROUP == 64, "v_dot_group expects groups of this size");

/* The products of a group are summed exactly as integers before they are scaled. `more`: a whole group may be read at
 * the end of the line, because x is zero there. */
static inline __attribute__((always_inline)) void s8_line(size_t rows, size_t n, bool more, const int8_t *w,
                                                          const int16_t *x, size_t ldx, const float *scale, float *out,
                                                          size_t ldo)
{
    const float *scales = bo_s8_scales(w, n);
    v total[2] = {v_set(0.0f), v_set(0.0f)};
    size_t i = 0;
    for (; i + BO_S8_GROUP <= n; i += BO_S8_GROUP, scales++) {
        v factor = v_set(*scales);
        bo_fetch_ahead(w + i, BO_S8_GROUP);
        for (size_t r = 0; r < rows; r++) total[r] = v_fma(factor, v_dot_group(w + i, x + r * ldx + i), total[r]);
    }
    if (i < n) {
        int8_t copy[BO_S8_GROUP] = {0};
        if (!more) memcpy(copy, w + i, n - i);
        const int8_t *rest = more ? w + i : copy;
        for (size_t r = 0; r < rows; r++)
            total[r] = v_fma(v_set(*scales), v_dot_group(rest, x + r * ldx + i), total[r]);
    }
    for (size_t r = 0; r < rows; r++) out[r * ldo] = scale[r] * v_sum(total[r]);
}

void ISA(dots_s8)(size_t lines, size_t rows, size_t n, const int8_t *w, size_t ldw, const int16_t *x, size_t ldx,
                  const float *scale, float *out, size_t ldo)
{
    for (size_t j = 0; j < lines; j++) {
        const bool more = j + 1 < lines && n / BO_S8_GROUP * BO_S8_GROUP + BO_S8_GROUP <= 2 * ldw; /* the next line */
        const int8_t *line = w + j * ldw;
        size_t r = 0;
        for (; r + 2 <= rows; r += 2) s8_line(2, n, more, line, x + r * ldx, ldx, scale + r, out + r * ldo + j, ldo);
        if (r < rows) s8_line(1, n, more, line, x + r * ldx, ldx, scale + r, out + r * ldo + j, ldo);
    }
}

/* ---- 4-bit codes ------------------------------------------------------------------------------------------------- */

_Static_assert(BO_S4_GROUP == 32 && BO_S4_WIDE == 16, "decode_group and v_dot_codes expect these sizes");

static inline float bf16_scale(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void ISA(widen_s4)(size_t n, const uint8_t *line, size_t first, size_t count, float *y)
{
    const size_t groups = bo_s4_groups(n);
    const uint16_t *scales = bo_s4_scales(line, n);
    for (size_t g = first; g < first + count; g++, y += BO_S4_GROUP) {
        int8_t values[BO_S4_GROUP];
        v factor = v_set(bf16_scale(scales[g]));
        decode_group(line + bo_s4_first(g), bo_s4_stride(groups, g), values);
        for (size_t i = 0; i < BO_S4_GROUP; i += LANES) v_store(y + i, v_mul(factor, v_load_s8(values + i)));
    }
}

/* Adds the products of a whole block to LANES partial sums. */
static inline v add_code_block(v total, const uint8_t *codes, const uint16_t *scales, const int8_t *bytes,
                               const float *factors)
{
    bo_fetch_ahead(codes, BO_S4_WIDE * BO_S4_BYTES);
    for (size_t g = 0; g < BO_S4_WIDE; g += LANES) {
        v both = v_mul(v_load_bf16(scales + g), v_load(factors + g));
        total = v_fma(both, v_dot_codes(codes + 4 * g, bytes + 4 * g), total);
    }
    return total;
}

/* A variant for `count` groups at the end of a line; the bytes of x are zero there. */
static v add_code_rest(v total, size_t count, const uint8_t *codes, const uint16_t *scales, const int8_t *bytes,
                       const float *factors)
{
    enum { QUAD = 4, QUADS = BO_S4_BYTES / QUAD };
    uint8_t block[BO_S4_WIDE * BO_S4_BYTES] = {0};
    uint16_t block_scales[BO_S4_WIDE] = {0};
    for (size_t w = 0; w < QUADS; w++) memcpy(block + w * BO_S4_WIDE * QUAD, codes + w * count * QUAD, count * QUAD);
    memcpy(block_scales, scales, count * sizeof *scales);
    return add_code_block(total, block, block_scales, bytes, factors);
}

void ISA(dots_s4)(size_t lines, size_t rows, size_t n, const uint8_t *w, size_t ldw, const bo_byte_rows *x, float *out,
                  size_t ldo)
{
    const size_t groups = bo_s4_groups(n), rest = groups % BO_S4_WIDE;
    for (size_t j = 0; j < lines; j++, w += ldw) {
        const uint16_t *scales = bo_s4_scales(w, n);
        for (size_t r = 0; r < rows; r++) {
            const int8_t *bytes = x->bytes + r * x->length;
            const float *factors = x->scales + r * (x->length / BO_S4_GROUP);
            v total = v_set(0.0f);
            size_t g = 0;
            for (; g + BO_S4_WIDE <= groups; g += BO_S4_WIDE)
                total = add_code_block(total, w + g * BO_S4_BYTES, scales + g, bytes + g * BO_S4_GROUP, factors + g);
            if (rest)
                total =
                    add_code_rest(total, rest, w + g * BO_S4_BYTES, scales + g, bytes + g * BO_S4_GROUP, factors + g);
            out[r * ldo + j] = v_sum(total);
        }
    }
}
