/* Products of matrices in cache, in float32 or bfloat16. */
#include "block.h"
#include <assert.h>
#include "../base/sizes.h"

/* Lines of A and of B, and the depth, that are packed at a time: 160 KiB in all. */
enum { ROWS = BO_SIZE(128, 32), COLUMNS = BO_SIZE(128, 32), DEPTH = BO_SIZE(320, 32) };

bo_multiplier bo_multiplier_make(const bo_kernels *kernels, bo_precision precision, bo_carver *carver)
{
    bo_multiplier multiplier = {.kernels = kernels};
    if (precision != BO_PRECISION_BFLOAT16) return multiplier;
    multiplier.panels = bo_carve(carver, (ROWS + COLUMNS) * DEPTH, sizeof *multiplier.panels);
    return multiplier;
}

void bo_multiply_panels(const bo_micro_bf16 *micro, size_t m, size_t n, size_t k, const uint16_t *a, const uint16_t *b,
                        bool add, float *c, size_t ldc)
{
    const size_t line = bo_bf16_depth(k);
    for (size_t i = 0; i < m; i += BO_BF16_TILE)
        for (size_t j = 0; j < n; j += BO_BF16_TILE)
            micro->multiply(k, a + i * line, b + j * line, c + i * ldc + j, ldc, bo_min(BO_BF16_TILE, m - i),
                            bo_min(BO_BF16_TILE, n - j), add);
}

static void multiply_rounded(const bo_multiplier *multiplier, size_t m, size_t n, size_t k, const float *a, size_t row,
                             size_t column, const float *b, size_t ldb, bool add, float *c, size_t ldc)
{
    const bo_micro_bf16 *micro = multiplier->kernels->bf16;
    uint16_t *left = multiplier->panels, *right = left + ROWS * DEPTH;
    const bool along = column == 1;
    assert(along || row == 1);
    bo_bf16_prepare(micro);
    size_t p = 0;
    do { /* runs at least once: C is overwritten if k = 0 */
        size_t depth = bo_min(DEPTH, k - p);
        for (size_t i = 0; i < m; i += ROWS) {
            size_t rows = bo_min(ROWS, m - i);
            micro->pack_a(rows, depth, 1, a + i * row + p * column, along ? row : column, along, left);
            for (size_t j = 0; j < n; j += COLUMNS) {
                size_t columns = bo_min(COLUMNS, n - j);
                if (i == 0 || n > COLUMNS) micro->pack_b(columns, depth, 1, b + p * ldb + j, ldb, false, right);
                bo_multiply_panels(micro, rows, columns, depth, left, right, add || p > 0, c + i * ldc + j, ldc);
            }
        }
        p += depth;
    } while (p < k);
}

void bo_multiply(const bo_multiplier *multiplier, size_t m, size_t n, size_t k, const float *a, size_t row,
                 size_t column, const float *b, size_t ldb, bool add, float *c, size_t ldc)
{
    if (multiplier->panels)
        multiply_rounded(multiplier, m, n, k, a, row, column, b, ldb, add, c, ldc);
    else
        multiplier->kernels->multiply(m, n, k, a, row, column, b, ldb, add, c, ldc);
}

void bo_multiply_renew(const bo_multiplier *multiplier, size_t m, size_t n, size_t k, const float *a, size_t row,
                       size_t column, const float *b, size_t ldb, float keep, float *c, size_t ldc)
{
    if (!multiplier->panels) {
        multiplier->kernels->renew(m, n, k, a, row, column, b, ldb, keep, c, ldc);
        return;
    }
    if (keep != 1 && ldc == n) multiplier->kernels->scale(m * n, keep, c, c);
    for (size_t i = 0; keep != 1 && ldc != n && i < m; i++)
        multiplier->kernels->scale(n, keep, c + i * ldc, c + i * ldc);
    multiply_rounded(multiplier, m, n, k, a, row, column, b, ldb, true, c, ldc);
}
