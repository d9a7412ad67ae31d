/* Packed panels: the form in which the micro-kernels of src/device/cpu read their operands, and the sizes of blocks.
 *
 * A panel of `lines` lines (rows of A or columns of B), k deep, is a sequence of slivers of `width` lines (the kernel's
 * mr or nr). Element (line i, depth p) is at [(i / width) * width * k + p * width + i % width]. The last sliver is
 * padded with zeros.
 *
 * A product is divided three times: into runs of at most `depth` along k (the sums of one run stay in registers), into
 * tiles of `columns` columns (their part of B stays in the second-level cache), and these into tasks of `rows` rows.
 * The division depends only on the shape, never on the number of threads; therefore the bits do not depend on the
 * number of threads either. */
#ifndef BO_MATH_PANEL_H
#define BO_MATH_PANEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include "../base/sizes.h"
#include "../base/tiny.h"

enum {
    BO_DEPTH32 = BO_SIZE(448, 16),      /* maximum number of products that bo_gemm sums in float32 registers */
    BO_DEPTH32_GRAM = BO_SIZE(512, 16), /* the same for bo_gram, as linalg.h documents */
    BO_DEPTH64 = BO_SIZE(256, 8),
    BO_DEPTH8 = BO_SIZE(2048, 64), /* a quarter of the bytes, so four times the rows */
    BO_TILE_ROWS = BO_SIZE(112, 8),
    BO_DEPTH_BF16 = BO_SIZE(512, 32),
    BO_TILE_ROWS_BF16 = BO_SIZE(128, 32),
    BO_TILE_COLUMNS_BF16 = BO_SIZE(512, 32),
    BO_TILE_COLUMNS = BO_SIZE(256, 8),
    BO_SUPER = BO_SIZE(4096, 64), /* lines of A or B that GEMM packs in one step; limits its memory */
};

/* Returns the length of the runs into which k is divided: as equal as multiples of 8 allow, at most `max_run` (a
 * multiple of 8). */
static inline size_t bo_run_length(size_t k, size_t max_run)
{
    assert(max_run > 0 && max_run % 8 == 0);
    return k == 0 ? 0 : bo_round_up(bo_ceil_div(k, bo_ceil_div(k, max_run)), 8);
}

/* Returns `size` rounded down to a multiple of width, at least one multiple. */
static inline size_t bo_whole_slivers(size_t size, size_t width)
{
    return size < width ? width : size / width * width;
}

/* Packs `lines` lines times `scale`. Element (line i, depth p) is source[i * ld + p] if along (lines are rows in
 * memory), else source[p * ld + i]. */
struct bo_kernels;
void bo_pack_f32(const struct bo_kernels *kernels, size_t width, size_t lines, size_t k, float scale,
                 const float *source, size_t ld, bool along, float *target);
void bo_pack_f64(size_t width, size_t lines, size_t k, double scale, const double *source, size_t ld, bool along,
                 double *target);
void bo_pack_f32_f64(size_t width, size_t lines, size_t k, double scale, const float *source, size_t ld, bool along,
                     double *target);

#endif
