/* GEMM of bfloat16 matrices with float32 sums.
 *
 * Operands are rounded to bfloat16 (to nearest, ties to even) when they are packed. A sliver has BO_BF16_LINES lines
 * (rows of A or columns of B) and consists of blocks of BO_BF16_DEPTH along k; lines and depths that do not exist are
 * zero. A block has BO_BF16_BLOCK elements:
 *
 *   A   element (line i, depth p) at [i * BO_BF16_DEPTH + p]
 *   B   element (line j, depth p) at [(p / 2) * 2 * BO_BF16_LINES + 2 * j + p % 2]
 *
 * These are the tiles of AMX (TDPBF16PS) and the operands of VDPBF16PS, so one layout serves all instruction sets.
 *
 * Products of two bfloat16 values are exact in float32, except for underflow. Operands and sums whose absolute value
 * is below FLT_MIN may be flushed to 0, as some instructions do. The order of a sum depends on the instruction set, but
 * not on the shape of C or the position of the element. With s = |C| + Σ_p |a_p b_p| over the rounded operands, every
 * instruction set is within (k + 2) 2^-23 s + 4 (k + 1) FLT_MIN (1 + largest operand) of the exact sum: at most k + 2
 * roundings of partial sums, each to nearest. */
#ifndef BO_KERNELS_BF16_H
#define BO_KERNELS_BF16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BO_BF16_LINES = 16,
    BO_BF16_DEPTH = 32,
    BO_BF16_BLOCK = BO_BF16_LINES * BO_BF16_DEPTH,
    BO_BF16_TILE = 2 * BO_BF16_LINES, /* maximum rows and columns of C per call of `multiply` */
};

typedef struct bo_micro_bf16 {
    /* Prepares the calling thread for `multiply`: call it at the start of a task. NULL: nothing to prepare. */
    void (*prepare)(void);
    /* Pack `lines` lines times `scale` as consecutive slivers. Element (line i, depth p) is x[i * ld + p] if along
     * (lines are rows in memory), else x[p * ld + i]. `out` is aligned to 64 bytes. */
    void (*pack_a)(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out);
    void (*pack_b)(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out);
    /* One line of a sliver of A: element p < n is exp(x[p] + shift), as exp_below, then zeros up to `depth`, a multiple
     * of BO_BF16_DEPTH. `line` is aligned to 64 bytes. Returns the sum before rounding, in a summation order that
     * depends only on n. */
    float (*exp_line)(size_t n, const float *x, float shift, size_t depth, uint16_t *line);
    /* C (m x n, m and n at most BO_BF16_TILE) = A B, or C += A B if `add`, for one or two slivers of A and of B. */
    void (*multiply)(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, size_t m, size_t n,
                     bool add);
} bo_micro_bf16;

static inline void bo_bf16_prepare(const bo_micro_bf16 *micro)
{
    if (micro->prepare) micro->prepare();
}

/* Returns the padded depth of a sliver for depth k. */
static inline size_t bo_bf16_depth(size_t k)
{
    return (k + BO_BF16_DEPTH - 1) / BO_BF16_DEPTH * BO_BF16_DEPTH;
}

/* Returns the number of elements in the slivers of `lines` lines. */
static inline size_t bo_bf16_numbers(size_t lines, size_t k)
{
    return (lines + BO_BF16_LINES - 1) / BO_BF16_LINES * BO_BF16_LINES * bo_bf16_depth(k);
}

extern const bo_micro_bf16 bo_ref_bf16;
#if defined(__x86_64__)
extern const bo_micro_bf16 bo_avx2_bf16, bo_avx512_bf16, bo_avx512bf16_bf16, bo_amx_bf16;
#elif defined(__aarch64__)
extern const bo_micro_bf16 bo_neon_bf16;
#endif

#endif
