/* Compact storage of lines: writing, reading, packing. */
#include "stored.h"
#include <math.h>
#include <string.h>
#include "panel.h"
#include "../kernels/kernels.h"

size_t bo_stored_line(bo_stored stored, size_t columns)
{
    if (stored == BO_STORED_INT8) return bo_s8_line(columns);
    return columns * (stored == BO_STORED_BFLOAT16 ? sizeof(uint16_t) : sizeof(float));
}

/* Quantizes each group so that its largest absolute value becomes 127. A group of zeros is stored exactly. A value that
 * is not finite makes its group NaN. */
static void quantize_line(const bo_kernels *kernels, size_t columns, const float *x, int8_t *line)
{
    memset(line, 0, bo_s8_line(columns));
    float *scale = (float *)(uintptr_t)bo_s8_scales(line, columns);
    for (size_t i = 0; i < columns; i += BO_S8_GROUP, scale++) {
        size_t count = bo_min(BO_S8_GROUP, columns - i);
        float largest = 0;
        for (size_t j = 0; j < count; j++) largest = fmaxf(largest, fabsf(x[i + j]));
        *scale = kernels->finite(count, x + i) ? largest / 127 : NAN;
        if (*scale > 0) kernels->quantize(count, 1 / *scale, x + i, line + i);
    }
}

void bo_stored_write(const bo_kernels *kernels, bo_stored stored, size_t columns, const float *x, void *line)
{
    if (stored == BO_STORED_BFLOAT16)
        kernels->round_bf16(columns, x, line);
    else if (stored == BO_STORED_INT8)
        quantize_line(kernels, columns, x, line);
    else
        memcpy(line, x, columns * sizeof *x);
}

static void read_bytes(const bo_kernels *kernels, size_t columns, const int8_t *line, size_t first, size_t count,
                       float *out)
{
    const float *scales = bo_s8_scales(line, columns);
    for (size_t i = first, end = first + count; i < end;) {
        size_t group = i / BO_S8_GROUP, next = bo_min((group + 1) * BO_S8_GROUP, end);
        kernels->widen_s8(next - i, scales[group], line + i, out + (i - first));
        i = next;
    }
}

void bo_stored_read(const bo_kernels *kernels, bo_stored stored, size_t columns, const void *line, size_t first,
                    size_t count, float *out)
{
    if (stored == BO_STORED_BFLOAT16)
        kernels->widen_bf16(count, (const uint16_t *)line + first, out);
    else if (stored == BO_STORED_INT8)
        read_bytes(kernels, columns, line, first, count, out);
    else
        memcpy(out, (const float *)line + first, count * sizeof *out);
}

void bo_stored_pack(const bo_kernels *kernels, bo_stored stored, size_t width, size_t lines, size_t columns,
                    size_t first, size_t k, const void *source, float *target)
{
    /* numbers that are read into the first-level cache before they are transposed */
    enum { ROOM = BO_SIZE(4096, 256) };
    float rows[ROOM];
    size_t bytes = bo_stored_line(stored, columns), depth = ROOM / width;
    for (size_t line = 0; line < lines; line += width, target += width * k) {
        size_t count = bo_min(width, lines - line);
        const char *from = (const char *)source + line * bytes;
        for (size_t p = 0; p < k; p += depth) {
            size_t run = bo_min(depth, k - p);
            for (size_t i = 0; i < count; i++)
                bo_stored_read(kernels, stored, columns, from + i * bytes, first + p, run, rows + i * depth);
            kernels->transpose(count, run, rows, depth, target + p * width, width);
        }
        for (size_t p = 0; count < width && p < k; p++)
            for (size_t i = count; i < width; i++) target[p * width + i] = 0;
    }
}
