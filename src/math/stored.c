/* Compact storage of lines: writing, reading, packing. */
#include "stored.h"
#include <float.h>
#include <math.h>
#include <string.h>
#include "panel.h"
#include "../device/cpu/kernels.h"

size_t bo_stored_line(bo_stored stored, size_t columns)
{
    if (stored == BO_STORED_INT8) return bo_s8_line(columns);
    if (stored == BO_STORED_INT4) return bo_s4_line(columns);
    return columns * (stored == BO_STORED_BFLOAT16 ? sizeof(uint16_t) : sizeof(float));
}

/* Quantizes each group so that its largest absolute value becomes 127. A group of zeros is stored exactly. A NaN or
 * infinity makes its group NaN. */
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

/* ---- 4-bit codes ------------------------------------------------------------------------------------------------- */

enum { CODES = 16, MAX_BYTE = 127, REFINEMENTS = 2 };

/* The code of the value nearest to each integer in [-127, 127]. */
typedef struct code_table {
    uint8_t code[2 * MAX_BYTE + 1];
} code_table;

static const int8_t code_values[CODES] = {BO_S4_VALUES};

static void fill_code_table(code_table *table)
{
    uint8_t code = 0;
    for (int q = -MAX_BYTE; q <= MAX_BYTE; q++) {
        while (code + 1 < CODES && 2 * q > code_values[code] + code_values[code + 1]) code++;
        table->code[q + MAX_BYTE] = code;
    }
}

/* The sums that determine the best scale for given codes: s = Σ v x / Σ v² with the squared error Σ x² - (Σ v x)² / Σ
 * v². */
typedef struct code_sums {
    double vx, vv;
} code_sums;

/* Chooses the codes nearest to x / scale. */
static code_sums choose_codes(const bo_kernels *kernels, const code_table *table, size_t count, const float *x,
                              float scale, uint8_t *codes)
{
    int8_t nearest[BO_S4_GROUP];
    float vx = 0;
    int vv = 0;
    kernels->quantize(count, 1 / scale, x, nearest);
    for (size_t i = 0; i < count; i++) {
        codes[i] = table->code[nearest[i] + MAX_BYTE];
        int value = code_values[codes[i]];
        vx += (float)value * (x[i] / scale), vv += value * value;
    }
    return (code_sums){.vx = (double)vx * (double)scale, .vv = vv};
}

static float rounded_to_bf16(const bo_kernels *kernels, float x, uint16_t *half)
{
    float rounded;
    kernels->round_bf16(1, &x, half);
    kernels->widen_bf16(1, half, &rounded);
    return rounded;
}

/* Returns the scale with the smallest squared error among some near those that map the largest number, `top`, to either
 * end of the table. */
static float best_scale(const bo_kernels *kernels, const code_table *table, size_t count, const float *x, float top)
{
    static const float ends[] = {-127.0f, 108.0f}, shares[] = {0.8f, 0.88f, 0.95f, 1.02f, 1.1f};
    double max_gain = 0;
    float best = top / ends[0];
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++)
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
            uint8_t codes[BO_S4_GROUP];
            code_sums sums = choose_codes(kernels, table, count, x, top * shares[s] / ends[e], codes);
            if (!(sums.vx * sums.vx > max_gain * sums.vv)) continue;
            max_gain = sums.vx * sums.vx / sums.vv;
            best = (float)(sums.vx / sums.vv);
        }
    for (size_t i = 0; i < REFINEMENTS; i++) { /* codes and scale alternate: the error does not grow */
        uint8_t codes[BO_S4_GROUP];
        code_sums sums = choose_codes(kernels, table, count, x, best, codes);
        best = (float)(sums.vx / sums.vv);
    }
    return best;
}

/* Writes one group, whose words have a distance of `stride` bytes. Numbers of denormal size become zero. A NaN or
 * infinity makes its group NaN. */
static void write_group(const bo_kernels *kernels, const code_table *table, size_t count, const float *x,
                        uint8_t *codes, size_t stride, uint16_t *scale)
{
    uint8_t chosen[BO_S4_GROUP] = {0};
    float top = 0;
    for (size_t i = 0; i < count; i++) top = fabsf(x[i]) > fabsf(top) ? x[i] : top;
    if (!kernels->finite(count, x)) {
        rounded_to_bf16(kernels, NAN, scale);
    } else if (fabsf(top) > MAX_BYTE * FLT_MIN) {
        float kept = rounded_to_bf16(kernels, best_scale(kernels, table, count, x, top), scale);
        choose_codes(kernels, table, count, x, kept, chosen);
    } else {
        *scale = 0;
    }
    for (size_t i = 0; i < BO_S4_BYTES; i++)
        codes[i / 4 * stride + i % 4] = (uint8_t)(chosen[i] | chosen[i + BO_S4_BYTES] << 4);
}

static void write_codes(const bo_kernels *kernels, size_t columns, const float *x, uint8_t *line)
{
    code_table table;
    uint16_t *scale = (uint16_t *)(uintptr_t)bo_s4_scales(line, columns);
    fill_code_table(&table);
    for (size_t g = 0; g < bo_s4_groups(columns); g++, x += BO_S4_GROUP, scale++)
        write_group(kernels, &table, bo_min(BO_S4_GROUP, columns - g * BO_S4_GROUP), x, line + bo_s4_first(g),
                    bo_s4_stride(bo_s4_groups(columns), g), scale);
}

/* Whole groups are read directly, parts of one through a copy. */
static void read_codes(const bo_kernels *kernels, size_t columns, const uint8_t *line, size_t first, size_t count,
                       float *out)
{
    for (size_t i = first, end = first + count; i < end;) {
        size_t group = i / BO_S4_GROUP, inside = i % BO_S4_GROUP, whole = inside ? 0 : (end - i) / BO_S4_GROUP;
        if (whole) {
            kernels->widen_s4(columns, line, group, whole, out + (i - first));
            i += whole * BO_S4_GROUP;
            continue;
        }
        float numbers[BO_S4_GROUP];
        size_t part = bo_min(BO_S4_GROUP - inside, end - i);
        kernels->widen_s4(columns, line, group, 1, numbers);
        memcpy(out + (i - first), numbers + inside, part * sizeof *out);
        i += part;
    }
}

/* ---- all types --------------------------------------------------------------------------------------------------- */

void bo_stored_write(const bo_kernels *kernels, bo_stored stored, size_t columns, const float *x, void *line)
{
    if (stored == BO_STORED_BFLOAT16)
        kernels->round_bf16(columns, x, line);
    else if (stored == BO_STORED_INT8)
        quantize_line(kernels, columns, x, line);
    else if (stored == BO_STORED_INT4)
        write_codes(kernels, columns, x, line);
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
    else if (stored == BO_STORED_INT4)
        read_codes(kernels, columns, line, first, count, out);
    else
        memcpy(out, (const float *)line + first, count * sizeof *out);
}

void bo_stored_pack(const bo_kernels *kernels, bo_stored stored, size_t width, size_t lines, size_t columns,
                    size_t first, size_t k, const void *source, float *target)
{
    /* numbers that are read into the first-level cache before they are transposed */
    enum { BUFFER_FLOATS = BO_SIZE(4096, 256) };
    float rows[BUFFER_FLOATS];
    size_t bytes = bo_stored_line(stored, columns), depth = BUFFER_FLOATS / width;
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

void bo_stored_pack_bf16(const bo_kernels *kernels, bo_stored stored, size_t lines, size_t columns, size_t first,
                         size_t k, const void *source, uint16_t *target)
{
    enum { RUN = BO_SIZE(8, 1) * BO_BF16_DEPTH };
    float rows[BO_BF16_LINES * RUN];
    size_t bytes = bo_stored_line(stored, columns);
    for (size_t line = 0; line < lines; line += BO_BF16_LINES) {
        size_t count = bo_min(BO_BF16_LINES, lines - line);
        const char *from = (const char *)source + line * bytes;
        for (size_t p = 0; p < k; p += RUN) {
            size_t run = bo_min(RUN, k - p);
            for (size_t i = 0; i < count; i++)
                bo_stored_read(kernels, stored, columns, from + i * bytes, first + p, run, rows + i * RUN);
            kernels->bf16->pack_b(count, run, 1, rows, RUN, true, target);
            target += bo_bf16_numbers(count, run);
        }
    }
}
