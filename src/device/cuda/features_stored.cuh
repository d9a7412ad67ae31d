/* Linear attention in bfloat16 for all sizes, with features in memory: shared helpers. A segment is a chunk of tokens
 * (256), whose queries see the sums before it and the keys within it, as in FlashAttention. Products run over tiles of
 * 64 rows and columns, which a ring of copies brings to shared memory; sizes are not template parameters, except the
 * columns of the accumulators.
 *
 * v~ = [v, 1, 1, 0], S~ = [S, z', z', z''], dn~ = [dn, d', d''] and G~ = [G, g', g''], where a number x is x' + x'' in
 * two bfloat16 numbers, so that products of wide rows contain the denominators without their rounding errors. */
#ifndef BO_CUDA_FEATURES_STORED_CUH
#define BO_CUDA_FEATURES_STORED_CUH

#include "features_fast.cuh"
#include "features_general.cuh"

namespace bo {
namespace features {

enum {
    STEP = 64,              /* rows and columns of a tile of features */
    STEP_STRIDE = STEP + 8, /* in shared memory */
    STORED_WARPS = 8,       /* … of kernels with 128 rows per block */
    EXTRA = 8,              /* columns after the values in wide rows */
    SLOTS = 3               /* tiles of the ring */
};

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Starts the copy of 8 PACKS columns of `rows` rows to a tile; rows from `present` on and columns from `columns` on are
 * zeros. */
template <int PACKS>
__device__ inline void copy_tile(bf16 *to, int stride, int rows, const bf16 *from, size_t ld, int present, int columns)
{
    for (int e = (int)threadIdx.x; e < rows * PACKS; e += (int)blockDim.x) {
        const int row = e / PACKS, column = e % PACKS * 8;
        const bool copied = row < present && column < columns;
        copy_async(to + row * stride + column, copied ? from + (size_t)row * ld + column : from, copied);
    }
}

/* A variant for a number of packs that is known at run time. */
__device__ inline void copy_columns(bf16 *to, int stride, int rows, int packs, const bf16 *from, size_t ld, int present,
                                    int columns)
{
    for (int e = (int)threadIdx.x; e < rows * packs; e += (int)blockDim.x) {
        const int row = e / packs, column = e % packs * 8;
        const bool copied = row < present && column < columns;
        copy_async(to + row * stride + column, copied ? from + (size_t)row * ld + column : from, copied);
    }
}

/* The last columns of wide rows: in memory, the ones of v~, or not needed. */
enum wide_end { END_STORED, END_ONES, END_NONE };

/* Rows [0, rows) of wide rows: the columns from `first` on to columns [0, width) of a tile, and the last columns to
 * [width, width + 8). */
__device__ inline void copy_wide(bf16 *to, int stride, int rows, int width, const bf16 *from, size_t ld, int present,
                                 int first, int values, wide_end end)
{
    copy_columns(to, stride, rows, width / 8, from + first, ld, present, values - first);
    if (end == END_NONE) return;
    for (int row = (int)threadIdx.x; row < rows; row += (int)blockDim.x) {
        bf16 *at = to + row * stride + width;
        if (end == END_STORED) {
            copy_async(at, row < present ? from + (size_t)row * ld + values : from, row < present);
        } else {
            const pack<uint32_t, 4> ones = {{pack_bf16(1, 1), 0, 0, 0}};
            *reinterpret_cast<pack<uint32_t, 4> *>(at) = ones;
        }
    }
}

/* Zeros in columns [column, column + 8) of all rows of some tiles. */
__device__ inline void clear_columns(bf16 *to, int stride, int rows, int column)
{
    const pack<uint32_t, 4> zeros = {{0, 0, 0, 0}};
    for (int row = (int)threadIdx.x; row < rows; row += (int)blockDim.x)
        *reinterpret_cast<pack<uint32_t, 4> *>(to + row * stride + column) = zeros;
}

/* Writes 16 rows of this warp (8 TILES columns) through its rows of a tile (stride 8 TILES + 8) to memory: the first
 * `columns` columns of rows below `count`. */
template <int TILES>
__device__ inline void write_tile(const float (&x)[TILES][4], const float (&factor)[2], bf16 *tile, bf16 *to, size_t ld,
                                  int count, int columns)
{
    enum { STRIDE = 8 * TILES + 8 };
    bf16 *at = tile + (16 * warp_id() + lane_row()) * STRIDE + lane_column();
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *reinterpret_cast<uint32_t *>(at + 8 * r * STRIDE + 8 * t) =
                pack_bf16(factor[r] * x[t][2 * r], factor[r] * x[t][2 * r + 1]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TILES / 2; i++) {
        const int e = lane_id() + WARP * i, row = 16 * warp_id() + e / TILES, column = e % TILES * 8;
        if (row < count && column < columns)
            *reinterpret_cast<pack<bf16, 8> *>(to + (size_t)row * ld + column) =
                *reinterpret_cast<const pack<bf16, 8> *>(tile + row * STRIDE + column);
    }
    __syncwarp();
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

__host__ __device__ inline int round_up(int x, int to)
{
    return (x + to - 1) / to * to;
}

/* Row `row` of a head of an array of rows with `width` elements per head. */
template <typename T> __device__ inline T *stored_row(T *array, size_t row, int heads, int head, int width)
{
    return array + (row * (size_t)heads + (size_t)head) * (size_t)width;
}

/* Sums of a segment or a sequence as wide rows: one per feature. */
__device__ inline const bf16 *wide_sums(const arguments &a, const void *wide, size_t index, int key_head)
{
    return static_cast<const bf16 *>(wide) + (index * (size_t)a.call.key_heads + (size_t)key_head) *
                                                 (size_t)a.map.features * (size_t)(a.call.value_dim + EXTRA);
}

__device__ inline bool is_first_segment(const arguments &a, const span &at)
{
    return at.first == first_row(a.call.keys, at.sequence);
}
__device__ inline bool is_last_segment(const arguments &a, const span &at)
{
    return at.first + (size_t)at.count == first_row(a.call.keys, at.sequence + 1);
}

/* ---- exponents --------------------------------------------------------------------------------------------------- */

/* In a segment, key j has the weight exp(c[j] + shift[i]) at row i, and the sums before it have exp(begin + shift[i]).
 * In memory, `scales` has c, `shifts` the running maximum of c (maps with log scales; else the sum of the log gates),
 * `gate_sums` the sum of the log gates, which only HYBRID reads. */
__device__ inline float shift_of(const arguments &a, float begin, float stored)
{
    if (!a.map.scaled) return stored;
    const float top = fmaxf(begin, stored);
    return top > -INFINITY ? -top : 0.0f; /* -∞: no keys yet */
}

__device__ inline size_t key_row(const arguments &a, size_t row, int key_head)
{
    return row * (size_t)a.call.key_heads + (size_t)key_head;
}

/* The log scale of the sums before a segment. */
__device__ inline float begin_of(const arguments &a, size_t index, int key_head)
{
    return a.map.scaled ? a.begins[key_row(a, index, key_head)] : 0.0f;
}

/* The shift after the last row of a segment, whose log scale before is `begin`. */
__device__ inline float end_shift(const arguments &a, const span &at, float begin, int key_head)
{
    return shift_of(a, begin, a.shifts[key_row(a, at.first + (size_t)at.count - 1, key_head)]);
}

/* The exponents of the columns of a segment, to shared memory; -∞ after the last row. `of`: the role of the columns. */
__device__ inline void load_exponents(const arguments &a, const span &at, role of, float begin, int key_head, float *to)
{
    for (int i = (int)threadIdx.x; i < round_up(at.count, STEP); i += (int)blockDim.x) {
        const size_t place = key_row(a, at.first + (size_t)i, key_head);
        float x = -INFINITY;
        if (i < at.count) x = of == OF_KEYS ? a.scales[place] : shift_of(a, begin, a.shifts[place]);
        to[i] = x;
    }
}

/* The exponents of rows lane_row() and + 8 of this warp, whose first row is `first`. */
__device__ inline void row_exponents(const arguments &a, const span &at, role of, float begin, int key_head, int first,
                                     float (&out)[2])
{
    for (int r = 0; r < 2; r++) {
        const int row = first + lane_row() + 8 * r;
        const size_t place = key_row(a, at.first + (size_t)row, key_head);
        out[r] = -INFINITY;
        if (row < at.count) out[r] = of == OF_KEYS ? a.scales[place] : shift_of(a, begin, a.shifts[place]);
    }
}

/* Multiplies scores (16 rows from `row` on, 64 columns from `column` on) by their weights; 0 where the query comes
 * before the key. KEYS: rows are keys. As A: 4 steps. */
template <bool KEYS>
__device__ inline void weigh_scores(float (&s)[8][4], bool weighted, const float (&exponent)[2], const float *columns,
                                    int row, int column, uint32_t (&out)[4][4])
{
    const bool crosses = KEYS ? column < row + 15 : column + STEP - 1 > row;
#pragma unroll
    for (int t = 0; t < 8; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = column + 8 * t + lane_column() + i % 2, lane_at = row + lane_row() + i / 2 * 8;
            if (weighted) s[t][i] *= weight_of(columns[at], exponent[i / 2]);
            if (crosses && (KEYS ? at < lane_at : at > lane_at)) s[t][i] = 0;
        }
#pragma unroll
    for (int k = 0; k < 4; k++) accumulators_to_a(out[k], s[2 * k], s[2 * k + 1]);
}

/* True if no row of a warp sees a tile of columns. */
template <bool KEYS> __device__ inline bool is_hidden(int row, int column)
{
    return KEYS ? column + STEP - 1 < row : column > row + 15;
}

} // namespace features
} // namespace bo

#endif
