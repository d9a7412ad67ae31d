/* GEMM of bfloat16 matrices, in plain C. */
#include "../bf16.h"
#include <string.h>
#include "ref.h"

/* The index of an element within its block. */
typedef size_t (*place_fn)(size_t line, size_t depth);

static size_t place_a(size_t line, size_t depth)
{
    return line * BO_BF16_DEPTH + depth;
}

static size_t place_b(size_t line, size_t depth)
{
    return depth / 2 * 2 * BO_BF16_LINES + 2 * line + depth % 2;
}

static float widened(uint16_t number)
{
    float x;
    bo_ref_widen_bf16(1, &number, &x);
    return x;
}

static void pack(place_fn place, size_t lines, size_t k, float scale, const float *x, size_t ld, bool along,
                 uint16_t *out)
{
    memset(out, 0, bo_bf16_numbers(lines, k) * sizeof *out);
    for (size_t i = 0; i < lines; i++) {
        uint16_t *sliver = out + i / BO_BF16_LINES * BO_BF16_LINES * bo_bf16_depth(k);
        for (size_t p = 0; p < k; p++) {
            float number = scale * (along ? x[i * ld + p] : x[p * ld + i]);
            bo_ref_round_bf16(1, &number,
                              &sliver[p / BO_BF16_DEPTH * BO_BF16_BLOCK + place(i % BO_BF16_LINES, p % BO_BF16_DEPTH)]);
        }
    }
}

static void pack_a(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out)
{
    pack(place_a, lines, k, scale, x, ld, along, out);
}

static void pack_b(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out)
{
    pack(place_b, lines, k, scale, x, ld, along, out);
}

static float exp_line(size_t n, const float *x, float shift, size_t depth, uint16_t *line)
{
    float sum = 0;
    for (size_t p = 0; p < depth; p++) {
        float number = 0;
        if (p < n) bo_ref_exp_below(1, &x[p], shift, &number);
        sum += number;
        bo_ref_round_bf16(1, &number, &line[p / BO_BF16_DEPTH * BO_BF16_BLOCK + p % BO_BF16_DEPTH]);
    }
    return sum;
}

/* One sum per element over p = 0, 1, …, starting with C if `add`. */
static void multiply(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    size_t sliver = BO_BF16_LINES * bo_bf16_depth(k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const uint16_t *left = a + i / BO_BF16_LINES * sliver, *right = b + j / BO_BF16_LINES * sliver;
            float sum = add ? c[i * ldc + j] : 0;
            for (size_t p = 0; p < k; p++) {
                size_t block = p / BO_BF16_DEPTH * BO_BF16_BLOCK;
                sum += widened(left[block + place_a(i % BO_BF16_LINES, p % BO_BF16_DEPTH)]) *
                       widened(right[block + place_b(j % BO_BF16_LINES, p % BO_BF16_DEPTH)]);
            }
            c[i * ldc + j] = sum;
        }
}

const bo_micro_bf16 bo_ref_bf16 = {.pack_a = pack_a, .pack_b = pack_b, .exp_line = exp_line, .multiply = multiply};
