/* Compute kernels: the inner loops that benefit from SIMD instruction sets. ref/ has plain C versions; avx2/, avx512/
 * and neon/ have faster versions; table.c selects a table at run time. No code outside this directory refers to an
 * instruction set.
 *
 * Vector functions accept n = 0, any alignment, and in-place use (out == in) unless documented otherwise. */
#ifndef BO_KERNELS_H
#define BO_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "../../base/tiny.h"
#include <stdbool.h>
#include "bf16.h"
#include "channels.h"
#include "fft.h"
#include "pairs.h"

/* A GEMM micro-kernel multiplies a packed sliver of A (mr rows, k deep: a[p * mr + i]) by one of B
 * (nr columns: b[p * nr + j]) in registers, ONE sum per element over p = 0..k-1, then adds the tile to C
 * (C[i * ldc + j] += sum) or, without `add`, overwrites it, for i < m, j < n, m <= mr, n <= nr (edges). `a` and
 * `b` are 64-byte aligned and padded with zeros to mr and nr. */
typedef struct bo_micro {
    size_t mr, nr;
    void (*f32)(size_t k, const float *a, const float *b, float *c, size_t ldc, size_t m, size_t n, bool add);
    /* float32 products and registers, float64 C: the Gram accumulator */
    void (*f32_f64)(size_t k, const float *a, const float *b, double *c, size_t ldc, size_t m, size_t n, bool add);
} bo_micro;

/* The same for signed bytes in [-127, 127], with exact sums: C[i * ldc + j] = fma(scale, sum, C[i * ldc + j]). Every
 * sum is an integer below 2^31, so results are bitwise equal for all instruction sets. One instruction processes
 * `group` consecutive p of a line, `element` bytes each. The layout of a sliver is private to the kernel: its pack
 * functions write it (`lines` columns of q, k rows of stride ldq, as consecutive slivers of bo_sliver_s8 bytes, the
 * last padded with zeros) and `multiply` reads it. k <= BO_S8_DEPTH. */
typedef struct bo_micro_s8 {
    size_t mr, nr; /* mr <= 16 */
    size_t group, element;
    void (*pack_a)(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
    void (*pack_b)(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
    void (*multiply)(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m, size_t n);
} bo_micro_s8;

enum {
    BO_S8_HEAD = 64,     /* bytes of the head of a sliver: 16 integers that the kernel computes from its lines */
    BO_S8_DEPTH = 65536, /* 255 * 127 * depth < 2^31 */
};

/* Returns the bytes of a sliver of `width` (mr or nr) lines, k deep. */
static inline size_t bo_sliver_s8(const bo_micro_s8 *micro, size_t width, size_t k)
{
    size_t bytes = (k + micro->group - 1) / micro->group * micro->group * width * micro->element;
    return BO_S8_HEAD + (bytes + 63) / 64 * 64;
}

/* The constants of an AdamW step (arXiv 1711.05101) with the bias corrections included: keep = 1 - decay, rate / (1 -
 * β₁ᵗ), rest = 1 - β, correction = 1 / √(1 - β₂ᵗ). */
typedef struct bo_adamw_step {
    float scale, keep, rate, beta1, rest1, beta2, rest2, correction, epsilon;
} bo_adamw_step;

/* Requests `bytes` bytes, 6 KiB after `from`, for products that read a matrix once: beyond the page where the
 * prefetchers of a CPU stop. Requests after the end of the matrix are harmless. */
static inline void bo_fetch_ahead(const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const void *)((uintptr_t)from + 6144 + i), 0, 3);
}

/* A line of bytes with scales: n bytes, padded to a multiple of 4, then one float per group of BO_S8_GROUP. Element i
 * is q[i] times the scale of its group. */
enum { BO_S8_GROUP = 64 };

static inline size_t bo_s8_line(size_t n) /* bytes of such a line */
{
    return (n + 3) / 4 * 4 + (n + BO_S8_GROUP - 1) / BO_S8_GROUP * sizeof(float);
}

static inline const float *bo_s8_scales(const int8_t *line, size_t n) /* lines start at multiples of 4 bytes */
{
    return (const float *)(const void *)(line + (n + 3) / 4 * 4);
}

/* A line of 4-bit codes: 16 bytes per group of BO_S4_GROUP elements (element j < 16 of a group is the lower half of
 * byte j, element j + 16 its upper half), then one bfloat16 scale per group. The quads (4 bytes) of BO_S4_WIDE groups
 * are interleaved, so each lane of a vector sums the products of one group: first the first quad of each group, then
 * the second quads, and so on; the last block may have fewer groups. Element i is the scale of its group times
 * BO_S4_VALUES[code]. These values minimize the squared error of normally distributed values if each group has the best
 * scale (Lloyd's algorithm, rounded to bytes). The sign of the scale assigns the longer side of the code range to the
 * element with the largest absolute value. Codes after the last element are arbitrary. */
enum { BO_S4_GROUP = 32, BO_S4_BYTES = BO_S4_GROUP / 2, BO_S4_WIDE = 16 };
#define BO_S4_VALUES -127, -100, -79, -62, -48, -34, -21, -9, 2, 13, 25, 37, 50, 65, 83, 108

static inline size_t bo_s4_groups(size_t n)
{
    return (n + BO_S4_GROUP - 1) / BO_S4_GROUP;
}

static inline size_t bo_s4_line(size_t n) /* bytes of such a line: a multiple of 2 */
{
    return bo_s4_groups(n) * (BO_S4_BYTES + sizeof(uint16_t));
}

static inline const uint16_t *bo_s4_scales(const uint8_t *line, size_t n) /* lines start at multiples of 2 bytes */
{
    return (const uint16_t *)(const void *)(line + bo_s4_groups(n) * BO_S4_BYTES);
}

/* Offset of the first quad of group g; the next quads follow bo_s4_stride bytes apart. */
static inline size_t bo_s4_first(size_t g)
{
    return g / BO_S4_WIDE * BO_S4_WIDE * BO_S4_BYTES + g % BO_S4_WIDE * sizeof(uint32_t);
}

static inline size_t bo_s4_stride(size_t groups, size_t g) /* groups: of the line */
{
    size_t left = groups - g / BO_S4_WIDE * BO_S4_WIDE;
    return (left < BO_S4_WIDE ? left : BO_S4_WIDE) * sizeof(uint32_t);
}

/* Rows of bytes in [-127, 127] with one scale per group of BO_S4_GROUP, in blocks of BO_S4_WIDE groups, in the
 * unpacking order of the codes of a whole block: the lower halves of the first quads, their upper halves, the lower
 * halves of the second quads, … Element i of row r is bytes[r * length + bo_s4_place(i)] times scales[(r * length + i)
 * / BO_S4_GROUP]. `starts` has the initial value of unsigned dot products per group: -128 times the sum of its bytes.
 * The rows are padded with zeros to `length`, a multiple of BO_S4_BLOCK. */
enum { BO_S4_BLOCK = BO_S4_WIDE * BO_S4_GROUP };

static inline size_t bo_s4_place(size_t i)
{
    size_t group = i % BO_S4_BLOCK / BO_S4_GROUP, inside = i % BO_S4_GROUP, half = inside / 16, quad = inside % 16 / 4;
    return i / BO_S4_BLOCK * BO_S4_BLOCK + ((2 * quad + half) * BO_S4_WIDE + group) * 4 + inside % 4;
}

typedef struct bo_byte_rows {
    const int8_t *bytes;
    const int32_t *starts;
    const float *scales;
    size_t length;
} bo_byte_rows;

/* Runs along the depth of a product: their number, and their stride in A and B, in floats. */
typedef struct bo_runs {
    size_t count, a, b;
} bo_runs;

enum { BO_GATED_ROWS = 16 }; /* maximum rows of gated_gradients, which multiplies the gates of all pairs */

typedef struct bo_micro_f64 {
    size_t mr, nr;
    void (*f64)(size_t k, const double *a, const double *b, double *c, size_t ldc, size_t m, size_t n, bool add);
} bo_micro_f64;

/* The statistics of one normalized group in the backward pass: x̂ = (x - mean) rate; shift and slope as in `norm_back`.
 */
typedef struct bo_norm_row {
    float mean, rate, shift, slope;
} bo_norm_row;

typedef struct bo_rotation {
    double c, s;
} bo_rotation;

enum { BO_RANDOM_GROUP = 64 };

/* Activations. Φ is the normal distribution function, σ(x) = 1 / (1 + exp(-x)). */
typedef enum bo_curve {
    BO_CURVE_GELU = 0,      /* x Φ(x) */
    BO_CURVE_GELU_TANH = 1, /* x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 */
    BO_CURVE_RELU2 = 2,     /* max(x, 0)² */
    BO_CURVE_SILU = 3,      /* x σ(x) */
    BO_CURVE_RELU = 4,
    BO_CURVE_TANH = 5,
    BO_CURVE_SIGMOID = 6,
    BO_CURVE_LOG_SIGMOID = 7,
    BO_CURVE_SOFTPLUS = 8, /* log(1 + exp(x)) */
    BO_CURVE_EXP = 9,
    BO_CURVE_IDENTITY = 10,
    BO_CURVE_COUNT = 11
} bo_curve;

typedef struct bo_kernels {
    const char *isa;
    bo_micro gemm;
    bo_micro_f64 gemm64;
    bo_micro_s8 gram8;
    const bo_micro_bf16 *bf16;
    const bo_channels *channels;
    const bo_fft_kernels *fft;

    /* s[i] = scale * sin(x[i]), c[i] = scale * cos(x[i]); |error| <= 2e-7 * scale for every finite x. The argument is
     * reduced in double or by Payne-Hanek if float is not accurate enough (heavy-tailed spectra give |x| of 1e8 and
     * more). s and c may each equal x, but not each other. */
    void (*sincos)(size_t n, float scale, const float *x, float *s, float *c);
    /* y[i] = scale * cos(x[i] + shift[i]) */
    void (*cos_shift)(size_t n, float scale, const float *x, const float *shift, float *y);
    /* y[i] = exp(x[i] + shift), relative error <= 2e-7, flushing to 0 below -87.3 and to +inf above 88.7 */
    void (*exp_shift)(size_t n, const float *x, float shift, float *y);
    /* y[i] = scale * max(x[i], 0) */
    void (*relu)(size_t n, float scale, const float *x, float *y);
    /* y[i] = a * x[i] + y[i] */
    void (*axpy)(size_t n, float a, const float *x, float *y);
    /* sum of x[i] * y[i], float64 accumulation in a fixed order */
    double (*dot)(size_t n, const float *x, const float *y);
    /* sum of x[i], float64 accumulation in a fixed order */
    double (*sum)(size_t n, const float *x);
    /* y[i] = (x[i] - mean[i]) * factor[i]: standardization and length scales in one */
    void (*affine)(size_t n, const float *x, const float *mean, const float *factor, float *y);
    /* q[i] = x[i] * scale rounded to the nearest integer (ties to even), clamped to [-127, 127]; 0 for NaN */
    void (*quantize)(size_t n, float scale, const float *x, int8_t *q);
    /* In-place unnormalized Walsh-Hadamard transform of x, n a power of two. */
    void (*hadamard)(size_t n, float *x);

    /* C (m x n) = A B, or C += A B if `add`, for operands in cache: nothing is packed. A(i, p) = a[i * row + p *
     * column]: either stride may be 1, so that A or its transpose is used in place. B is k rows of n (stride ldb). Each
     * element is one sum over p = 0..k-1, starting with C(i, j) if `add`, else with 0; it is bitwise independent of m,
     * n, i, j. k may be 0. C overlaps neither A nor B. */
    void (*multiply)(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b,
                     size_t ldb, bool add, float *c, size_t ldc);
    /* multiply over runs.count runs of length k: element r k + p of a row of A is at a[i * row + r * runs.a + p *
     * column], row r k + p of B is at b + r * runs.b + p * ldb. Each element is bitwise equal to multiply on contiguous
     * copies, so image patches are not copied. */
    void (*multiply_runs)(size_t m, size_t n, bo_runs runs, size_t k, const float *a, size_t row, size_t column,
                          const float *b, size_t ldb, bool add, float *c, size_t ldc);
    /* C = keep C + A B: like multiply, but each sum starts with keep * C(i, j). */
    void (*renew)(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b, size_t ldb,
                  float keep, float *c, size_t ldc);
    /* b[j * ldb + i] = a[i * lda + j] for i < rows, j < columns */
    void (*transpose)(size_t rows, size_t columns, const float *a, size_t lda, float *b, size_t ldb);
    /* Products without repeats: row i of `out` (n - i elements; rows are consecutive) is a_i [c t_i, off_diagonal
     * t_{i+1}, off_diagonal t_{i+2}, …] with c = diagonal, except c = head in row 0. out overlaps neither a nor t. */
    void (*triangle)(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                     float *out);
    /* With g = dL/dout: da_i += Σ_j g_ij c_ij t_j, dt_j += Σ_i g_ij c_ij a_i. da and dt may be the same array; they
     * overlap nothing else. */
    void (*triangle_back)(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                          const float *g, float *da, float *dt);
    /* Returns the largest x[i]; -INFINITY for n = 0. If some x[i] are NaN, the result is NaN or any x[i]. */
    float (*max)(size_t n, const float *x);
    /* y[i] = a * x[i] */
    void (*scale)(size_t n, float a, const float *x, float *y);
    /* y_r = a[r] x_r for rows of n floats: x_r = x + r * ldx, y_r = y + r * ldy */
    void (*scale_rows)(size_t rows, size_t n, const float *a, const float *x, size_t ldx, float *y, size_t ldy);
    /* sum of x[i] * y[i] in float32, in an order that depends only on n */
    float (*dot_f32)(size_t n, const float *x, const float *y);
    /* out_r[j] = Σ_i w_j[i] x_r[i] in float32 for `lines` lines w_j = w + j * ldw and `rows` rows x_r = x + r * ldx,
     * out_r = out + r * ldo: few rows times a matrix that is read once. The order of a sum depends only on n. */
    void (*dots)(size_t lines, size_t rows, size_t n, const float *w, size_t ldw, const float *x, size_t ldx,
                 float *out, size_t ldo);
    /* y[i] = x[i] rounded to bfloat16, the upper half of a float, to nearest with ties to even; NaN stays NaN */
    void (*round_bf16)(size_t n, const float *x, uint16_t *y);
    void (*widen_bf16)(size_t n, const uint16_t *x, float *y);
    /* y[i] = scale * q[i] */
    void (*widen_s8)(size_t n, float scale, const int8_t *q, float *y);
    /* q[i] = x[i] * scale rounded to the nearest integer, clamped to [-32767, 32767]; 0 for NaN */
    void (*quantize_s16)(size_t n, float scale, const float *x, int16_t *q);
    /* dots with w in bfloat16; ldw in elements */
    void (*dots_bf16)(size_t lines, size_t rows, size_t n, const uint16_t *w, size_t ldw, const float *x, size_t ldx,
                      float *out, size_t ldo);
    /* dots with lines of bytes and their scales (BO_S8_GROUP; ldw in bytes) and rows x_r of integers in [-32767,
     * 32767], times scale[r]. Sums within a group are exact. x_r is padded with zeros to a whole group. */
    void (*dots_s8)(size_t lines, size_t rows, size_t n, const int8_t *w, size_t ldw, const int16_t *x, size_t ldx,
                    const float *scale, float *out, size_t ldo);
    /* y = the values of `count` groups of a line of n 4-bit codes, starting at group `first` */
    void (*widen_s4)(size_t n, const uint8_t *line, size_t first, size_t count, float *y);
    /* dots with lines of 4-bit codes (ldw in bytes) and rows of bytes. Sums within a group are exact. */
    void (*dots_s4)(size_t lines, size_t rows, size_t n, const uint8_t *w, size_t ldw, const bo_byte_rows *x,
                    float *out, size_t ldo);
    /* y[i] = exp(x[i] + shift) for x[i] + shift <= 0 (slightly positive values are harmless): |error| <= 2e-7, 0 below
     * -87.3 and for -INFINITY. Faster than exp_shift because the error bound is absolute, not relative. */
    void (*exp_below)(size_t n, const float *x, float shift, float *y);
    /* exp_below that also returns the sum of y in float32, in a summation order that depends only on n. */
    float (*exp_sum)(size_t n, const float *x, float shift, float *y);
    /* y[i] *= exp(x[i] + shift), like exp_below. Returns the sum of y, in a summation order that depends only on n. */
    float (*exp_weigh)(size_t n, const float *x, float shift, float *y);
    /* The same with exponents that may cancel: x[i] + shift is rounded to float once. The array x must extend to a
     * multiple of 16 elements; the extra elements are read but not used. */
    float (*exp_weigh_wide)(size_t n, const double *x, double shift, float *y);
    /* y[i] = a log|x[i]|, |error| <= |a| 3e-7 (1 + |log|x||); -INFINITY if |x| < FLT_MIN (a > 0), INFINITY if x is NaN
     * or infinite. */
    void (*log_size)(size_t n, float a, const float *x, float *y);
    /* True if no x[i] is NaN or infinite. */
    bool (*finite)(size_t n, const float *x);
    bool (*finite_rows)(size_t rows, size_t n, const float *x, size_t ldx); /* a variant for short rows */
    /* One token of linear attention: S (rows x n, contiguous) = decay S + f vᵀ, and for each of `queries` queries g:
     * out_g (n floats) = Σ_i q_g[i] S_i with the updated S. q_g = q + g * ldq, out_g = out + g * ldo. One pass over S.
     * update false: S is only read; decay, f and v are ignored. */
    void (*state_step)(size_t rows, size_t n, bool update, float decay, const float *f, const float *v, float *s,
                       size_t queries, const float *q, size_t ldq, float *out, size_t ldo);
    /* The same with one decay per row of S. */
    void (*state_step_gated)(size_t rows, size_t n, bool update, const float *decay, const float *f, const float *v,
                             float *s, size_t queries, const float *q, size_t ldq, float *out, size_t ldo);
    /* z[i] = x[i] y[i], or z[i] += x[i] y[i] if `add` */
    void (*product)(size_t n, const float *x, const float *y, bool add, float *z);
    /* Scores with one gate per channel: out(i, j) = Σ_c q_i[c] g_{j+1}[c] … g_i[c] k_j[c] for j <= i < rows; other
     * elements are not written. q, k, g and out have row strides. The bits of row i do not depend on later rows. */
    void (*gated_scores)(size_t rows, size_t n, const float *q, size_t ldq, const float *k, size_t ldk, const float *g,
                         size_t ldg, float *out, size_t ldo);
    /* Gradients of Σ_{j<=i} w(i, j) score(i, j), added to dq and dk and, with respect to log g_t, to dlog; every term
     * of dlog has g_t as a factor. q, g, dq, dk, dlog are rows x n; rows <= BO_GATED_ROWS; w(i, j) for j > i is not
     * read. */
    void (*gated_gradients)(size_t rows, size_t n, const float *w, size_t ldw, const float *q, const float *k,
                            size_t ldk, const float *g, float *dq, float *dk, float *dlog);
    /* Rotates `count` rows y into one row of doubles, in the order t = 0, 1, …: (row, y_t) becomes (c_t row + s_t y_t,
     * c_t y_t - s_t row); then w -= z row for each of the `outputs` rows w of that y (w and z: count x outputs). n is a
     * multiple of 8; ldy and ldw are strides. */
    void (*rotate)(size_t n, size_t count, const double *c, const double *s, double *row, double *y, size_t ldy,
                   size_t outputs, const double *z, double *w, size_t ldw);
    /* Products of `rows` rows of doubles a_r = a + r * lda, each with one pass over A: y[r] += Σ_j a_r[j] x[j]; z[j] +=
     * Σ_r w[r] a_r[j]; and both. The summation order depends only on rows and n. y and z overlap nothing else. */
    void (*dots64)(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y);
    void (*combine64)(size_t rows, size_t n, const double *a, size_t lda, const double *w, double *z);
    void (*dots_combine64)(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y,
                           const double *w, double *z);
    /* Rotates rows i and i + 1 of x (n doubles each, stride ldx) for i = 0, …, count - 1, in this order: (p, q) becomes
     * (c p + s q, c q - s p). */
    void (*rotate_rows64)(size_t count, size_t n, const bo_rotation *rotations, double *x, size_t ldx);
    /* With h = scale g: m = β₁ m + rest1 h, v = β₂ v + rest2 h², w = keep w - rate m / (√v correction + epsilon). The
     * arrays must not overlap. */
    void (*adamw)(size_t n, const bo_adamw_step *step, const float *g, float *m, float *v, float *w);
    /* With g = gain ∘ dy (gain NULL: g = dy): dx = rate (g - shift - (x - mean) slope), or added to dx if `add`; dgain
     * += dy ∘ x̂; dbias += dy. dx, dgain, dbias NULL: not requested. Every operation is rounded separately, so results
     * are bitwise equal for all instruction sets. The outputs overlap nothing else. */
    void (*norm_back)(size_t n, const bo_norm_row *row, const float *x, const float *dy, const float *gain, bool add,
                      float *dx, float *dgain, float *dbias);
    /* Random 32-bit values: groups of BO_RANDOM_GROUP, starting at group `first`. Value j of group g is value j / 16 of
     * block 16 g + j % 16 of the generator in base/rng.h. */
    void (*random)(uint64_t seed, uint64_t stream, uint64_t first, size_t groups, uint32_t *out);
    /* y[i] = f(x[i]), and y[i] = f'(x[i]) */
    void (*curve)(bo_curve curve, size_t n, const float *x, float *y);
    void (*curve_derivative)(bo_curve curve, size_t n, const float *x, float *y);
    /* Pairs of rows (pairs.h). out(i, j) = s(x_i, y_j) for `rows` rows x_i and the first `columns` <= BO_PAIR_ROWS rows
     * y_j of a panel. weight NULL: all 1. Terms are added in the order of the coordinates; the bits of an element
     * depend only on the two rows, and do not change if the rows are exchanged. */
    void (*distances)(bo_distance distance, size_t rows, size_t columns, size_t dim, const float *x, size_t ldx,
                      const float *weight, const float *panel, float *out, size_t ldo);
    /* y[i] = f(s[i]), and y[i] = f'(s[i]), s >= 0; RECIPROCAL: the derivative with respect to log s; ROOT: f'(0) is
     * defined as 0. |error| of f and of -f' / (f' at 0, or f' of ROOT) is at most 5e-7. */
    void (*radial)(const bo_radial *radial, size_t n, const float *s, float *y);
    void (*radial_derivative)(const bo_radial *radial, size_t n, const float *s, float *y);
    /* sums[p * BO_PAIR_LANES + j % BO_PAIR_LANES] += factor[j] h_p(x, y_j) for the BO_PAIR_ROWS rows y_j of a panel, p
     * < dim. h_p is the derivative of s with respect to d_p, up to constants: d_p for SQUARES, its sign (0 for 0) for
     * ABSOLUTES, d_p / (1 + w_p d_p²) for PRODUCT, the only one that reads the weights. */
    void (*pair_sums)(bo_distance distance, size_t dim, const float *x, const float *weight, const float *panel,
                      const float *factor, float *sums);
} bo_kernels;

/* Returns the table for `isa` ("amx", "avx512bf16", "avx512", "avx2", "neon", "ref"), or the fastest that this CPU
 * supports if isa is NULL. NULL: the CPU does not support it, or the name is unknown. Does not read environment
 * variables. */
const bo_kernels *bo_kernels_find(const char *isa);
/* Returns the name of the table, for modules that see only the pointer type. */
const char *bo_kernels_isa(const bo_kernels *kernels);

#endif
